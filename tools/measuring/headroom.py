"""Headroom: what the layout conversions of a program's kernels cost, and how much of that this package saves.

The program runs in child processes. The first compares this package with stock Triton; the second compares
stock Triton with kernels whose conversions are free (passes/conversions/free.py). Such kernels compute
garbage, on copies of the arguments, and may crash. If a child crashes, the next one skips the kernel that it
was measuring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triton_linear.report import FREE as LEFT_OUT
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import Spawn, done, rounds
from triton_linear.tools.support.modes import FREE, OURS, STOCK

NOISE = 0.005
"""If free conversions save a smaller part of a kernel's time, no share is computed."""


@dataclass(frozen=True)
class Converted:
    """A conversion of the stock kernel.

    ours: its lowering by this package. left_out: whether it is free in mode `free`. detail: why it is not.
    """

    ours: str
    left_out: bool
    detail: str


@dataclass
class TimedKernel:
    """A kernel on one grid; None if a value is not known.

    seen: the number of its conversions. speedup: stock / ours. headroom: stock / free. problems: by mode, why
    there is no ratio. module: the digest of its TTGIR.
    """

    key: str
    name: str
    grid: tuple[int, ...]
    seen: int
    launches: int = 0
    microseconds: float | None = None
    speedup: float | None = None
    headroom: float | None = None
    conversions: tuple[Converted, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)
    module: str = ""

    @property
    def total(self) -> float:
        """Microseconds of all launches in stock Triton."""
        return self.launches * (self.microseconds or 0.0)

    @property
    def share(self) -> float | None:
        """(stock - ours) / (stock - free); None if the cost of conversions is below noise or not known."""
        if self.headroom is None or self.speedup is None or 1 - 1 / self.headroom < NOISE:
            return None
        return (1 - 1 / self.speedup) / (1 - 1 / self.headroom)


def measure(plan: MeasuringPlan, folder: Path, spawn: Spawn) -> tuple[list[dict[str, Any]], int]:
    """The records of all children, which `spawn` runs, and the exit status of the program in the first one."""
    records, ended = rounds(replace(plan, modes=[OURS]), folder, spawn, loud=False)
    if any(record.get("seen") for record in records):
        records += rounds(replace(plan, modes=[FREE], skip=done(records)), folder, spawn, loud=False)[0]
    return records, ended.status


def kernels_of(records: Iterable[Mapping[str, Any]]) -> list[TimedKernel]:
    """The kernels in records, those with the longest total time first.

    Launches are counted by the first child that reached its end. For a kernel without conversions both ratios
    are one.
    """
    kernels: dict[str, TimedKernel] = {}
    ratios: dict[tuple[str, str], float] = {}
    rows: dict[tuple[str, str], list[list[str]]] = {}
    counted = False
    for record in records:
        if "launches" in record:
            for key, count in record["launches"].items():
                if key in kernels and not counted:
                    kernels[key].launches = count
            counted = True
            continue
        key = record["kernel"]
        if "name" in record and key not in kernels:
            grid = tuple(record["grid"])
            kernels[key] = TimedKernel(key, record["name"], grid, record["seen"])
            kernels[key].module = record.get("module", "")
        if "mode" not in record:
            continue
        kernel, mode = kernels[key], record["mode"]
        if "ratio" in record:
            ratios[key, mode] = record["ratio"]
            if kernel.microseconds is None:
                kernel.microseconds = record["microseconds"][STOCK]
        elif "conversions" in record:
            rows[key, mode] = record["conversions"]
        elif "problem" in record:
            kernel.problems.setdefault(mode, record["problem"])
    for key, kernel in kernels.items():
        if kernel.seen == 0 and kernel.microseconds is not None:
            kernel.speedup = kernel.headroom = 1.0
        else:
            kernel.speedup, kernel.headroom = ratios.get((key, OURS)), ratios.get((key, FREE))
        kernel.conversions = _conversions(rows.get((key, FREE), []), rows.get((key, OURS)))
        if not counted:
            kernel.launches = 1
    return sorted(kernels.values(), key=lambda kernel: -kernel.total)


def _conversions(free: Sequence[Sequence[str]], ours: Sequence[Sequence[str]] | None) -> tuple[Converted, ...]:
    """The conversions of the stock kernel, matched with those of mode `ours` by place and layouts."""
    remaining: dict[tuple[str, ...], list[str]] = {}
    for location, source, destination, lowering, _ in ours or ():
        remaining.setdefault((location, source, destination), []).append(lowering)
    conversions = []
    for location, source, destination, lowering, detail in free:
        same = remaining.get((location, source, destination))
        lowered_by_ours = same.pop(0) if same else "" if ours is None else "gone"
        left_out = lowering == LEFT_OUT
        conversions.append(Converted(lowered_by_ours, left_out, "" if left_out else detail))
    return tuple(conversions)
