"""What a gather costs, by shuffles and as Triton lowers it.

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
import random
from collections.abc import Sequence
from dataclasses import replace

from triton_linear.dialect import f2
from triton_linear.dialect.dimensions import fields, total_bits
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.gather.shuffles import (
    columns_beside_axis,
    misfit,
    operations_of,
    plan_gather,
    work_of_gather,
)
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import Columns, GatherPlan
from triton_linear.lowering.plan.plans import Cost
from triton_linear.lowering.plan.work import Work
from triton_linear.lowering.planners import shared_access
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target

_DRAWS = 128


def cost_of(plan: GatherPlan, element: ElementType, target: Target, warps: int = 4) -> Cost:
    """The modelled cost of a plan for one warp, with spills."""
    parts = 2 if element.bits == 64 else 1
    # If the index is invariant in a loop, its lane and its choice are hoisted out of the loop and stay live.
    placing = len(plan.indices) * (1 + (plan.moves and bool(plan.choices)))
    needed = plan.source_registers * parts + max(len(plan.outputs) * parts, placing)
    cost = work_of_gather(plan, element, target).cost(target.costs, warps)
    return _with_spills(cost, needed, target, warps)


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
        work = Work((results << column) * parts, alu, waits=1)
        needed = held * parts + max(results * parts, results * (1 + (column > 0)))
    else:
        through = _work_through_memory(src, index, axis, element, target)
        if through is None:
            return Cost(math.inf, math.inf)
        work, needed = through, max(held, results) * parts + results
    return _with_spills(work.cost(target.costs, warps), needed, target, warps)


def _work_through_memory(
    src: LinearLayout, index: LinearLayout, axis: int, element: ElementType, target: Target
) -> Work | None:
    """What one warp executes in a gather through memory, with the mean wavefronts of loads at random indices;
    None in a cluster, or if memory is too small. LLVM makes vectors of the stores."""
    sizes = [size for _, size in src.out_dims]
    held, beside, size = Hardware.of(src), columns_beside_axis(index, axis, sizes), element.memory_bytes
    too_large = size << total_bits(src.out_dims) > target.max_shared_bytes
    if misfit(src, index, axis, target) or held.block or beside.block or too_large:
        return None
    order = _row_major(src)

    def places(columns: Sequence[int]) -> Columns:
        return tuple(size * f2.multiply_vector(order, column) for column in columns)

    lanes = f2.sums(places(held.lane))
    stored = [[start ^ lane for lane in lanes] for start in f2.sums(places(held.register))]
    stores = shared_access.touches(stored, size, target, STORE)
    start, _ = fields(src.out_dims)[axis]
    along = places([1 << start + bit for bit in range(sizes[axis].bit_length() - 1)])
    loads = 1 << len(beside.register)
    fetched = _mean_wavefronts(places(beside.lane), along, size, target)
    return Work(
        alu=loads * (operations_of(along) + 1),
        wavefronts=sum(store.wavefronts for store in stores) + loads * fetched,
        rounds=1,
        accesses=len(stores) + loads,
        barriers=1,
    )


def _row_major(layout: LinearLayout) -> Columns:
    """For each bit of a flattened element, which has dimension 0 lowest, its row-major place (last dimension
    lowest)."""
    places: list[int] = []
    above = sum(size.bit_length() - 1 for _, size in layout.out_dims)
    for _, size in layout.out_dims:
        above -= size.bit_length() - 1
        places += [1 << above + bit for bit in range(size.bit_length() - 1)]
    return tuple(places)


@functools.lru_cache(maxsize=4096)
def _mean_wavefronts(lanes: Columns, by_index: Columns, element_bytes: int, target: Target) -> float:
    """Mean wavefronts of a warp's load at random indices, from a fixed sample."""
    rng = random.Random(0)
    own, moved = f2.sums(lanes), f2.sums(by_index)
    service = target.service(LOAD, element_bytes)
    taken = 0
    for _ in range(_DRAWS):
        drawn = rng.choices(moved, k=len(own))
        addresses = [start ^ step for start, step in zip(own, drawn, strict=True)]
        taken += shared_access.wavefronts(addresses, element_bytes, service, target)
    return taken / _DRAWS
