"""What a conversion takes at least, told from its layouts alone, before anything is planned.

Where no element leaves its warp, shuffles compete with shared memory. If m register bits of the destination are
in other lanes of the source, shuffles bring all of its registers but one in 2^m; if none is, some lanes take
all of theirs from others. Through shared memory every element goes in once and every destination register comes
out once, in whole wavefronts. What else a plan has, selects above all, is not counted.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import BLOCK, LinearLayout
from triton_linear.lowering.conversion import Hardware, Reach, reach_between
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.plan import Cost
from triton_linear.lowering.targets import Target


@dataclass(frozen=True, slots=True)
class Least:
    """A conversion's reach, and the least cost of each way to do it."""

    reach: Reach
    ways: tuple[Cost, ...]

    def expected(self, warps: int) -> float:
        """Clocks that no plan is below, as `Cost.expected` counts them."""
        return min(way.expected(warps) for way in self.ways)


@functools.lru_cache(maxsize=4096)
def least_cost(src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target) -> Least:
    """The least cost of a conversion.

    Requires: as for `select`, and that it does not cross CTAs.
    Ensures: least_cost(...).expected(w) <= select(...).cost.expected(w) for every w, where there is a plan.
    """
    a, b = Hardware.of(src), Hardware.of(dst)
    reach = reach_between(a, b)
    if reach == Reach.THREAD:
        return Least(reach, (Cost(),))
    words = (1 << f2.rank(b.register)) * element.memory_bytes / 4
    warps = 1 << len(a.warp)
    if reach > Reach.WARP:
        return Least(reach, (_shared(src, words, warps, element, target, target.costs.cta_barrier, True),))
    barrier = min(target.costs.warp_barrier, target.costs.cta_barrier)
    exchanged = f2.rank((*a.register, *b.register)) - f2.rank(a.register)
    share = 1 - 1 / (1 << exchanged) if exchanged else 1.0
    ways = (
        _shuffled(words * share, warps, element, target),
        _shared(src, words, warps, element, target, barrier, False),
    )
    return Least(reach, ways)


def _shuffled(words: float, warps: int, element: ElementType, target: Target) -> Cost:
    table = target.costs
    shuffles = max(element.memory_bytes / 4, 1.0, words)
    busy = table.alone * shuffles * max(table.lone_shuffle, warps * table.shuffle)
    return Cost(shuffles * table.shuffle, busy + table.shuffle_wait)


def _shared(
    src: LinearLayout,
    words: float,
    warps: int,
    element: ElementType,
    target: Target,
    barrier: float,
    meets: bool,
) -> Cost:
    table = target.costs
    threads = target.lanes * warps * (src.in_dim_size(BLOCK) if src.has_in_dim(BLOCK) else 1)
    sides = (element.memory_bytes << src.total_out_bits) / threads / 4, words
    wavefronts = sum(max(1.0, side * 4 * target.lanes / target.wavefront_bytes) for side in sides)
    accesses = sum(max(1.0, side * 4 / target.max_access_bytes) for side in sides)
    first = table.warp_barrier if target.waits_before_stores else 0.0
    latency = table.alone * warps * wavefronts * table.wavefront
    latency += table.memory_wait + table.lone_access * accesses + (table.barrier_wait if meets else 0.0)
    return Cost(wavefronts * table.wavefront + barrier + first, latency)
