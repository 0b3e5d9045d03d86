"""What a probe is: a question to the installed Triton, asked in processes that it may end.

A probe compares what this package expects, by the rules of a release, with what Triton does, case by case. Its
work is divided into calls, each in a process of its own: where libtriton ends that (SIGABRT, as it does with
what it does not understand), this call is lost, and said to differ, with the case that it was at.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from triton_linear.tools.support.isolated import Isolation, Lost

MODULES = ("triton_linear.tools.doctor.warm",)
MEMORY = 8 << 30
"""Bytes that a call may take."""


@dataclass(frozen=True)
class Difference:
    """A case in which Triton does not do what is expected: of what kind, which, and what is other."""

    kind: str
    case: str
    said: str


@dataclass
class Found:
    """What a probe has found: how many cases it tried, and those that differ."""

    cases: int = 0
    differences: list[Difference] = field(default_factory=list)

    def compare(self, kind: str, case: str, otherwise: Callable[[], str | None]) -> None:
        """Try a case: `otherwise` says in what Triton differs, None if it does not. What it raises differs."""
        at(f"{kind}: {case}")
        self.cases += 1
        try:
            said = otherwise()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if said is not None:
            self.differences.append(Difference(kind, case, said))

    def add(self, other: Found) -> None:
        """Count what another call found as well."""
        self.cases += other.cases
        self.differences += other.differences

    def first_of_each(self) -> list[Difference]:
        """The first case of each kind that differs."""
        first: dict[str, Difference] = {}
        for each in self.differences:
            first.setdefault(each.kind, each)
        return list(first.values())


@dataclass(frozen=True)
class Counts:
    """How much is tried.

    encodings: of each family. kernels: with loads and stores, and as many with accesses to shared memory.
    staged: accesses that are run, for each GPU. conversions: random ones, for all GPUs together. targets: what
    examples are compiled for. jobs: processes at a time. seed: what all is drawn from.
    """

    encodings: int
    kernels: int
    staged: int
    conversions: int
    targets: tuple[str, ...]
    jobs: int = 2
    seed: int = 1


FULL = Counts(100, 32, 3, 200, ("cuda:90", "hip:gfx942"))
QUICK = Counts(6, 4, 1, 16, ("cuda:90",))


@dataclass(frozen=True)
class Probe:
    """A question, what to look at where the answer differs, and how it is asked."""

    name: str
    what: str
    look: str
    run: Callable[[Counts], Found]


_at: list[BinaryIO] = []


def at(case: str) -> None:
    """Note what is tried from here on, for what is said if the process ends; nothing where nobody asks."""
    for file in _at:
        file.seek(0)
        file.truncate()
        file.write(case.encode(errors="replace"))
        file.flush()


def isolated(function: str, calls: Sequence[tuple[object, ...]], jobs: int, seconds: int = 120) -> Found:
    """What a function, `module:name`, finds in all calls, `jobs` at a time, each in a process of its own.

    It is imported there: this process loads no Triton.
    """
    isolation: Isolation[Found] = Isolation(traced, MODULES, seconds, MEMORY)
    total = Found()
    with tempfile.TemporaryDirectory(prefix="triton-linear-") as folder:
        logs = [Path(folder, str(number)) for number in range(len(calls))]
        work = [(log, function, *call) for log, call in zip(logs, calls, strict=True)]
        try:
            results = isolation.map(work, jobs)
        except (EOFError, OSError) as error:
            return Found(0, [Difference("crash", "loading Triton", f"{type(error).__name__}: {error}")])
        for log, result in zip(logs, results, strict=True):
            total.add(_lost(log, result) if isinstance(result, Lost) else result)
    return total


def _lost(log: Path, how: Lost) -> Found:
    """What is said of a call that gave nothing: the case that it was at."""
    case = log.read_text(errors="replace") if log.exists() else ""
    kind, _, case = (case or "crash: before the first case").partition(": ")
    return Found(1, [Difference(kind, case, how.reason)])


def traced(log: Path, function: str, *arguments: object) -> Found:
    """Call a function in a process of its own, with what it is at in `log`."""
    with log.open("wb") as file:
        _at.append(file)
        module, _, name = function.partition(":")
        found: Found = getattr(import_module(module), name)(*arguments)
        return found
