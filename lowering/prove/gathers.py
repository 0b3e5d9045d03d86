"""The proof of a gather's plan, for all indices.

By shuffles, every place is affine in the bits of index and thread. So for every register of the result it is
enough to check the case without set bits and the cases with one set bit. Through shared memory the proof is
that of an exchange (`exchange`), where the bits of the index count as further bits of the loading thread.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import AnyGatherPlan, GatherPlan
from triton_linear.lowering.plan.plans import Index, SharedPlan
from triton_linear.lowering.prove.exchange import Threads, values_loaded
from triton_linear.lowering.prove.functions import ThreadFunctions
from triton_linear.lowering.prove.words import Refuted, packed
from triton_linear.lowering.target.targets import Target


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


def refuted_gather(
    plan: AnyGatherPlan, src: LinearLayout, index: LinearLayout, axis: int, element: ElementType, target: Target
) -> str | None:
    """The reason why `plan` is not the gather of these layouts; None if it is."""
    if isinstance(plan, GatherPlan):
        return _refuted_shuffles(plan, src, index, axis)
    if plan.index is None:
        return "its loads have no index"
    try:
        _prove_memory(plan, plan.index, src, index, axis, element, target)
    except Refuted as reason:
        return str(reason)
    return None


def _refuted_shuffles(plan: GatherPlan, src: LinearLayout, index: LinearLayout, axis: int) -> str | None:
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


def _prove_memory(
    plan: SharedPlan,
    asked: Index,
    src: LinearLayout,
    index: LinearLayout,
    axis: int,
    element: ElementType,
    target: Target,
) -> None:
    """A gather is a conversion to the layout of the index, without its coordinate on the axis, whose loads add
    the index: the proof is that of an exchange, with the bits of the index above those of a thread's number.

    Raises Refuted."""
    sizes = [size for _, size in src.out_dims]
    held, beside = _Columns.of(src, sizes), _Columns.of(index, sizes, axis)
    start = sum(size.bit_length() - 1 for size in sizes[:axis])
    bits = sizes[axis].bit_length() - 1
    elements = f2.sums(_Columns.of(index, [size for _, size in index.out_dims]).register)
    of_held, of_beside = ((*side.lane, *side.warp, *side.block) for side in (held, beside))
    if len(asked.columns) != bits or len(of_held) != len(of_beside) or len(held.block) != len(beside.block):
        raise Refuted("it is for another tensor")
    if len(plan.outputs) != len(elements) or plan.source_registers != 1 << len(held.register):
        raise Refuted("it has other registers")
    if plan.element_bytes != element.memory_bytes:
        raise Refuted(f"elements of {plan.element_bytes} bytes, {element.name} has {element.memory_bytes}")
    functions = ThreadFunctions()
    threads = Threads(len(held.lane), len(of_held), src.out_dims, len(held.block))
    form = functions.affine(0, of_held)[1]
    given = packed([(value, form) for value in f2.sums(held.register)], plan.per_word)
    loaded = values_loaded(plan, given, functions, threads, target)
    form = functions.affine(0, (*of_beside, *(1 << start + bit for bit in range(bits))))[1]
    for register, (round_, number, _) in enumerate(plan.outputs):
        (taken,) = plan.load.rounds[round_][number].registers
        if elements[register] != elements[taken]:
            raise Refuted(f"register {register} goes by the index in register {taken}")
        (value,) = loaded[round_][number]
        if value is None:
            raise Refuted(f"register {register} loads, for some index, what nobody stores")
        due = f2.multiply_vector(beside.register, register), form
        where = functions.difference(value, due)
        if where is not None:
            got, right = (threads.element(functions.at(one, where)) for one in (value, due))
            place = f"register {register} of {threads.thread(where & (1 << threads.bits) - 1)}"
            raise Refuted(f"{place} loads element {got} for index {where >> threads.bits}, not {right}")
