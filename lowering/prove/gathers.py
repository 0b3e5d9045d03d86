"""The proof of a gather's plan, for all indices.

Every place is affine in the bits of index and thread. So for every register of the result it is enough to check
the case without set bits and the cases with one set bit.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.gathers import GatherPlan


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a layout by hardware dimension, as flattened elements; the first dimension of the tensor
    has the lowest bits."""

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    block: tuple[int, ...]

    @classmethod
    def of(cls, layout: LinearLayout, sizes: Sequence[int], without: int | None = None) -> _Columns:
        """The columns of a layout in a tensor of `sizes`, with coordinates in dimension `without` set to
        zero."""
        bases = dict(layout.bases)
        strides = list(itertools.accumulate(sizes[:-1], operator.mul, initial=1))
        if without is not None:
            strides[without] = 0
        found = (
            tuple(sum(map(operator.mul, vector, strides)) for vector in bases.get(name, ()))
            for name in (REGISTER, LANE, WARP, BLOCK)
        )
        return cls(*found)


def refuted_gather(plan: GatherPlan, src: LinearLayout, index: LinearLayout, axis: int) -> str | None:
    """The reason why `plan` is not the gather of these layouts; None if it is."""
    sizes = [size for _, size in src.out_dims]
    held, beside = _Columns.of(src, sizes), _Columns.of(index, sizes, axis)
    start = sum(size.bit_length() - 1 for size in sizes[:axis])
    lane_bits, warp_bits = len(held.lane), len(held.warp)
    if plan.axis_bits != sizes[axis].bit_length() - 1 or held.block != beside.block:
        return "it is for another tensor"
    elements = f2.sums(_Columns.of(index, [size for _, size in index.out_dims]).register)
    if len(plan.outputs) != len(elements) or plan.source_registers != 1 << len(held.register):
        return "it has other registers"
    threads = (0, *(1 << bit for bit in range(lane_bits + warp_bits)))
    numbers = (0, *(1 << bit for bit in range(plan.axis_bits)))
    for register, output in enumerate(plan.outputs):
        wanted, taken = plan.wanted[output], plan.indices[output]
        if elements[register] != elements[taken]:
            return f"register {register} goes by the index in register {taken}"
        for thread, number in [*((t, 0) for t in threads), *((0, n) for n in numbers)]:
            own_lane, warp = thread & ((1 << lane_bits) - 1), thread >> lane_bits
            choice = wanted.choice_flip
            choice ^= f2.multiply_vector(plan.choice_by_index, number)
            choice ^= f2.multiply_vector(plan.choice_by_thread, thread)
            lane = wanted.lane_flip
            lane ^= f2.multiply_vector(plan.lane_by_index, number)
            lane ^= f2.multiply_vector(plan.lane_by_thread, thread)
            if not plan.moves and lane != own_lane:
                return f"register {register} wants another lane, and nothing moves"
            source = wanted.base ^ f2.multiply_vector(plan.choices, choice)
            found = f2.multiply_vector(held.register, source) ^ f2.multiply_vector(held.lane, lane)
            found ^= f2.multiply_vector(held.warp, warp)
            asked = f2.multiply_vector(beside.register, register) ^ f2.multiply_vector(beside.lane, own_lane)
            asked ^= f2.multiply_vector(beside.warp, warp) ^ number << start
            if found != asked:
                place = f"register {register} of thread {thread}"
                return f"{place} takes element {found} for index {number}, not {asked}"
    return None
