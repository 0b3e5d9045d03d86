"""Conversions through shared memory, by warp, by CTA or by cluster.

An exchange inside a warp gives every warp its own slice of the scratch and needs no CTA barrier. There the
destination warp bits add to the loads what the warp's own data lacks, B(w) + A(w).

An exchange in a cluster takes the CTA as one more part of the place: each CTA stores what it holds to its own
scratch, laid out alike in all, so an element's address is (rank, offset). With C(x) = (r, l, w, b) for a
destination index x, it is in the memory of CTA b at the place of A(r, l, w, 0) = B(x) + A(0, 0, 0, b). Loads
are from other CTAs rather than stores to them: what is stored once is wanted by several where the destination
holds copies, and each CTA needs to know its own place only. Where C leaves b what the own rank is, as where
CTAs hold copies of each other, no other memory is read, and the exchange is one of the CTA.

Elements below 32 bits are stored and loaded in words only where registers of the source are registers of the
destination as well. Where there are too few, lanes and registers change places first, inside the warps: an
exchange that brings a register of the destination from the lanes of the source, or after the loads the reverse.
It takes half as many shuffles as there are words; bytes or half-words would take two to four times the loads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import CLUSTER, Cost, Rejected, SharedPlan, ShufflePlan
from triton_linear.lowering.planners.conversion import (
    HARDWARE_DIMS,
    Conversion,
    Hardware,
    Origin,
    Reach,
    between,
)
from triton_linear.lowering.planners.exchange import cheapest, cost_of_shared, exchange_plans
from triton_linear.lowering.planners.placement import Exchange
from triton_linear.lowering.planners.shuffle import plan_shuffle
from triton_linear.lowering.target.targets import Target

__all__ = [
    "beside_ranks",
    "cost_of_shared",
    "plan_across_ctas",
    "plan_as_it_is",
    "plan_cta_shared",
    "plan_warp_shared",
]


def plan_warp_shared(
    conv: Conversion, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan | Rejected:
    """An exchange within each warp, through a slice of scratch per warp."""
    if misfit := _misfit(conv, Reach.WARP):
        return Rejected("warp-shared", misfit)
    limit = min(scratch_limit >> len(conv.src.warp), target.policy.warp_scratch_bytes)
    return _plan("warp", conv, element, target, limit)


def plan_cta_shared(
    conv: Conversion, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan | Rejected:
    """An exchange among all warps of a CTA."""
    if misfit := _misfit(conv, Reach.CTA):
        return Rejected("cta-shared", misfit)
    return _plan("cta", conv, element, target, scratch_limit)


def plan_across_ctas(conv: Conversion, element: ElementType, target: Target, scratch_limit: int) -> SharedPlan:
    """An exchange where block bits change: among all CTAs of the cluster, or among the warps of each where
    every CTA holds what it wants.

    Requires: source and destination have as many CTAs.
    """
    scope = "cta" if _is_near(conv) else CLUSTER
    return _plan(scope, conv, element, target, scratch_limit)


def plan_as_it_is(conv: Conversion, scope: str, element: ElementType, target: Target) -> SharedPlan:
    """The exchange that stores every register as it is, and loads every register as it is wanted, without
    matrix accesses and shuffles."""
    exchange = _exchange(scope, conv.src, conv.dst)
    return next(exchange_plans(scope, exchange, element, target, target.scratch_limit(1 << len(conv.src.warp))))


def beside_ranks(conv: Conversion) -> Conversion | None:
    """A conversion that changes block bits, and in which every CTA holds what it wants, as one of more warps:
    the rank of the CTA is above the number of the warp. None where some element is in another CTA."""
    if not _is_near(conv):
        return None
    sides = (replace(side, warp=(*side.warp, *side.block), block=()) for side in (conv.src, conv.dst))
    return between(*sides)


def _is_near(conv: Conversion) -> bool:
    return not any(_far(*place) for place in conv.bits())


def _far(name: str, bit: int, origin: Origin) -> bool:
    """Whether a destination bit changes the CTA that is loaded from, beyond the own rank."""
    return origin.block != (1 << bit if name == "block" else 0)


def _misfit(conv: Conversion, reach: Reach) -> str | None:
    """Why the conversion has no exchange within `reach`, or None."""
    return conv.witness(reach) if conv.reach > reach else None


def _plan(scope: str, conv: Conversion, element: ElementType, target: Target, limit: int) -> SharedPlan:
    def direct(source: Hardware, destination: Hardware, below: float) -> tuple[SharedPlan, Cost] | None:
        plans = exchange_plans(scope, _exchange(scope, source, destination), element, target, limit)
        return cheapest(plans, target, below)

    found = direct(conv.src, conv.dst, math.inf)
    assert found is not None  # there is always a plan
    (best, least), held, wanted = found, conv.src, conv.dst
    # The matrix instructions move half-words, so one exchange serves; without them bytes take two.
    for _ in range(element.per_word.bit_length() - 1):
        if not _is_narrow(best):
            break
        for source, destination in list(_brought_together(held, wanted)):
            found = direct(source, destination, least.clocks)
            if found is None:
                continue  # and the shuffles would come on top
            before = _inside(conv.src, source, element, target)
            after = _inside(destination, conv.dst, element, target)
            plan = replace(found[0], before=before, after=after)
            cost = cost_of_shared(plan, target)
            if cost.clocks < least.clocks:
                best, least, held, wanted = plan, cost, source, destination
                if _is_as_good_as_can_be(plan, cost, target.policy.exchange_permutes):
                    return plan
    return best


def _exchange(scope: str, a: Hardware, b: Hardware) -> Exchange:
    if a.block != b.block:
        return _across(a, b)
    if scope == "cta":
        return Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
    added = tuple(theirs ^ ours for theirs, ours in zip(b.warp, a.warp, strict=True))
    return Exchange(a.register, a.lane, (0,) * len(a.warp), b.register, b.lane, added)


def _across(a: Hardware, b: Hardware) -> Exchange:
    """The exchange in which loads are from the CTAs that hold the elements."""
    conv = between(a, b)

    def near(columns: tuple[int, ...], origins: tuple[Origin, ...]) -> tuple[int, ...]:
        return tuple(
            column ^ f2.multiply_vector(a.block, origin.block)
            for column, origin in zip(columns, origins, strict=True)
        )

    sides = ((b.register, conv.register), (b.lane, conv.lane), (b.warp, conv.warp), (b.block, conv.block))
    registers, lanes, warps, blocks = (near(*side) for side in sides)
    return Exchange(
        a.register,
        a.lane,
        a.warp,
        registers,
        lanes,
        warps,
        blocks,
        tuple(origin.block for origin in conv.register),
        tuple(origin.block for origin in (*conv.lane, *conv.warp, *conv.block)),
    )


def _is_narrow(plan: SharedPlan) -> bool:
    """Some access moves less than a word of each lane."""
    return min(plan.store.access_bytes, plan.load.access_bytes) < 4


def _is_as_good_as_can_be(plan: SharedPlan, cost: Cost, permutes: int) -> bool:
    """Words both ways, and no permutes but `permutes` for each shuffle and one for each word."""
    words = min(plan.source_registers, len(plan.outputs)) // plan.per_word
    return not _is_narrow(plan) and cost.alu <= permutes * cost.shuffles + words


def _inside(a: Hardware, b: Hardware, element: ElementType, target: Target) -> ShufflePlan | None:
    """The shuffles from one layout to the other; None where they are the same."""
    if a == b:
        return None
    # Many exchanges are the same but for the names of the tensor's bits.
    named = f2.Echelon((*a.register, *a.lane, *a.warp, *a.block))
    return _plan_inside(_renamed(a, named), _renamed(b, named), element, target)


def _renamed(side: Hardware, named: f2.Echelon) -> Hardware:
    """The columns as sums of others, which is all that a plan inside a warp depends on."""

    def number(column: int) -> int:
        found = named.solve(column)
        assert found is not None  # the same vectors, in other places
        return found

    return Hardware(*(tuple(map(number, getattr(side, name))) for name in HARDWARE_DIMS))


@functools.lru_cache(maxsize=1024)
def _plan_inside(a: Hardware, b: Hardware, element: ElementType, target: Target) -> ShufflePlan:
    plan = plan_shuffle(between(a, b), element, target)
    assert isinstance(plan, ShufflePlan)  # an exchange of a lane bit with a register bit is one
    return plan


def _brought_together(a: Hardware, b: Hardware) -> Iterator[tuple[Hardware, Hardware]]:
    """Sources and destinations with one more register in common, each an exchange from what it replaces."""
    sources, destinations = _with_lane_as_register(a, b), _with_lane_as_register(b, a)
    for source, destination in zip(sources, destinations, strict=True):
        if source is not None:
            yield source, b
        if destination is not None:
            yield a, destination


def _with_lane_as_register(own: Hardware, other: Hardware) -> list[Hardware | None]:
    """For each lane bit, last first: `own` with its column in the place of a register that `other` does not
    have as one; None where the column is no register of `other`, or `own` holds copies."""
    if f2.rank((*own.register, *own.lane)) < len(own.register) + len(own.lane):
        return [None] * len(own.lane)
    theirs = f2.Echelon(other.register)
    spare = [bit for bit, column in enumerate(own.register) if column not in theirs]
    found: list[Hardware | None] = []
    for lane in reversed(range(len(own.lane))):
        column = own.lane[lane]
        if column not in theirs or not spare:
            found.append(None)
            continue
        # The first are those within a word, where what both sides have is wanted.
        bit = spare[0]
        registers = (*own.register[:bit], column, *own.register[bit + 1 :])
        lanes = (*own.lane[:lane], own.register[bit], *own.lane[lane + 1 :])
        found.append(replace(own, register=registers, lane=lanes))
    return found
