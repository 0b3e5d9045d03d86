"""Conversions through shared memory, inside a warp or a CTA.

An exchange inside a warp gives every warp its own slice of the scratch and needs no CTA barrier. A destination
warp bit then adds B(w) + A(w) to the loads, its difference from the data that the warp stored.

Elements below 32 bits are stored and loaded in words only if registers of the source are registers of the
destination as well. If too few are, lane bits and register bits are exchanged inside the warps: before the
stores, an exchange brings a register of the destination from the lanes of the source, or after the loads the
reverse. It takes half as many shuffles as there are words; bytes or half-words would take two to four times the
loads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Rejected, SharedPlan, ShufflePlan, Work
from triton_linear.lowering.planners.conversion import HARDWARE_DIMS, Conversion, Hardware, Reach, between
from triton_linear.lowering.planners.exchange import cheapest, exchange_plans, work_of_exchange
from triton_linear.lowering.planners.placement import Exchange
from triton_linear.lowering.planners.shuffle import plan_shuffle
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.targets import Target


def plan_warp_shared(
    conv: Conversion, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan | Rejected:
    """An exchange within each warp, through a slice of scratch per warp."""
    if misfit := _misfit(conv, Reach.WARP):
        return Rejected("warp-shared", misfit)
    return _plan("warp", conv, element, target, scratch_limit >> len(conv.src.warp))


def plan_cta_shared(
    conv: Conversion, element: ElementType, target: Target, scratch_limit: int
) -> SharedPlan | Rejected:
    """An exchange among all warps of a CTA."""
    if misfit := _misfit(conv, Reach.CTA):
        return Rejected("cta-shared", misfit)
    return _plan("cta", conv, element, target, scratch_limit)


def _misfit(conv: Conversion, reach: Reach) -> str | None:
    """The reason why the conversion has no exchange within `reach`, or None."""
    return conv.witness(reach) if conv.reach > reach else None


def _plan(scope: str, conv: Conversion, element: ElementType, target: Target, limit: int) -> SharedPlan:
    """The cheapest exchange, with shuffles before or after it if accesses below a word cost more than these."""

    def direct(source: Hardware, destination: Hardware, below: float) -> tuple[SharedPlan, Work] | None:
        plans = exchange_plans(scope, _exchange(scope, source, destination), element, target, limit)
        return cheapest(plans, target, below)

    found = direct(conv.src, conv.dst, math.inf)
    assert found is not None  # `exchange_plans` yields one at least
    (best, work), held, wanted = found, conv.src, conv.dst
    least = work.clocks(target.costs)
    # Matrix instructions move half-words, so that one exchange suffices; without them bytes take two.
    for _ in range(element.per_word.bit_length() - 1):
        if not _is_narrow(best):
            break
        for source, destination in list(_with_common_register(held, wanted)):
            found = direct(source, destination, least)
            if found is None:
                continue  # the shuffles would come on top
            before = _shuffles_between(conv.src, source, element, target)
            after = _shuffles_between(destination, conv.dst, element, target)
            plan = replace(found[0], before=before, after=after)
            work = work_of_exchange(plan, target)
            if (taken := work.clocks(target.costs)) < least:
                best, least, held, wanted = plan, taken, source, destination
                if _needs_no_other(plan, work, limits.EXCHANGE_PERMUTES):
                    return plan
    return best


def _exchange(scope: str, a: Hardware, b: Hardware) -> Exchange:
    exchange = Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
    return _inside_warps(exchange) if scope == "warp" else exchange


def _inside_warps(exchange: Exchange) -> Exchange:
    """An exchange each of whose warps loads what it has stored, through a slice of its own."""
    added = tuple(theirs ^ ours for theirs, ours in zip(exchange.load_warp, exchange.store_warp, strict=True))
    return replace(exchange, store_warp=(0,) * len(added), load_warp=added)


def _is_narrow(plan: SharedPlan) -> bool:
    """True if stores or loads move less than a word of each lane."""
    return min(plan.store.access_bytes, plan.load.access_bytes) < 4


def _needs_no_other(plan: SharedPlan, work: Work, permutes: int) -> bool:
    """True if stores and loads move words, with at most `permutes` permutes for each shuffle and one for each
    word."""
    words = min(plan.source_registers, len(plan.outputs)) // plan.per_word
    return not _is_narrow(plan) and work.alu <= permutes * work.shuffles + words


def _shuffles_between(a: Hardware, b: Hardware, element: ElementType, target: Target) -> ShufflePlan | None:
    """The shuffles from one layout to the other; None if the layouts are equal."""
    if a == b:
        return None
    # Many exchanges differ only in the numbers of the tensor's bits.
    named = f2.Echelon((*a.register, *a.lane, *a.warp, *a.block))
    return _plan_shuffles(_renamed(a, named), _renamed(b, named), element, target)


def _renamed(side: Hardware, named: f2.Echelon) -> Hardware:
    """The columns by their coordinates in `named`. A plan inside a warp depends on these alone."""

    def number(column: int) -> int:
        found = named.solve(column)
        assert found is not None  # both layouts have the same columns, in other places
        return found

    return Hardware(*(tuple(map(number, getattr(side, name))) for name in HARDWARE_DIMS))


@functools.lru_cache(maxsize=1024)
def _plan_shuffles(a: Hardware, b: Hardware, element: ElementType, target: Target) -> ShufflePlan:
    plan = plan_shuffle(between(a, b), element, target)
    assert isinstance(plan, ShufflePlan)  # an exchange of a lane bit with a register bit always has a plan
    return plan


def _with_common_register(a: Hardware, b: Hardware) -> Iterator[tuple[Hardware, Hardware]]:
    """Yield (source, destination) with one more register in common: one of them is one exchange of a lane bit
    with a register bit away from `a` or `b`, the other is unchanged."""
    sources, destinations = _with_lane_as_register(a, b), _with_lane_as_register(b, a)
    for source, destination in zip(sources, destinations, strict=True):
        if source is not None:
            yield source, b
        if destination is not None:
            yield a, destination


def _with_lane_as_register(own: Hardware, other: Hardware) -> list[Hardware | None]:
    """For each lane bit, last first: `own` with this lane bit exchanged with a register bit that is no register
    of `other`. None if the lane bit's column is no register of `other`, or `own` holds copies."""
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
        # The first register bits are inside words, where common registers make the vectors.
        bit = spare[0]
        registers = (*own.register[:bit], column, *own.register[bit + 1 :])
        lanes = (*own.lane[:lane], own.register[bit], *own.lane[lane + 1 :])
        found.append(replace(own, register=registers, lane=lanes))
    return found
