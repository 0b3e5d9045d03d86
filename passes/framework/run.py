"""Runs passes over a module, with checks between them where asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from triton_linear.dialect.mlir_adapter import MLIRError, Module, Operation, PassManager, operations
from triton_linear.dialect.records import dataclass
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass, PassRun, Walk
from triton_linear.passes.framework.diagnostics import PassDiagnostic
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.verifiers import Verifier
from triton_linear.passes.operations.names import MODULE

Watch = Callable[[str, bool, Operation], None]
"""What is told of each pass: its name, whether it has run, and the module before or after it."""


@dataclass(frozen=True)
class PipelineRun:
    """How a run went: whether every pass succeeded, what was reported, the seconds each pass took, and what was
    planned."""

    succeeded: bool
    diagnostics: tuple[PassDiagnostic, ...]
    seconds: tuple[tuple[str, float], ...]
    plans: Plans

    @classmethod
    def of_nothing(cls) -> PipelineRun:
        """A run without passes."""
        return cls(True, (), (), Plans())

    @property
    def errors(self) -> str:
        """The errors that were reported, a line each."""
        return "\n".join(str(found) for found in self.diagnostics if found.severity == "error")


def run_passes(
    module: Module,
    passes: Iterable[Pass | str],
    *,
    verify: bool = False,
    remarks: bool = True,
    watch: Watch | None = None,
    walk: Walk | None = None,
) -> PipelineRun:
    """Run `passes` over `module`; a string is a pass, or a pipeline of passes, of upstream MLIR.

    The run ends at the first pass that fails. `verify` checks what each pass requires and ensures, and MLIR's
    own rules, between passes. Without `remarks` none is composed, which takes time. `watch` is called before
    and after each pass. `walk`: the operations, if they are known before, and as far as they are after.
    """
    context = module.context
    manager = PassManager(MODULE, context)
    manager.enable_verifier(verify)
    seconds: list[tuple[str, float]] = []
    plans, walk, layouts = Plans(), walk or Walk(), LayoutTable()
    for pass_ in passes:
        clock = _Clock()
        if watch is not None:
            manager.add(_watched(pass_, False, watch), name="watch")
        if isinstance(pass_, str):
            manager.add(clock.start, name="start")
            manager.add(pass_)
            manager.add(_forgetting(walk), name="forget")
            name = pass_
        else:
            manager.add(_guarded(pass_, plans, walk, layouts, clock, verify), name=pass_.name)
            name = pass_.name
        manager.add(_observer(name, clock, seconds), name="observe")
        if watch is not None:
            manager.add(_watched(pass_, True, watch), name="watch")
    with diagnostics.capture(context, remarks) as found:
        try:
            manager.run(module.operation)
            succeeded = True
        except MLIRError as error:
            found.extend(diagnostics.of_exception(error))
            succeeded = False
    return PipelineRun(succeeded, tuple(found), tuple(seconds), plans)


class _Clock:
    """Remembers when a pass began."""

    began = 0.0

    def start(self, op: Operation, pass_: Any) -> None:
        self.began = time.perf_counter()


def _forgetting(walk: Walk) -> Callable[[Operation, Any], None]:
    """What follows a pass of MLIR's, which may have changed any operation."""

    def callback(op: Operation, external: Any) -> None:
        walk.forget()

    return callback


def _guarded(
    pass_: Pass, plans: Plans, walk: Walk, layouts: LayoutTable, clock: _Clock, verify: bool
) -> Callable[[Operation, Any], None]:
    """`pass_` as a callback of MLIR, where an exception becomes an error and a failed pass."""

    def callback(op: Operation, external: Any) -> None:
        clock.start(op, external)
        signal = PassRun(external, plans, walk, layouts)
        try:
            if verify and not _holds(pass_.requires, op):
                signal.signal_pass_failure()
            if not signal.failed and pass_(op, signal) is not False:
                walk.forget()
            if verify and not signal.failed and not (_holds(pass_.ensures, op) and _is_as_found(walk, op)):
                signal.signal_pass_failure()
        except Exception as error:
            diagnostics.error(
                op,
                f"{pass_.name}: internal error: {type(error).__name__}: {error}; this is a bug, please "
                "report it with the module that shows it",
            )
            external.signal_pass_failure()

    return callback


def _holds(verifiers: Sequence[Verifier], op: Operation) -> bool:
    """Whether `op` satisfies every verifier; each has its say."""
    failed = [verifier for verifier in verifiers if not verifier(op)]
    return not failed


def _is_as_found(walk: Walk, op: Operation) -> bool:
    """Whether the operations are those that were found; if not, a pass has changed some and not said so."""
    if walk.found is None or walk.found == operations(op):
        return True
    diagnostics.error(op, "operations came or went, and the pass says that none did")
    return False


def name_of(pass_: Pass | str) -> str:
    """What a pass, ours or upstream MLIR's, is called."""
    return pass_.partition("{")[0] if isinstance(pass_, str) else pass_.name


def _observer(name: str, clock: _Clock, seconds: list[tuple[str, float]]) -> Callable[[Operation, Any], None]:
    def callback(op: Operation, external: Any) -> None:
        seconds.append((name, time.perf_counter() - clock.began))

    return callback


def _watched(pass_: Pass | str, done: bool, watch: Watch) -> Callable[[Operation, Any], None]:
    name = name_of(pass_)
    return lambda op, external: watch(name, done, op)
