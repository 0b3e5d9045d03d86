"""Shared memory that nothing but accesses of known layouts reaches, so that its own layout is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import handed_on, taken_by
from triton_linear.passes.framework.layouts import swizzle_of
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named

_VIEWS: Final = frozenset({names.MEMORY_INDEX, names.SUBSLICE, names.MEMORY_TRANS})
_TIED: Final = frozenset({names.FOR, names.IF, names.YIELD})


@dataclass
class Owned:
    """Some allocations of swizzled memory, all of whose uses are known.

    views: the values that stand for the memory or for a part of it, each with the dimensions of the allocation
    that its own ones are. ops: the allocations and what takes any of these values.
    """

    views: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    ops: dict[Operation, None] = field(default_factory=dict)


def owned_memory(ops: Sequence[Operation]) -> Iterator[Owned]:
    """The allocations of a module whose memory is reached by accesses, copies and views alone, also through
    loops and branches. Those that share their uses are together."""
    allocations = [op for op in ops if op.name == names.LOCAL_ALLOC]
    producers = producers_of(ops) if allocations else {}
    seen: set[Value] = set()
    for op in allocations:
        if op.results[0] in seen:
            continue
        if (swizzle := swizzle_of(op.results[0].type)) is not None:
            found = Owned()
            known = _follow(op.results[0], swizzle.rank, found, producers)
            seen.update(found.views)
            if known:
                yield found


def _follow(allocated: Value, rank: int, found: Owned, producers: Mapping[Value, Operation]) -> bool:
    """Find what stands for the memory of an allocation of this rank. False if not all that reaches it is
    known."""
    pending = [(allocated, tuple(range(rank)))]
    while pending:
        value, turned = pending.pop()
        if value in found.views:
            if found.views[value] != turned:
                return False
            continue
        found.views[value] = turned
        made = producers.get(value)
        around = value.owner.owner.operation if made is None else made
        if around.name in _TIED:
            pending += [(source, turned) for source in handed_on(value, producers) or ()]
        elif made is not None and made.name == names.LOCAL_ALLOC:
            found.ops[made] = None
        elif made is None or made.name not in _VIEWS or made.operands[0] not in found.views:
            return False
        for use in value.uses:
            user = use.owner.operation
            if user.name in _VIEWS:
                order = list(user.attributes["order"] if user.name == names.MEMORY_TRANS else range(rank))
                if len(order) != rank:
                    return False
                pending.append((user.results[0], tuple(turned[axis] for axis in order)))
            elif user.name in _TIED:
                pending += [(tied, turned) for tied in taken_by(user, use.operand_number)]
            elif named(user.name).at("memory") != use.operand_number:
                return False
            found.ops[user] = None
    return True
