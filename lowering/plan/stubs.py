"""Outlined conversions: the meaning of calls of functions without a body. Pure data."""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Plan


@dataclass(frozen=True, slots=True)
class Stub:
    """A conversion from one layout to another.

    accumulators: the source may be accumulators in the registers that `wgmma` wrote.
    """

    symbol: str
    source: LinearLayout
    destination: LinearLayout
    element: ElementType
    plan: Plan
    accumulators: bool = False
