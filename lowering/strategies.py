"""The planners of each strategy behind one interface, so that passes need not know the strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.baseline.legacy import select_legacy
from triton_linear.lowering.gather.memory import plan_legacy_gather
from triton_linear.lowering.gather.select import select_gather
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import LEGACY_GATHER, AnyGatherPlan
from triton_linear.lowering.plan.plans import PADDED, Rejected, Selection
from triton_linear.lowering.plan.strategies import LEGACY, LINEAR
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.targets import Target


@dataclass(frozen=True, slots=True)
class Tensor:
    """One side of a conversion: its layout, and the text of its encoding."""

    layout: LinearLayout
    encoding: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Planners:
    """The planners of a strategy.

    conversion: by source, destination, element type, target and scratch limit in bytes. gather: by source
    layout, index layout, axis, element type, target and scratch limit. A limit of None is the target's default.
    """

    conversion: Callable[[Tensor, Tensor, ElementType, Target, int | None], Selection]
    gather: Callable[
        [LinearLayout, LinearLayout, int, ElementType, Target, int | None], AnyGatherPlan | Rejected
    ]


def _linear(
    source: Tensor, destination: Tensor, element: ElementType, target: Target, limit: int | None
) -> Selection:
    return select(source.layout, destination.layout, element, target, limit)


def _legacy(
    source: Tensor, destination: Tensor, element: ElementType, target: Target, _limit: int | None
) -> Selection:
    """The legacy plan; it ignores the scratch limit."""
    return select_legacy(source.encoding, destination.encoding, source.shape, element, target)


def _legacy_gather(
    source: LinearLayout,
    index: LinearLayout,
    axis: int,
    element: ElementType,
    target: Target,
    _limit: int | None,
) -> AnyGatherPlan | Rejected:
    return plan_legacy_gather(source, index, axis, element, target)


PLANNERS: Final[Mapping[str, Planners]] = {
    LINEAR: Planners(_linear, select_gather),
    LEGACY: Planners(_legacy, _legacy_gather),
}
"""The planners by the names in `STRATEGIES`."""

_MADE_BY: Final[Mapping[str, str]] = {PADDED: LEGACY, LEGACY_GATHER: LEGACY}


def strategy_of(kind: str) -> str:
    """The strategy that makes plans of a kind; the linear one if both do."""
    return _MADE_BY.get(kind, LINEAR)


def planners_of(kind: str) -> Planners:
    """The planners that make plans of a kind."""
    return PLANNERS[strategy_of(kind)]
