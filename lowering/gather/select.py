"""The choice of a gather's lowering, and the cost of Triton's own.

Inside a warp, selects and shuffles compete with shared memory by modelled clocks; a gather across warps always
takes shared memory.

Triton 3.6.0 shuffles if no warp bit moves along the axis, and source and index have the same warps and lanes in
the other dimensions (`GatherLoweringHelper::isWarpLocal`): for each register of the result it shuffles one word
from every source register of the same column, 32 bits even for narrower elements. Every other gather goes
through shared memory, row-major: all registers are stored, a barrier follows, and each lane loads the element
that its index names.

The source, index and result of a large gather do not fit the 255 registers of a thread. Each word that does not
fit costs a store and a load of local memory, at the rate of shared memory, which has the same pipe. A gather
through memory keeps the source until its loads begin, one by shuffles to its end. This is an estimate;
compilers spill in other places too.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.gather.memory import (
    plan_gather_shared,
    plan_row_major,
    with_merged_stores,
    work_of_indexed_loads,
)
from triton_linear.lowering.gather.shuffles import (
    operations_of,
    plan_gather,
    work_of_gather,
)
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import AnyGatherPlan, GatherPlan
from triton_linear.lowering.plan.plans import Cost, Rejected, SharedPlan
from triton_linear.lowering.plan.work import Work
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target


@functools.lru_cache(maxsize=4096)
def select_gather(
    src: LinearLayout,
    index: LinearLayout,
    axis: int,
    element: ElementType,
    situation: Situation,
) -> AnyGatherPlan | Rejected:
    """The plan of a gather, or the reason why it is left to Triton.

    `Situation.scratch_limit` bounds the scratch if a plan within it exists.

    Requires: as for `plan_gather`.
    """
    inside = plan_gather(src, index, axis, element, situation.gpu)
    memory = plan_gather_shared(src, index, axis, element, situation)
    if isinstance(memory, Rejected):
        return inside if isinstance(inside, GatherPlan) else memory
    if isinstance(inside, Rejected):
        return memory
    limit = situation.scratch_limit
    if limit is not None and memory.scratch_bytes > limit:
        return inside
    warps = src.in_dim_size(WARP) if src.has_in_dim(WARP) else 1

    def clocks(plan: AnyGatherPlan) -> float:
        return cost_of(plan, element, situation.gpu, warps).expected(situation.busy(warps))

    return inside if clocks(inside) <= clocks(memory) else memory


def cost_of(plan: AnyGatherPlan, element: ElementType, target: Target, warps: int = 4) -> Cost:
    """The modelled cost of a plan for one warp, with spills."""
    work = (
        work_of_indexed_loads(plan, element, target)
        if isinstance(plan, SharedPlan)
        else work_of_gather(plan, element, target)
    )
    cost = work.cost(target.costs, warps, plan.scratch_bytes)
    return _with_spills(cost, _registers_needed(plan, element), target, warps)


def _registers_needed(plan: AnyGatherPlan, element: ElementType) -> int:
    """Registers that are live in a thread at once."""
    parts = 2 if element.bits == 64 else 1
    source, result = plan.source_registers * parts, len(plan.outputs) * parts
    if isinstance(plan, SharedPlan):
        return max(source, result) + len(plan.outputs)
    # If the index is invariant in a loop, its lane and its choice are hoisted out of the loop and stay live.
    return source + max(result, len(plan.indices) * (1 + (plan.moves and bool(plan.choices))))


def _with_spills(cost: Cost, held: int, target: Target, warps: int) -> Cost:
    spilled = max(0, held - limits.GATHER_REGISTERS)
    busy = 2 * spilled * target.costs.wavefront
    return replace(cost, clocks=cost.clocks + busy, latency=cost.latency + target.costs.alone * warps * busy)


def is_warp_local(src: LinearLayout, index: LinearLayout, axis: int) -> bool:
    """True if Triton lowers the gather by shuffles."""

    def moves(layout: LinearLayout, dim: str) -> list[tuple[int, ...]]:
        return [tuple(vector) for name, vectors in layout.bases if name == dim for vector in vectors]

    def beside(vectors: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(part for dim, part in enumerate(vector) if dim != axis) for vector in vectors]

    apart = [moves(layout, dim) for layout in (src, index) for dim in (WARP, BLOCK)]
    if any(vector[axis] for vectors in apart for vector in vectors):
        return False
    return all(beside(moves(src, dim)) == beside(moves(index, dim)) for dim in (LANE, WARP, BLOCK))


def stock_cost(
    src: LinearLayout, index: LinearLayout, axis: int, element: ElementType, target: Target, warps: int = 4
) -> Cost:
    """The modelled cost of Triton's lowering for one of `warps` warps; infinite if it has none.

    Requires: the layouts are as for `plan_gather`.
    """
    parts = 2 if element.bits == 64 else 1
    results = index.in_dim_size(REGISTER) if index.has_in_dim(REGISTER) else 1
    held = src.in_dim_size(REGISTER) if src.has_in_dim(REGISTER) else 1
    if is_warp_local(src, index, axis):
        column = sum(vector[axis] != 0 for name, vectors in src.bases if name == REGISTER for vector in vectors)
        ours = plan_gather(src, index, axis, element, target)
        # A comparison and a select for each shuffled word.
        found, others = 2, (1 << column) - 1
        if isinstance(ours, GatherPlan):
            found = max(1, operations_of(ours.lane_by_index)) + (target.vendor == "amd")
            found += operations_of(ours.choice_by_index) if others else 0
        alu = results * (found + others * (1 + parts)) + held * (element.per_word > 1)
        cost = Work((results << column) * parts, alu, waits=1).cost(target.costs, warps)
        return _with_spills(
            cost, held * parts + max(results * parts, results * (1 + (column > 0))), target, warps
        )
    plan = plan_row_major(src, index, axis, element, target)
    if plan is None:
        return Cost(math.inf, math.inf)
    return cost_of(with_merged_stores(plan, target), element, target, warps)
