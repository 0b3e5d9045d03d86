"""Recognise conversions of loose bytes: integer arithmetic leaves each byte in a register of its own.

Bytes that are loaded or converted from floats are packed four to a register, and plans move them as words. If
arithmetic on bytes gives the source of a conversion, they have to be packed before it: three permutes make a
word (`emit.machines.PACK`), while LLVM clears each register first.
"""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Block, Operation, Value
from triton_linear.passes.analysis.flow import terminator
from triton_linear.passes.framework.layouts import element_of
from triton_linear.passes.operations.names import FOR
from triton_linear.passes.operations.table import named

BYTE = 8
"""Bits of a byte."""


def takes_loose_bytes(conversion: Operation) -> bool:
    """True if arithmetic on single bytes, other than predicates, gives the operand of a conversion."""
    source = conversion.operands[0]
    return element_of(source.type).bits == BYTE and _is_from_arithmetic(source, set())


def gives_loose_bytes(conversion: Operation) -> bool:
    """True if all that uses the result of a conversion is arithmetic on single bytes, other than predicates."""
    result = conversion.results[0]
    return element_of(result.type).bits == BYTE and _is_used_by_arithmetic(result)


def _is_from_arithmetic(value: Value, seen: set[Value]) -> bool:
    """True if arithmetic gives a value; for a value that a loop carries, if arithmetic gives the yielded
    one."""
    if value in seen:
        return False
    seen.add(value)
    owner = value.owner
    if isinstance(owner, Block):
        loop, carried = owner.owner.operation, list(owner.arguments).index(value) - 1
    else:
        loop, carried = owner.operation, list(owner.results).index(value)
    if loop.name == FOR and carried >= 0:
        body = loop.regions[0].blocks[0]
        return _is_from_arithmetic(terminator(body).operands[carried], seen)
    if isinstance(owner, Block):
        return False
    return named(loop.name).integers or (
        named(loop.name).in_place and _is_from_arithmetic(loop.operands[0], seen)
    )


def _is_used_by_arithmetic(value: Value) -> bool:
    """True if arithmetic on integers is all that uses a value."""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(
        named(user.name).integers or (named(user.name).in_place and _is_used_by_arithmetic(user.results[0]))
        for user in users
    )
