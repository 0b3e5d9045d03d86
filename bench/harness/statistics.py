"""Medians with intervals, means of ratios, and the share of a possible gain that was taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(low, median, high): low and high are values between which the true median lies, 95 % sure.

    Requires: at least one value. They are order statistics, chosen by the binomial distribution: how many of
    n values lie below the median is binomial(n, 1/2). Fewer than six values do not suffice for 95 %, and give
    their range.

    >>> interval([5, 1, 4, 2, 3, 6, 7])
    (1, 4, 7)
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise ValueError("interval: no values")
    below, outside = 0.0, 0
    for rank in range(count // 2):
        below += math.comb(count, rank) / 2**count
        if below > 0.025:
            break
        outside = rank
    half = count // 2
    median = ordered[half] if count % 2 else (ordered[half - 1] + ordered[half]) / 2
    return ordered[outside], median, ordered[count - 1 - outside]


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Over the values that are there.

    >>> geometric_mean([1.0, None, 4.0])
    2.0
    """
    logs = [math.log(value) for value in values if value]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def share_taken(ours: float, headroom: float) -> float | None:
    """(stock - ours) / (stock - free), from stock / ours and stock / free; None where free gains nothing.

    >>> share_taken(ours=4 / 3, headroom=2.0)
    0.5
    """
    return (1 - 1 / ours) / (1 - 1 / headroom) if headroom > 1 else None
