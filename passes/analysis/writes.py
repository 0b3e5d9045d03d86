"""Which global memory a kernel may have written by the time that it loads.

Memory is told apart by the argument of the kernel that a pointer or descriptor comes from; two arguments count
as different memory.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import field

from triton_linear.dialect.mlir_adapter import Operation, Type, Value, producers_of
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.addresses import passed_to, results_of
from triton_linear.passes.analysis.effects import is_impure_code
from triton_linear.passes.analysis.places import Places
from triton_linear.passes.operations.names import CALL, FUNCTION, LOOPS
from triton_linear.passes.operations.table import named

_POINTERS = ("!tt.ptr", "!tt.tensordesc")

Origins = frozenset[Value | None]
"""The arguments that a pointer may come from; None among them if it may come from elsewhere."""


@dataclass
class Writes:
    """The writes of a module. first: the number of the first operation that may write to the memory of an
    argument, or, with None, to any memory. unordered: True if operations may run in another order than the one
    in which they are written, besides those in loops."""

    places: Places
    producers: dict[Value, Operation]
    first: dict[Value | None, int] = field(default_factory=dict)
    unordered: bool = False
    origins: dict[Value, Origins] = field(default_factory=dict)
    pointers: dict[Type, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, ops: Sequence[Operation], harmless: Container[Operation]) -> Writes:
        """The writes among `ops`, all operations of a module in their order. `harmless`: calls that write
        nothing to global memory."""
        found, functions = cls(Places(ops), producers_of(ops)), 0
        for number, op in enumerate(ops):
            if op in harmless:
                continue
            if op.name == CALL or is_impure_code(op):
                found.first.setdefault(None, number)
            elif op.name == FUNCTION:
                blocks = len(op.regions[0].blocks)
                functions += blocks > 0
                found.unordered |= functions > 1 or blocks > 1
            elif named(op.name).writes:
                for value in filter(found._is_pointer, op.operands):
                    for origin in found._origins_of(value):
                        found.first.setdefault(origin, number)
        return found

    def may_precede(self, load: Operation) -> bool:
        """True if some thread of the kernel may have written to the memory that `load` reads before it runs."""
        end = self._end(load)
        origins = self._origins_of(load.operands[0])
        if None in origins:
            return any(number < end for number in self.first.values())
        return any(self.first.get(origin, end) < end for origin in (*origins, None))

    def _end(self, op: Operation) -> float:
        """The number of the first operation that cannot run before `op`."""
        if self.unordered:
            return math.inf
        loops = [parent for parent in self.places.around(op) if parent.name in LOOPS]
        return self.places.ends[loops[-1]] if loops else self.places.numbers[op]

    def _is_pointer(self, value: Value) -> bool:
        known = self.pointers.get(value.type)
        if known is None:
            text = str(value.type)
            known = self.pointers[value.type] = any(pointer in text for pointer in _POINTERS)
        return known

    def _origins_of(self, pointer: Value) -> Origins:
        known = self.origins.get(pointer)
        if known is None:
            known = self.origins[pointer] = frozenset(self._trace(pointer))
        return known

    def _trace(self, pointer: Value) -> Iterator[Value | None]:
        """The arguments that a pointer may come from."""
        pending, seen = [pointer], set[Value]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self.origins:
                yield from self.origins[value]
                continue
            op = self.producers.get(value)
            if op is None:
                block = value.owner
                owner = block.owner.operation
                if owner.name == FUNCTION and block == owner.regions[0].blocks[0]:
                    yield value
                    continue
                sources = passed_to(value)
            elif named(op.name).leads_on:
                sources = list(op.operands)
            elif op.name.startswith("scf."):
                sources = results_of(op, list(op.results).index(value))
            else:
                sources = []
            sources = [source for source in sources if self._is_pointer(source)]
            if not sources:
                yield None
            pending += sources
