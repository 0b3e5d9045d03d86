"""The strategies by which conversions are lowered, and how passes treat each of them. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class Strategy:
    """How passes treat a strategy; `lowering.strategies` has its planners.

    folds_by_map: two encodings with the same map are one layout, however they are written.
    prices: the cost model compares assignments; otherwise the one with the fewest conversions wins.
    splits_reductions: reductions are taken apart.
    stages_accesses: accesses to shared memory may go through another layout.
    lasting_scratch: scratch may stay allocated after its use, if that saves barriers.
    awaits_at_once: a dot whose operands would be overwritten is awaited directly behind it.
    """

    folds_by_map: bool = True
    prices: bool = True
    splits_reductions: bool = True
    stages_accesses: bool = True
    lasting_scratch: bool = True
    awaits_at_once: bool = False


LINEAR: Final = "linear"
"""Planned from the linear maps of both layouts: the strategy of this package."""

LEGACY: Final = "legacy"
"""The lowering of Triton before linear layouts: a baseline to measure against."""

STRATEGIES: Final[Mapping[str, Strategy]] = {
    LINEAR: Strategy(),
    LEGACY: Strategy(
        folds_by_map=False,
        prices=False,
        splits_reductions=False,
        stages_accesses=False,
        lasting_scratch=False,
        awaits_at_once=True,
    ),
}
