"""Times the ways of one case side by side. Runs in the process that has the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..harness.cases import called
from ..harness.child import told
from ..harness.turns import replay, summary
from ..kernels import modes
from ..kernels.case import TRITON, Case
from ..kernels.kernel import Kernel
from ..kernels.measure import Effort, Session, compare
from .case import Reported
from .cases import CASES
from .counts import of_kernel


def ways(case: Reported) -> dict[str, tuple[Kernel, str]]:
    """Each way of a case: its kernel, and how it is compiled. Stock Triton comes first."""
    return {mode: (case.kernel, mode) for mode in (modes.STOCK, modes.OURS)}


def run(name: str, turns: int) -> dict[str, Any]:
    """The record of a case. Raises Failed."""
    return told(_run, name, turns, ways)


def reasons(name: str, turns: int) -> dict[str, Any]:
    """The record of a case that is not won, with what might have won it. Raises Failed."""
    from .reasons import ways as others

    return told(_run, name, turns, others)


def _run(name: str, turns: int, ways_of: Callable[[Reported], dict[str, tuple[Kernel, str]]]) -> dict[str, Any]:
    case = called(name, CASES)
    sessions: dict[int, Session] = {}
    variants: dict[str, Any] = {}
    found: dict[str, Any] = {}
    expected: list[Any] | None = None
    calls = 0
    for way, (kernel, mode) in ways_of(case).items():
        if id(kernel) not in sessions:
            suite = Case(name, "reported", TRITON, kernel.make, case.tolerance)
            sessions[id(kernel)] = Session(suite, Effort(turns=turns, cold=0))
            sessions[id(kernel)].calls = calls
        session = sessions[id(kernel)]
        variant = variants[way] = session.variant(mode)
        calls = session.calls
        result = session.results(mode)
        expected = result if expected is None else expected
        found[way] = {
            **compare(session.case, expected, result),
            "seconds": round(session.seconds[mode], 2),
            "fell_back": variant.facts["fell_back"],
            "counts": [counted(held) for held in variant.held if hasattr(held, "n_regs")],
        }
    times = replay({way: variant.several for way, variant in variants.items()}, turns)
    for way, facts in summary(times, calls).items():
        found[way] |= facts
    return {"name": name, "ways": found}


def counted(kernel: Any) -> dict[str, Any]:
    """Counts of a kernel that the driver has loaded."""
    return of_kernel(kernel) | {"registers": kernel.n_regs, "stack": 4 * kernel.n_spills}
