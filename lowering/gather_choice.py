"""What a gather costs where Triton lowers it, to compare with ours.

Triton 3.6.0 shuffles where no warp bit moves along the axis and source and index agree in what warps and lanes
hold beside it (`GatherLoweringHelper::isWarpLocal`): for each register of the result one word from every
source register that its column has, 32 bits for elements of less. Everything else goes through shared memory:
all elements are stored, all warps meet, and each lane loads what its index names.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.gather import placing, plan_gather, priced
from triton_linear.lowering.plan import Cost, Rejected
from triton_linear.lowering.targets import Target


def is_warp_local(src: LinearLayout, index: LinearLayout, axis: int) -> bool:
    """Whether Triton lowers the gather by shuffles."""

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
    """The modelled cost of Triton's lowering, for one warp of so many.

    Requires: the layouts are as for `plan_gather`.
    """
    table = target.costs
    parts = 2 if element.bits == 64 else 1
    results = index.in_dim_size(REGISTER) if index.has_in_dim(REGISTER) else 1
    held = src.in_dim_size(REGISTER) if src.has_in_dim(REGISTER) else 1
    if is_warp_local(src, index, axis):
        column = sum(vector[axis] != 0 for name, vectors in src.bases if name == REGISTER for vector in vectors)
        ours = plan_gather(src, index, axis, element, target)
        found = 1 if isinstance(ours, Rejected) else placing(replace(ours, packed=0, moves=True), target)
        alu = results * (found + ((1 << column) - 1) * parts) + held * (element.per_word > 1)
        return priced((results << column) * parts, alu, target, warps)
    size = element.memory_bytes
    stored = -(-held * target.lanes * size // target.most_bytes("store"))
    service = target.service("load", size)
    words = max(1, size // target.bank_bytes)
    phases = target.lanes // service.count
    loaded = math.ceil(results * phases * busiest(service.count * words, service.banks))
    wavefronts = stored + loaded
    clocks = wavefronts * table.wavefront + table.cta_barrier
    latency = table.alone * warps * wavefronts * table.wavefront + table.memory_wait + table.barrier_wait
    latency += table.lone_access * (held + results)
    return Cost(clocks, latency, wavefronts=wavefronts, barriers=1)


@functools.cache
def busiest(words: int, banks: int) -> float:
    """How many of so many words, each in any bank, the fullest bank has on average.

    The chance that no bank has more than m of n words is n! [x^n] (sum of x^j / j! for j up to m)^banks over
    banks^n.

    >>> busiest(1, 32), round(busiest(32, 32), 2)
    (1.0, 3.53)
    """
    expected = 0.0
    for most in range(words):
        # Coefficients of the power, by repeated multiplication; scaled by banks^-j to stay in range.
        factor = [banks**-j / math.factorial(j) for j in range(min(most, words) + 1)]
        power = [1.0] + [0.0] * words
        for _ in range(banks):
            power = [
                sum(factor[j] * power[n - j] for j in range(min(n, len(factor) - 1) + 1))
                for n in range(words + 1)
            ]
        expected += 1 - math.factorial(words) * power[words]
    return expected
