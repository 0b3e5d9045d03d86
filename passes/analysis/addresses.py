"""Which conversions Triton's axis analysis must be able to see through.

How wide a global access becomes depends on what that analysis knows of its pointers, offsets and masks: their
contiguity, divisibility and constancy. It follows a `ttg.convert_layout`, but not the code that stands for one
of ours, and would narrow a 128-bit load to single elements. So conversions on the way to an address or a mask
are found here: our code hands on what is known of them (`axis_hints`), else they are left to Triton.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_linear.dialect.mlir_adapter import Block, Operation, RankedTensorType, Value, producers_of
from triton_linear.passes.operations.names import CONVERT, FOR, IF, RANGE
from triton_linear.passes.operations.table import named

_BUFFER = ("amdg.buffer_", "amdgpu.buffer_")
HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")
"""What an operation may promise of elements of its result that are next to each other."""


def address_conversions(ops: Sequence[Operation]) -> frozenset[Operation]:
    """The conversions whose result reaches the address or mask of a memory access, and whose operand the
    analysis knows something of.

    Loop-carried values and results of branches are followed. Conversions of what was loaded, reduced or
    computed from floats are not among them, unless the program promises something: else nothing is known of it.
    """
    if not any(op.name == CONVERT and is_integral(op.results[0]) for op in ops):
        return frozenset()
    producers = producers_of(ops)
    pending = [value for op in ops for value in _sinks(op)]
    seen: set[Value] = set()
    found: list[Operation] = []
    while pending:
        value = pending.pop()
        if value in seen or not is_integral(value):
            continue
        seen.add(value)
        producer = producers.get(value)
        if producer is None:
            pending += passed_to(value)
            continue
        if producer.name == CONVERT and _carries(producers.get(producer.operands[0])):
            found.append(producer)
        if producer.name.startswith("scf."):
            pending += results_of(producer, list(producer.results).index(value))
        elif named(producer.name).followed:
            pending += producer.operands
    return frozenset(found)


def _sinks(op: Operation) -> Iterator[Value]:
    known = named(op.name)
    if known.at("pointer") is not None:
        yield from (op.operands[number] for number in known.deciding or () if number < len(op.operands))
    elif op.name.startswith(_BUFFER):
        yield from op.operands


def is_integral(value: Value) -> bool:
    """Whether the value is a tensor of integers or pointers."""
    type_ = value.type
    return isinstance(type_, RankedTensorType) and str(type_.element_type)[0] in "i!"


def _carries(producer: Operation | None) -> bool:
    """Whether the analysis may know something of what this operation, or else a block, produces."""
    if producer is None:
        return True
    name = producer.name
    if named(name).followed or name == RANGE or name.startswith("scf."):
        return True
    return any(hint in producer.attributes for hint in HINTS)


def passed_to(argument: Value) -> list[Value]:
    """What the argument of a block can be: for a loop its initial value and what the body yields."""
    block = argument.owner
    op = block.owner.operation
    index = list(block.arguments).index(argument)
    if op.name == FOR:
        carried = index - 1
        if carried < 0:
            return []
        return [op.operands[3 + carried], _terminator(block).operands[carried]]
    if op.name.startswith("scf."):
        return [*op.operands, *terminated(op)]
    return []


def results_of(op: Operation, index: int) -> list[Value]:
    """What result `index` of a loop or branch can be."""
    if op.name == FOR:
        return [op.operands[3 + index], _terminator(op.regions[0].blocks[0]).operands[index]]
    if op.name == IF:
        return [_terminator(block).operands[index] for region in op.regions for block in region.blocks]
    return [*op.operands, *terminated(op)]


def terminated(op: Operation) -> Iterator[Value]:
    """What the blocks of an operation yield."""
    for region in op.regions:
        for block in region.blocks:
            yield from _terminator(block).operands


def _terminator(block: Block) -> Operation:
    return block.operations[len(block.operations) - 1].operation
