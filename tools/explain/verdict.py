"""Whether a kernel is faster on one side than on the other: as measured, or as expected from what is counted.

Only what makes a kernel slower where there is more of it is counted, and nothing is weighed against anything
else: if one figure is better and another is worse, the verdict is that it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

FASTER, SAME, SLOWER, UNKNOWN = "faster", "the same", "slower", "not known until measured"
NOISE = 0.003
"""A measured ratio that is nearer to one says nothing: stock Triton measured against itself was 0.9988 to
1.0018 on an H200 over 93 cases (bench/paper)."""
_MORE_IS_BETTER = ("occupancy", "CTAs at a time")
_MOST_REASONS = 4


@dataclass(frozen=True)
class Figure:
    """A figure of both sides; None if it is not known."""

    name: str
    a: float | None
    b: float | None

    @property
    def worse(self) -> float | None:
        """By how much B is worse, negative if it is better; None if a value is not known."""
        if self.a is None or self.b is None:
            return None
        return self.a - self.b if self.name in _MORE_IS_BETTER else self.b - self.a

    def __str__(self) -> str:
        return f"{self.name} {_number(self.b)} instead of {_number(self.a)}"


def _number(value: float | None) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class KernelVerdict:
    """Whether a kernel is faster, and why.

    basis: measured or expected. outcome: one of the four above. ratio: how many times as fast; None if it was
    not measured.
    """

    basis: str
    outcome: str
    ratio: float | None
    why: tuple[str, ...]

    def __str__(self) -> str:
        times = "" if self.ratio is None else f", {self.ratio:.3f} times as fast"
        why = f": {'; '.join(self.why)}" if self.why else ""
        return f"{self.basis}: {self.outcome}{times}{why}"


def expected(figures: Iterable[Figure]) -> KernelVerdict:
    """The verdict on side B from figures of which fewer are better, but for those of occupancy.

    >>> print(expected([Figure("wavefronts", 96, 80), Figure("shuffles", 4, 4)]))
    expected: faster: wavefronts 80 instead of 96
    >>> print(expected([Figure("shuffles", 0, 4), Figure("waves", 9, 8)]))
    expected: not known until measured: better are waves 8 instead of 9; worse are shuffles 4 instead of 0
    """
    known = [one for one in figures if one.worse]
    better = [str(one) for one in known if (one.worse or 0) < 0]
    worse = [str(one) for one in known if (one.worse or 0) > 0]
    if better and worse:
        both = (f"better are {_listed(better)}", f"worse are {_listed(worse)}")
        return KernelVerdict("expected", UNKNOWN, None, both)
    if better or worse:
        return KernelVerdict("expected", FASTER if better else SLOWER, None, (_listed(better or worse),))
    return KernelVerdict("expected", SAME, None, ("nothing that is counted differs",))


def with_split_reductions(found: KernelVerdict, *, a: bool, b: bool) -> KernelVerdict:
    """The verdict where reductions of a side were split into conversions: these count against it, and what they
    spare in the reductions of the other side counts for nothing.

    >>> with_split_reductions(expected([Figure("wavefronts", 4, 8)]), a=False, b=True).outcome
    'not known until measured'
    >>> with_split_reductions(expected([Figure("wavefronts", 8, 4)]), a=False, b=True).outcome
    'faster'
    """
    if a == b or found.outcome != (SLOWER if b else FASTER):
        return found
    why = "conversions replace parts of reductions on one side, whose work is not counted on the other"
    return replace(found, outcome=UNKNOWN, why=(*found.why, why))


def _listed(reasons: Sequence[str]) -> str:
    more = len(reasons) - _MOST_REASONS
    return ", ".join([*reasons[:_MOST_REASONS], *[f"{more} more"] * (more > 0)])


def measured(times: Iterable[tuple[float, float]]) -> KernelVerdict | None:
    """The verdict from the time of launches on side A, and how many times as fast each is on side B; None if
    there are none.

    >>> print(measured([(10.0, 1.25), (30.0, 1.0)]))
    measured: faster, 1.053 times as fast
    """
    parts = list(times)
    before, after = sum(time for time, _ in parts), sum(time / ratio for time, ratio in parts)
    if not before:
        return None
    ratio = before / after
    outcome = SAME if abs(ratio - 1) < NOISE else FASTER if ratio > 1 else SLOWER
    return KernelVerdict("measured", outcome, ratio, ())
