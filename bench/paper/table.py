"""What a table of the reproduction is made of.

A table is a module with a `TABLE`. Its cases are declared without importing PyTorch; `run` may import anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Record = Mapping[str, Any]
"""What one case gave, as JSON has it."""


class Case(Protocol):
    """A frozen dataclass that can be pickled; `key` names it within its table, the same in every run."""

    @property
    def key(self) -> str: ...


@dataclass(frozen=True)
class Part:
    """A section of a report: its heading, the prose and tables under it, and what falls short of the paper.

    `figure` draws it on the axes of matplotlib that it is given.
    """

    title: str
    markdown: str
    shortfalls: Sequence[str] = ()
    figure: Callable[[Any], None] | None = None


def not_run(declared: Sequence[Case], records: Mapping[str, Record], what: str = "cases") -> list[str]:
    """A shortfall where cases are missing."""
    left = sum(case.key not in records for case in declared)
    return [f"{left} of {len(declared)} {what} have not run"] if left else []


@dataclass(frozen=True)
class Table:
    """One table or figure of the paper.

    timed: cases run one after another, with nothing else on the machine; else many at once, each in one of
        several processes, and then `run` measures no time.
    gpu: whether `run` needs a GPU.
    cases: what is run, in order.
    run: measures one case; what it raises is recorded as {"error": ...} and ends no run.
    prepare: of timed cases, compiles what `run` will launch into Triton's cache; many at once, before any is
        timed. None where there is little to compile.
    report: the section, from the records by key; cases that have not run are missing.
    """

    name: str
    timed: bool
    gpu: bool
    cases: Callable[[], Sequence[Case]]
    run: Callable[[Any], Record]
    report: Callable[[Mapping[str, Record]], Part]
    prepare: Callable[[Any], object] | None = None
