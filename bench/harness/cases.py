"""The cases that are wanted, and the loop over them: one after another, saved after each, until time is up."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Case = TypeVar("Case")


def _name(case: Any) -> str:
    return str(case.name)


def chosen(program: str, cases: Iterable[Case], only: str, name: Callable[[Case], str] = _name) -> list[Case]:
    """The cases whose names a regular expression finds. Raises SystemExit where there are none."""
    found = [case for case in cases if re.search(only, name(case))]
    if not found:
        raise SystemExit(f"{program}: no case matches '{only}'")
    return found


def called(name: str, cases: Iterable[Case]) -> Case:
    """The case of that name. Raises StopIteration where there is none."""
    return next(case for case in cases if _name(case) == name)


def unique(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The cases. Raises ValueError where two have the same name."""
    found = tuple(cases)
    names = [_name(case) for case in found]
    if len(set(names)) != len(names):
        raise ValueError(f"names of cases that occur twice: {sorted({n for n in names if names.count(n) > 1})}")
    return found


def say(text: str) -> None:
    """Tell who waits."""
    print(text, file=sys.stderr, flush=True)


class Run:
    """A run: its report so far, `save` that writes it, and how much time there is.

    The report has `seconds`, the names of cases that were `not_run`, and the records of `cases`.
    """

    def __init__(self, save: Callable[[dict[str, Any]], object], budget: float | None = None) -> None:
        self.report: dict[str, Any] = {"seconds": 0.0, "not_run": [], "cases": []}
        self.budget, self._save, self._begun = budget, save, time.perf_counter()
        self._all = 0

    def heading(self, facts: Mapping[str, Any]) -> None:
        """What the report is of, in front of what is in it. To find it out is part of the run's time."""
        self.report = {**facts, **self.report}

    @property
    def spent(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._begun

    def late(self, share: float = 1.0) -> bool:
        """Whether that share of the budget is spent."""
        return self.budget is not None and self.spent > share * self.budget

    def each(self, cases: Sequence[Case], name: Callable[[Case], str] = _name) -> Iterator[Case]:
        """The cases, until time is up; the others are `not_run`."""
        self._all = len(cases)
        for number, case in enumerate(cases):
            if self.late():
                self.report["not_run"] += [name(left) for left in cases[number:]]
                return
            yield case

    def add(self, record: Any, line: str = "") -> None:
        """Keep a record, save the report, and say so."""
        self.report["cases"].append(record)
        self.save()
        if line:
            say(f"{len(self.report['cases'])}/{self._all} {line} [{self.report['seconds']:.0f} s]")

    def save(self) -> None:
        """Write what there is."""
        self.report["seconds"] = round(self.spent, 1)
        self._save(self.report)
