"""The values that decide the control flow and the accesses of a kernel: addresses, masks, indices, conditions,
and all values that these are computed from.

All other values may hold anything: the kernel still makes the same accesses and terminates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value, producers_of
from triton_linear.passes.analysis.addresses import SINKS, passed_to, results_of, terminated

# Operands that decide something, by number; the others are data.
_DECIDING = SINKS | {
    "scf.for": (0, 1, 2),
    "scf.if": (0,),
    "scf.condition": (0,),
    "cf.br": (),
    "cf.cond_br": (0,),
    "tt.gather": (1,),
    "tt.print": (),
}
# Operations that only compute results from their operands, or pass them on.
_PURE = frozenset(
    {
        "scf.while",
        "scf.yield",
        "tt.addptr",
        "tt.bitcast",
        "tt.broadcast",
        "tt.cat",
        "tt.clampf",
        "tt.dot",
        "tt.dot_scaled",
        "tt.expand_dims",
        "tt.extern_elementwise",
        "tt.fp_to_fp",
        "tt.int_to_ptr",
        "tt.join",
        "tt.mulhiui",
        "tt.precise_divf",
        "tt.precise_sqrt",
        "tt.ptr_to_int",
        "tt.reduce",
        "tt.reduce.return",
        "tt.reshape",
        "tt.scan",
        "tt.scan.return",
        "tt.splat",
        "tt.split",
        "tt.trans",
        "tt.unsplat",
        "ttg.convert_layout",
        "ttg.local_alloc",
        "ttg.local_load",
        "ttg.local_store",
        "ttng.tmem_alloc",
        "ttng.warp_group_dot",
        "ttng.warp_group_dot_wait",
    }
)
_PURE_DIALECTS = ("arith.", "math.")
_INTO_MEMORY = {"ttg.local_alloc": 0, "ttg.local_store": 0, "ttng.tmem_alloc": 0, "ttng.tmem_store": 0}
"""Operations that store a tensor to memory on the chip, and the number of the operand that is the tensor."""


def deciding_values(ops: Sequence[Operation]) -> frozenset[Value]:
    """The values that reach an address, a mask, an index, a condition or the bounds of a loop, or may do so.

    Values are followed through loops, branches and memory on the chip. Arguments of calls, returned values, and
    integers that unknown operations take count as well.
    """
    producers = producers_of(ops)
    pending = [value for op in ops for value in _deciding_operands(op)]
    seen: set[Value] = set()
    memory_reached = False
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if not memory_reached and "memdesc" in str(value.type):
            memory_reached = True
            pending += _put_into_memory(ops)
        producer = producers.get(value)
        if producer is None:
            pending += _passed(value, ops)
        elif producer.name.startswith("scf."):
            pending += results_of(producer, list(producer.results).index(value))
        else:
            pending += (*producer.operands, *terminated(producer))
    return frozenset(seen)


def _deciding_operands(op: Operation) -> Iterator[Value]:
    name = op.name
    if name in _DECIDING:
        yield from (operand for index, operand in enumerate(op.operands) if index in _DECIDING[name])
    elif name in ("tt.call", "tt.return"):
        yield from op.operands
    elif name not in _PURE and not name.startswith(_PURE_DIALECTS):
        yield from filter(_may_decide, op.operands)


def _may_decide(value: Value) -> bool:
    """True if the value is an integer, a pointer or a descriptor, or a tensor of these."""
    type_ = value.type
    element = type_.element_type if isinstance(type_, RankedTensorType) else type_
    return str(element).startswith(("i", "!tt."))


def _put_into_memory(ops: Iterable[Operation]) -> Iterator[Value]:
    for op in ops:
        at = _INTO_MEMORY.get(op.name)
        if at is not None and at < len(op.operands):
            yield op.operands[at]


def _passed(argument: Value, ops: Iterable[Operation]) -> Iterator[Value]:
    """The values that the argument of a block may be. For an inner block of a function: all operands of all its
    branches."""
    block = argument.owner
    owner = block.owner.operation
    if owner.name.startswith("scf."):
        yield from passed_to(argument)
    elif owner.name == "tt.func":
        if block == owner.regions[0].blocks[0]:
            return
        for op in ops:
            if op.name in ("cf.br", "cf.cond_br", "cf.switch"):
                yield from op.operands
    else:
        yield from (*owner.operands, *terminated(owner))
