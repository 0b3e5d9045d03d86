"""Which conversions Triton's axis analysis must be able to see through.

How wide a global access becomes depends on what that analysis knows of its pointers, offsets and masks: their
contiguity, divisibility and constancy. It follows a `ttg.convert_layout`, but not the code that stands for one
of ours, and would narrow a 128-bit load to single elements. So conversions on the way to an address or a mask
are found here: our code hands on what is known of them (`axis_hints`), else they are left to Triton.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value, producers_of
from triton_linear.passes.analysis.flow import handed_on, reached
from triton_linear.passes.operations.names import CONVERT, RANGE
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

    def sources(value: Value) -> Sequence[Value]:
        if not is_integral(value):
            return ()
        if (handed := handed_on(value, producers)) is not None:
            return handed
        producer = producers[value]
        return list(producer.operands) if named(producer.name).followed else ()

    accesses = {name for name in {op.name for op in ops} if named(name).at("pointer") is not None}
    may = [op for op in ops if op.name in accesses or op.name.startswith(_BUFFER)]
    seen = reached((value for op in may for value in _sinks(op)), sources)
    found = (op for op in ops if op.name == CONVERT and op.results[0] in seen and is_integral(op.results[0]))
    return frozenset(op for op in found if _carries(producers.get(op.operands[0])))


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
