"""Which global memory a kernel may have written by the time that it loads.

Memory is told apart by the argument of the kernel that a pointer or descriptor comes from; two arguments count
as different memory. That is an assumption (docs/exact.md): with one memory for both, 81 of 686 modules of other
packages and of servers would keep loads where they are, recurrent kernels among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from triton_linear.dialect.mlir_adapter import Block, Operation, Type, Value, producers_of
from triton_linear.dialect.partitions import PARTITIONS, captured
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.effects import is_impure_code
from triton_linear.passes.analysis.flow import handed_on, reached
from triton_linear.passes.analysis.places import Places
from triton_linear.passes.operations.names import CALL, FUNCTION, LOOPS
from triton_linear.passes.operations.table import facts, name_of, named

_POINTERS = ("!tt.ptr", "!tt.tensordesc")

Origins = frozenset[Value | None]
"""The arguments that a pointer may come from; None among them if it may come from elsewhere."""


@dataclass
class Pointers:
    """Where the pointers and descriptors of a module come from. captures: what partitions capture is followed;
    else it may come from anywhere, as other warps write to it at the same time."""

    producers: Mapping[Value, Operation]
    captures: bool = False
    known: dict[Value, Origins] = field(default_factory=dict)
    types: dict[Type, bool] = field(default_factory=dict)

    def is_one(self, value: Value) -> bool:
        """True if a value has pointers or descriptors."""
        known = self.types.get(value.type)
        if known is None:
            text = str(value.type)
            known = self.types[value.type] = any(pointer in text for pointer in _POINTERS)
        return known

    def origins(self, pointer: Value) -> Origins:
        """The arguments that a pointer may come from."""
        if pointer not in self.known:
            ends = set[Value | None]()

            def sources(value: Value) -> list[Value]:
                owner = value.owner
                if isinstance(owner, Block) and owner.owner.operation.name == FUNCTION:
                    ends.add(value if owner == owner.owner.operation.regions[0].blocks[0] else None)
                    return []
                if self.captures and isinstance(owner, Block) and owner.owner.operation.name == PARTITIONS:
                    return [captured(owner.owner.operation)[value.arg_number]]
                found = handed_on(value, self.producers)
                if found is None:
                    maker = self.producers[value]
                    found = list(maker.operands) if named(maker.name).leads_on else []
                found = list(filter(self.is_one, found))
                if not found:
                    ends.add(None)
                return found

            reached([pointer], sources)
            self.known[pointer] = frozenset(ends)
        return self.known[pointer]

    def meet(self, one: Value, other: Value) -> bool:
        """True if two pointers may lead to the same memory."""
        first, second = self.origins(one), self.origins(other)
        return None in first | second or not first.isdisjoint(second)


@dataclass
class Writes:
    """The writes of a module. first: the number of the first operation that may write to the memory of an
    argument, or, with None, to any memory. unordered: True if operations may run in another order than the one
    in which they are written, besides those in loops."""

    places: Places
    pointers: Pointers
    first: dict[Value | None, int] = field(default_factory=dict)
    unordered: bool = False

    @classmethod
    def of(cls, ops: Sequence[Operation]) -> Writes:
        """The writes among `ops`, all operations of a module in their order."""
        found, functions = cls(Places(ops), Pointers(producers_of(ops))), 0
        for number, op in enumerate(ops):
            if name_of(op) == CALL or is_impure_code(op):
                found.first.setdefault(None, number)
            elif op.name == FUNCTION:
                blocks = len(op.regions[0].blocks)
                functions += blocks > 0
                found.unordered |= functions > 1 or blocks > 1
            elif facts(op).writes:
                for value in filter(found.pointers.is_one, op.operands):
                    for origin in found.pointers.origins(value):
                        found.first.setdefault(origin, number)
        return found

    def may_precede(self, load: Operation) -> bool:
        """True if some thread of the kernel may have written to the memory that `load` reads before it runs."""
        end = self._end(load)
        origins = self.pointers.origins(load.operands[0])
        if None in origins:
            return any(number < end for number in self.first.values())
        return any(self.first.get(origin, end) < end for origin in (*origins, None))

    def _end(self, op: Operation) -> float:
        """The number of the first operation that cannot run before `op`."""
        if self.unordered:
            return math.inf
        loops = [parent for parent in self.places.around(op) if parent.name in LOOPS]
        return self.places.ends[loops[-1]] if loops else self.places.numbers[op]
