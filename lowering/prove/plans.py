"""The proof of a plan: the value of each destination register in every thread, by algebra over F2.

The proof follows a plan from the source layout, with the values of each register in all threads at once
(`functions`), and compares the result with the destination layout. It enumerates no threads and runs no code,
so that it takes well under a millisecond for most plans and runs in every compile. It shares no code with the
planners: it reads the two layouts, the plan, and the programs that emission will write for it. CTAs of a
cluster are alike: what each holds differs from the others in the same summand on both sides.

It proves, for every register of every thread: the register holds its element, also if there are copies; no
undefined value is used; words, slots and lanes that steps name exist; addresses of shared memory are inside the
scratch and aligned for their access; two stores to one address in one round store the same element; a loaded
address was stored to in the same round; warps without a barrier between them have no byte in common.

It does not prove the emitted code, which the interpreter runs in the tests and in `triton-linear verify`, nor
its barriers, whose places are not part of a plan, nor the output of LLVM and ptxas.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.plans import Plan, RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.lowering.prove.exchange import Threads, words_after_exchange
from triton_linear.lowering.prove.functions import ThreadFunctions, Value
from triton_linear.lowering.prove.words import Refuted, packed, run_words, words_at
from triton_linear.lowering.target.targets import Target

Columns = tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def refuted(
    plan: Plan, src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target
) -> str | None:
    """The reason why `plan` is not proved to bring every element from its place in `src` to all of its places
    in `dst`; None if it is proved.

    Ensures: never None for a plan that gives a wrong register.

    >>> from triton_linear.lowering.plan.element import element_type
    >>> from triton_linear.lowering.target.targets import target
    >>> sides = [{REGISTER: [[column], [3 - column]], LANE: [[4]] * 5} for column in (1, 2)]
    >>> a, b = (LinearLayout.from_bases(side, ["dim0"]) for side in sides)
    >>> f32, h200 = element_type("f32"), target("cuda:90")
    >>> refuted(RegisterPlan(4, (0, 2, 1, 3)), a, b, f32, h200)
    >>> refuted(RegisterPlan(4, (0, 2, 3, 1)), a, b, f32, h200)
    'destination register 2 of lane 0 of warp 0 gets element (3,) instead of (1,)'
    """
    try:
        _prove(plan, src, dst, element, target)
    except Refuted as reason:
        return str(reason)
    return None


def _columns(layout: LinearLayout, dim: str) -> Columns:
    return layout.columns(dim) if layout.has_in_dim(dim) else ()


def _prove(plan: Plan, src: LinearLayout, dst: LinearLayout, element: ElementType, target: Target) -> None:
    if src.out_dims != dst.out_dims:
        raise Refuted(f"the tensors differ: {src.out_dims} and {dst.out_dims}")
    for dim in (LANE, WARP):
        if len(_columns(src, dim)) != len(_columns(dst, dim)):
            raise Refuted(f"source and destination have unlike many {dim}s")
    if 1 << len(_columns(src, LANE)) != target.lanes:
        raise Refuted(
            f"the layouts have {1 << len(_columns(src, LANE))} lanes, {target.name} has {target.lanes}"
        )
    if _columns(src, BLOCK) != _columns(dst, BLOCK):
        raise Refuted("source and destination differ in their block bits")
    lane_bits, warp_bits = (len(_columns(src, dim)) for dim in (LANE, WARP))
    threads = Threads(lane_bits, lane_bits + warp_bits, src.out_dims)
    functions = ThreadFunctions()
    given, wanted = (_layout_values(layout, functions) for layout in (src, dst))
    arrived = _destination_values(plan, given, element, functions, threads, target)
    if len(arrived) != len(wanted):
        raise Refuted(f"{len(arrived)} registers arrive, {len(wanted)} are wanted")
    if arrived != wanted:
        _compare(arrived, wanted, functions, threads)


def _layout_values(layout: LinearLayout, functions: ThreadFunctions) -> list[Value | None]:
    """The values of the registers of a layout."""
    threads = (*_columns(layout, LANE), *_columns(layout, WARP))
    _, form = functions.affine(0, threads)
    elements = [0]
    for column in _columns(layout, REGISTER):
        elements += [element ^ column for element in elements]
    return [(element, form) for element in elements]


def _destination_values(
    plan: Plan,
    values: list[Value | None],
    element: ElementType,
    functions: ThreadFunctions,
    threads: Threads,
    target: Target,
) -> list[Value | None]:
    """The values of the destination registers; `values`: of the source registers."""
    if isinstance(plan, RegisterPlan):
        if plan.source_registers != len(values) or not all(0 <= r < len(values) for r in plan.sources):
            raise Refuted(f"registers are renamed that are not those of the source, which has {len(values)}")
        return [values[source] for source in plan.sources]
    for stage in plan.stages:
        values = _after_stage(stage, values, element, functions, threads, target)
    return values


def _after_stage(
    stage: ShufflePlan | SharedPlan,
    values: Sequence[Value | None],
    element: ElementType,
    functions: ThreadFunctions,
    threads: Threads,
    target: Target,
) -> list[Value | None]:
    """The values of the registers after one stage."""
    slots = element.per_word
    if stage.source_registers != len(values):
        raise Refuted(f"{stage.kind} takes {stage.source_registers} registers, there are {len(values)}")
    words = packed(values, slots)
    if isinstance(stage, ShufflePlan):
        if stage.slots != slots:
            raise Refuted(f"words of {stage.slots} registers, {element.name} has {slots} in each")
        run_words(functions, stage.steps, words, slots, threads.lane_bits, threads.bits)
        made, count = words_at(words, stage.outputs), stage.destination_registers
    else:
        if stage.element_bytes != element.memory_bytes:
            raise Refuted(f"elements of {stage.element_bytes} bytes, {element.name} has {element.memory_bytes}")
        made, count = words_after_exchange(stage, words, functions, threads, target), len(stage.outputs)
    results = [value for word in made for value in word][:count]
    if len(results) != count:
        raise Refuted(f"{stage.kind} makes {len(results)} registers of {count}")
    return results


def _compare(
    arrived: Sequence[Value | None],
    wanted: Sequence[Value | None],
    functions: ThreadFunctions,
    threads: Threads,
) -> None:
    for register, (value, due) in enumerate(zip(arrived, wanted, strict=True)):
        assert due is not None  # every register of a layout holds an element
        if value is None:
            raise Refuted(f"destination register {register} gets what is undefined in some thread")
        thread = functions.difference(value, due)
        if thread is not None:
            got, right = (threads.element(functions.at(one, thread)) for one in (value, due))
            place = f"destination register {register} of {threads.thread(thread)}"
            raise Refuted(f"{place} gets element {got} instead of {right}")
