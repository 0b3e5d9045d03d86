"""The stage `llir`, from TritonGPU IR to LLVM IR, with the plugin's passes.

Why this stage and not `ttgir`: the `.ttgir` in Triton's cache stays stock Triton's, kernels given as `.ttgir`
files pass through this stage too, and the unchanged module is at hand if the plugin fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, cast

from triton_linear import fallback, known
from triton_linear.checked import DISTINCT
from triton_linear.compile_record import CompileRecord
from triton_linear.decisions import kernel_digest, ptxas_version
from triton_linear.dialect.interfaces import Compile, Metadata, TritonModule
from triton_linear.fallback import UnknownTarget
from triton_linear.outlets import Outlets
from triton_linear.passes import user_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.screen import CONVERT, count_operations, has_short_rows, screened
from triton_linear.passes.user_passes import PassError, UserPass
from triton_linear.report import Outcome, PhaseClock, ReportWarning
from triton_linear.setting import Setting
from triton_linear.variants import variant

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Module

UNNAMED = "unnamed"
"""The name in reports of a kernel whose own name could not be read."""
_REFUSED = "Triton refused the module with our code: the errors that MLIR printed are about that module"
_LAYOUTS_KEPT = "layouts are those that the author of this Gluon kernel wrote; gluon=True lets them be changed"
"""The remark on a Gluon kernel whose layouts the plugin leaves as they are."""
_NO_PASS = "no pass is asked for"
_DOTS_AWAITED = "dots are waited for, since Triton's code overwrites registers while dots read them"


class LLIRStage:
    """The original stage `stock`, run on a module whose conversions the plugin has replaced by emitted code.

    converted: the kernel was compiled with code of ours. options: the options for this kernel; decisions may
    change them. gluon: the kernel is written in Gluon. finishes_later: a later stage calls `finish` if the
    kernel is converted, and the report is delivered then.
    """

    def __init__(self, stock: Compile, target: str, setting: Setting, *, gluon: bool = False) -> None:
        self._stock = stock
        self._target = target
        self._setting = setting
        self._outlets = Outlets(setting, target)
        self._gluon = gluon
        self.converted = False
        self.options = setting.options
        self.finishes_later = False
        self._record: CompileRecord | None = None
        self._stock_input: tuple[TritonModule, dict[str, Any], str] | None = None

    def target(self, *, assembling: bool = False) -> str:
        """The name of the target with changed thresholds. assembling: for what ptxas is told of registers."""
        more = self.options.register_thresholds if assembling else ""
        changed = ",".join(filter(None, (self.options.thresholds, more)))
        return f"{self._target}{{{changed}}}" if changed else self._target

    def __call__(self, src: TritonModule, metadata: Metadata) -> str:
        """Compile `src` to LLVM IR. `metadata` gets what the stock stage adds.

        Ensures: if the plugin fails, the result and `metadata` are those of the stock stage on the unchanged
        `src` (strict: the failure is raised).
        """
        record = CompileRecord(UNNAMED, PhaseClock())
        before = dict(metadata) if self.finishes_later else {}
        try:
            llir = self._compile(src, metadata, record)
        except BaseException:
            with fallback.without_room():
                self._outlets.tell(record.report(self._target))
            with suppress(OSError):
                self._outlets.dump(record.kernel, record.before, record.after)
            raise
        self._record = record
        self.converted = record.outcome is Outcome.CONVERTED
        if not (self.finishes_later and self.converted):
            self.finish()
        elif not (record.variant or self.options.measured):
            self._stock_input = record.source or src, before, llir
        return llir

    def __del__(self) -> None:
        """Deliver the report if no later stage did: another hook removed it, or only LLVM IR was compiled."""
        with suppress(Exception):
            self.finish()

    def stock(self, llir: object) -> tuple[str, Metadata] | None:
        """LLVM IR and metadata of stock Triton's kernel, to compare. None if ours is stock Triton's already, a
        decision chose its variant, it is measured, or `llir` was changed or replaced meanwhile (by another
        stage, TRITON_KERNEL_OVERRIDE, `ir_override`)."""
        record, given = self._record, self._stock_input
        if given is None or given[2] != llir or record is None:
            return None
        src, metadata, _ = given
        self._stock_input = None
        return self._stock(self._run_user_passes(src, "after", record), metadata), metadata

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the time of the block under this name, if the report is not delivered yet."""
        return nullcontext() if self._record is None else self._record.clock.phase(name)

    def finish(self, reason: str = "") -> None:
        """Deliver the kernel's report, once. reason: why it gives way to stock Triton's; "" if it does not.
        Strict: raises the first exception of a listener."""
        record, self._record, self._stock_input = self._record, None, None
        if record is None:
            return
        if reason:
            record.outcome = Outcome.REWRITTEN if record.passes else Outcome.LEFT
            record.after = record.before
            record.undo()
            record.remarks += (reason,)
        failures: list[Exception] = []
        with fallback.without_room():
            failures = self._outlets.tell(record.report(self._target))
        self._outlets.dump(record.kernel, record.before, record.after)
        if failures and self._setting.options.strict:
            raise failures[0]
        for error in failures:
            text = f"on_report failed for kernel '{record.kernel}': {type(error).__name__}: {error}"
            warnings.warn(f"triton_linear: {text}", ReportWarning, stacklevel=2)

    def _compile(self, src: TritonModule, metadata: Metadata, record: CompileRecord) -> str:
        if self._setting.options.dump:
            record.before = record.after = str(src)
        try:
            llir = self._compile_with_plugin(src, metadata, record)
        except UnknownTarget as error:
            if self._setting.options.strict:
                record.outcome, record.error = Outcome.FAILED, error
                raise
            llir, record.remarks = None, (str(error),)
            self._warn(record, error, metadata)
        except Exception as error:
            llir, record.outcome, record.error = None, Outcome.FAILED, error
            if record.passes and not isinstance(error, PassError):
                record.remarks += (f"user passes had changed it: {', '.join(record.passes)}",)
            record.undo()
            if self.options.passes:
                record.seen = record.given
            record.passes = ()
            if self._setting.options.strict:
                raise
        if llir is not None:
            return llir
        with record.compiling():
            llir = self._stock(src, metadata)
        if record.error is not None:
            self._warn(record, record.error, metadata)
        return llir

    def _compile_with_plugin(self, src: TritonModule, metadata: Metadata, record: CompileRecord) -> str | None:
        """LLVM IR from the plugin; None if the stock stage is to compile `src`."""
        record.kernel = src.get_entry_func_name()
        if reason := self._reason_for_stock(src, metadata, record):
            record.seen = count_operations(src)[CONVERT]
            record.remarks = (reason,)
            return None
        if self.options.passes:
            return self._compile_with_user_passes(src, metadata, record)
        return self._run_pipeline(src, metadata, record)

    def _compile_with_user_passes(
        self, src: TritonModule, metadata: Metadata, record: CompileRecord
    ) -> str | None:
        """LLVM IR of the kernel after user passes and ours; None if no pass changes it."""
        record.seen = record.given = count_operations(src)[CONVERT]
        if mode := _instrumentation_mode(metadata):
            record.remarks = (f"instrumentation mode '{mode}' is on, and user passes do not run",)
            return None
        record.source = self._run_user_passes(src, "before", record)
        changed_before = record.passes
        try:
            llir = self._run_pipeline(record.source, metadata, record)
        except UnknownTarget as error:  # our passes cannot run, but user passes can
            if self._setting.options.strict:
                raise
            llir, record.remarks = None, (str(error),)
            self._warn(record, error, metadata)
        if llir is not None:
            return llir
        record.passes = changed_before
        module = self._run_user_passes(record.source, "after", record)
        if not record.passes:
            return None
        after = str(module) if self._setting.options.dump else ""
        trial = dict(metadata)
        try:
            with record.compiling():
                llir = self._stock(module, trial)
        except Exception as error:
            raise PassError(f"Triton cannot compile what {', '.join(record.passes)} made of it") from error
        metadata.update(trial)
        record.outcome, record.after = Outcome.REWRITTEN, after
        return llir

    def _run_user_passes(self, module: TritonModule, when: str, record: CompileRecord) -> TritonModule:
        """Run the user passes that come `when`: the new module, or `module` itself if they change nothing."""
        passes = [each for each in self.options.passes if each.when == when]
        if not passes:
            return module
        with record.working("import"):
            from triton_linear.dialect import bridge  # noqa: F401
        upstream = self._take_upstream(module, record)
        made = self._run_passes(passes, upstream, module.context, record)
        if made is None:
            record.upstream = upstream
            return module
        return made

    @staticmethod
    def _take_upstream(module: TritonModule, record: CompileRecord) -> Module:
        """The module in upstream MLIR, imported unless `record` has it. The caller may change it, so `record`
        no longer has it. Raises UnknownTarget for an encoding that cannot be parsed again."""
        from triton_linear.dialect import bridge, libtriton

        found, record.upstream = record.upstream, None
        with record.working("to MLIR"):
            if found is not None:
                return found
            text = record.text or bridge.generic_text(module)
            if reason := libtriton.unreadable(text):
                raise UnknownTarget(reason)
            return bridge.generic_to_upstream(text, bridge.upstream_context())

    def _run_passes(
        self, passes: Sequence[UserPass], module: Module, context: object, record: CompileRecord
    ) -> TritonModule | None:
        """Run user passes over a module of upstream MLIR: the same for Triton; None if it is unchanged."""
        from triton_linear.dialect import bridge

        made: list[TritonModule] = []

        def verify(changed: Module) -> None:
            made[:] = [cast(TritonModule, bridge.to_triton(changed, context))]

        with record.clock.phase("user passes"):
            changed = user_passes.run_passes(passes, module, verify)
        record.passes += tuple(name for name in changed if name not in record.passes)
        return made[0] if made else None

    def _run_pipeline(self, src: TritonModule, metadata: Metadata, record: CompileRecord) -> str | None:
        """LLVM IR from our passes; None if they have nothing to do, or must not run."""
        asked = self.options.pipeline_for(record.kernel, gluon=self._gluon)
        with record.working("screen"):
            found = count_operations(src)
            record.seen = found[CONVERT]
            options = screened(asked, found, lambda: has_short_rows(src))
        if options is None:
            record.outcome = Outcome.NOTHING_TO_DO
        elif mode := _instrumentation_mode(metadata):
            record.remarks = (f"instrumentation mode '{mode}' is on, and cannot see into code of ours",)
        else:
            if asked != self.options.pipeline:
                record.remarks += (_LAYOUTS_KEPT,)
            return self._convert(src, metadata, record, options)
        return None

    def _reason_for_stock(self, src: TritonModule, metadata: Metadata, record: CompileRecord) -> str | None:
        """The reason why stock Triton is to compile the kernel: its name, or a decision. None if there is none.

        Ensures: if None, `options` are those for this kernel."""
        setting = self._setting
        self.options = setting.options
        if reason := setting.options.leaves_out(record.kernel):
            return reason
        if not (setting.decisions or setting.options.measured):
            return None if self.options.changes_code else _NO_PASS
        with record.working("decision"):
            record.key = kernel_digest(src.str_nodebug(), metadata)
            ptxas = ptxas_version(self._target) if setting.decisions else ""
            name = setting.decisions.variant(record.key, self._target, ptxas)
        if name is not None:
            try:
                options = variant(name).of(setting.options)
            except ValueError as error:  # another version of this package has decided
                record.remarks += (f"its decision is not followed: {error}",)
                name = None
        if name is None:
            return None if self.options.changes_code else _NO_PASS
        record.variant = name
        if options is None:
            return "stock Triton was measured to be fastest"
        self.options = options
        return None

    def _convert(
        self, src: TritonModule, metadata: Metadata, record: CompileRecord, options: PipelineOptions
    ) -> str | None:
        """LLVM IR with the conversions replaced; None if the stock stage is to compile `src`."""
        from triton_linear.dialect import libtriton
        from triton_linear.lowering.target import targets

        fallback.check_table(self._target)
        target = targets.target(self.target())
        entry = None
        if self.options.cache and not self.options.passes:
            with record.working("to MLIR"):
                record.text = libtriton.generic_text(src)
            with record.working("known"):
                entry = known.Known.of(record.text, record.kernel, self.target(), options)
                outcome = entry.read()
            if outcome is not None:
                remarks = record.remarks
                with suppress(known.Unfinished):
                    return self._first_that_fits(outcome, iter(outcome.made), src, metadata, record)
                record.remarks = remarks
        with record.working("import"):
            from triton_linear.passes import attempts
        upstream = self._take_upstream(src, record)
        with record.working("passes"):
            prepared = attempts.prepare(upstream, options, target)
        if prepared.differs and (after_ours := [one for one in self.options.passes if one.when == "after"]):
            self._run_passes(after_ours, prepared.module, src.context, record)
        tried: list[known.Version] = []
        versions = known.versions(prepared, tried)
        llir = self._first_that_fits(known.PassResults.of(prepared), versions, src, metadata, record)
        if entry is not None:
            with record.working("known"):
                entry.write(known.PassResults.of(prepared, tried))
        return llir

    def _first_that_fits(
        self,
        outcome: known.PassResults,
        versions: Iterator[known.Version],
        src: TritonModule,
        metadata: Metadata,
        record: CompileRecord,
    ) -> str | None:
        """LLVM IR of the first version that fits in shared memory; None if that is the stock kernel.

        Raises Unfinished if no version in `versions` fits, and the passes have to make more.
        """
        from triton_linear.dialect import libtriton
        from triton_linear.lowering.emit.marks import without_marks

        record.avoided = outcome.avoided
        while True:
            with record.working("embed"):
                version = next(versions, None)
            if version is None:
                raise known.Unfinished
            record.conversions = known.reported(version)
            if not version.text:
                if outcome.differs:
                    record.avoided = 0
                    record.conversions = tuple(found for found in record.conversions if found.own)
                elif record.seen == 0:
                    record.outcome = Outcome.NOTHING_TO_DO
                return None
            with record.working("to Triton"):
                module = cast(TritonModule, libtriton.parse_triton(version.text, src.context))
            after = str(module) if self._setting.options.dump else ""
            trial = dict(metadata)
            try:
                with record.compiling():
                    llir = without_marks(self._stock(module, trial))
            except Exception:
                record.remarks += (_REFUSED,)
                raise
            if (shared := trial.get("shared") or 0) <= version.room:
                metadata.update(trial)
                if outcome.distinct:
                    metadata[DISTINCT] = outcome.distinct
                record.outcome, record.after = Outcome.CONVERTED, after
                record.remarks += (_DOTS_AWAITED,) * outcome.awaited
                return llir
            has = f"which may take {version.room}" if version.apart else f"{self._target} has {version.room}"
            record.remarks += (f"{shared} bytes of shared memory with {version.scratch}, {has}",)

    def _warn(self, record: CompileRecord, error: Exception, metadata: Metadata) -> None:
        remarks = record.remarks
        fallback.warn(self._setting, record.kernel, self._target, error, metadata, remarks=remarks)


def _instrumentation_mode(metadata: Metadata) -> str:
    """The instrumentation that Triton adds to this kernel, as its concurrency sanitizer; "" if none."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    mode: str = knobs.compilation.instrumentation_mode or metadata.get("instrumentation_mode") or ""
    return mode
