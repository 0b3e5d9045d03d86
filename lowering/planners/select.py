"""Choosing a lowering: ordered planners, and the cost model where several serve.

A no-op or a renaming of registers is taken at once. Inside a warp, shuffles and shared memory compete by
modelled clocks. Everything that stays in a CTA has shared memory; what crosses CTAs has the shared memory of
the cluster, where a GPU has clusters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import (
    Cost,
    FreePlan,
    NoOpPlan,
    Plan,
    RegisterPlan,
    Rejected,
    Selection,
    SharedPlan,
    ShufflePlan,
)
from triton_linear.lowering.planners.bound import Least, least_cost
from triton_linear.lowering.planners.conversion import Conversion, Hardware, Reach, conversion
from triton_linear.lowering.planners.registers import plan_noop, plan_registers
from triton_linear.lowering.planners.shared import (
    beside_ranks,
    cost_of_shared,
    plan_across_ctas,
    plan_cta_shared,
    plan_warp_shared,
)
from triton_linear.lowering.planners.shuffle import cost_of_shuffle, plan_shuffle
from triton_linear.lowering.target.targets import Target

CROSSING = "source and destination differ in their block bits: the conversion crosses CTAs"


@functools.lru_cache(maxsize=4096)
def select(
    src: LinearLayout,
    dst: LinearLayout,
    element: ElementType,
    target: Target,
    scratch_limit: int | None = None,
) -> Selection:
    """The plan that takes a value from layout `src` to layout `dst`, and why the others lost.

    `scratch_limit` bounds the scratch in bytes where rounds can (None: the target's default); a tile that
    both sides touch with every lane and warp can need more.

    Requires: both layouts map register, lane, warp (and block) onto the same tensor.
    Ensures: `plan` is None exactly when the conversion must be left to Triton.
    """
    if element != element.bare:  # elements of one width have the same plans
        return select(src, dst, element.bare, target, scratch_limit)
    if reason := misfit(src, dst, target):
        return Selection(None, Cost(), (Rejected("any", reason),))
    conv = conversion(src, dst)
    limit = target.scratch_limit(1 << len(conv.src.warp)) if scratch_limit is None else scratch_limit
    if crosses_ctas(conv.src, conv.dst):
        return _across(conv, element, target, limit)
    rejected: list[Rejected] = []
    for attempt in (plan_noop(conv), plan_registers(conv)):
        if not isinstance(attempt, Rejected):
            return Selection(attempt, cost(attempt, element, target), tuple(rejected))
        rejected.append(attempt)
    least = least_cost(src, dst, element, target)
    serving, refused = _serving(_movers(src, dst, element, target, limit, least), conv, element, target)
    rejected += refused
    if not serving:
        return Selection(None, Cost(), tuple(rejected))
    (best_cost, best), *losers = serving
    for lost_cost, lost in losers:
        rejected.append(Rejected(lost.kind, _against(lost_cost, best_cost)))
    return Selection(best, best_cost, tuple(rejected))


@functools.lru_cache(maxsize=1024)
def shuffled(
    src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target
) -> ShufflePlan | Rejected:
    """The plan by shuffles alone, which competes with others in `select` where renaming registers will not do.

    Requires: as for `select`.
    """
    if reason := misfit(src, dst, target):
        return Rejected("any", reason)
    if crosses_ctas(Hardware.of(src), Hardware.of(dst)):
        return Rejected("shuffle", CROSSING)
    return plan_shuffle(conversion(src, dst), element, target)


def candidates(
    src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target, scratch_limit: int | None = None
) -> tuple[tuple[Cost, Plan], ...]:
    """Every plan that serves, best first, those included that `select` does not look at.

    Requires: as for `select`. Ensures: empty exactly when `select` has no plan.
    """
    if misfit(src, dst, target):
        return ()
    conv = conversion(src, dst)
    limit = target.scratch_limit(1 << len(conv.src.warp)) if scratch_limit is None else scratch_limit
    if crosses_ctas(conv.src, conv.dst):
        across = _across(conv, element, target, limit)
        return () if across.plan is None else ((across.cost, across.plan),)
    at_once = [plan for plan in (plan_noop(conv), plan_registers(conv)) if not isinstance(plan, Rejected)]
    movers = (
        shuffled(src, dst, element, target),
        plan_warp_shared(conv, element, target, limit),
        plan_cta_shared(conv, element, target, limit),
    )
    found, _ = _serving(movers, conv, element, target)
    return (*((cost(plan, element, target), plan) for plan in at_once), *found)


def crosses_ctas(src: Hardware, dst: Hardware) -> bool:
    """Whether the CTAs of a cluster hold other parts of the tensor in `dst` than in `src`."""
    return src.block != dst.block


def _across(conv: Conversion, element: ElementType, target: Target, limit: int) -> Selection:
    """The plan of a conversion that changes block bits."""
    if not target.has_clusters:
        return Selection(None, Cost(), (Rejected("any", f"{CROSSING}, and {target.name} has no clusters"),))
    movers: list[Plan | Rejected] = []
    near = beside_ranks(conv)
    if near is not None and near.reach <= Reach.WARP:
        renamed = plan_registers(near)
        if isinstance(renamed, RegisterPlan):
            return Selection(renamed, cost(renamed, element, target), ())
        movers.append(_by_rank(plan_shuffle(near, element, target), conv))
    movers.append(plan_across_ctas(conv, element, target, limit))
    ((best_cost, best), *losers), rejected = _serving(movers, conv, element, target)
    rejected += [Rejected(lost.kind, _against(lost_cost, best_cost)) for lost_cost, lost in losers]
    return Selection(best, best_cost, tuple(rejected))


def _by_rank(plan: ShufflePlan | Rejected, conv: Conversion) -> ShufflePlan | Rejected:
    """A plan whose warps are those of the cluster: what tells CTAs apart is their rank."""
    return (
        plan
        if isinstance(plan, Rejected)
        else replace(plan, thread_bits=len(conv.src.lane) + len(conv.src.warp))
    )


def _serving(
    movers: Iterable[Plan | Rejected], conv: Conversion, element: ElementType, target: Target
) -> tuple[list[tuple[Cost, Plan]], list[Rejected]]:
    """The plans that move data, best first, and why others do not serve."""
    serving: list[tuple[Cost, Plan]] = []
    rejected: list[Rejected] = []
    for candidate in movers:
        if isinstance(candidate, Rejected):
            rejected.append(candidate)
        else:
            serving.append((cost(candidate, element, target, 1 << len(conv.src.warp)), candidate))
    warps = max(target.likely_warps, 1 << len(conv.src.warp))
    serving.sort(key=lambda entry: entry[0].expected(warps))
    return serving, rejected


def cost(plan: Plan, element: ElementType, target: Target, warps: int = 4) -> Cost:
    """The modelled cost of `plan`, its latency that of a CTA of so many warps."""
    if isinstance(plan, NoOpPlan | RegisterPlan | FreePlan):
        return Cost()
    found = (
        cost_of_shared(plan, target) if isinstance(plan, SharedPlan) else cost_of_shuffle(plan, element, target)
    )
    table = target.costs
    # Each warp has a scheduler of its own as long as there are four; the memory pipe is everybody's.
    moving = found.shuffles * max(table.lone_shuffle, warps * table.shuffle)
    busy = table.alone * (moving + found.alu * table.lone_alu)
    busy += table.alone_beside * found.beside * table.lone_alu
    wait = table.shuffle_wait if found.shuffles else table.select_wait
    if isinstance(plan, ShufflePlan):
        return replace(found, latency=busy + wait * plan.phases)
    phases = sum(stage.phases for stage in (plan.before, plan.after) if stage is not None)
    rounds = zip(plan.store.rounds, plan.load.rounds, strict=True)
    waits = [table.memory_wait + table.lone_access * (len(stores) + len(loads)) for stores, loads in rounds]
    busy += table.alone * warps * found.wavefronts * table.wavefront
    stops = 0.0 if plan.scope == "warp" else plan.barriers * table.barrier_wait
    latency = busy + sum(waits) + stops + phases * wait
    return replace(found, latency=latency)


def _movers(
    src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target, limit: int, least: Least
) -> list[Plan | Rejected]:
    """The plans that move data, in order of scope; those are not made that take longer than another at least.

    A CTA exchange competes with one inside the warps only where warps hold copies: there it stores less.
    """
    conv = conversion(src, dst)
    warps = 1 << len(conv.src.warp)
    busy = max(target.likely_warps, warps)
    planners: dict[str, Callable[[], Plan | Rejected]] = {
        "shuffle": lambda: shuffled(src, dst, element, target),
        "warp-shared": lambda: plan_warp_shared(conv, element, target, limit),
        "cta-shared": lambda: plan_cta_shared(conv, element, target, limit),
    }
    inside = [kind for kind in ("shuffle", "warp-shared") if kind in least.ways]
    inside.sort(key=lambda kind: least.ways[kind].expected(busy))
    found: dict[str, Plan | Rejected] = {}
    best: Cost | None = None

    def attempt(kind: str) -> None:
        nonlocal best
        way = least.ways.get(kind)
        if way is not None and best is not None and way.expected(busy) > best.expected(busy):
            found[kind] = Rejected(kind, f"at least {_against(way, best)}")
            return
        plan = found[kind] = planners[kind]()
        if not isinstance(plan, Rejected):
            taken = cost(plan, element, target, warps)
            if best is None or taken.expected(busy) < best.expected(busy):
                best = taken

    for kind in (*inside, *(kind for kind in ("shuffle", "warp-shared") if kind not in inside)):
        attempt(kind)
    if best is None or _warps_hold_copies(conv.src) or _warps_hold_copies(conv.dst):
        attempt("cta-shared")
    return [found[kind] for kind in planners if kind in found]


def _warps_hold_copies(side: Hardware) -> bool:
    inside = (*side.register, *side.lane)
    return f2.rank((*inside, *side.warp)) < f2.rank(inside) + len(side.warp)


def _against(lost: Cost, best: Cost) -> str:
    return (
        f"{lost.clocks:.1f} clocks per warp, latency {lost.latency:.0f}, "
        f"against {best.clocks:.1f}, latency {best.latency:.0f}"
    )


def misfit(src: LinearLayout, dst: LinearLayout, target: Target) -> str | None:
    """Why the pair is no conversion of this target, before any planning."""
    for side, layout in (("source", src), ("destination", dst)):
        lanes = layout.in_dim_size("lane") if layout.has_in_dim("lane") else 1
        if lanes != target.lanes:
            return f"the {side} layout has {lanes} lanes, {target.name} has {target.lanes}"
        registers = layout.in_dim_size("register") if layout.has_in_dim("register") else 1
        if registers > (most := target.policy.most_registers):
            return f"the {side} layout has {registers} registers; {most} at most are planned for"
    warps = [layout.in_dim_size("warp") if layout.has_in_dim("warp") else 1 for layout in (src, dst)]
    if warps[0] != warps[1]:
        return f"the source layout has {warps[0]} warps, the destination {warps[1]}"
    blocks = [layout.in_dim_size("block") if layout.has_in_dim("block") else 1 for layout in (src, dst)]
    if blocks[0] != blocks[1]:
        return f"the source layout has {blocks[0]} CTAs, the destination {blocks[1]}"
    return None
