"""Medians with intervals, means of ratios, ranks, and the share of a possible gain that was taken.

A ratio here is a time of stock Triton over one of the plugin: above 1 the plugin is faster. Ratios are taken
turn by turn, so that what slows the GPU down for a while slows both sides, and summed up by `interval`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from triton_linear.tools.measuring.choose import left_out

LOSS, GAIN = 0.98, 1.02
"""Ratios between these are equal times: stock Triton beside itself stays within."""


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(low, median, high): low and high are values between which the true median lies, 95 % sure.

    Requires: at least one value. Fewer than six do not suffice for 95 %, and give their range.

    >>> interval([5, 1, 4, 2, 3, 6, 7])
    (1, 4, 7)
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("interval: no values")
    outside = left_out(len(ordered))
    return ordered[outside], median(ordered), ordered[-1 - outside]


def ratio(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """The interval of one side's times over the other's, turn by turn, rounded for a file.

    >>> ratio([4.0, 6.0], [2.0, 3.0])
    [2.0, 2.0, 2.0]
    """
    return [round(value, 5) for value in interval([a / b for a, b in zip(slow, fast, strict=True)])]


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Over the values that are there.

    >>> geometric_mean([1.0, None, 4.0])
    2.0
    """
    logs = [math.log(value) for value in values if value]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """The correlation of the ranks; equal values share a rank, and where all are equal there is none (nan).

    >>> round(spearman([1, 2, 3, 4], [10, 30, 20, 40]), 3)
    0.8
    """
    if len(set(a)) < 2 or len(set(b)) < 2:
        return math.nan
    import numpy as np

    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: Sequence[float]) -> list[float]:
    below = [sum(other < value for other in values) for value in values]
    equal = [sum(other == value for other in values) for value in values]
    return [less + (same + 1) / 2 for less, same in zip(below, equal, strict=True)]
