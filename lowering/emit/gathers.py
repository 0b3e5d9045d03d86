"""Code of gathers: from registers of source and index to those of the result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from triton_linear.lowering.emit.elements import packed_words, unpacked, width
from triton_linear.lowering.emit.machines import machine_of
from triton_linear.lowering.emit.parts import Part, Parts, parts_of
from triton_linear.lowering.emit.text import I32, I64, FunctionWriter, Signature
from triton_linear.lowering.emit.words import linear_in_thread
from triton_linear.lowering.gather.shuffles import lane_shift, segments_of
from triton_linear.lowering.plan.gathers import Columns, GatheredWord, GatherPlan
from triton_linear.lowering.target.targets import Target


def gathered(
    plan: GatherPlan,
    signature: Signature,
    target: Target,
    writer: FunctionWriter,
    register: Callable[[int], str],
    index: str,
) -> list[str]:
    """Write the code of a gather; return the registers of its result.

    register: writes a register of the source. index: the name of the struct of the index's registers.
    """
    found = _Gather(plan, _Values(signature, target, writer, register, index)).results()
    return [found[number] for number in plan.outputs]


class _Values:
    """Writes the operations that read the registers of a gather's operands."""

    def __init__(
        self,
        signature: Signature,
        target: Target,
        writer: FunctionWriter,
        register: Callable[[int], str],
        index: str,
    ) -> None:
        self.signature, self.target, self.writer = signature, target, writer
        self.machine = machine_of(target)
        self._register, self._index, self._index_type = register, index, writer.type(signature.index)

    def packed(self, registers: Iterable[int]) -> Parts:
        """The word that packs these source registers."""
        values = [self._register(number) for number in registers]
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
