"""The choice of a lowering: planners in order, and the cost model if several have a plan.

A renaming of registers is taken at once. Inside a warp, shuffles and shared memory compete by
modelled clocks. A conversion inside a CTA can always use shared memory; one that crosses CTAs is Triton's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Cost, Plan, RegisterPlan, Rejected, Selection, ShufflePlan
from triton_linear.lowering.planners.bound import LowerBound, least_cost
from triton_linear.lowering.planners.conversion import Conversion, Hardware, Reach, conversion
from triton_linear.lowering.planners.exchange import work_of_exchange
from triton_linear.lowering.planners.shared import plan_cta_shared, plan_warp_shared
from triton_linear.lowering.planners.shuffle import plan_shuffle, work_of_shuffles
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target


def plan_registers(conv: Conversion) -> RegisterPlan | Rejected:
    """A renaming of registers, the same in every thread.

    Ensures: destination register i is source register sources[i] of the same thread.
    """
    if conv.reach > Reach.THREAD:
        return Rejected("registers", conv.witness(Reach.THREAD))
    for name, origins in (("lane", conv.lane), ("warp", conv.warp)):
        for bit, origin in enumerate(origins):
            if origin.register:
                held = f"source register={origin.register} of the same thread"
                return Rejected("registers", f"destination {name}={1 << bit} is held by {held}")
    columns = tuple(origin.register for origin in conv.register)
    sources = tuple(f2.multiply_vector(columns, r) for r in range(1 << len(columns)))
    return RegisterPlan(1 << len(conv.src.register), sources)


CROSSING: Final = "source and destination differ in their block bits: the conversion crosses CTAs"


@functools.lru_cache(maxsize=4096)
def select(src: LinearLayout, dst: LinearLayout, element: ElementType, situation: Situation) -> Selection:
    """The plan that converts a value from layout `src` to layout `dst`, and why the other planners lost.

    `Situation.scratch_limit` bounds the scratch as far as rounds allow; the tile that all lanes and warps of
    both sides access in one round can need more.

    Requires: both layouts map register, lane, warp (and block) onto the same tensor.
    Ensures: `plan` is None exactly if the conversion must be left to Triton.
    """
    if element != element.bare:  # elements of one width have the same plans
        return select(src, dst, element.bare, situation)
    target = situation.gpu
    if reason := misfit(src, dst, target):
        return Selection(None, Cost(), (Rejected("any", reason),))
    conv = conversion(src, dst)
    renamed = plan_registers(conv)
    if not isinstance(renamed, Rejected):
        return Selection(renamed, Cost(), ())
    least = least_cost(src, dst, element, target)
    ranked, refused = _ranked(_moving_plans(conv, element, situation, least), conv, element, situation)
    rejected = [renamed, *refused]
    if not ranked:
        return Selection(None, Cost(), tuple(rejected))
    (best_cost, best), *losers = ranked
    for lost_cost, lost in losers:
        rejected.append(Rejected(lost.kind, _compared(lost_cost, best_cost)))
    return Selection(best, best_cost, tuple(rejected))


_plan_shuffle = functools.lru_cache(maxsize=1024)(plan_shuffle)

Planner = Callable[[Conversion, ElementType, Target, int], Plan | Rejected]
PLANNERS: Final[Mapping[str, Planner]] = {
    "shuffle": lambda conv, element, target, _: _plan_shuffle(conv, element, target),
    "warp-shared": plan_warp_shared,
    "cta-shared": plan_cta_shared,
}
"""The planners of conversions inside a CTA that move data between threads, each given also the most bytes of
scratch. They compete by `cost`; the last one serves always, and runs where no other does."""
_ALWAYS: Final = "cta-shared"


def candidates(
    src: LinearLayout, dst: LinearLayout, element: ElementType, situation: Situation
) -> tuple[tuple[Cost, Plan], ...]:
    """(cost, plan) of every planner that has a plan, best first, including planners that `select` skips.

    Requires: as for `select`. Ensures: empty exactly if `select` has no plan.
    """
    target = situation.gpu
    if misfit(src, dst, target):
        return ()
    conv = conversion(src, dst)
    limit = situation.scratch(1 << len(conv.src.warp))
    plans = [plan_registers(conv), *(planner(conv, element, target, limit) for planner in PLANNERS.values())]
    return tuple(_ranked(plans, conv, element, situation)[0])


def _ranked(
    plans: Iterable[Plan | Rejected], conv: Conversion, element: ElementType, situation: Situation
) -> tuple[list[tuple[Cost, Plan]], list[Rejected]]:
    """(cost, plan) of the plans, cheapest first, and the rejections."""
    warps = 1 << len(conv.src.warp)
    ranked: list[tuple[Cost, Plan]] = []
    rejected: list[Rejected] = []
    for candidate in plans:
        if isinstance(candidate, Rejected):
            rejected.append(candidate)
        else:
            ranked.append((cost(candidate, element, situation.gpu, warps), candidate))
    busy = situation.busy(warps)
    ranked.sort(key=lambda entry: entry[0].expected(busy))
    return ranked, rejected


def cost(plan: Plan, element: ElementType, target: Target, warps: int = 4) -> Cost:
    """The modelled cost of `plan`, with the latency of a CTA of `warps` warps."""
    if isinstance(plan, RegisterPlan):
        return Cost()
    if isinstance(plan, ShufflePlan):
        return work_of_shuffles(plan, element, target).cost(target.costs, warps)
    return work_of_exchange(plan, target).cost(target.costs, warps, plan.scratch_bytes)


def _moving_plans(
    conv: Conversion, element: ElementType, situation: Situation, least: LowerBound
) -> list[Plan | Rejected]:
    """The plans that move data, in the order of `PLANNERS`. A planner whose lower bound is above a known plan
    is skipped.

    An exchange of the CTA competes with one inside the warps only if warps hold copies of each other: it then
    stores less.
    """
    warps = 1 << len(conv.src.warp)
    target, limit, busy = situation.gpu, situation.scratch(warps), situation.busy(warps)
    inside = [kind for kind in PLANNERS if kind != _ALWAYS]
    # Those without a bound come last.
    inside.sort(key=lambda kind: way.expected(busy) if (way := least.by_planner.get(kind)) else math.inf)
    found: dict[str, Plan | Rejected] = {}
    best: Cost | None = None

    def attempt(kind: str) -> None:
        nonlocal best
        way = least.by_planner.get(kind)
        if way is not None and best is not None and way.expected(busy) > best.expected(busy):
            found[kind] = Rejected(kind, f"at least {_compared(way, best)}")
            return
        plan = found[kind] = PLANNERS[kind](conv, element, target, limit)
        if not isinstance(plan, Rejected):
            taken = cost(plan, element, target, warps)
            if best is None or taken.expected(busy) < best.expected(busy):
                best = taken

    for kind in inside:
        attempt(kind)
    if best is None or conv.reach > Reach.WARP or conv.src.warps_hold_copies or conv.dst.warps_hold_copies:
        attempt(_ALWAYS)
    return [found[kind] for kind in PLANNERS if kind in found]


def _compared(lost: Cost, best: Cost) -> str:
    return (
        f"{lost.clocks:.1f} clocks per warp, latency {lost.latency:.0f}, "
        f"against {best.clocks:.1f}, latency {best.latency:.0f}"
    )


def misfit(src: LinearLayout, dst: LinearLayout, target: Target) -> str | None:
    """The reason why no planner of this target takes the pair of layouts, or None."""
    for side, layout in (("source", src), ("destination", dst)):
        lanes = layout.in_dim_size("lane") if layout.has_in_dim("lane") else 1
        if lanes != target.lanes:
            return f"the {side} layout has {lanes} lanes, {target.name} has {target.lanes}"
        registers = layout.in_dim_size("register") if layout.has_in_dim("register") else 1
        if registers > (most := limits.MOST_REGISTERS):
            return f"the {side} layout has {registers} registers; {most} at most are planned for"
    warps = [layout.in_dim_size("warp") if layout.has_in_dim("warp") else 1 for layout in (src, dst)]
    if warps[0] != warps[1]:
        return f"the source layout has {warps[0]} warps, the destination {warps[1]}"
    blocks = [layout.in_dim_size("block") if layout.has_in_dim("block") else 1 for layout in (src, dst)]
    if blocks[0] != blocks[1]:
        return f"the source layout has {blocks[0]} CTAs, the destination {blocks[1]}"
    return CROSSING if Hardware.of(src).block != Hardware.of(dst).block else None
