"""Code of conversions: LLVM-dialect operations from a struct of source registers to one of destination
registers.

Emission follows the plan and decides nothing. Elements move in their own type, or as integers of their width
(i1 as i8). No float operation is applied to them, so that a NaN keeps its payload.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from triton_linear.lowering.emit.elements import half_of, packed_words, unpacked, width
from triton_linear.lowering.emit.machines import InstructionWriter, machine_of
from triton_linear.lowering.emit.parts import HALF, WORD, Parts
from triton_linear.lowering.emit.shared import emit_exchange
from triton_linear.lowering.emit.text import SHARED, FunctionWriter, struct_type
from triton_linear.lowering.emit.words import WordWriter
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.packing import stored_words
from triton_linear.lowering.plan.plans import Plan, RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.lowering.target.targets import Target


def emit_body(
    plan: Plan,
    element: ElementType,
    target: Target,
    writer: FunctionWriter,
    value: str,
    base: str,
    accumulators: bool = False,
) -> str:
    """Write the code of a conversion; return the name of the struct of destination registers.

    value: the name of the struct of source registers. base: the name of the `!llvm.ptr<3>` to the plan's
    scratch, not used by plans without scratch. accumulators: the source may be accumulators in the registers
    that `wgmma` wrote.
    """
    machine = machine_of(target)
    settler = machine if accumulators else None
    source_type, result_type = map(writer.type, structs(plan, element))

    @functools.cache
    def register(number: int) -> str:
        return writer.op(f"llvm.extractvalue {value}[{number}] : {source_type}")

    if isinstance(plan, RegisterPlan):
        values = [register(number) for number in plan.sources]
    else:
        together = target.vector_words if width(element.llvm) == HALF else 1
        words = _packing(writer, plan, element.llvm, register, settler, together)
        values = _through_words(writer, plan, element.llvm, words, machine, base)
    result = writer.op(f"llvm.mlir.undef : {result_type}")
    for number, field in enumerate(values):
        result = writer.op(f"llvm.insertvalue {field}, {result}[{number}] : {result_type}")
    return result


def _packing(
    writer: FunctionWriter,
    plan: ShufflePlan | SharedPlan,
    element: str,
    register: Callable[[int], str],
    settler: InstructionWriter | None,
    together: int,
) -> Callable[[int], Parts]:
    """What packs a word of the source when it is first asked for, with the `together` words of its vector."""
    first = plan.stages[0]
    # Stores may read accumulators without a copy.
    if isinstance(first, SharedPlan) and not stored_words(first).steps:
        settler = None
    count = together * max(1, WORD // width(element))

    @functools.cache
    def vector(number: int) -> Parts:
        registers = range(number * count, min((number + 1) * count, plan.source_registers))
        values = [register(index) for index in registers]
        return packed_words(writer, values, element, settler, together)

    def packed(number: int) -> Parts:
        parts = vector(number // together)
        return parts if together == 1 else [parts[number % together]]

    return packed


def _through_words(
    writer: FunctionWriter,
    plan: ShufflePlan | SharedPlan,
    element: str,
    words: Sequence[Parts] | Callable[[int], Parts],
    machine: InstructionWriter,
    base: str,
) -> list[str]:
    """Write a plan that moves words; return the values of the destination registers."""
    slots = max(1, WORD // width(element))
    half = half_of(element)
    count = max(1, plan.source_registers // slots)
    for stage in plan.stages:
        if isinstance(stage, ShufflePlan):
            program = WordWriter(writer, machine, slots, words, count, half).run(stage.steps)
            words = [program.word(number) for number in stage.outputs]
        else:
            words = emit_exchange(writer, stage, words, machine, base, half)
        count = len(words)
    assert not callable(words)  # every plan has a stage
    values: list[str] = []
    for word in words:
        count = min(slots, plan.destination_registers - len(values))
        values += unpacked(writer, word, element, count)
    return values


def structs(plan: Plan, element: ElementType) -> tuple[str, str]:
    """The types of the structs of source and destination registers, a field of the element's type each."""
    source, destination = plan.source_registers, plan.destination_registers
    return struct_type(element.llvm, source), struct_type(element.llvm, destination)


def emit(plan: Plan, element: ElementType, target: Target, symbol: str = "conversion") -> str:
    """The code as a function of the source's struct and the `!llvm.ptr<3>` to the scratch, which returns the
    destination's struct.

    Its body has the lines that `embed` puts into a kernel.
    """
    writer = FunctionWriter()
    source, destination = structs(plan, element)
    result = emit_body(plan, element, target, writer, "%source", "%scratch")
    writer.effect(f"llvm.return {result} : {destination}")
    arguments = f"%source: {source}, %scratch: {SHARED}"
    return f"  llvm.func @{symbol}({arguments}) -> {destination} {{\n{writer.body()}  }}\n"
