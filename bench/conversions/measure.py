"""Times the methods of one case side by side, in the multiprocessor's own clocks.

A kernel's CTAs each note their multiprocessor and its clock before and after the loop. Throughput: as many CTAs
as are resident at once, all of them; the time is that from the first begin to the last end on a
multiprocessor, over the iterations that ran on it. Latency: one CTA. Methods take turns, and the medians are
over the turns (and multiprocessors); the loop without conversions is taken off.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..harness.turns import in_turns
from .build import BASELINE, Built
from .cases import Case
from .driver import Kernel, Memory, device, synchronize
from .kernels import CLOCK_FIELDS, NEVER

MODES = ("throughput", "latency")
PILOT_STEPS = 256
CLOCKS = 1_000_000  # So that CTAs that start a few thousand clocks apart do not show.
MAX_STEPS = 100_000


@dataclass(frozen=True)
class Effort:
    """How long to measure: turns per method, and clocks that a launch should last."""

    turns: int = 11
    clocks: int = CLOCKS


def per_iteration(record: npt.NDArray[np.int64], steps: int) -> float:
    """Clocks of one iteration of one CTA, from the CTAs' (multiprocessor, begin, end).

    The median over the multiprocessors of their span over the CTAs that ran there.

    >>> per_iteration(np.array([[0, 100, 300], [0, 120, 340], [1, 0, 240]]), 10)
    18.0
    """
    spans = []
    for unit in np.unique(record[:, 0]):
        here = record[record[:, 0] == unit]
        spans.append((here[:, 2].max() - here[:, 1].min()) / (len(here) * steps))
    return float(np.median(spans))


class _Bench:
    """One case's kernels, loaded, and the memory that they share."""

    def __init__(self, case: Case, built: Mapping[str, Built]) -> None:
        size = math.prod(case.shape) * case.bits // 8
        self.input = np.random.default_rng(len(case.name)).integers(0, 256, size, dtype=np.uint8).tobytes()
        self.source, self.destination = Memory(size), Memory(size)
        self.source.write(self.input)
        self.kernels = {
            method: Kernel(b.cubin, b.kernel, case.warps, b.shared, b.parameters) for method, b in built.items()
        }
        self.resident = {method: kernel.resident() for method, kernel in self.kernels.items()}
        most = max(1, *self.resident.values()) * device().multiprocessors
        self.clocks = Memory(8 * CLOCK_FIELDS * most)

    def ctas(self, method: str, mode: str) -> int:
        return 1 if mode == "latency" else max(1, self.resident[method]) * device().multiprocessors

    def run(self, method: str, mode: str, steps: int) -> float:
        """Clocks of one iteration of one CTA."""
        ctas = self.ctas(method, mode)
        arguments = (self.source, self.destination, self.clocks, steps, NEVER - 1)
        self.kernels[method].launch(ctas, arguments)
        synchronize()
        record = np.frombuffer(self.clocks.read(8 * CLOCK_FIELDS * ctas), np.int64)
        return per_iteration(record.reshape(-1, CLOCK_FIELDS), steps)

    def right(self, method: str) -> bool:
        """Whether a round trip gives back what went in."""
        self.destination.fill(0x55)
        self.run(method, "throughput", 3)
        return self.destination.read() == self.input

    def close(self) -> None:
        for kernel in self.kernels.values():
            kernel.unload()
        for memory in (self.source, self.destination, self.clocks):
            memory.free()


def measure(case: Case, built: Sequence[Built], effort: Effort) -> dict[str, dict[str, Any]]:
    """Per method: `right`, `resident` CTAs, and per mode the clocks of a round trip and their quartiles.

    Requires: one of `built` is the baseline; methods that did not compile are left out of it.
    """
    bench = _Bench(case, {b.method: b for b in built})
    try:
        found: dict[str, dict[str, Any]] = {
            method: {"right": bench.right(method), "resident": bench.resident[method]}
            for method in bench.kernels
        }
        for mode in MODES:
            steps = {}
            for method in bench.kernels:
                pilot = bench.run(method, mode, PILOT_STEPS) * bench.ctas(method, mode)
                pilot /= 1 if mode == "latency" else device().multiprocessors
                steps[method] = int(min(MAX_STEPS, max(PILOT_STEPS, effort.clocks / max(pilot, 1e-3))))
            runs = {method: partial(bench.run, method, mode, steps[method]) for method in bench.kernels}
            turns = in_turns(runs, effort.turns)
            loop = float(np.median(turns[BASELINE]))
            for method, times in turns.items():
                low, middle, high = (float(q) for q in np.quantile(times, (0.25, 0.5, 0.75)))
                found[method][mode] = {
                    "clocks": middle - (0 if method == BASELINE else loop),
                    "raw": middle,
                    "quartiles": [low, high],
                    "steps": steps[method],
                }
        return found
    finally:
        bench.close()


def clock_mhz(case: Case, baseline: Built) -> float:
    """The clock rate under load, from clocks and wall time of a launch of about 20 ms."""
    bench = _Bench(case, {BASELINE: baseline})
    try:
        ctas = bench.ctas(BASELINE, "throughput")
        share = ctas / device().multiprocessors
        each = bench.run(BASELINE, "throughput", PILOT_STEPS) * share
        steps = int(4e7 / max(each, 1))
        start = time.perf_counter()
        clocks = bench.run(BASELINE, "throughput", steps) * share * steps
        return clocks / (time.perf_counter() - start) / 1e6
    finally:
        bench.close()
