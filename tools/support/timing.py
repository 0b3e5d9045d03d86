"""Times launches of kernels side by side.

Clocks and temperatures of a GPU drift, so ways of doing the same are timed in turn, in changing order, and
compared turn by turn: the ratio of two is the median of the ratios of their turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Launch = Callable[[], object]

_TURNS = (6, 100)
"""Of fewer than six, not even the least and the greatest hold the median in 95 of 100 cases."""
_WARM_UP = 2
_SHORT_US = 50.0
"""Kernels that are shorter are launched several times in a row."""
_ROW = 10


@dataclass(frozen=True)
class Timings:
    """Microseconds of one launch, by mode and turn."""

    microseconds: Mapping[str, tuple[float, ...]]

    def median(self, mode: str) -> float:
        """The median time of a mode.

        >>> Timings({"a": (1.0, 2.0, 9.0)}).median("a")
        2.0
        """
        return statistics.median(self.microseconds[mode])

    def ratio(self, base: str, mode: str) -> float:
        """How many times faster `mode` is than `base`: the median over the turns.

        >>> Timings({"a": (2.0, 4.0, 9.0), "b": (1.0, 2.0, 3.0)}).ratio("a", "b")
        2.0
        """
        turns = zip(self.microseconds[base], self.microseconds[mode], strict=True)
        return statistics.median(first / second for first, second in turns)


class Clock(Protocol):
    """What tells how long a launch takes."""

    def time(self, launch: Launch, before: Launch | None, row: int) -> float:
        """Microseconds that each of `row` launches takes, after `before`, which does not count."""


class GpuClock:
    """CUDA's events, on PyTorch's current stream.

    Before each measurement the GPU is kept busy until everything is queued, so that what is measured is its
    time and not that of the processor that launches. `flush` writes a buffer larger than the L2 cache first.
    """

    BUSY_CYCLES = 200_000
    BUSY_CYCLES_A_LAUNCH = 40_000

    def __init__(self, flush: bool = False) -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._start, self._end = (self._cuda.Event(enable_timing=True) for _ in range(2))
        self._buffer: Any = None
        if flush:
            cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
            self._buffer = torch.empty(max(2 * cache, 1 << 26), dtype=torch.uint8, device="cuda")

    def time(self, launch: Launch, before: Launch | None, row: int) -> float:
        """Microseconds that each of `row` launches takes, after `before`, which does not count."""
        if before is not None:
            before()
        if self._buffer is not None:
            self._buffer.zero_()
        self._cuda._sleep(self.BUSY_CYCLES + row * self.BUSY_CYCLES_A_LAUNCH)
        self._start.record()
        for _ in range(row):
            launch()
        self._end.record()
        self._end.synchronize()
        return float(1e3 * self._start.elapsed_time(self._end) / row)


def side_by_side(
    launches: Mapping[str, Launch],
    clock: Clock | None = None,
    *,
    before: Launch | None = None,
    seconds: float = 1.0,
    in_a_row: bool = True,
) -> Timings:
    """Time each of `launches` in turn, for about so many seconds in all, but 6 turns at least and 100 at most.

    `before` is called before each measurement, as to restore what launches change. Short kernels are launched
    up to ten times in a row unless `in_a_row` is off, for those that cannot go twice without `before`.
    """
    clock = clock or GpuClock()
    names = list(launches)
    began = time.perf_counter()
    first = {name: min(clock.time(launches[name], before, 1) for _ in range(_WARM_UP)) for name in names}
    turn_seconds = (time.perf_counter() - began) / _WARM_UP
    row = 1
    if in_a_row:
        row = max(1, min(_ROW, round(_SHORT_US / max(1e-3, *first.values()))))
    turns = max(_TURNS[0], min(_TURNS[1], round(seconds / max(turn_seconds, 1e-6))))
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            found[name].append(clock.time(launches[name], before, row))
    return Timings({name: tuple(times) for name, times in found.items()})
