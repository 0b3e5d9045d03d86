"""An estimate of the registers that a thread needs for a module: the largest number of live words of tensors.

A value is live from its definition to its last use, through loops and branches: a loop's carried values, and
values that are defined before a loop and used in it or after it, are live in all of the loop. A word is 32 bits
of a thread; layouts give the number of words of a tensor.

Not every live value of the module takes registers for all of its elements:

- LLVM and ptxas interleave elementwise operations, and operations that only change coordinates. The elements of
  a value between two of these are live one after another, and so are the operands of stores and reductions. So
  live words are counted only at other operations (loads, dots, conversions, loops): the values that are live
  across the operation, and its results.
- The results of broadcasts, transposes, reshapes and waits for dots share the registers of their operands. A
  dot reuses the registers of its accumulator if the accumulator has no other use.
- Constants and ranges are rematerialised at each use. Integers and pointers whose elements have known distances
  (`axis`) are one base and immediate operands. But a value that a loop carries takes a register for each
  element, unless the loop only adds to it: the compiler no longer knows the distances.
- Scalars are in constant memory and uniform registers; memory descriptors are addresses in shared memory.
- Narrow elements are packed into words, as Triton does; copies within a thread count once.

The schedule of ptxas is not modelled: it gives a kernel more registers than it needs, if that costs no resident
CTA, to keep more loads in flight. `python -m bench.registers` compares the estimate with what ptxas gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value, operations, producers_of
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.axis import AxisAnalysis, shape_of
from triton_linear.passes.analysis.flow import Places, terminator
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named

BESIDE = 12.0
"""Registers of a thread besides its tensors: thread and program ids, addresses in shared memory, counters,
temporaries. With this number the median error of the estimate in bench.registers is zero."""
_PREDICATE = 0.25
"""Words of an element of a mask: there are seven predicate registers, and ptxas packs or recomputes further
predicates. Of 0, 1/32, 1/4, 1/2 and 1 this value has the least median error in bench.registers."""
_WORD = 32

_SOURCES = frozenset({names.CONSTANT, names.RANGE, names.SPLAT})
"""Operations without tensors among their operands, which are repeated at each use."""
_ELEMENT_BY_ELEMENT = frozenset({names.ASSEMBLY, "tt.reduce.return", "tt.scan.return"})
"""Further elementwise operations, besides those of the table."""
_ADDS = frozenset({names.ADD, names.SUBTRACT, names.ADD_POINTER})
_CONSUMES_WHOLE_OPERANDS = frozenset({*names.LOOPS, names.YIELD, names.CONDITION, names.GATHER})
"""Operations that need all elements of their operands at once, after which the operands may be dead."""


def estimate(root: Operation) -> float:
    """The estimated registers of a thread; more than the GPU has if the kernel would spill."""
    return BESIDE + live_words(root)


def live_words(root: Operation) -> float:
    """The largest number of live words of a thread."""
    return max(live_by_place(root).values(), default=0.0)


def live_by_place(root: Operation) -> dict[Operation, float]:
    """The live words of a thread at each operation at which words are counted."""
    return _Liveness(root).by_place()


class _RegisterUse:
    """For each value, the tensors whose registers its elements are in, and the number of words."""

    def __init__(self, root: Operation, producers: Mapping[Value, Operation]) -> None:
        attributes = root.attributes
        lanes = attributes["ttg.threads-per-warp"].value if "ttg.threads-per-warp" in attributes else 32
        self._threads = lanes * attributes["ttg.num-warps"].value
        self._producers = producers
        self._axis = AxisAnalysis(producers)
        self._layouts = LayoutTable()
        self._holders: dict[Value, tuple[Value, ...]] = {}
        self._words: dict[Value, float] = {}

    def holders(self, value: Value) -> tuple[Value, ...]:
        """The tensors whose registers a value is in; none for scalars and for rematerialised values."""
        found = self._holders.get(value)
        if found is None:
            found = self._holders[value] = self._find_holders(value)
        return found

    def _find_holders(self, value: Value) -> tuple[Value, ...]:
        if not isinstance(value.type, RankedTensorType):
            return ()
        op = self._producers.get(value)
        if op is None:
            return (value,)
        if op.name in _SOURCES:
            return ()
        if op.name == names.WARP_GROUP_WAIT:
            return self.holders(op.operands[list(op.results).index(value)])
        if _shares_registers(op.name):
            return tuple(dict.fromkeys(holder for operand in op.operands for holder in self.holders(operand)))
        return (value,)

    def words(self, value: Value) -> float:
        """The words of a tensor in a thread."""
        found = self._words.get(value)
        if found is None:
            found = self._words[value] = self._count_words(value)
        return found

    def _count_words(self, value: Value) -> float:
        bits = element_of(value.type).bits
        elements = self._elements(value, bits)
        return _PREDICATE * elements if bits == 1 else math.ceil(elements * bits / _WORD)

    def _elements(self, value: Value, bits: int) -> int:
        """The number of elements that a thread has registers for."""
        layout = self._layouts.of(value.type)
        if not isinstance(layout, LinearLayout):
            return max(1, math.prod(shape_of(value.type)) // int(self._threads))
        bases = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
        if str(value.type.element_type).startswith(("i", "!")):
            known = self._known_bits(value, bits)
            bases = [basis for basis in bases if not addressing.is_constant(basis, known)]
        return 1 << len(bases)

    def _known_bits(self, value: Value, bits: int) -> addressing.Mask:
        """For an integer, pointer or mask: the bits of its coordinates along which elements share a
        register."""
        if bits == 1:
            return self._axis.mask(value)
        deltas = self._axis.of(value).deltas
        if self._is_merged(value):
            return tuple(tuple(delta == 0 for delta in along) for along in deltas)
        return tuple(tuple(delta is not None for delta in along) for along in deltas)

    def _is_merged(self, value: Value) -> bool:
        """True if a loop or branch merges several values into this one. A value that a loop only adds to does
        not count: its elements keep their distances."""
        op = self._producers.get(value)
        if op is not None:
            return str(op.name).startswith("scf.")
        block = value.owner
        owner = block.owner.operation
        if owner.name == names.FUNCTION:
            return False
        if owner.name != names.FOR:
            return True
        yielded = terminator(block).operands
        next_ = self._producers.get(yielded[value.arg_number - 1])
        return next_ is not None and not (next_.name in _ADDS and value in list(next_.operands))


class _Liveness:
    """The live range of each tensor that has registers: after operation number `born`, up to operation number
    `last`."""

    def __init__(self, root: Operation) -> None:
        self._ops = operations(root)
        self._places = Places(self._ops)
        self._registers = _RegisterUse(root, producers_of(self._ops))
        self._born: dict[Value, int] = {}
        self._last: dict[Value, int] = {}
        self._outside: dict[Value, Sequence[Operation]] = {}
        for op in self._ops:
            self._define(op)
        for op in self._ops:
            self._use(op)
        self._made: dict[int, list[Value]] = {}
        for value, born in self._born.items():
            if self._last[value] > born:
                self._made.setdefault(born, []).append(value)

    def _define(self, op: Operation) -> None:
        """Begin the live ranges of an operation's results, after its regions, and of its block arguments,
        before them."""
        number, around = self._places.numbers[op], self._places.around(op)
        has_regions = len(op.regions) > 0 and op.name not in names.COMBINING
        for result in op.results:
            self._begin(result, self._places.ends[op] if has_regions else number, around)
        if not has_regions:
            return
        for region in op.regions:
            for block in region.blocks:
                first = self._places.numbers[block.operations[0].operation]
                for argument in block.arguments:
                    self._begin(argument, first - 1, [op, *around])

    def _begin(self, value: Value, number: int, outside: Sequence[Operation]) -> None:
        """Begin the live range of a value that has registers of its own; `outside`: the operations around
        it."""
        if self._registers.holders(value) == (value,):
            self._born[value] = self._last[value] = number
            self._outside[value] = outside

    def _use(self, op: Operation) -> None:
        """Extend the live ranges of an operation's operands."""
        number = self._places.numbers[op]
        for operand in op.operands:
            for holder in self._registers.holders(operand):
                end = self._places.loop_end(op, self._outside[holder])
                self._last[holder] = max(self._last[holder], number if end is None else end)

    def by_place(self) -> dict[Operation, float]:
        changes = [0.0] * (len(self._ops) + 1)
        for value, born in self._born.items():
            words = self._registers.words(value)
            changes[born] += words
            changes[self._last[value]] -= words
        words_at, live = {}, 0.0
        for number, op in enumerate(self._ops):
            live += changes[number]
            if _is_counted_at(op):
                made = self._made.get(number, [])
                words_at[op] = live - self._sum(made) + self._words_during(op, number, made)
        return words_at

    def _words_during(self, op: Operation, number: int, made: Sequence[Value]) -> float:
        """Words that an operation adds to the values live across it: of its results (`made`), and of operands
        whose last use it is, as far as both are live at the same time."""
        results = self._sum(made)
        taken = dict.fromkeys(
            holder
            for operand in op.operands
            for holder in self._registers.holders(operand)
            if self._last[holder] == number
        )
        if op.name in names.DOTS:
            sums = [holder for holder in self._registers.holders(op.operands[2]) if holder in taken]
            return self._sum([each for each in taken if each not in sums]) + max(results, self._sum(sums))
        if op.name in _CONSUMES_WHOLE_OPERANDS:
            return max(results, self._sum(list(taken)))
        return results

    def _sum(self, values: Sequence[Value]) -> float:
        return sum(map(self._registers.words, values))


def _shares_registers(name: str) -> bool:
    """True if the results of an operation share the registers of its operands."""
    return named(name).view or named(name).in_place


def _is_counted_at(op: Operation) -> bool:
    """True if live words are counted at an operation: it is not interleaved with others."""
    name = op.name
    if name in (names.MODULE, names.FUNCTION) or name in _ELEMENT_BY_ELEMENT or _shares_registers(name):
        return False
    return not (named(name).elementwise or name.startswith("ttg.memdesc"))
