"""Counts of results and failures, which can be added over modules, targets and seeds."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

from bench.fuzz.program import Program


@dataclass(frozen=True)
class Failure:
    """A failure: its kind, a message, and the program that fails."""

    kind: str
    message: str
    program: Program


@dataclass
class Totals:
    """The results of a run. `assembled` modules with `assembled_conversions` conversions were assembled."""

    conversions: int = 0
    modules: int = 0
    programs: int = 0
    folded: int = 0
    left: int = 0
    wrong: int = 0
    races: int = 0
    shared: int = 0
    excess: int = 0
    broken: int = 0
    assembled: int = 0
    assembled_conversions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    stock: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there were no failures."""
        return not (self.wrong or self.races or self.excess or self.left or self.broken or self.failures)

    def fail(self, kind: str, message: str, program: Program) -> None:
        """Record a failure."""
        self.failures.append(Failure(kind, message, program))

    def add(self, other: Totals) -> None:
        """Add the totals of another run."""
        for item in dataclasses.fields(self):
            mine, others = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, Counter):
                mine.update(others)
            else:
                setattr(self, item.name, mine + others)

    def __str__(self) -> str:
        return (
            f"{self.conversions} conversions, {self.wrong} wrong, {self.races} races; "
            f"{self.shared} through shared memory, {self.excess} accesses above the minimum of wavefronts"
        )
