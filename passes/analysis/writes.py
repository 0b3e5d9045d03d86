"""Which global memory a kernel may have written by the time that it loads.

A program may give a kernel one buffer twice, so two arguments count as one memory, unless launches are checked
(`distinct`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise, product

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Block, DenseI64ArrayAttr, Operation, Type, Value, producers_of
from triton_linear.dialect.partitions import PARTITIONS, captured
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import Places, handed_on, is_kernel, reached
from triton_linear.passes.operations.names import CALL, FUNCTION, LOOPS
from triton_linear.passes.operations.table import facts, is_impure_code, named

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
        type_ = value.type
        known = self.types.get(type_)
        if known is None:
            known = self.types[type_] = any(pointer in str(type_) for pointer in _POINTERS)
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
        """True if two pointers may come from one argument."""
        first, second = self.origins(one), self.origins(other)
        return None in first | second or not first.isdisjoint(second)


Pair = tuple[int, int]
"""The numbers of two arguments of a kernel: of one that it loads by, and of one that it writes by."""


@dataclass
class Writes:
    """The writes of a module, in their order. distinct: the memory that a kernel writes by one argument is not
    read by another one; who relies on that has to see to it at each launch (`passed`).

    What is written in front of an early return does not precede what is loaded without one. Functions that are
    called may run at any time."""

    places: Places
    pointers: Pointers
    distinct: bool = False
    first: dict[tuple[Block, Origins], int] = field(default_factory=dict)
    """The number of the first write in each block of the kernel to the memory of the same arguments."""

    @classmethod
    def of(cls, ops: Sequence[Operation], *, distinct: bool = False) -> Writes:
        """The writes among `ops`, all operations of a module in their order."""
        made = cls(Places(ops), Pointers(producers_of(ops)), distinct)
        for number, op in enumerate(ops):
            if (facts(op).writes or is_impure_code(op)) and (written := made._written(op)):
                made.first.setdefault((made._block(op), written), number)
        return made

    def before(self, load: Operation) -> set[Origins]:
        """What some thread of the kernel may have written to before `load` runs, by the arguments."""
        here = self._block(load)
        if not is_kernel(here.owner.operation):
            return {written for _, written in self.first}
        loops = [parent for parent in self.places.around(load) if parent.name in LOOPS]
        end = self.places.ends[loops[-1]] if loops else self.places.numbers[load]
        earlier = reached(here.predecessors, lambda block: list(block.predecessors))
        return {
            written
            for (block, written), number in self.first.items()
            if block in earlier or (block == here and number < end)
        }

    def passed(self, load: Operation) -> frozenset[Pair] | None:
        """The arguments whose memory has to be distinct so that `load` reads in front of all writes what it
        reads at its place; None: it may read something else even then."""
        read, pairs = self.pointers.origins(load.operands[0]), set[Pair]()
        for written in self.before(load):
            if not self.distinct or not read.isdisjoint(written):
                return None
            for one, other in product(map(_pointer, read), map(_pointer, written)):
                if one is None or other is None:
                    return None
                pairs.add((one, other))
        return frozenset(pairs)

    def _written(self, op: Operation) -> Origins:
        """The arguments whose memory an operation writes to, which may write."""
        if op.name == CALL or is_impure_code(op):
            return frozenset({None})
        pointers = filter(self.pointers.is_one, op.operands)
        return frozenset[Value | None]().union(*map(self.pointers.origins, pointers))

    def _block(self, op: Operation) -> Block:
        """The block of the kernel that an operation is in, with all that is around it."""
        around = [op, *self.places.around(op)]
        return next(inner for inner, outer in pairwise(around) if outer.name == FUNCTION).block


def mark_early(root: Operation, pairs: Iterable[Pair]) -> None:
    """Note on a module that loads begin earlier, and which arguments must be `Writes.distinct` for that."""
    flat = [number for pair in sorted({*pairs, *early(root)}) for number in pair]
    root.attributes[ll.EARLY] = DenseI64ArrayAttr.get(flat, root.context)


def early(root: Operation) -> tuple[Pair, ...]:
    """The arguments of a module that `mark_early` has noted."""
    flat = tuple(root.attributes[ll.EARLY]) if ll.EARLY in root.attributes else ()
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _pointer(argument: Value | None) -> int | None:
    """The number of an argument if each launch shows where it points to: Triton makes more of a descriptor."""
    if argument is None or "!tt.ptr" not in str(argument.type):
        return None
    number: int = argument.arg_number
    return number
