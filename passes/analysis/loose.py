"""Conversions whose bytes are in no words: integer arithmetic leaves each in a register of its own.

What was loaded, or comes from floats, has four bytes in a register, and our plans move them as words. Where
arithmetic on bytes gives the source and takes the result, words are put together for a plan and taken apart
behind it, and what permutes that needs in between comes on top (`lowering/planners/loose.py`).
"""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Block, Operation, Value
from triton_linear.passes.framework.layouts import element_of

_ARITHMETIC = frozenset(
    {
        "arith.addi",
        "arith.andi",
        "arith.cmpi",
        "arith.divsi",
        "arith.divui",
        "arith.extsi",
        "arith.extui",
        "arith.maxsi",
        "arith.maxui",
        "arith.minsi",
        "arith.minui",
        "arith.muli",
        "arith.ori",
        "arith.remsi",
        "arith.remui",
        "arith.select",
        "arith.shli",
        "arith.shrsi",
        "arith.shrui",
        "arith.sitofp",
        "arith.subi",
        "arith.trunci",
        "arith.uitofp",
        "arith.xori",
    }
)
_SAME_REGISTERS = frozenset({"tt.bitcast", "tt.expand_dims", "tt.reshape", "tt.trans"})


def moves_loose_bytes(conversion: Operation) -> bool:
    """Whether arithmetic on single bytes gives what is converted, and arithmetic takes the result."""
    source, result = conversion.operands[0], conversion.results[0]
    return element_of(source.type).memory_bytes == 1 and _is_made(source, set()) and _is_taken(result)


def _is_made(value: Value, seen: set[Value]) -> bool:
    """Whether arithmetic gives a value; of one that a loop carries, whether it does in each iteration."""
    if value in seen:
        return False
    seen.add(value)
    owner = value.owner
    if isinstance(owner, Block):
        loop, carried = owner.owner.operation, list(owner.arguments).index(value) - 1
    else:
        loop, carried = owner.operation, list(owner.results).index(value)
    if loop.name == "scf.for" and carried >= 0:
        body = loop.regions[0].blocks[0]
        return _is_made(body.operations[len(body.operations) - 1].operands[carried], seen)
    if isinstance(owner, Block):
        return False
    return loop.name in _ARITHMETIC or (loop.name in _SAME_REGISTERS and _is_made(loop.operands[0], seen))


def _is_taken(value: Value) -> bool:
    users = [use.owner.operation for use in value.uses]
    return any(
        user.name in _ARITHMETIC or (user.name in _SAME_REGISTERS and _is_taken(user.results[0]))
        for user in users
    )
