"""The ways in which conversions are lowered, by name, and in what they differ for passes. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class Strategy:
    """What passes ask of a way to lower conversions; `lowering.strategies` has its planners.

    folds_by_map: two encodings of one map are one layout, however they are written.
    prices: ways are compared by the cost model; without, the fewest conversions count.
    splits_reductions: reductions are taken apart.
    stages_accesses: accesses to shared memory may go by way of another layout.
    lasting_scratch: scratch may outlive its use, where that saves barriers.
    awaits_at_once: dots whose operands would be overwritten are waited for where they are.
    """

    folds_by_map: bool = True
    prices: bool = True
    splits_reductions: bool = True
    stages_accesses: bool = True
    lasting_scratch: bool = True
    awaits_at_once: bool = False


LINEAR: Final = "linear"
"""By the maps of both layouts: what this package is for."""

LEGACY: Final = "legacy"
"""As Triton did before it had linear layouts: a baseline to measure against."""

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
