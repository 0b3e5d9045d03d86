"""How many registers a thread needs for a module: the words of tensors that are live where most are.

Live is what is still to be used, through loops and branches: what a loop carries, what is used in it and was
made before it, what is used behind it. Words are 32 bits of a thread, told from layouts.

Not all that is live in the module is in registers, and what is there need not lie there whole:

- Operations that work element by element, and those that only give elements other places, are interleaved by
  LLVM and ptxas. What one of them makes and another takes exists element after element, and so does what a
  store or a reduction takes. So words are counted at the other operations alone, for what is live across them,
  and what they make at once: loads, dots, conversions, loops.
- What has the registers of its operands is not counted again: broadcasts, transposes, reshapes, and products in
  flight that are waited for. A dot adds to the registers of its accumulator if nobody else needs that.
- Constants and ranges are made where they are used. Integers and pointers whose elements are known distances
  apart (`axis`) are one base and numbers in instructions. But a value that a loop carries, and not by adding to
  it, is one for each element: nobody sees any more what the elements have to do with each other.
- Scalars are in constant memory and uniform registers; memory descriptors are addresses in shared memory.
- Narrow elements lie side by side in words, as Triton keeps them; copies in a thread count once.

What is not modelled: how ptxas schedules. It gives a kernel more registers than it needs as long as no CTA
is lost by it, and keeps loads in flight with them. `python -m bench.registers` compares with what it gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value, operations, producers_of
from triton_linear.passes.analysis import addressing, weights
from triton_linear.passes.analysis.axis import AxisAnalysis, shape_of
from triton_linear.passes.analysis.places import LOOPS, Places
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.framework.verifiers import DOTS

BESIDE = 12.0
"""Registers of a thread beside its tensors: numbers of thread and program, addresses in shared memory,
counters, temporary values. With it the estimate is neither high nor low in the median of bench.registers."""
_PREDICATE = 0.25
"""Words of an element of a mask: there are seven predicates, and ptxas packs or compares again what is more. Of
0, 1/32, 1/4, 1/2 and 1 the one with the least median of errors in bench.registers."""
_WORD = 32

_MADE_THERE = frozenset({"arith.constant", "tt.make_range"})
_WAIT = "ttng.warp_group_dot_wait"
_HOLDS_OPERANDS = frozenset(
    {
        "tt.bitcast",
        "tt.broadcast",
        "tt.cat",
        "tt.expand_dims",
        "tt.join",
        "tt.reshape",
        "tt.splat",
        "tt.split",
        "tt.trans",
    }
)
"""Operations whose results are their operands' registers."""
_ELEMENT_BY_ELEMENT = frozenset({"tt.elementwise_inline_asm", "tt.reduce.return", "tt.scan.return"})
"""Besides those that `weights` knows."""
_ADDS = frozenset({"arith.addi", "arith.subi", "tt.addptr"})
_INLINE = frozenset({"tt.reduce", "tt.scan"})
"""Operations whose regions say what is done with two elements."""
_TAKES_WHOLE = frozenset({*LOOPS, "scf.yield", "scf.condition", "tt.gather"})
"""Operations that need all that they take at once, and then have it no more."""


def estimate(root: Operation) -> float:
    """Registers of a thread of a module; more than there are where it would spill."""
    return BESIDE + live_words(root)


def live_words(root: Operation) -> float:
    """Words of the tensors of a module that a thread has at once."""
    return max(live_by_place(root).values(), default=0.0)


def live_by_place(root: Operation) -> dict[Operation, float]:
    """The words that a thread has at each operation at which words are counted."""
    return _Liveness(root).by_place()


class _Held:
    """In whose registers the elements of each value are, and how many words those are."""

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
        """The tensors in whose registers a value is; none of a scalar, and of what is made where it is used."""
        found = self._holders.get(value)
        if found is None:
            found = self._holders[value] = self._found_holders(value)
        return found

    def _found_holders(self, value: Value) -> tuple[Value, ...]:
        if not isinstance(value.type, RankedTensorType):
            return ()
        op = self._producers.get(value)
        if op is None:
            return (value,)
        if op.name in _MADE_THERE:
            return ()
        if op.name == _WAIT:
            return self.holders(op.operands[list(op.results).index(value)])
        if op.name in _HOLDS_OPERANDS:
            return tuple(dict.fromkeys(holder for operand in op.operands for holder in self.holders(operand)))
        return (value,)

    def words(self, value: Value) -> float:
        """The words of a tensor in a thread."""
        found = self._words.get(value)
        if found is None:
            found = self._words[value] = self._counted(value)
        return found

    def _counted(self, value: Value) -> float:
        bits = element_of(value.type).bits
        elements = self._elements(value, bits)
        return _PREDICATE * elements if bits == 1 else math.ceil(elements * bits / _WORD)

    def _elements(self, value: Value, bits: int) -> int:
        """The elements that a thread has registers for."""
        layout = self._layouts.of(value.type)
        if not isinstance(layout, LinearLayout):
            return max(1, math.prod(shape_of(value.type)) // int(self._threads))
        bases = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
        if str(value.type.element_type).startswith(("i", "!")):
            told = self._told(value, bits)
            bases = [basis for basis in bases if not addressing.is_constant(basis, told)]
        return 1 << len(bases)

    def _told(self, value: Value, bits: int) -> addressing.Mask:
        """Along which bits of its coordinates an integer, pointer or mask needs no register of its own."""
        if bits == 1:
            return self._axis.mask(value)
        deltas = self._axis.of(value).deltas
        if self._is_handed_on(value):
            return tuple(tuple(delta == 0 for delta in along) for along in deltas)
        return tuple(tuple(delta is not None for delta in along) for along in deltas)

    def _is_handed_on(self, value: Value) -> bool:
        """Whether a loop or branch hands a value on that it may have from several places. What a loop adds to
        is still a base and distances to it."""
        op = self._producers.get(value)
        if op is not None:
            return str(op.name).startswith("scf.")
        block = value.owner
        owner = block.owner.operation
        if owner.name == "tt.func":
            return False
        if owner.name != "scf.for":
            return True
        terminator = block.operations[len(block.operations) - 1].operation
        next_ = self._producers.get(terminator.operands[value.arg_number - 1])
        return next_ is not None and not (next_.name in _ADDS and value in list(next_.operands))


class _Liveness:
    """From which operation to which each tensor that has registers is live.

    A tensor is live behind operation `born` and before operation `last`, and all between, by number.
    """

    def __init__(self, root: Operation) -> None:
        self._ops = operations(root)
        self._places = Places(self._ops)
        self._held = _Held(root, producers_of(self._ops))
        self._born: dict[Value, int] = {}
        self._last: dict[Value, int] = {}
        self._outside: dict[Value, Sequence[Operation]] = {}
        for op in self._ops:
            self._make(op)
        for op in self._ops:
            self._use(op)
        self._made: dict[int, list[Value]] = {}
        for value, born in self._born.items():
            if self._last[value] > born:
                self._made.setdefault(born, []).append(value)

    def _make(self, op: Operation) -> None:
        """What an operation makes: results behind its regions, arguments of blocks before them."""
        number, around = self._places.numbers[op], self._places.around(op)
        has_regions = len(op.regions) > 0 and op.name not in _INLINE
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
        if self._held.holders(value) == (value,):
            self._born[value] = self._last[value] = number
            self._outside[value] = outside

    def _use(self, op: Operation) -> None:
        number = self._places.numbers[op]
        for operand in op.operands:
            for holder in self._held.holders(operand):
                end = self._places.loop_end(op, self._outside[holder])
                self._last[holder] = max(self._last[holder], number if end is None else end)

    def by_place(self) -> dict[Operation, float]:
        changes = [0.0] * (len(self._ops) + 1)
        for value, born in self._born.items():
            words = self._held.words(value)
            changes[born] += words
            changes[self._last[value]] -= words
        found, live = {}, 0.0
        for number, op in enumerate(self._ops):
            live += changes[number]
            if _is_counted_at(op):
                made = self._made.get(number, [])
                found[op] = live - self._sum(made) + self._at_once(op, number, made)
        return found

    def _at_once(self, op: Operation, number: int, made: Sequence[Value]) -> float:
        """Words of what an operation makes and of what it takes last that are there at the same time."""
        results = self._sum(made)
        taken = dict.fromkeys(
            holder
            for operand in op.operands
            for holder in self._held.holders(operand)
            if self._last[holder] == number
        )
        if op.name in DOTS:
            sums = [holder for holder in self._held.holders(op.operands[2]) if holder in taken]
            return self._sum([each for each in taken if each not in sums]) + max(results, self._sum(sums))
        if op.name in _TAKES_WHOLE:
            return max(results, self._sum(list(taken)))
        return results

    def _sum(self, values: Sequence[Value]) -> float:
        return sum(map(self._held.words, values))


def _is_counted_at(op: Operation) -> bool:
    """Whether all that is live at an operation has its registers there."""
    name = op.name
    if name in ("builtin.module", "tt.func") or name in _HOLDS_OPERANDS or name in _ELEMENT_BY_ELEMENT:
        return False
    return not (weights.is_elementwise(name) or name.startswith("ttg.memdesc"))
