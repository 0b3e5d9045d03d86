"""Code for exchanges through padded shared memory: vectors of elements, which are not packed into words."""

from __future__ import annotations

from collections.abc import Callable

from triton_linear.lowering.emit.machines import InstructionWriter
from triton_linear.lowering.emit.shared import pointers
from triton_linear.lowering.emit.text import SHARED, FunctionWriter, build_vector, split_vector, vector_type
from triton_linear.lowering.plan.plans import MemorySide, SharedPlan


def emit_padded(
    writer: FunctionWriter,
    plan: SharedPlan,
    register: Callable[[int], str],
    machine: InstructionWriter,
    base: str,
) -> list[str]:
    """Write the exchange; return the integers of the destination registers.

    `register` returns the integer with the bits of a source register, and `base` is the pointer to the scratch.

    Requires: the plan has no shuffles, matrix accesses or alternatives.
    """
    integer = f"i{8 * plan.element_bytes}"
    thread = machine.thread(writer)
    stored = pointers(writer, thread, plan.store.columns, base, plan.padding)
    loaded = pointers(writer, thread, plan.load.columns, base, plan.padding)
    loaded_values: list[list[list[str]]] = []
    for index, (stores, loads) in enumerate(zip(plan.store.rounds, plan.load.rounds, strict=True)):
        if index:
            machine.barrier(writer, plan.scope)
        for access in stores:
            value = build_vector(writer, [register(number) for number in access.registers], integer)
            type_ = vector_type(integer, plan.store.slots)
            address = stored(access.offset)
            writer.effect(f"llvm.store {value}, {address} {_aligned(plan.store)} : {type_}, {SHARED}")
        machine.barrier(writer, plan.scope)
        loaded_values.append([])
        for access in loads:
            type_ = vector_type(integer, plan.load.slots)
            address = loaded(access.offset)
            value = writer.op(f"llvm.load {address} {_aligned(plan.load)} : {SHARED} -> {type_}")
            loaded_values[-1].append(split_vector(writer, value, integer, plan.load.slots))
    return [loaded_values[round_][access][position] for round_, access, position in plan.outputs]


def _aligned(side: MemorySide) -> str:
    return f"{{alignment = {side.access_bytes} : i64}}"
