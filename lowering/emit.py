"""From plan to code: LLVM-dialect operations that take a struct of source registers to destination ones.

Emission decides nothing; it follows the plan. Elements are moved as integers of their width (i1 as i8 where
it is packed or stored), so no float operation can touch a NaN's payload.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from triton_linear.lowering.emit_padded import emit_padded
from triton_linear.lowering.emit_shared import emit_exchange
from triton_linear.lowering.emit_words import Parts, WordWriter
from triton_linear.lowering.machines import Machine, machine_of
from triton_linear.lowering.packing import stored_words
from triton_linear.lowering.plan import (
    FreePlan,
    FreeRegister,
    NoOpPlan,
    Plan,
    RegisterPlan,
    SharedPlan,
    ShufflePlan,
)
from triton_linear.lowering.targets import Target
from triton_linear.lowering.text import (
    I32,
    I64,
    SHARED,
    FunctionWriter,
    Signature,
    build_vector,
    split_vector,
)


def emit_body(
    plan: Plan,
    signature: Signature,
    target: Target,
    writer: FunctionWriter,
    value: str,
    base: str,
    accumulators: bool = False,
) -> str:
    """Write the code from the struct `value` of source registers to that of destination ones; name the latter.

    `base` names the `!llvm.ptr<3>` at which the plan's scratch begins; plans without scratch do not use it.
    `accumulators`: the source may be what `wgmma` left in its registers.
    """
    machine = machine_of(target)
    settler = machine if accumulators else None

    @functools.cache
    def register(index: int) -> str:
        return writer.op(f"llvm.extractvalue {value}[{index}] : {signature.source}")

    if isinstance(plan, NoOpPlan):
        values = [register(index) for index in range(signature.source_registers)]
    elif isinstance(plan, RegisterPlan):
        values = [register(index) for index in plan.sources]
    elif isinstance(plan, FreePlan):
        values = _free(writer, plan, signature.element, register, settler)
    elif isinstance(plan, SharedPlan) and plan.padding is not None:
        values = _through_padding(writer, plan, signature.element, register, machine, base)
    else:
        values = _through_words(writer, plan, signature, register, machine, base, settler)
    result = writer.op(f"llvm.mlir.undef : {signature.result}")
    for index, field in enumerate(values):
        result = writer.op(f"llvm.insertvalue {field}, {result}[{index}] : {signature.result}")
    return result


def _through_words(
    writer: FunctionWriter,
    plan: ShufflePlan | SharedPlan,
    signature: Signature,
    register: Callable[[int], str],
    machine: Machine,
    base: str,
    settler: Machine | None,
) -> list[str]:
    """The destination registers of a plan that moves words."""
    element, bits = signature.element, _width(signature.element)
    slots = max(1, 32 // bits)
    first = plan.stages[0]
    # Stores read accumulators as they are.
    if isinstance(first, SharedPlan) and not stored_words(first).steps:
        settler = None

    def packed(number: int) -> Parts:
        start = number * slots
        registers = range(start, min(start + slots, signature.source_registers))
        return _packed(writer, [register(index) for index in registers], element, settler)

    words: Sequence[Parts] | Callable[[int], Parts] = packed
    count = max(1, signature.source_registers // slots)
    for stage in plan.stages:
        if isinstance(stage, ShufflePlan):
            program = WordWriter(writer, machine, slots, words, count).run(stage.steps)
            words = [program.word(number) for number in stage.outputs]
        else:
            words = emit_exchange(writer, stage, words, machine, base)
        count = len(words)
    assert not callable(words)  # a plan has a stage
    values: list[str] = []
    for word in words:
        values += _unpack(writer, word, bits, min(slots, signature.result_registers - len(values)))
    return [_from_integer(writer, value, element) for value in values]


def _through_padding(
    writer: FunctionWriter,
    plan: SharedPlan,
    element: str,
    register: Callable[[int], str],
    machine: Machine,
    base: str,
) -> list[str]:
    """The destination registers of a plan that pads. Its stores read accumulators as they are."""

    @functools.cache
    def integer(index: int) -> str:
        return _to_integer(writer, register(index), element)

    values = emit_padded(writer, plan, integer, machine, base)
    return [_from_integer(writer, value, element) for value in values]


def _free(
    writer: FunctionWriter,
    plan: FreePlan,
    element: str,
    register: Callable[[int], str],
    settler: Machine | None,
) -> list[str]:
    """The destination registers of a conversion that is left out; those that are made, made in words."""
    bits = _width(element)
    slots = min(max(1, 32 // bits), len(plan.registers))

    def packed(registers: Sequence[int]) -> Parts:
        return _packed(writer, [register(index) for index in registers], element, settler)

    @functools.cache
    def made(group: tuple[FreeRegister, ...]) -> tuple[str, ...]:
        if all(one == FreeRegister(one.sources[:1]) for one in group):
            return tuple(register(one.sources[0]) for one in group)
        # Registers that share a word may join unlike many; those with fewer repeat one.
        longest = max(len(one.sources) for one in group)
        word = packed([one.sources[0] for one in group])
        for turn in range(1, longest):
            other = packed([one.sources[turn % len(one.sources)] for one in group])
            word = [writer.binary("and", *pair) for pair in zip(word, other, strict=True)]
        flipped = sum(one.flipped << bits * slot for slot, one in enumerate(group))
        if flipped:
            word = [writer.binary("xor", word[0], writer.constant(_signed(flipped & 0xFFFFFFFF))), *word[1:]]
        values = _unpack(writer, word, bits, len(group))
        return tuple(_from_integer(writer, value, element) for value in values)

    groups = (plan.registers[start : start + slots] for start in range(0, len(plan.registers), slots))
    return [value for group in groups for value in made(group)]


def _signed(word: int) -> int:
    """The number that an i32 with these bits is."""
    return word - (word >> 31 << 32)


def emit(plan: Plan, signature: Signature, target: Target, symbol: str = "conversion") -> str:
    """The conversion as a function of its own: `(source struct, !llvm.ptr<3> scratch) -> destination struct`.

    Its body is, line by line, what `embed` puts into a kernel.
    """
    writer = FunctionWriter()
    result = emit_body(plan, signature, target, writer, "%source", "%scratch")
    writer.effect(f"llvm.return {result} : {signature.result}")
    arguments = f"%source: {signature.source}, %scratch: {SHARED}"
    return f"  llvm.func @{symbol}({arguments}) -> {signature.result} {{\n{writer.body()}  }}\n"


# --- elements as integers ---------------------------------------------------------------------------------


def _width(element: str) -> int:
    """Bits of an LLVM element type; an i1 moves as 8 bits."""
    if element.startswith("!llvm.ptr"):
        return 64
    if element == "bf16":
        return 16
    return max(8, int(element[1:]))


def _to_integer(writer: FunctionWriter, value: str, element: str) -> str:
    integer = f"i{_width(element)}"
    if element.startswith("!llvm.ptr"):
        return writer.op(f"llvm.ptrtoint {value} : {element} to {integer}")
    if element == "i1":
        return writer.op(f"llvm.zext {value} : i1 to i8")
    return value if element == integer else writer.op(f"llvm.bitcast {value} : {element} to {integer}")


def _from_integer(writer: FunctionWriter, value: str, element: str) -> str:
    integer = f"i{_width(element)}"
    if element.startswith("!llvm.ptr"):
        return writer.op(f"llvm.inttoptr {value} : {integer} to {element}")
    if element == "i1":
        return writer.op(f"llvm.trunc {value} : i8 to i1")
    return value if element == integer else writer.op(f"llvm.bitcast {value} : {integer} to {element}")


def _packed(writer: FunctionWriter, values: Sequence[str], element: str, settler: Machine | None) -> list[str]:
    """Elements as 32-bit words; by the `settler` where they may be accumulators."""
    bits = _width(element)
    if settler is not None and bits == 32:
        return [settler.settled(writer, value, element) for value in values]
    words = _pack(writer, [_to_integer(writer, value, element) for value in values], bits)
    return words if settler is None else [settler.settled(writer, word, I32) for word in words]


def _pack(writer: FunctionWriter, values: Sequence[str], bits: int) -> list[str]:
    """Integers of `bits` bits as 32-bit words, lowest first; fewer than 32 bits are zero-extended."""
    if bits == 32:
        return list(values)
    if bits == 64:
        words = [writer.op(f"llvm.bitcast {value} : {I64} to vector<2xi32>") for value in values]
        return [part for word in words for part in split_vector(writer, word, I32, 2)]
    per_word = min(len(values), 32 // bits)
    words = []
    for start in range(0, len(values), per_word):
        vector = build_vector(writer, values[start : start + per_word], f"i{bits}")
        packed_bits = bits * per_word
        if per_word > 1:
            vector = writer.op(f"llvm.bitcast {vector} : vector<{per_word}xi{bits}> to i{packed_bits}")
        words.append(
            vector if packed_bits == 32 else writer.op(f"llvm.zext {vector} : i{packed_bits} to {I32}")
        )
    return words


def _unpack(writer: FunctionWriter, words: Sequence[str], bits: int, count: int) -> list[str]:
    """The inverse of `_pack` for `count` integers."""
    if bits == 32:
        return list(words)
    if bits == 64:
        pairs = [build_vector(writer, words[start : start + 2], I32) for start in range(0, len(words), 2)]
        return [writer.op(f"llvm.bitcast {pair} : vector<2xi32> to {I64}") for pair in pairs]
    per_word = min(count, 32 // bits)
    values = []
    for word in words:
        packed_bits = bits * per_word
        narrow = word if packed_bits == 32 else writer.op(f"llvm.trunc {word} : {I32} to i{packed_bits}")
        if per_word > 1:
            narrow = writer.op(f"llvm.bitcast {narrow} : i{packed_bits} to vector<{per_word}xi{bits}>")
        values += split_vector(writer, narrow, f"i{bits}", per_word)
    return values
