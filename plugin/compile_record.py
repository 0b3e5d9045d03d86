"""What is known of one compile so far, which its report says in the end."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from triton_linear import garbage
from triton_linear.dialect.records import dataclass
from triton_linear.interfaces import TritonModule
from triton_linear.report import Outcome, PhaseClock, Report, ReportedConversion, ReportedGather

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Module


@dataclass
class CompileRecord:
    """One compile under way.

    source: the module behind user passes. upstream: the same in upstream MLIR, where it is at hand. text: the
    same in generic form, where that was printed. given: conversions before user passes, if there are any.
    entry: the name of what is kept of the module, if anything is. stays: a compile before has found the kernel
    to be better than stock Triton's.
    """

    kernel: str
    clock: PhaseClock
    outcome: Outcome = Outcome.LEFT
    seen: int = 0
    given: int = 0
    staged: int = 0
    avoided: int = 0
    compiled: bool = False
    conversions: tuple[ReportedConversion, ...] = ()
    gathers: tuple[ReportedGather, ...] = ()
    remarks: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    error: Exception | None = None
    source: TritonModule | None = None
    upstream: Module | None = None
    text: str = ""
    variant: str = ""
    key: str = ""
    entry: str = ""
    stays: bool = False
    passes: tuple[str, ...] = ()

    def compiling(self) -> AbstractContextManager[None]:
        """The time of Triton's own stage: what it takes once, a kernel takes anyway."""
        again, self.compiled = self.compiled, True
        return self.clock.phase("stock again" if again else "stock")

    @contextmanager
    def working(self, phase: str) -> Iterator[None]:
        """The time of work of the plugin's own, in which Python's garbage collector does not come."""
        with self.clock.phase(phase), garbage.held_back():
            yield

    def undo(self) -> None:
        """The kernel is stock Triton's after all: what was said of its conversions does not hold."""
        self.conversions, self.gathers, self.staged, self.avoided = (), (), 0, 0

    def report(self, target: str) -> Report:
        error = self.error
        return Report(
            kernel=self.kernel,
            target=target,
            outcome=self.outcome,
            seen=self.seen,
            staged=self.staged,
            avoided=self.avoided,
            conversions=self.conversions,
            gathers=self.gathers,
            remarks=self.remarks,
            seconds=dict(self.clock.seconds),
            error=None if error is None else f"{type(error).__name__}: {error}",
            traceback=None if error is None else "".join(traceback.format_exception(error)),
            variant=self.variant,
            key=self.key,
            passes=self.passes,
        )
