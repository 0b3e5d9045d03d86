"""Outlined conversions and gathers: the meaning of calls of functions without a body. Pure data."""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import GatherPlan
from triton_linear.lowering.plan.plans import Plan

GATHER_PREFIX = "__ll_gather_"
"""Prefix of the names of gather stubs."""


@dataclass(frozen=True, slots=True)
class ConversionStub:
    """A conversion from one layout to another. `accumulators`: the source may be accumulators in the registers
    that `wgmma` wrote. `loose`: its bytes have a register each, as arithmetic leaves them.
    `unpacks`: those of the result are to have one, as arithmetic takes them."""

    symbol: str
    source: LinearLayout
    destination: LinearLayout
    element: ElementType
    plan: Plan
    accumulators: bool = False
    loose: bool = False
    unpacks: bool = False


@dataclass(frozen=True, slots=True)
class GatherStub:
    """A gather of a source by an index along an axis; the result has the layout of the index."""

    symbol: str
    source: LinearLayout
    index: LinearLayout
    axis: int
    element: ElementType
    index_element: ElementType
    plan: GatherPlan


Stub = ConversionStub | GatherStub
