"""The planners of each strategy, behind one interface: passes ask here, and for no strategy by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from triton_linear.dialect.linear_layout import LinearLayout
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


class Planners(Protocol):
    """How a strategy plans."""

    def conversion(
        self, source: Tensor, destination: Tensor, element: ElementType, target: Target, limit: int | None
    ) -> Selection:
        """The plan of a conversion within `limit` bytes of scratch, and why others lost."""

    def gather(
        self,
        source: LinearLayout,
        index: LinearLayout,
        axis: int,
        element: ElementType,
        target: Target,
        limit: int | None,
    ) -> AnyGatherPlan | Rejected:
        """The plan of a gather, or why there is none."""


class _Linear:
    def conversion(
        self, source: Tensor, destination: Tensor, element: ElementType, target: Target, limit: int | None
    ) -> Selection:
        return select(source.layout, destination.layout, element, target, limit)

    def gather(
        self,
        source: LinearLayout,
        index: LinearLayout,
        axis: int,
        element: ElementType,
        target: Target,
        limit: int | None,
    ) -> AnyGatherPlan | Rejected:
        return select_gather(source, index, axis, element, target, limit)


class _Legacy:
    """Its scratch is what it is, so limits have no effect."""

    def conversion(
        self, source: Tensor, destination: Tensor, element: ElementType, target: Target, limit: int | None
    ) -> Selection:
        return select_legacy(source.encoding, destination.encoding, source.shape, element, target)

    def gather(
        self,
        source: LinearLayout,
        index: LinearLayout,
        axis: int,
        element: ElementType,
        target: Target,
        limit: int | None,
    ) -> AnyGatherPlan | Rejected:
        return plan_legacy_gather(source, index, axis, element, target)


PLANNERS: Final[Mapping[str, Planners]] = {LINEAR: _Linear(), LEGACY: _Legacy()}
"""By the names in `STRATEGIES`."""

_MADE_BY: Final[Mapping[str, str]] = {PADDED: LEGACY, LEGACY_GATHER: LEGACY}


def strategy_of(kind: str) -> str:
    """The strategy that gives plans of a kind: where both do, the linear one."""
    return _MADE_BY.get(kind, LINEAR)


def planners_of(kind: str) -> Planners:
    """The planners that give plans of a kind."""
    return PLANNERS[strategy_of(kind)]
