"""Code of gathers: from structs of source and index registers to a struct of result registers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable

from triton_linear.lowering.emit.elements import half_of, packed_words, unpacked, width
from triton_linear.lowering.emit.machines import machine_of
from triton_linear.lowering.emit.parts import Part, Parts, parts_of
from triton_linear.lowering.emit.shared import emit_trip
from triton_linear.lowering.emit.text import CLUSTER_SHARED, I32, I64, SHARED, FunctionWriter, Signature
from triton_linear.lowering.emit.words import in_cluster, linear_in_thread
from triton_linear.lowering.gather.shuffles import lane_shift, multiplier, segments_of
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.plan.gathers import AnyGatherPlan, Columns, GatheredWord, GatherPlan
from triton_linear.lowering.plan.plans import CLUSTER, Index, SharedPlan
from triton_linear.lowering.target.targets import Target


def signature_of_gather(plan: AnyGatherPlan, element: ElementType, index_element: ElementType) -> Signature:
    """The signature of the code of `plan`."""
    return Signature(element.llvm, plan.source_registers, len(plan.outputs), index_element.llvm)


def emit_gather_body(
    plan: AnyGatherPlan,
    signature: Signature,
    target: Target,
    writer: FunctionWriter,
    source: str,
    index: str,
    base: str,
    closes: bool = True,
) -> str:
    """Write the code of a gather; return the name of the struct of result registers.

    `base` names the pointer to the scratch; code without scratch does not use it. `closes`: in a cluster, write
    the barrier behind the loads.
    """
    values = _Values(signature, target, writer, source, index)
    if isinstance(plan, SharedPlan):
        assert plan.index is not None
        results = _through_memory(plan, plan.index, values, base, closes)
    else:
        found = _Gather(plan, values).results()
        results = [found[number] for number in plan.outputs]
    type_ = writer.type(signature.result)
    result = writer.op(f"llvm.mlir.undef : {type_}")
    for number, field in enumerate(results):
        result = writer.op(f"llvm.insertvalue {field}, {result}[{number}] : {type_}")
    return result


class _Values:
    """Writes the operations that read the registers of a gather's operands."""

    def __init__(
        self, signature: Signature, target: Target, writer: FunctionWriter, source: str, index: str
    ) -> None:
        self.signature, self.target, self.writer = signature, target, writer
        self._source_type, self._index_type = writer.type(signature.source), writer.type(signature.index)
        self.machine = machine_of(target)
        self._source, self._index = source, index

    def register(self, number: int) -> str:
        """A register of the source."""
        return self.writer.once(f"llvm.extractvalue {self._source}[{number}] : {self._source_type}")

    def packed(self, registers: Iterable[int]) -> Parts:
        """The word that packs these source registers."""
        values = [self.register(number) for number in registers]
        return packed_words(self.writer, values, self.signature.element, None)

    def result(self, word: Parts) -> str:
        """The register of the result in the low bits of a word."""
        (value,) = unpacked(self.writer, word, self.signature.element, 1)
        return value

    def number(self, register: int) -> str:
        """An index as an i32. The axis is shorter than 2^31, and negative indices are undefined behaviour."""
        writer, element = self.writer, self.signature.index_element
        value = writer.op(f"llvm.extractvalue {self._index}[{register}] : {self._index_type}")
        if element == I32:
            return value
        cast = "trunc" if element == I64 else "zext"
        return writer.op(f"llvm.{cast} {value} : {element} to {I32}")

    def by_thread(self, columns: Columns) -> str | None:
        """The xor of the columns of the set bits of the thread number; None if it is always zero."""
        if not any(columns):
            return None
        return linear_in_thread(self.writer, self.machine.thread(self.writer), columns)

    def sum(self, parts: Iterable[str | None], flip: int) -> str:
        """The xor of the parts that are not None, and `flip`."""
        writer = self.writer
        known = [part for part in (*parts, writer.constant(flip) if flip else None) if part is not None]
        if not known:
            return writer.constant(0)
        return functools.reduce(lambda a, b: writer.binary("xor", a, b), known)


def _through_memory(plan: SharedPlan, index: Index, values: _Values, base: str, closes: bool) -> list[str]:
    """Write a gather through shared memory; return the registers of the result."""
    writer, machine, slots = values.writer, values.machine, plan.per_word

    def word(number: int) -> Parts:
        start = number * slots
        return values.packed(range(start, min(start + slots, plan.source_registers)))

    half = half_of(values.signature.element)
    words = emit_trip(
        *(writer, plan, word, machine, machine.thread(writer), base, half),
        lambda: _IndexedLoads(plan, index, values, base).address,
    )
    loaded = [values.result(each) for each in words]
    if closes and plan.scope == CLUSTER:
        machine.barrier(writer, plan.scope)
    starts = list(itertools.accumulate(map(len, plan.load.rounds), initial=0))
    return [loaded[starts[round_] + number] for round_, number, _ in plan.outputs]


class _IndexedLoads:
    """Writes the pointers of loads whose place depends on an index."""

    def __init__(self, plan: SharedPlan, index: Index, values: _Values, base: str) -> None:
        self._plan, self._index, self._values, self._base = plan, index, values, base
        self._own_bits = len(plan.store.columns)
        self._in_cluster = functools.cache(lambda: in_cluster(values.writer, values.machine, self._own_bits))
        self._origin = self._by_thread(plan.load.columns)
        self._rank = None if plan.ranks is None else self._by_thread(plan.ranks.columns)
        self._memory_of = functools.cache(self._memory)

    def address(self, round_: int, number: int, offset: int) -> str:
        """Write a pointer (`LoadAddress`)."""
        plan, values, writer = self._plan, self._values, self._values.writer
        columns = self._index.columns
        (register,) = plan.load.rounds[round_][number].registers
        index = values.number(register)
        base, space = self._base, SHARED
        if plan.ranks is not None:
            rank = self._by_index(index, self._index.ranks)
            base, space = self._memory_of(rank, plan.ranks.loads[round_][number]), CLUSTER_SHARED
        by_index = self._by_index(index, columns)
        # In bits that neither thread nor index sets, xor is addition, and becomes an immediate offset.
        moving = functools.reduce(int.__or__, (*columns, *plan.load.columns), 0)
        moved = values.sum((by_index, self._origin), offset & moving)
        place = writer.op(f"llvm.getelementptr {base}[{moved}] : ({space}, {I32}) -> {space}, i8")
        if rest := offset & ~moving:
            place = writer.op(f"llvm.getelementptr {place}[{rest}] : ({space}) -> {space}, i8")
        return place

    def _memory(self, by_index: str | None, flipped: int) -> str:
        """The pointer to the scratch of the CTA whose rank is that of the thread, xor the parts of the index
        and of the load."""
        writer = self._values.writer
        rank = self._values.sum((by_index, self._rank), flipped)
        return self._values.machine.memory_of(writer, self._base, rank)

    def _by_index(self, index: str, columns: Columns) -> str | None:
        """The xor of the columns of the set bits of an index."""
        writer = self._values.writer
        if factor := multiplier(columns, self._values.target):
            product = writer.binary("mul", index, writer.constant(factor))
            mask = functools.reduce(int.__or__, columns)
            return writer.binary("and", product, writer.constant(mask))
        return linear_in_thread(writer, index, columns)

    def _by_thread(self, columns: Columns) -> str | None:
        """The xor of the columns of the set bits of the thread's number: that in the cluster if some belong to
        the rank of its CTA."""
        if not any(columns[self._own_bits :]):
            return self._values.by_thread(columns)
        return linear_in_thread(self._values.writer, self._in_cluster(), columns)


class _Gather:
    """Writes one gather."""

    def __init__(self, plan: GatherPlan, values: _Values) -> None:
        self._plan, self._values = plan, values
        self._writer, self._machine = values.writer, values.machine
        self._kept = segments_of(plan, values.target)
        self._word = functools.cache(values.packed)
        self._by_thread = functools.cache(values.by_thread)

    def results(self) -> list[str]:
        """The distinct values of the result."""
        plan = self._plan
        return [self._result(*both) for both in zip(plan.indices, plan.wanted, strict=True)]

    def _result(self, register: int, wanted: GatheredWord) -> str:
        plan, writer, values = self._plan, self._writer, self._values
        words = [self._word(group) for group in plan.groups(wanted)]
        number = values.number(register) if plan.moves or plan.choices else ""
        if plan.moves:
            lane, kept = self._lane(number, wanted), self._kept or 0
            bits = min(32, width(values.signature.element) << plan.packed)  # the bits above are zero
            words = [
                parts_of(writer, [self._machine.shuffle(writer, part.word, lane, kept, bits) for part in word])
                for word in words
            ]
        if plan.choices:
            parts = (
                linear_in_thread(writer, number, plan.choice_by_index),
                self._by_thread(plan.choice_by_thread),
            )
            choice = values.sum(parts, wanted.choice_flip)
            words = self._choose_word(words, choice)
            if plan.packed:
                words = [[Part.of(writer, self._extract(words[0][0].word, words[-1][0].word, choice))]]
        return values.result(words[0])

    def _lane(self, number: str, wanted: GatheredWord) -> str:
        """The lane that holds the element of an index, without the bits that the shuffle keeps."""
        plan, writer, values = self._plan, self._writer, self._values
        if self._kept is None:
            parts = linear_in_thread(writer, number, plan.lane_by_index), self._by_thread(plan.lane_by_thread)
            return values.sum(parts, wanted.lane_flip)
        distance = lane_shift(plan.lane_by_index, self._kept, values.target.lanes)
        if distance is None:
            return values.sum([linear_in_thread(writer, number, plan.lane_by_index)], wanted.lane_flip)
        if distance:
            shift = "shl" if distance > 0 else "lshr"
            number = writer.binary(shift, number, writer.constant(abs(distance)))
        return values.sum([number], wanted.lane_flip)

    def _choose_word(self, words: list[Parts], choice: str) -> list[Parts]:
        """The word that the choice's high bits name; with packed words, the two that a permute chooses from."""
        plan, writer = self._plan, self._writer
        for bit in reversed(range(len(plan.choices) - plan.select_bits, len(plan.choices))):
            masked = writer.binary("and", choice, writer.constant(1 << bit))
            condition = writer.op(f'llvm.icmp "ne" {masked}, {writer.constant(0)} : {I32}')
            half = len(words) // 2
            words = [
                parts_of(
                    writer,
                    [
                        writer.op(f"llvm.select {condition}, {one.word}, {zero.word} : i1, {I32}")
                        for zero, one in zip(*pair, strict=True)
                    ],
                )
                for pair in zip(words[:half], words[half:], strict=True)
            ]
        return words

    def _extract(self, low: str, high: str, choice: str) -> str:
        """A word whose lowest element is the one that the choice's low bits name among two words."""
        plan, writer, machine = self._plan, self._writer, self._machine
        size = width(self._values.signature.element) // 8
        # A selector is linear in the number of the element that it picks.
        step = machine.selector([size] * size)
        start = machine.selector(list(range(size)))
        slot = choice
        if plan.select_bits:
            mask = (1 << (len(plan.choices) - plan.select_bits)) - 1
            slot = writer.binary("and", choice, writer.constant(mask))
        if step > 1:
            slot = writer.binary("mul", slot, writer.constant(step))
        if start:
            slot = writer.binary("add", slot, writer.constant(start))
        return machine.permute(writer, low, high, slot)
