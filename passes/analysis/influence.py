"""The values whose bits decide something in a kernel, and all values that these are computed from.

A sum that is rounded in another way differs in its last bit, and
what is made of it by arithmetic differs as little. But where it is compared, becomes an integer or is exchanged
atomically, another last bit may mean another branch, another token, another lock.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Type, Value, producers_of
from triton_linear.dialect.partitions import PARTITIONS, captured
from triton_linear.passes.analysis.flow import handed_on, passed_to, reached, terminated
from triton_linear.passes.analysis.writes import Pointers, Writes
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import facts, named


def compared_values(ops: Sequence[Operation], *, chosen: bool) -> frozenset[Value]:
    """The values whose bits decide: floats that reach a comparison, a conversion to integers or an atomic
    operation that exchanges, or may do so. With `chosen`, or where bits of floats become those of integers,
    also integers that reach a comparison, an address, a mask or a condition.

    A comparison that only selects one of the two values that it compares is a minimum or maximum and decides
    nothing. Values are followed through loops, branches, memory on the chip, and global memory that the kernel
    reads and writes. Arguments of calls count as well, and what
    functions return in a module with calls.
    """
    comparing = [op for op in ops if _may_compare(op.name)]
    called = any(op.name == names.CALL for op in comparing)
    roots = [value for op in comparing if called or op.name != names.RETURN for value in _compared_operands(op)]
    if chosen or any(op.name in names.BITCASTS and is_float(op.operands[0]) for op in ops):
        roots += [value for op in ops if op.name != names.ASSEMBLY for value in _deciding_operands(op)]
        roots += [value for op in ops if op.name == names.COMPARE for value in op.operands]
    return frozenset(_influencing(ops, roots)) if roots else frozenset()


def _influencing(ops: Sequence[Operation], roots: Iterable[Value]) -> set[Value]:
    """`roots` and all values that they are computed from."""
    producers = producers_of(ops)
    pointers = Pointers(producers, captures=True)
    on_chip = list(_put_into_memory(ops))
    stores = [op.operands[:2] for op in ops if op.name == names.STORE]
    writes = Writes.of(ops) if stores else None
    memories: dict[Type, bool] = {}

    def sources(value: Value) -> list[Value]:
        type_ = value.type
        is_memory = memories.get(type_)
        if is_memory is None:
            is_memory = memories[type_] = "memdesc" in str(type_)
        found = [*on_chip] if is_memory else []
        producer = producers.get(value)
        if producer is None:
            return [*found, *_passed(value, ops)]
        if (handed := handed_on(value, producers)) is not None:
            return [*found, *handed]
        found += (*producer.operands, *terminated(producer))
        if writes is not None and producer.name == names.LOAD:
            # Another program may read what one writes later, and the host may give one buffer twice.
            earlier, at = writes.before(producer), producer.operands[0]
            for to, stored in stores:
                if writes.pointers.origins(to) in earlier or pointers.meet(to, at):
                    found.append(stored)
        return found

    return reached(roots, sources)


def _deciding_operands(op: Operation) -> Iterator[Value]:
    known = facts(op)
    if op.name in (names.CALL, names.RETURN) and known.hands_over:
        yield from op.operands
    elif known.deciding is None:
        yield from filter(_may_decide, op.operands)
    else:
        yield from (operand for index, operand in enumerate(op.operands) if index in known.deciding)


_EXCHANGE = 10  # the number of `exch` in Triton's enumeration of atomic operations


@functools.cache
def _may_compare(name: str) -> bool:
    """True of operations that may have `_compared_operands`."""
    known = named(name)
    return known.hands_over or known.decides_by_floats or name == names.ATOMIC


def _compared_operands(op: Operation) -> Iterator[Value]:
    """The floats of which an operation makes an integer or an exchange."""
    known = facts(op)
    exchanges = op.name == names.ATOMIC and op.attributes["atomic_rmw_op"].value == _EXCHANGE
    compares = known.decides_by_floats and any(map(_may_decide, op.results)) and not _is_extreme(op)
    if known.hands_over or exchanges or compares:
        yield from filter(is_float, op.operands)


def _is_extreme(op: Operation) -> bool:
    """True for a comparison that only selects one of the two values that it compares."""
    if op.name != names.COMPARE_FLOATS:
        return False
    compared = set(op.operands)
    users = [use.owner.operation for use in op.results[0].uses]
    return all(user.name == names.SELECT and set(user.operands[1:]) == compared for user in users)


FLOATS: Final = ("f", "bf")
"""How the names of floats begin."""


def element_of(value: Value) -> str:
    """The element type of a tensor, or the type of a scalar, as text."""
    type_ = value.type
    return str(type_.element_type if isinstance(type_, RankedTensorType) else type_)


def is_float(value: Value) -> bool:
    """True if a value is a float, or a tensor of floats."""
    return element_of(value).startswith(FLOATS)


def _may_decide(value: Value) -> bool:
    """True if the value is an integer, a pointer or a descriptor, or a tensor of these."""
    return element_of(value).startswith(("i", "!tt."))


def _put_into_memory(ops: Iterable[Operation]) -> Iterator[Value]:
    for op in ops:
        if named(op.name).fills:
            yield from (value for value in op.operands if isinstance(value.type, RankedTensorType))


def _passed(argument: Value, ops: Iterable[Operation]) -> Iterator[Value]:
    """The values that the argument of a block may be. For an inner block of a function: all operands of all its
    branches."""
    block = argument.owner
    owner = block.owner.operation
    if owner.name.startswith("scf."):
        yield from passed_to(argument)
    elif owner.name == names.FUNCTION:
        if block == owner.regions[0].blocks[0]:
            return
        for op in ops:
            if op.name in ("cf.br", "cf.cond_br", "cf.switch"):
                yield from op.operands
    elif owner.name == PARTITIONS:
        yield from captured(owner)
    else:
        yield from (*owner.operands, *terminated(owner))
