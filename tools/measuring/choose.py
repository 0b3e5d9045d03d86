"""Which variant of a kernel is taken, from times that were measured in turn.

One figure is the ratio of two variants in one turn. What holds for their median is its interval: the order
statistics between which it lies in 95 of 100 samples, whatever the figures' distribution (Conover, Practical
Nonparametric Statistics, confidence intervals for a quantile).
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triton_linear.variants import OURS, STOCK

BEYOND = 0.025
"""How often, at most, the median lies beyond one end of its interval."""
LEAST_GAIN = 1.003
"""How many times faster a variant must be than another to take its place. Stock Triton against itself, in
turns, was 0.9988 to 1.0018 on an H200 over 93 cases (bench/paper)."""

Times = Mapping[str, Sequence[float]]
"""Microseconds by variant and turn."""


@dataclass(frozen=True)
class Interval:
    """How many times faster something is: the median of its turns, and where that lies."""

    ratio: float
    low: float
    high: float


def interval(ratios: Sequence[float]) -> Interval:
    """The median of `ratios`, and its interval; all of them where they are few: of five, it holds 94 of 100.

    >>> interval([1.0, 1.1, 1.2])
    Interval(ratio=1.1, low=1.0, high=1.2)
    """
    ordered = sorted(ratios)
    out = left_out(len(ordered))
    return Interval(statistics.median(ordered), ordered[out], ordered[-1 - out])


@functools.cache
def left_out(count: int) -> int:
    """How many of so many figures in order are left out at each end of the interval of their median: as many
    as let no more than BEYOND of all samples have the median there (the binomial distribution).

    >>> [left_out(count) for count in (5, 6, 9, 40, 100)]
    [0, 0, 1, 13, 39]
    """
    out, samples = 0, 1 + count
    while samples <= BEYOND * 2**count:
        out += 1
        samples += math.comb(count, out + 1)
    return out


def turns_of(base: str, name: str, times: Sequence[Times]) -> list[float]:
    """How many times faster `name` is than `base` in each turn: the geometric mean over `times`, one for each
    state of the caches, as far as all of them go."""
    each = [[first / second for first, second in zip(found[base], found[name], strict=True)] for found in times]
    return [math.prod(ratios) ** (1 / len(ratios)) for ratios in zip(*each, strict=False)]


def faster(base: str, name: str, times: Sequence[Times]) -> Interval:
    """How many times faster `name` is than `base`."""
    return interval(turns_of(base, name, times))


def holds(base: str, name: str, times: Sequence[Times]) -> bool:
    """Whether `name` is faster than `base` beyond noise, and in no state of the caches slower beyond noise."""
    found = faster(base, name, times)
    if found.low <= 1 or found.ratio < LEAST_GAIN:
        return False
    return all(faster(base, name, [alone]).high >= 1 for alone in times)


def candidate(names: Sequence[str], times: Sequence[Times]) -> str:
    """The variant to be confirmed: the fastest by its median, the earlier of equals.

    Requires: `names` begin with stock Triton.
    """
    ratios = {name: statistics.median(turns_of(STOCK, name, times)) for name in names}
    best = max(ratios.values())
    return next(name for name in names if ratios[name] >= best / LEAST_GAIN)


def may_win(name: str, times: Sequence[Times]) -> bool:
    """Whether a variant may yet turn out to be so much faster than stock Triton that it takes its place."""
    return faster(STOCK, name, times).high >= LEAST_GAIN


def contenders(names: Sequence[str], times: Sequence[Times]) -> list[str]:
    """Those that may be the fastest: all whose interval reaches as far as the candidate's median; as they are
    ordered.

    Requires: `names` begin with stock Triton.
    """
    best = faster(STOCK, candidate(names, times), times).ratio
    return [name for name in names if name != STOCK and faster(STOCK, name, times).high >= best] or [STOCK]


def decide(confirmed: Sequence[Times], best: str) -> str:
    """Which of stock Triton, all that the plugin does, and the candidate is taken.

    The candidate has to be faster than both beyond noise. Of the other two, the plugin has to be faster: stock
    Triton is nobody's risk, and compiles faster.
    """
    usual = OURS if OURS in confirmed[0] and holds(STOCK, OURS, confirmed) else STOCK
    return best if best != usual and holds(usual, best, confirmed) else usual


def together(parts: Sequence[tuple[float, Interval]]) -> Interval:
    """The ratio of the sums of times: `parts` have the time in stock Triton and how many times faster each is.

    >>> together([(1.0, Interval(2.0, 2.0, 2.0)), (1.0, Interval(1.0, 1.0, 1.0))]).ratio
    1.3333333333333333
    """
    total = sum(weight for weight, _ in parts)

    def ratio(of: Sequence[float]) -> float:
        return total / sum(weight / one for (weight, _), one in zip(parts, of, strict=True))

    return Interval(
        ratio([part.ratio for _, part in parts]),
        ratio([part.low for _, part in parts]),
        ratio([part.high for _, part in parts]),
    )
