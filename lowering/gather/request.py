"""What a gather through shared memory asks for: the columns of both sides, and the unit of threads that each
element stays inside.

In a cluster each CTA stores what it holds to its own scratch, which is laid out alike in all. So an element's
address is (rank, offset), as in conversions across CTAs (`planners.shared`). Let A be the source's layout, and
a a column that is asked for: of a bit of the index, or of the index's registers and threads. Then

    a = A(r, l, w, c)    adds the rank c,    and the place of a + A(0, 0, 0, c) in the memory of a CTA.

Both are linear, so the index, the thread's number in the cluster and the register add their parts by xor. What
the own CTA holds is asked of it: c is zero, or for a bit of the own rank that bit, where the CTA has the
element.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Final

from triton_linear.dialect import f2
from triton_linear.dialect.dimensions import fields
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.gather.shuffles import columns_beside_axis, misfit
from triton_linear.lowering.plan.gathers import Columns
from triton_linear.lowering.plan.plans import CLUSTER
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.target.targets import Target

OTHER_CTAS: Final = "an index asks for what another CTA of the cluster holds"


@dataclass(frozen=True, slots=True)
class GatherRanks:
    """What adds to the rank of the CTA that holds an element: each bit of the index, each bit of the index's
    registers, and each bit of the thread's number in the cluster (lane, warp, rank)."""

    axis: Columns
    register: Columns
    thread: Columns


@dataclass(frozen=True, slots=True)
class Request:
    """The columns of a gather, and its scope.

    held: the source. beside: the index's layout without its coordinate on the axis. axis: the columns of the
    index's bits. elements: the element of each register of the index. block: the columns of the rank of the
    thread's CTA, empty if addresses do not depend on it. ranks: None if no CTA loads from another. With `block`
    or `ranks` the columns of `beside`, `axis` and `block` are places within a CTA.
    """

    scope: str
    held: Hardware
    beside: Hardware
    axis: Columns
    elements: tuple[int, ...]
    block: Columns = ()
    ranks: GatherRanks | None = None

    @staticmethod
    def of(src: LinearLayout, index: LinearLayout, axis: int, target: Target) -> Request | str:
        """The request for two layouts, or the reason why there is none."""
        if reason := misfit(src, index, axis, target):
            return reason
        held, beside, along = _columns(src, index, axis)
        elements = tuple(f2.sums(Hardware.of(index).register))
        if not _stays(held, beside, along):
            if not target.has_clusters:
                return f"{OTHER_CTAS}, and {target.name} has no clusters"
            return _across(held, beside, along, elements)
        inside = f2.Echelon((*held.lane, *held.register))
        added = tuple(theirs ^ ours for theirs, ours in zip(beside.warp, held.warp, strict=True))
        if all(column in inside for column in (*along, *beside.lane, *beside.register, *added)):
            return Request("warp", held, replace(beside, warp=added), along, elements)
        return Request("cta", held, beside, along, elements)


def stays_in_cta(src: LinearLayout, index: LinearLayout, axis: int) -> bool:
    """True if each CTA holds all that it asks for, at places that do not depend on its rank.

    Requires: source and index differ in dimension `axis` at most.
    """
    return _stays(*_columns(src, index, axis))


def _columns(src: LinearLayout, index: LinearLayout, axis: int) -> tuple[Hardware, Hardware, Columns]:
    """(source, index beside the axis, bits of the index), as flattened elements of the source."""
    sizes = [size for _, size in src.out_dims]
    start = fields(src.out_dims)[axis][0]
    along = tuple(1 << start + bit for bit in range(sizes[axis].bit_length() - 1))
    return Hardware.of(src), columns_beside_axis(index, axis, sizes), along


def _stays(held: Hardware, beside: Hardware, along: Columns) -> bool:
    own = f2.Echelon((*held.lane, *held.register, *held.warp))
    asked = (*along, *beside.lane, *beside.register, *beside.warp)
    return held.block == beside.block and all(column in own for column in asked)


def _across(held: Hardware, beside: Hardware, along: Columns, elements: tuple[int, ...]) -> Request | str:
    """The request where addresses depend on the rank of the own CTA, or loads are from others."""
    inside = (*held.lane, *held.register, *held.warp)
    # Of several solutions `solve` takes that of the first columns: it goes to another CTA only if it must.
    span = f2.Echelon((*inside, *held.block))
    if not all(
        column in span for column in (*along, *beside.lane, *beside.register, *beside.warp, *beside.block)
    ):
        return "the source does not hold every element"

    @functools.cache
    def rank(column: int) -> int:
        found = span.solve(column)
        assert found is not None  # it was asked above
        return found >> len(inside)

    def near(columns: Columns, ranks: Columns) -> Columns:
        return tuple(
            column ^ f2.multiply_vector(held.block, far) for column, far in zip(columns, ranks, strict=True)
        )

    by_axis, by_register, by_lane, by_warp = (
        tuple(map(rank, columns)) for columns in (along, beside.register, beside.lane, beside.warp)
    )
    by_block = tuple(
        rank(wanted ^ own) ^ 1 << bit
        for bit, (wanted, own) in enumerate(zip(beside.block, held.block, strict=True))
    )
    block = near(beside.block, by_block)
    asked = Hardware(
        near(beside.register, by_register), near(beside.lane, by_lane), near(beside.warp, by_warp), ()
    )
    axis = near(along, by_axis)
    if not any((*by_axis, *by_register, *by_lane, *by_warp)) and by_block == f2.identity(len(by_block)):
        return Request("cta", held, asked, axis, elements, block)
    ranks = GatherRanks(by_axis, by_register, (*by_lane, *by_warp, *by_block))
    return Request(CLUSTER, held, asked, axis, elements, block, ranks)
