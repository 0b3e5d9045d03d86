"""Choose the variant of a kernel from times that were measured in rounds.

Each round gives a ratio of two variants. The confidence interval of their median lies between two order
statistics, which contain the median in 95 of 100 samples, whatever the distribution (Conover, Practical
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
"""The largest probability that the median lies beyond one end of its interval."""
LEAST_GAIN = 1.003
"""How many times faster than another a variant must be to replace it. Stock Triton measured against itself
was 0.9988 to 1.0018 on an H200 over 93 cases (bench/paper)."""

LEAST_IN_A_STATE = 0.99
"""How many times faster, in each state of the caches, a variant must be to replace another. Without it, one
that is slower with warm caches can hide behind noise: of 542 launches of other packages on an H200 one variant
was decided that ran at 0.972 of stock Triton's speed, with warm caches alone, a few minutes later."""

Times = Mapping[str, Sequence[float]]
"""Microseconds for each variant and round."""


@dataclass(frozen=True)
class Interval:
    """How many times faster something is: the median over rounds, and its confidence interval."""

    ratio: float
    low: float
    high: float


EVEN = Interval(1.0, 1.0, 1.0)


def interval(ratios: Sequence[float]) -> Interval:
    """The median of `ratios`, and its confidence interval. With few ratios the interval is their whole range,
    which for five contains the median in 94 of 100 samples.

    >>> interval([1.0, 1.1, 1.2])
    Interval(ratio=1.1, low=1.0, high=1.2)
    """
    ordered = sorted(ratios)
    out = left_out(len(ordered))
    return Interval(statistics.median(ordered), ordered[out], ordered[-1 - out])


@functools.cache
def left_out(count: int) -> int:
    """The number of order statistics to leave out at each end of the median's interval, out of `count`.

    It is the largest number for which at most BEYOND of all samples have the median there (binomial
    distribution).

    >>> [left_out(count) for count in (5, 6, 9, 40, 100)]
    [0, 0, 1, 13, 39]
    """
    out, samples = 0, 1 + count
    while samples <= BEYOND * 2**count:
        out += 1
        samples += math.comb(count, out + 1)
    return out


def ratios_of(base: str, name: str, times: Sequence[Times]) -> list[float]:
    """How many times faster `name` is than `base`, in each round that all of `times` have.

    `times` has one entry for each state of the caches, over which the geometric mean is taken.
    """
    each = [[first / second for first, second in zip(state[base], state[name], strict=True)] for state in times]
    return [math.prod(ratios) ** (1 / len(ratios)) for ratios in zip(*each, strict=False)]


def faster(base: str, name: str, times: Sequence[Times]) -> Interval:
    """How many times faster `name` is than `base`, with its confidence interval."""
    return interval(ratios_of(base, name, times))


def holds(base: str, name: str, times: Sequence[Times]) -> bool:
    """Whether `name` is faster than `base` beyond noise, and in no state of the caches much slower."""
    overall = faster(base, name, times)
    if overall.low <= 1 or overall.ratio < LEAST_GAIN:
        return False
    states = [faster(base, name, [state]) for state in times]
    return all(state.high >= 1 and state.ratio >= LEAST_IN_A_STATE for state in states)


def candidate(names: Sequence[str], times: Sequence[Times]) -> str:
    """The variant to be confirmed: the one with the best median; of about equal ones, the first.

    Requires: `names` begin with stock Triton.
    """
    ratios = {name: statistics.median(ratios_of(STOCK, name, times)) for name in names}
    best = max(ratios.values())
    return next(name for name in names if ratios[name] >= best / LEAST_GAIN)


def decide(confirmed: Sequence[Times], best: str) -> str:
    """Choose between stock Triton, the whole plugin (`ours`), and the candidate `best`.

    The plugin must be faster than stock Triton beyond noise, because stock Triton has no risk and compiles
    faster. The candidate must be faster than the better of these two beyond noise.
    """
    default = OURS if OURS in confirmed[0] and holds(STOCK, OURS, confirmed) else STOCK
    return best if best != default and holds(default, best, confirmed) else default


def combined(parts: Sequence[tuple[float, Interval]]) -> Interval:
    """The ratio of summed times; each part is a time in stock Triton, and how many times faster the part is.

    >>> combined([(1.0, Interval(2.0, 2.0, 2.0)), (1.0, Interval(1.0, 1.0, 1.0))]).ratio
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
