"""Lets loads from global memory begin before the exchanges between warps that precede them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import ClassVar

from triton_linear.dialect.mlir_adapter import Block, Operation, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.writes import Pair, Writes, mark_early
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.framework.planning import distinct_field
from triton_linear.passes.operations.names import LOAD, LOOPS
from triton_linear.passes.operations.table import computes, named
from triton_linear.passes.scheduling.exchanges import is_exchange, lets_pass


@dataclass(frozen=True)
class LoadEarly(Pass):
    """Lets loads from global memory begin before the exchanges between warps that precede them.

    A barrier holds back every load behind it: neither LLVM nor ptxas takes one across. Where a kernel loads two
    tensors and converts the first between the loads, the second load begins when the first has ended, and the
    latencies of memory add up. So a load moves, with the operations that make its addresses and its mask, in
    front of the first exchange between warps that comes before it in its block and waits for another load:

    - a conversion or a gather;
    - in the body of a loop also a reduction, or an access to shared memory. Elsewhere these are not worth it.
      Of 68 kernels that only loads behind accesses to shared memory would change, one was faster beyond noise,
      by 0.8 %, and five were slower, by up to 14 %, while 26 kernels gained 0.9 % by them in loops. A layer
      norm whose weights are loaded before its reductions was 2 % slower.

    It passes nothing that may write to global memory or that orders memory: stores, atomic operations,
    barriers, volatile loads, calls, loops and branches, and operations that are not known here. Loads of AMD's
    buffers count among these, as Triton makes them of volatile loads too, and does not say so. A load stays

    - where the exchange gives its address or its mask;
    - where the kernel may have written before to what it reads (`analysis/writes.py`): the barrier of the
      exchange may be what lets threads see each other's writes, even if the kernel has none for that.

    Requires: nothing. Conversions whose plans are not known count as exchanges between warps.
    Ensures: the operations are the same, and so are all results. A module that changed has `ll.early`.

        %a = tt.load %p ; %b = ttg.convert_layout %a ; %c = tt.load %q ; %d = ttg.convert_layout %c
        %a = tt.load %p ; %c = tt.load %q ; %b = ttg.convert_layout %a ; %d = ttg.convert_layout %c
    """

    distinct: bool = distinct_field()

    name: ClassVar[str] = "linear-load-early"
    summary: ClassVar[str] = "let loads begin before the exchanges between warps that precede them"

    def __call__(self, op: Operation, pass_: PassRun) -> bool | None:
        ops = pass_.operations(op)
        loads = Counter(inner.block for inner in ops if inner.name == LOAD)
        several = {block for block, count in loads.items() if count > 1}  # one that waits, and one that moves
        mover = _Mover(ops, pass_, self.distinct)
        moves = [move for body in _bodies(ops, several) for move in mover.advance(*body)]
        if not moves:
            return False
        with Numbering(loads_move=True, distinct=self.distinct).same(op, "earlier loads"):
            for each, exchange in moves:
                each.move_before(exchange)
        mark_early(op, mover.pairs(each for each, _ in moves))
        return None


def _bodies(ops: Sequence[Operation], blocks: set[Block]) -> Iterator[tuple[list[Operation], bool]]:
    """The operations of each of these blocks, and whether it is the body of a loop."""
    for op in ops if blocks else ():
        if len(op.regions):
            for region in op.regions:
                for block in filter(blocks.__contains__, region.blocks):
                    yield [inner.operation for inner in block.operations], op.name in LOOPS


@dataclass
class _Mover:
    """Finds the loads of a module that are to move. ops: its operations. distinct: as for `Writes`."""

    ops: Sequence[Operation]
    pass_: PassRun
    distinct: bool

    @functools.cached_property
    def writes(self) -> Writes:
        """What the module writes."""
        return Writes.of(self.ops, distinct=self.distinct)

    def advance(self, body: Sequence[Operation], looped: bool) -> list[tuple[Operation, Operation]]:
        """What of a block is to move, in this order, and in front of what."""
        behind, loaded = None, set[Value]()
        moves: list[tuple[Operation, Operation]] = []
        for op in body:
            waits = bool(loaded) and any(operand in loaded for operand in op.operands)
            if waits or op.name == LOAD:
                loaded.update(op.results)
            if behind is None:
                if waits and is_exchange(op, looped, self.pass_) and lets_pass(op):
                    behind = _Behind(op)
            elif lets_pass(op):
                moves += ((each, behind.exchange) for each in behind.take(op, self.is_ordered))
            else:
                behind = None
        return moves

    def pairs(self, moved: Iterable[Operation]) -> set[Pair]:
        """The arguments that must be distinct because of what has moved."""
        return {pair for op in moved if op.name == LOAD for pair in self.writes.passed(op) or ()}

    def is_ordered(self, load: Operation) -> bool:
        """True if a load may need a barrier behind what was written before."""
        return self.writes.passed(load) is None


@dataclass
class _Behind:
    """What comes behind an exchange of a block, up to what no load passes.

    late: values that have to wait for the exchange. addresses: the operations that need not, with their places
    in the block, by the value they give.
    """

    exchange: Operation
    late: set[Value] = field(default_factory=set)
    addresses: dict[Value, tuple[int, Operation]] = field(default_factory=dict)
    places: int = 0

    def __post_init__(self) -> None:
        self.late.update(self.exchange.results)

    def take(self, op: Operation, is_ordered: Callable[[Operation], bool]) -> list[Operation]:
        """What moves in front of the exchange with the next operation, if that is a load that can be there, and
        not `is_ordered`: what leads to it, and the load."""
        self.places += 1
        if any(operand in self.late for operand in op.operands):
            self.late.update(op.results)
        elif op.name == LOAD and not is_ordered(op):
            return [each for _, each in sorted(self._before(op))]
        elif (computes(op) or named(op.name).recomputed) and len(op.results) == 1:
            self.addresses[op.results[0]] = self.places, op
        else:
            self.late.update(op.results)
        return []

    def _before(self, load: Operation) -> list[tuple[int, Operation]]:
        """A load and the operations behind the exchange that lead to it, with their places."""
        found = [(self.places, load)]
        for _, op in found:  # which grows meanwhile
            for operand in op.operands:
                if (made := self.addresses.pop(operand, None)) is not None:
                    found.append(made)
        return found
