"""Code for programs over words, and for linear functions of the thread number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from triton_linear.lowering.emit.elements import BYTES
from triton_linear.lowering.emit.machines import InstructionWriter
from triton_linear.lowering.emit.parts import Part, Parts, Vector, parts_of
from triton_linear.lowering.emit.text import I32, FunctionWriter
from triton_linear.lowering.target.lanes import Move
from triton_linear.lowering.target.steps import Pick, Step, Trade


def linear_in_thread(writer: FunctionWriter, thread: str, columns: Sequence[int]) -> str | None:
    """The xor of columns[j] over the set bits j of the thread number; None if it is always zero.

    Bits with the same shift distance take one shift.
    """
    masks: dict[int, int] = {}
    for bit, column in enumerate(columns):
        for place in range(column.bit_length()):
            if column >> place & 1:
                masks[place - bit] = masks.get(place - bit, 0) | 1 << bit
    total: str | None = None
    for shift, mask in sorted(masks.items()):
        part = writer.binary("and", thread, writer.constant(mask))
        if shift:
            part = writer.binary("shl" if shift > 0 else "lshr", part, writer.constant(abs(shift)))
        total = part if total is None else writer.binary("xor", total, part)
    return total


def parity(writer: FunctionWriter, thread: str, mask: int) -> str:
    """An i1 that is true if an odd number of the bits of `mask` are set in the thread number."""
    selected = writer.binary("and", thread, writer.constant(mask))
    if mask & (mask - 1):
        count = writer.op(f"llvm.intr.ctpop({selected}) : ({I32}) -> {I32}")
        selected = writer.binary("and", count, writer.constant(1))
    return writer.op(f'llvm.icmp "ne" {selected}, {writer.constant(0)} : {I32}')


HALVES = 2
"""Slots of a word of half-words."""


class WordWriter:
    """Writes a program over words step by step; compilers keep much of this order. A word is a list of
    parts."""

    def __init__(
        self,
        writer: FunctionWriter,
        machine: InstructionWriter,
        slots: int,
        given: Sequence[Parts] | Callable[[int], Parts],
        count: int,
        half: str = "i16",
    ) -> None:
        """given: the first `count` words, of `slots` slots each, or a function that writes one.
        half: the type of half-words.
        """
        self._writer, self._machine, self._slots, self._count = writer, machine, slots, count
        self._given = given if callable(given) else given.__getitem__
        self._thread = machine.thread(writer)
        self._half = half
        self._words: dict[int, Parts] = {}
        self._written = 0
        self._conditions: dict[int, str] = {}
        self._lanes: dict[tuple[tuple[int, ...], int], str] = {}
        self._trades: dict[tuple[tuple[int, int], int], list[tuple[str, str]]] = {}
        self._selectors: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}

    def run(self, steps: Iterable[Step]) -> WordWriter:
        """Write more steps; return the writer itself."""
        for step in steps:
            self._words[self._count + self._written] = self._write(step)
            self._written += 1
        return self

    def word(self, number: int) -> Parts:
        """The parts of a word."""
        if number not in self._words:
            self._words[number] = self._given(number)
        return self._words[number]

    def _write(self, step: Step) -> Parts:
        if isinstance(step, Pick):
            return self._pick(step)
        if isinstance(step, Trade):
            return self._trade(step)
        moves = self._machine.route(step)
        words = [part.word for part in self.word(step.word)]
        if moves is not None:
            return parts_of(self._writer, [self._moved(word, moves) for word in words])
        columns = step.lane_columns
        lane = step.lane_xor if columns is None else self._lane(columns, step.lane_xor)
        return parts_of(self._writer, [self._machine.shuffle(self._writer, word, lane) for word in words])

    def _trade(self, step: Trade) -> Parts:
        key = step.words, step.lane_bit
        if key not in self._trades:
            first, second = map(self.word, step.words)
            self._trades[key] = [
                self._machine.trade(self._writer, a.word, b.word, step.lane_bit)
                for a, b in zip(first, second, strict=True)
            ]
        return parts_of(self._writer, [pair[step.side] for pair in self._trades[key]])

    def _moved(self, word: str, moves: Iterable[Move]) -> str:
        for move in moves:
            word = self._machine.move(self._writer, word, move)
        return word

    def _lane(self, columns: tuple[int, ...], flipped: int) -> str:
        """The lane of the linear map `columns`, xor `flipped`."""
        key = (columns, flipped)
        if key not in self._lanes:
            writer = self._writer
            if flipped:
                own = self._lane(columns, 0)
                self._lanes[key] = writer.binary("xor", own, writer.constant(flipped))
            else:
                lane = linear_in_thread(writer, self._thread, columns)
                self._lanes[key] = writer.constant(0) if lane is None else lane
        return self._lanes[key]

    def _condition(self, mask: int) -> str:
        if mask not in self._conditions:
            self._conditions[mask] = parity(self._writer, self._thread, mask)
        return self._conditions[mask]

    def _pick(self, step: Pick) -> Parts:
        writer, slots = self._writer, self._slots
        sources = [self.word(source) for source in step.sources]
        whole = step.whole()
        if whole is None and (same := self._joinable(step, sources)):
            return [self._joined(sources[0], sources[-1], same)]
        if whole is None:
            selectors = tuple(self._machine.selector(_bytes_of(picks, 4 // slots)) for picks in step.picks)
            (low,), (high,) = sources[0], sources[-1]
            selector = self._selector(step.masks, selectors)
            return [Part.of(writer, self._machine.permute(writer, low.word, high.word, selector))]
        if len(whole) == 1:
            return sources[whole[0]]
        condition = self._condition(step.masks[0])
        pairs = [(a.word, b.word) for a, b in zip(sources[whole[0]], sources[whole[1]], strict=True)]
        return parts_of(writer, [writer.op(f"llvm.select {condition}, {b}, {a} : i1, {I32}") for a, b in pairs])

    def _joinable(self, step: Pick, sources: Sequence[Parts]) -> tuple[int, ...] | None:
        """The slots that all threads pick, if a word is better made of them than by a permute: half-words, or
        bytes that are not in words yet."""
        are_apart = self._slots == BYTES and all(part.vector.apart for parts in sources for part in parts)
        return _same_slots(step.picks) if self._slots == HALVES or are_apart else None

    def _joined(self, low: Parts, high: Parts, picked: tuple[int, ...]) -> Part:
        """A word made of slots of two others, without a permute, which the compiler does not see through. No
        operation is written if the slots are used separately."""
        slots, given = self._slots, low[0].vector
        element = self._half if slots == HALVES else "i8"
        places = ((high if slot >= slots else low, slot % slots) for slot in picked)
        values = [part.slot(element, slot) for (part,), slot in places]
        return Part(Vector(self._writer, element, values, apart=given.apart))

    def _selector(self, masks: tuple[int, ...], selectors: tuple[int, ...]) -> str:
        """The selector of this thread's alternative."""
        if len(set(selectors)) == 1:
            return self._writer.constant(selectors[0])
        key = (masks, selectors)
        if key not in self._selectors:
            half = len(selectors) // 2
            zero, one = (self._selector(masks[:-1], part) for part in (selectors[:half], selectors[half:]))
            condition = self._condition(masks[-1])
            self._selectors[key] = self._writer.op(f"llvm.select {condition}, {one}, {zero} : i1, {I32}")
        return self._selectors[key]


def _same_slots(picks: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The slots that all threads pick, counted through both words; None if threads differ."""
    found = {tuple(slot if pick < 0 else pick for slot, pick in enumerate(row)) for row in picks}
    return found.pop() if len(found) == 1 else None


def _bytes_of(picks: Sequence[int], size: int) -> list[int]:
    """The bytes to pick for slots of `size` bytes, counted through both words; a slot that is not read picks
    itself."""
    return [
        (slot if pick < 0 else pick) * size + byte for slot, pick in enumerate(picks) for byte in range(size)
    ]
