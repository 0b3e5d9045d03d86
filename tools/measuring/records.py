"""What a child that measures is asked to do (`MeasuringPlan`), and what it says of the launches that it sees
(`Heard`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from triton_linear.decisions import Circumstances
from triton_linear.tools.measuring.choose import Interval
from triton_linear.variants import STOCK

CONTEST: Final = "contest"
"""Stands for the comparison of a launch as a whole where a mode is named."""
IDLE: Final = "nothing to do"
"""The reason for no comparison if all variants are stock Triton's kernel."""


@dataclass(frozen=True)
class MeasuringPlan:
    """The task of a child.

    modes: those that are compared with stock Triton. seconds: for the last phase of a launch, with warm caches
    and with empty ones each. grids: the largest number of grids on which a kernel is measured. decide: whether
    the fastest mode is to be found; else all are timed once. skip: pairs of a launch's key and what must not
    run: a mode, all modes with a digest of code, or CONTEST.
    """

    script: str
    arguments: Sequence[str]
    modes: Sequence[str] = ()
    module: bool = False
    seconds: float = 0.5
    grids: int = 4
    decide: bool = True
    skip: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Comparison:
    """How fast the modes of a launch are.

    circumstances: those for which a decision about it is valid. microseconds: the time of a launch in stock
    Triton. ratios: by mode, how many times faster it is than stock Triton; modes that took no part have none.
    fastest: the best for this launch alone. exact: the modes whose results are bit for bit stock Triton's.
    kept: for each conversion that moves data in mode `free`, why it is not free, empty if it is.
    """

    circumstances: Circumstances
    microseconds: float
    ratios: Mapping[str, Interval]
    fastest: str
    exact: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()


@dataclass
class Launched:
    """A kernel on one grid, the digest of its TTGIR, the number of launches, the comparison of its modes (None
    if there is none), and by mode why there is none, or why it took no part.
    """

    name: str
    grid: tuple[int, ...]
    module: str = ""
    launches: int = 1
    comparison: Comparison | None = None
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def microseconds(self) -> float:
        """The time of all its launches in stock Triton."""
        return self.launches * self.comparison.microseconds if self.comparison else 0.0

    @property
    def fastest(self) -> str:
        """The best variant for this launch alone."""
        return self.comparison.fastest if self.comparison else STOCK

    def ratio(self, mode: str) -> Interval | None:
        """How many times faster a mode is than stock Triton; None if it was not measured."""
        return self.comparison.ratios.get(mode) if self.comparison else None


@dataclass
class Heard:
    """What children have said.

    ended: called for each launch that has been compared, or has not. launches: by key. under_way: the key of
    the launch that is being measured, the mode, and the digest of its code if it runs.
    """

    ended: Callable[[Launched], object] = lambda launch: None
    launches: dict[str, Launched] = field(default_factory=dict)
    under_way: tuple[str, str, str] | None = None

    def hear(self, said: tuple[Any, ...]) -> None:
        """Take what a child has said; of problems that a mode has twice, the first counts."""
        match said:
            case "seen", key, name, grid, module:
                self.launches.setdefault(key, Launched(name, grid, module))
            case "begin", key, mode, code:
                self.under_way = key, mode, code
            case "problem", key, mode, why:
                self.launches[key].problems.setdefault(mode, why)
            case "end", key, comparison:
                self.under_way = None
                self.launches[key].comparison = comparison
                self.ended(self.launches[key])
            case "counts", counts:
                for key in self.launches.keys() & counts.keys():
                    self.launches[key].launches = max(self.launches[key].launches, counts[key])
            case _:
                raise AssertionError(said)
