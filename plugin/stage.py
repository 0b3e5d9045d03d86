"""The stage `llir` with the plugin in it: TritonGPU IR to LLVM IR.

Why this stage and not `ttgir`: Triton's cached `.ttgir` stays its own, sources that are `.ttgir` files come
through here too, and the untouched module is at hand when something fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, cast

from triton_linear import fallback, known, limited, user_passes
from triton_linear.compile_record import CompileRecord
from triton_linear.decisions import kernel_digest, ptxas_version
from triton_linear.fallback import UnknownTarget
from triton_linear.interfaces import Compile, Metadata, TritonModule
from triton_linear.outlets import Outlets
from triton_linear.passes.options import PipelineOptions
from triton_linear.report import Outcome, PhaseClock, ReportWarning
from triton_linear.screen import count_operations, has_short_rows, screened
from triton_linear.setting import Setting
from triton_linear.user_passes import PassError, UserPass
from triton_linear.variants import variant

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Module
    from triton_linear.kept.comparisons import KeptComparisons

UNNAMED = "unnamed"
"""The name of a kernel that does not say its own."""
_REFUSED = "Triton refused the module with our code: what MLIR printed to the standard error is about that one"
_WRITTEN = "layouts are those that the author of this Gluon kernel wrote; gluon=True lets them be changed"
"""What is said of a kernel whose layouts stay."""

_AWAITED = "dots are waited for whose registers the code of Triton overwrites while they are read"


class LLIRStage:
    """`stock`, the stage that was there, which gets a module with emitted code where conversions were.

    converted: whether the kernel is compiled with code of ours. options: those that hold for it, once it was
    decided about. gluon: the kernel is written in Gluon. awaited: a later stage calls `finish` where the kernel
    is converted; the report waits for it. comparisons: those of other compiles, which spare this one its own;
    None: they do not count. vetoed: one of them has decided for stock Triton's kernel.
    """

    def __init__(self, stock: Compile, target: str, setting: Setting, *, gluon: bool = False) -> None:
        self._stock = stock
        self._target = target
        self._setting = setting
        self._outlets = Outlets(setting, target)
        self._gluon = gluon
        self.converted = False
        self.options = setting.options
        self.awaited = False
        self.vetoed = False
        self.comparisons: KeptComparisons | None = None
        self._attempt: CompileRecord | None = None
        self._before: tuple[TritonModule, dict[str, Any], str] | None = None

    @property
    def planned_for(self) -> str:
        """The target, with the thresholds that hold for the kernel."""
        return f"{self._target}{{{self.options.thresholds}}}" if self.options.thresholds else self._target

    def __call__(self, src: TritonModule, metadata: Metadata) -> str:
        """LLVM IR of `src`; `metadata` gets what the stock stage adds.

        Ensures: where the plugin fails, the result and `metadata` are those of the stock stage on the
        untouched `src` (strict: the failure is raised).
        """
        attempt = CompileRecord(UNNAMED, PhaseClock())
        before = dict(metadata) if self.awaited else {}
        try:
            llir = self._compile(src, metadata, attempt)
        except BaseException:
            with fallback.without_room():
                self._outlets.tell(attempt.report(self._target))
            with suppress(OSError):
                self._outlets.dump(attempt.kernel, attempt.before, attempt.after)
            raise
        self._attempt = attempt
        self.converted = attempt.outcome is Outcome.CONVERTED
        if not (self.awaited and self.converted):
            self.finish()
        elif not (attempt.variant or self.options.keyed):
            self._before = attempt.source or src, before, llir
        return llir

    def __del__(self) -> None:
        """The later stage never came: somebody's hook has taken it out, or only LLVM IR was wanted."""
        with suppress(Exception):
            self.finish()

    def stock_again(self, llir: object) -> tuple[str, Metadata] | None:
        """LLVM IR of the kernel without code of ours, with its metadata, where `llir` is what became of it.

        None where there is nothing to compare: the kernel is stock Triton's, measuring decides about it, or
        somebody has changed or replaced `llir` since (another stage, TRITON_KERNEL_OVERRIDE, `ir_override`)."""
        if self._before is None or self._attempt is None or self._before[2] != llir:
            return None
        if self._attempt.stays:
            return None
        src, metadata, _ = self._before
        self._before = None
        return self._stock(self._changed(src, "after", self._attempt), metadata), metadata

    def compared(self, vetoed: str) -> None:
        """Keep what comparing with stock Triton's kernel has shown; `vetoed`: why that is taken, if it is."""
        if self.comparisons is not None and self._attempt is not None and self._attempt.entry:
            from triton_linear.kept.comparisons import Comparison

            self.comparisons.write(self._attempt.entry, Comparison(vetoed, self._attempt.remarks))

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count what a later stage does for the kernel within the block, as long as its report waits."""
        return nullcontext() if self._attempt is None else self._attempt.clock.phase(name)

    def finish(self, vetoed: str = "") -> None:
        """Report what became of the kernel; `vetoed`: why it is stock Triton's after all.

        Raises what a listener raised, if that is asked for.
        """
        attempt, self._attempt, self._before = self._attempt, None, None
        if attempt is None:
            return
        if vetoed:
            attempt.outcome = Outcome.REWRITTEN if attempt.passes else Outcome.LEFT
            attempt.after = attempt.before
            attempt.undo()
            attempt.remarks += (vetoed,)
        failures: list[Exception] = []
        with fallback.without_room():
            failures = self._outlets.tell(attempt.report(self._target))
        self._outlets.dump(attempt.kernel, attempt.before, attempt.after)
        if failures and self._setting.options.strict:
            raise failures[0]
        for error in failures:
            text = f"on_report failed for kernel '{attempt.kernel}': {type(error).__name__}: {error}"
            warnings.warn(f"triton_linear: {text}", ReportWarning, stacklevel=2)
        if attempt.outcome is not Outcome.NOTHING_TO_DO:
            limited.warn(self._target)

    def _compile(self, src: TritonModule, metadata: Metadata, attempt: CompileRecord) -> str:
        if self._setting.options.dump:
            attempt.before = attempt.after = str(src)
        try:
            llir = self._try(src, metadata, attempt)
        except UnknownTarget as error:
            if self._setting.options.strict:
                attempt.outcome, attempt.error = Outcome.FAILED, error
                raise
            llir, attempt.remarks = None, (str(error),)
            self._warn(attempt, error, metadata)
        except Exception as error:
            llir, attempt.outcome, attempt.error = None, Outcome.FAILED, error
            if attempt.passes and not isinstance(error, PassError):
                attempt.remarks += (f"user passes had changed it: {', '.join(attempt.passes)}",)
            attempt.undo()
            if self.options.passes:
                attempt.seen = attempt.given
            attempt.passes = ()
            if self._setting.options.strict:
                raise
        if llir is not None:
            return llir
        with attempt.compiling():
            llir = self._stock(src, metadata)
        if attempt.error is not None:
            self._warn(attempt, attempt.error, metadata)
        return llir

    def _try(self, src: TritonModule, metadata: Metadata, attempt: CompileRecord) -> str | None:
        """The kernel as the plugin would have it, or None where the stock stage is to compile `src`."""
        attempt.kernel = src.get_entry_func_name()
        if reason := self._left_out(src, metadata, attempt):
            attempt.seen = count_operations(src).conversions
            attempt.remarks = (reason,)
            return None
        if self.options.passes:
            return self._with_passes(src, metadata, attempt)
        return self._ours(src, metadata, attempt)

    def _with_passes(self, src: TritonModule, metadata: Metadata, attempt: CompileRecord) -> str | None:
        """The kernel with user passes before and after ours, or None where nothing is to change it."""
        attempt.seen = attempt.given = count_operations(src).conversions
        if mode := _instrumentation_mode(metadata):
            attempt.remarks = (f"instrumentation mode '{mode}' is on, and user passes do not run",)
            return None
        attempt.source = self._changed(src, "before", attempt)
        changed_before = attempt.passes
        try:
            llir = self._ours(attempt.source, metadata, attempt)
        except UnknownTarget as error:  # which keeps ours from running, and no one else's
            if self._setting.options.strict:
                raise
            llir, attempt.remarks = None, (str(error),)
            self._warn(attempt, error, metadata)
        if llir is not None:
            return llir
        attempt.passes = changed_before
        module = self._changed(attempt.source, "after", attempt)
        if not attempt.passes:
            return None
        after = str(module) if self._setting.options.dump else ""
        trial = dict(metadata)
        try:
            with attempt.compiling():
                llir = self._stock(module, trial)
        except Exception as error:
            raise PassError(f"Triton cannot compile what {', '.join(attempt.passes)} made of it") from error
        metadata.update(trial)
        attempt.outcome, attempt.after = Outcome.REWRITTEN, after
        return llir

    def _changed(self, module: TritonModule, when: str, attempt: CompileRecord) -> TritonModule:
        """What user passes make of a module: `module` itself where they change nothing."""
        passes = [each for each in self.options.passes if each.when == when]
        if not passes:
            return module
        with attempt.working("import"):
            from triton_linear.dialect import bridge  # noqa: F401
        upstream = self._upstream(module, attempt)
        made = self._run(passes, upstream, module.context, attempt)
        if made is None:
            attempt.upstream = upstream
            return module
        return made

    @staticmethod
    def _upstream(module: TritonModule, attempt: CompileRecord) -> Module:
        """A module in upstream MLIR, for its taker to change."""
        from triton_linear.dialect import bridge

        found, attempt.upstream = attempt.upstream, None
        with attempt.working("to MLIR"):
            if found is not None:
                return found
            text = attempt.text or bridge.generic_text(module)
            return bridge.generic_to_upstream(text, bridge.upstream_context())

    def _run(
        self, passes: Sequence[UserPass], module: Module, context: object, attempt: CompileRecord
    ) -> TritonModule | None:
        """Run user passes over a module of upstream MLIR, in place; what Triton takes it for if they
        change it."""
        from triton_linear.dialect import bridge

        made: list[TritonModule] = []

        def verify(changed: Module) -> None:
            made[:] = [cast(TritonModule, bridge.to_triton(changed, context))]

        with attempt.clock.phase("user passes"):
            changed = user_passes.run_passes(passes, module, verify)
        attempt.passes += tuple(name for name in changed if name not in attempt.passes)
        return made[0] if made else None

    def _ours(self, src: TritonModule, metadata: Metadata, attempt: CompileRecord) -> str | None:
        """The kernel as the plugin would have it, or None where `src` has no need of code of ours."""
        asked = self.options.pipeline_for(attempt.kernel, gluon=self._gluon)
        with attempt.working("screen"):
            found = count_operations(src)
            attempt.seen = found.conversions
            options = screened(asked, found, lambda: has_short_rows(src))
        if options is None:
            attempt.outcome = Outcome.NOTHING_TO_DO
        elif mode := _instrumentation_mode(metadata):
            attempt.remarks = (f"instrumentation mode '{mode}' is on, and cannot see into code of ours",)
        else:
            if asked != self.options.pipeline:
                attempt.remarks += (_WRITTEN,)
            return self._convert(src, metadata, attempt, options)
        return None

    def _left_out(self, src: TritonModule, metadata: Metadata, attempt: CompileRecord) -> str | None:
        """Why stock Triton is to compile the kernel, by its name or by what was decided.

        Ensures: else `options` are those to compile it with."""
        setting = self._setting
        self.options = setting.options
        if reason := setting.options.leaves_out(attempt.kernel):
            return reason
        if not (setting.decisions or setting.options.keyed):
            return None
        with attempt.working("decision"):
            attempt.key = kernel_digest(src.str_nodebug(), metadata)
            ptxas = ptxas_version(self._target) if setting.decisions else ""
            name = setting.decisions.variant(attempt.key, self._target, ptxas)
        if name is None:
            return None
        attempt.variant = name
        options = variant(name).of(setting.options)
        if options is None:
            return "stock Triton was measured to be fastest"
        self.options = options
        return None

    def _convert(
        self, src: TritonModule, metadata: Metadata, attempt: CompileRecord, options: PipelineOptions
    ) -> str | None:
        """The kernel with its conversions replaced, or None where the stock stage is to compile `src`."""
        from triton_linear.dialect import libtriton
        from triton_linear.lowering.target import targets

        try:
            target = targets.target(self.planned_for)
        except ValueError as error:
            names = ", ".join(targets.TARGETS)
            raise UnknownTarget(f"no table for {self._target}; known: {names}") from error
        entry = None
        if self.options.cache and not self.options.passes:
            with attempt.working("to MLIR"):
                attempt.text = libtriton.generic_text(src)
            with attempt.working("known"):
                entry = known.Known.of(attempt.text, attempt.kernel, self.planned_for, options)
                outcome = entry.read()
            if self._is_vetoed(entry.name, attempt):
                return None
            if outcome is not None:
                remarks = attempt.remarks
                with suppress(known.Unfinished):
                    return self._first_that_fits(outcome, iter(outcome.made), src, metadata, attempt)
                attempt.remarks = remarks
        with attempt.working("import"):
            from triton_linear import pipeline
        upstream = self._upstream(src, attempt)
        with attempt.working("passes"):
            prepared = pipeline.prepare(upstream, options, target)
        if prepared.differs and (after_ours := [one for one in self.options.passes if one.when == "after"]):
            self._run(after_ours, prepared.module, src.context, attempt)
        tried: list[known.TriedVersion] = []
        versions = known.versions(prepared, tried)
        llir = self._first_that_fits(known.PassResults.of(prepared), versions, src, metadata, attempt)
        if entry is not None:
            with attempt.working("known"):
                entry.write(known.PassResults.of(prepared, tried))
        return llir

    def _is_vetoed(self, entry: str, attempt: CompileRecord) -> bool:
        """Whether a compile before this one has found stock Triton's kernel to be the better one."""
        attempt.entry = entry
        if self.comparisons is None or attempt.variant or self.options.keyed:
            return False
        with attempt.working("known"):
            found = self.comparisons.read(entry)
        attempt.stays = found is not None and not found.vetoed
        if found is None or attempt.stays:
            return False
        attempt.remarks = (*found.remarks, found.vetoed)
        self.vetoed = True
        return True

    def _first_that_fits(
        self,
        outcome: known.PassResults,
        versions: Iterator[known.TriedVersion],
        src: TritonModule,
        metadata: Metadata,
        attempt: CompileRecord,
    ) -> str | None:
        """The first version that needs no more shared memory than it may; None where that is the stock kernel.

        Raises Unfinished where more versions are needed than are known.
        """
        from triton_linear.dialect import libtriton
        from triton_linear.lowering.emit.marks import without_marks

        attempt.staged, attempt.avoided = outcome.staged, outcome.avoided
        while True:
            with attempt.working("embed"):
                made = next(versions, None)
            if made is None:
                raise known.Unfinished
            attempt.conversions, attempt.gathers = known.told(made)
            version = made.version
            if version is None and outcome.differs:
                attempt.staged = attempt.avoided = 0
                attempt.conversions = tuple(found for found in attempt.conversions if found.own)
            elif version is None and attempt.seen == 0 and not attempt.gathers:
                attempt.outcome = Outcome.NOTHING_TO_DO
            if version is None:
                return None
            with attempt.working("to Triton"):
                module = cast(TritonModule, libtriton.parse_triton(version.text, src.context))
            after = str(module) if self._setting.options.dump else ""
            trial = dict(metadata)
            try:
                with attempt.compiling():
                    llir = without_marks(self._stock(module, trial))
            except Exception:
                attempt.remarks += (_REFUSED,)
                raise
            if (shared := trial.get("shared") or 0) <= version.room:
                metadata.update(trial)
                attempt.outcome, attempt.after = Outcome.CONVERTED, after
                attempt.remarks += (_AWAITED,) * outcome.awaited
                return llir
            has = f"which may take {version.room}" if version.apart else f"{self._target} has {version.room}"
            attempt.remarks += (f"{shared} bytes of shared memory with {version.scratch}, {has}",)

    def _warn(self, attempt: CompileRecord, error: Exception, metadata: Metadata) -> None:
        remarks = attempt.remarks
        fallback.warn(self._setting, attempt.kernel, self._target, error, metadata, remarks=remarks)


def _instrumentation_mode(metadata: Metadata) -> str:
    """The instrumentation that Triton's stages add to this kernel, as its concurrency sanitizer; "" if none."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    mode: str = knobs.compilation.instrumentation_mode or metadata.get("instrumentation_mode") or ""
    return mode
