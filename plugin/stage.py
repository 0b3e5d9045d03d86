"""The stage `llir` with the plugin in it: TritonGPU IR to LLVM IR.

Why this stage and not `ttgir`: Triton's cached `.ttgir` stays its own, sources that are `.ttgir` files come
through here too, and the untouched module is at hand when something fails.
"""

from __future__ import annotations

import logging
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from triton_linear import fallback, pipeline
from triton_linear.fallback import UnknownTarget
from triton_linear.interfaces import Compile, Metadata, Module, Operation
from triton_linear.report import Clock, Conversion, Gather, Outcome, Report, ReportWarning, publish
from triton_linear.setting import Setting
from triton_linear.short_rows import has_short_rows

_log = logging.getLogger("triton_linear")
CONVERT, GATHER, REDUCE = "ttg.convert_layout", "tt.gather", "tt.reduce"
UNNAMED = "unnamed"
"""The name of a kernel that does not say its own."""
MINIMAL_SCRATCH = 0
"""A scratch limit that no plan can meet by choice: each takes as little as it can."""
_ACCESSES = frozenset({"ttg.local_load", "ttg.local_store", "ttg.local_alloc"})
_REFUSED = "Triton refused the module with our code: what MLIR printed to the standard error is about that one"

_AWAITED = "products are waited for whose registers the code of Triton overwrites while they are read"


@dataclass
class _Attempt:
    """One compile under way: what is known of it so far."""

    kernel: str
    clock: Clock
    outcome: Outcome = Outcome.LEFT
    seen: int = 0
    accesses: int = 0
    assigns: bool = False
    detours: int = 0
    conversions: tuple[Conversion, ...] = ()
    gathers: tuple[Gather, ...] = ()
    remarks: tuple[str, ...] = ()
    error: Exception | None = None

    def report(self, target: str) -> Report:
        error = self.error
        return Report(
            kernel=self.kernel,
            target=target,
            outcome=self.outcome,
            seen=self.seen,
            detours=self.detours,
            conversions=self.conversions,
            gathers=self.gathers,
            remarks=self.remarks,
            seconds=dict(self.clock.seconds),
            error=None if error is None else f"{type(error).__name__}: {error}",
            traceback=None if error is None else "".join(traceback.format_exception(error)),
        )


class LLIRStage:
    """`stock`, the stage that was there, which gets a module with emitted code where conversions were."""

    def __init__(self, stock: Compile, target: str, setting: Setting) -> None:
        self._stock = stock
        self._target = target
        self._setting = setting
        self.converted = False

    def __call__(self, src: Module, metadata: Metadata) -> str:
        """LLVM IR of `src`; `metadata` gets what the stock stage adds.

        Ensures: where the plugin fails, the result and `metadata` are those of the stock stage on the
        untouched `src` (strict: the failure is raised).
        """
        attempt = _Attempt(UNNAMED, Clock())
        try:
            llir = self._compile(src, metadata, attempt)
        except BaseException:
            with fallback.without_room():
                self._tell(attempt.report(self._target))
            raise
        self.converted = attempt.outcome is Outcome.CONVERTED
        failures: list[Exception] = []
        with fallback.without_room():
            failures = self._tell(attempt.report(self._target))
        if failures and self._setting.options.strict:
            raise failures[0]
        for error in failures:
            text = f"on_report failed for kernel '{attempt.kernel}': {type(error).__name__}: {error}"
            warnings.warn(f"triton_linear: {text}", ReportWarning, stacklevel=2)
        return llir

    def _compile(self, src: Module, metadata: Metadata, attempt: _Attempt) -> str:
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
            attempt.conversions, attempt.gathers, attempt.detours = (), (), 0
            if self._setting.options.strict:
                raise
        if llir is not None:
            return llir
        with attempt.clock.phase("stock"):
            llir = self._stock(src, metadata)
        if attempt.error is not None:
            self._warn(attempt, attempt.error, metadata)
        return llir

    def _try(self, src: Module, metadata: Metadata, attempt: _Attempt) -> str | None:
        """The kernel as the plugin would have it, or None where the stock stage is to compile `src`."""
        attempt.kernel = src.get_entry_func_name()
        with attempt.clock.phase("screen"):
            found = count_operations(src)
            attempt.seen, attempt.accesses = found.conversions, found.accesses
            short = attempt.seen == 0 and self._setting.options.assign and has_short_rows(src)
        attempt.assigns = bool(attempt.seen or found.gathers or short)
        splits = found.reductions and self._setting.options.takes_apart
        if not (attempt.assigns or splits or (attempt.accesses and self._reroutes)):
            attempt.outcome = Outcome.NOTHING_TO_DO
        elif mode := _instrumentation_mode(metadata):
            attempt.remarks = (f"instrumentation mode '{mode}' is on, and cannot see into code of ours",)
        else:
            return self._convert(src, metadata, attempt)
        return None

    @property
    def _reroutes(self) -> bool:
        """Whether accesses to shared memory may go by way of other layouts."""
        from triton_linear.dialect.triton_versions import ACCESSES_PREDICTED, installed_release
        from triton_linear.lowering.strategies import LEGACY

        options = self._setting.options
        lowers = options.lower and not options.free and options.lowering != LEGACY
        return lowers and installed_release() in ACCESSES_PREDICTED

    def _convert(self, src: Module, metadata: Metadata, attempt: _Attempt) -> str | None:
        """The kernel with its conversions replaced, or None where the stock stage is to compile `src`."""
        from triton_linear.dialect.triton_versions import ACCESSES_PREDICTED, installed_release
        from triton_linear.lowering import targets
        from triton_linear.lowering.marks import without_marks
        from triton_linear.lowering.strategies import LEGACY

        try:
            target = targets.target(self._target)
        except ValueError as error:
            known = ", ".join(targets.TARGETS)
            raise UnknownTarget(f"no table for {self._target}; known: {known}") from error
        usual = self._setting.options.scratch_limit
        assign, release = self._setting.options.assign, installed_release()
        reductions = self._setting.options.takes_apart
        if (assign or reductions) and release not in ACCESSES_PREDICTED:
            assign = reductions = False
            version = ".".join(map(str, release))
            attempt.remarks += (f"layouts stay: what accesses become is not predicted for Triton {version}",)
        tried: set[tuple[tuple[int, ...], bool]] = set()
        longer = True
        attempts: tuple[tuple[int | None, bool], ...]
        attempts = ((usual, True), (usual, False), (MINIMAL_SCRATCH, False))
        if self._setting.options.lowering == LEGACY:
            attempts = ((usual, False),)  # its scratch is what it is, and does not last
        for limit, apart in attempts:
            if limit == usual and not longer:
                continue
            options = self._setting.options
            if options.free:
                prepared = pipeline.prepare_free(src, target, options.free_only, attempt.clock)
            else:
                prepared = pipeline.prepare(
                    src,
                    attempt.seen,
                    target,
                    limit,
                    attempt.clock,
                    apart,
                    assign=assign and attempt.assigns,
                    reductions=reductions,
                    lower=options.lower,
                    lowering=options.lowering,
                )
            attempt.conversions, attempt.gathers = prepared.conversions, prepared.gathers
            attempt.detours = prepared.detours
            if prepared.module is None:
                if attempt.seen == 0 and not attempt.gathers:
                    attempt.outcome = Outcome.NOTHING_TO_DO
                return None
            longer = prepared.budget is not None
            if (prepared.scratch, longer) in tried:
                continue
            tried.add((prepared.scratch, longer))
            trial = dict(metadata)
            try:
                with attempt.clock.phase("stock"):
                    llir = without_marks(self._stock(prepared.module, trial))
            except Exception:
                attempt.remarks += (_REFUSED,)
                raise
            room = target.max_shared_bytes
            if prepared.budget is not None:  # it goes by estimates, and those can be more than there is
                room = min(room, prepared.budget)
            if (shared := trial.get("shared") or 0) <= room:
                metadata.update(trial)
                attempt.outcome = Outcome.CONVERTED
                attempt.remarks += (_AWAITED,) * prepared.awaited
                return llir
            budget = "the default scratch" if limit is None else f"scratch limited to {limit} bytes"
            remark = (
                f"{shared} bytes of shared memory with {budget}, {self._target} has {target.max_shared_bytes}"
            )
            if longer:
                remark = f"{shared} bytes of shared memory with scratch kept apart, which may take {room}"
            attempt.remarks += (remark,)
        attempt.detours = 0
        attempt.conversions = tuple(
            Conversion(c.location, c.source, c.destination, "triton", "shared memory is exhausted")
            for c in attempt.conversions
        )
        attempt.gathers = tuple(
            Gather(g.location, g.source, g.index, "triton", "shared memory is exhausted")
            for g in attempt.gathers
        )
        return None

    def _tell(self, report: Report) -> list[Exception]:
        """Hand the report to everyone who listens; returns what listeners raised."""
        publish(report)
        _log.debug("%s", report)
        for conversion in report.left:
            _log.info("%s: %s: left to Triton: %s", report.kernel, conversion.location, conversion.detail)
        for remark in report.remarks:
            _log.info("%s: %s", report.kernel, remark)
        failures = []
        for listener in self._setting.listeners:
            try:
                listener(report)
            except Exception as error:
                _log.exception("%s: on_report failed", report.kernel)
                failures.append(error)
        return failures

    def _warn(self, attempt: _Attempt, error: Exception, metadata: Metadata) -> None:
        remarks = attempt.remarks
        fallback.warn(self._setting, attempt.kernel, self._target, error, metadata, remarks=remarks)


class Found(NamedTuple):
    """How many operations of a module may concern the plugin."""

    conversions: int
    gathers: int
    reductions: int
    accesses: int


def count_operations(module: Module) -> Found:
    """The conversions, gathers and reductions of a libtriton module, and its accesses to shared memory, without
    printing it."""
    names: Counter[str] = Counter()

    def visit(operation: Operation) -> None:
        names[operation.get_name()] += 1

    module.walk(visit)
    accesses = sum(names[name] for name in _ACCESSES)
    return Found(names[CONVERT], names[GATHER], names[REDUCE], accesses)


def _instrumentation_mode(metadata: Metadata) -> str:
    """The instrumentation that Triton's stages add to this kernel, as its concurrency sanitizer; "" if none."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    mode: str = knobs.compilation.instrumentation_mode or metadata.get("instrumentation_mode") or ""
    return mode
