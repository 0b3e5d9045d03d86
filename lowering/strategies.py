"""The planners of each strategy, behind one interface: passes ask here, and for no strategy by name."""

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
    """One side of a conversion: its layout, and the encoding that says it."""

    layout: LinearLayout
    encoding: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Planners:
    """How a strategy plans a conversion, and a gather along an axis of `source` by `index`: for an element type
    and a target, within so many bytes of scratch (None: as many as there are)."""

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
    """Its scratch is what it is."""
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
"""By the names in `STRATEGIES`."""

_MADE_BY: Final[Mapping[str, str]] = {PADDED: LEGACY, LEGACY_GATHER: LEGACY}


def strategy_of(kind: str) -> str:
    """The strategy that gives plans of a kind: where both do, the linear one."""
    return _MADE_BY.get(kind, LINEAR)


def planners_of(kind: str) -> Planners:
    """The planners that give plans of a kind."""
    return PLANNERS[strategy_of(kind)]
