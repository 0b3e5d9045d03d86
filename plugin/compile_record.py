"""The state of one compile, from which its report is made."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING

from triton_linear import garbage
from triton_linear.dialect.interfaces import TritonModule
from triton_linear.dialect.records import dataclass
from triton_linear.report import Outcome, PhaseClock, Report, ReportedConversion

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Module


@dataclass
class CompileRecord:
    """One compile under way.

    source: the module after the user passes that run before ours. upstream: that module in upstream MLIR, if it
    was imported. text: that module in generic form, if it was printed. given: the number of conversions before
    user passes.
    """

    kernel: str
    clock: PhaseClock
    outcome: Outcome = Outcome.LEFT
    seen: int = 0
    given: int = 0
    avoided: int = 0
    compiled: bool = False
    conversions: tuple[ReportedConversion, ...] = ()
    remarks: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    error: Exception | None = None
    source: TritonModule | None = None
    upstream: Module | None = None
    text: str = ""
    variant: str = ""
    key: str = ""
    passes: tuple[str, ...] = ()

    def compiling(self) -> AbstractContextManager[None]:
        """Time a run of Triton's own stage. The first run is no overhead: stock Triton needs it too."""
        again, self.compiled = self.compiled, True
        return self.clock.phase("stock again" if again else "stock")

    @contextmanager
    def working(self, phase: str) -> Iterator[None]:
        """Time a phase of the plugin. Python's garbage collector does not run in it."""
        with self.clock.phase(phase), garbage.held_back():
            yield

    def undo(self) -> None:
        """Drop what was recorded of conversions, since the stock kernel is compiled."""
        self.conversions, self.avoided = (), 0

    def report(self, target: str) -> Report:
        error = self.error
        return Report(
            target=target,
            seconds=dict(self.clock.seconds),
            error=None if error is None else f"{type(error).__name__}: {error}",
            traceback=None if error is None else "".join(traceback.format_exception(error)),
            **{name: getattr(self, name) for name in _names(CompileRecord) & _names(Report) - {"error"}},
        )


@functools.cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(entry.name for entry in fields(kind))
