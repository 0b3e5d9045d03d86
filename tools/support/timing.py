"""Time launches of kernels side by side.

Clock rates and temperatures of a GPU drift. So alternatives are timed alternately, in rounds of changing
order, and are to be compared within each round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Launch = Callable[[], object]

_ROUNDS = (6, 100)
"""The least and the largest number of rounds. With fewer than six, not even the interval from the least to the
greatest value holds the median in 95 of 100 cases."""
_WARM_UP = 2
_SHORT_US = 50.0
"""Kernels that take fewer microseconds are launched several times in a row."""
_MOST_IN_A_ROW = 10


class Clock(Protocol):
    """Measures the time of a launch."""

    def time(self, launch: Launch, before: Launch | None, row: int) -> float:
        """The mean time in microseconds of `row` launches, after `before`, which is not timed."""


class GpuClock:
    """Measures by CUDA events on PyTorch's current stream.

    Before each measurement the GPU is kept busy until all launches are queued, so that the time on the CPU is
    not measured. `flush` first writes a buffer larger than the L2 cache.
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
        """The mean time in microseconds of `row` launches, after `before`, which is not timed."""
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
) -> dict[str, list[float]]:
    """Time `launches` alternately, in 6 to 100 rounds that take about `seconds` in all. Returns microseconds of
    one launch, for each name and round.

    `before` is called before each measurement, for instance to restore data that launches change. Short
    kernels are launched up to ten times in a row, unless `in_a_row` is False because each launch needs
    `before`.
    """
    clock = clock or GpuClock()
    names = list(launches)
    started = time.perf_counter()
    first = {name: min(clock.time(launches[name], before, 1) for _ in range(_WARM_UP)) for name in names}
    round_seconds = (time.perf_counter() - started) / _WARM_UP
    row = 1
    if in_a_row:
        row = max(1, min(_MOST_IN_A_ROW, round(_SHORT_US / max(1e-3, *first.values()))))
    rounds = max(_ROUNDS[0], min(_ROUNDS[1], round(seconds / max(round_seconds, 1e-6))))
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            times[name].append(clock.time(launches[name], before, row))
    return times
