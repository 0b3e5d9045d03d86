"""Straight-line programs over the 32-bit words of a warp's registers; `target.steps` has what they are made of.

`WordBuilder.gather` makes any word that is asked for, out of as few of those steps as a small search finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triton_linear.dialect import f2
from triton_linear.lowering.target.steps import Pick, Shuffle, Step, Trade

Place = tuple[int, int]
"""A slot of a word: (word, slot)."""

Row = tuple[int, ...]
"""Where each slot of a word comes from: slot s of word w is w * slots + s; `NOWHERE` where nobody reads it."""

Table = tuple[Row, ...]
"""A row for each alternative: bit i of the alternative's number is the parity of mask i and the thread."""

NOWHERE = -1


class TooLong(Exception):
    """A program has as many steps as it may not have."""


class WordBuilder:
    """A program being written. Words are numbered: first those given, then one for each step.

    The step that makes it `limit` steps long, if there is a limit, raises `TooLong`.
    """

    def __init__(self, slots: int, given: int, limit: int | None = None) -> None:
        self.slots = slots
        self.given = given
        self.limit = limit
        self.steps: list[Step] = []
        self._made: dict[object, int] = {}
        self._costs: dict[object, int] = {}

    def copy(self, limit: int | None = None) -> WordBuilder:
        """The same program, to be continued on its own."""
        twin = WordBuilder(self.slots, self.given, limit)
        twin.steps, twin._made = list(self.steps), dict(self._made)
        return twin

    def shuffle(self, step: Shuffle) -> int:
        """The word of a shuffle; equal ones are made once."""
        return self._step(step, step)

    def trade(self, first: int, second: int, lane_bit: int) -> tuple[int, int]:
        """Two words after their choice and a bit of the lanes have changed places."""
        steps = [Trade((first, second), lane_bit, side) for side in (0, 1)]
        return self._step(steps[0], steps[0]), self._step(steps[1], steps[1])

    def gather(self, masks: Sequence[int], table: Sequence[Sequence[Place | None]]) -> int:
        """`choose`, with places told apart into words and slots."""
        slots = self.slots
        rows = [[NOWHERE if place is None else place[0] * slots + place[1] for place in row] for row in table]
        return self.choose(masks, tuple(map(tuple, rows)))

    def choose(self, masks: Sequence[int], table: Table) -> int:
        """The word that `table` describes; nothing is made where there is one already."""
        return self._choose(_essential(tuple(masks), table, self.slots))

    def _step(self, key: object, step: Step) -> int:
        made = self._made.get(key)
        return self._append(key, step) if made is None else made

    def _append(self, key: object, step: Step) -> int:
        """The word of a step that is not made yet."""
        made = self._made[key] = self.given + len(self.steps)
        self.steps.append(step)
        if self.limit is not None and len(self.steps) >= self.limit:
            raise TooLong
        return made

    def _choose(self, wanted: _Wanted) -> int:
        if not wanted.sources:
            return 0
        if len(wanted.sources) <= 2:
            return self._pick(wanted)
        made = self._made.get(wanted)
        if made is not None:
            return made
        splits = self._splits(wanted)
        split = splits[0] if len(splits) == 1 else self._cheapest(splits)[1]
        first, second = map(self._choose, split.parts)
        if first == second:
            raise AssertionError("two parts of a word are one")
        own = tuple(range(self.slots))
        other = tuple([slot + self.slots for slot in own])
        if split.slots is None:
            step = Pick((first, second), (split.mask,), (own, other))
        else:
            picked = tuple([slot + self.slots * (slot in split.slots) for slot in own])
            step = Pick((first, second), (), (picked,))
        return self._append(wanted, step)

    def _pick(self, wanted: _Wanted) -> int:
        """The word, which one step makes of one or two others."""
        slots, sources = self.slots, wanted.sources
        first = sources[0] * slots
        if len(sources) == 1 and all(
            place < 0 or place == first + slot for row in wanted.table for slot, place in enumerate(row)
        ):
            return sources[0]
        made = self._made.get(wanted)
        if made is not None:
            return made
        second = sources[-1] * slots
        picks = tuple(
            [
                tuple(
                    [
                        place
                        if place < 0
                        else place - first
                        if 0 <= place - first < slots
                        else place - second + slots
                        for place in row
                    ]
                )
                for row in wanted.table
            ]
        )
        return self._append(wanted, Pick(sources, wanted.masks, picks))

    def _cost(self, wanted: _Wanted) -> int:
        """Steps for a word, without those that it shares with others."""
        sources = wanted.sources
        if len(sources) <= 2:
            return 1
        if wanted in self._made:
            return 0
        # Words that differ only in the numbers of their sources cost the same.
        slots = self.slots
        moved = {source: (number - source) * slots for number, source in enumerate(sources)}
        alike = tuple(
            [
                tuple([place if place < 0 else place + moved[place // slots] for place in row])
                for row in wanted.table
            ]
        )
        key = (len(wanted.masks), alike)
        cost = self._costs.get(key)
        if cost is None:
            cost = self._costs[key] = self._cheapest(self._splits(wanted))[0]
        return cost

    def _cheapest(self, splits: Sequence[_Split]) -> tuple[int, _Split]:
        """The first split of the fewest steps, and these."""
        best: tuple[int, _Split] | None = None
        for split in splits:
            if best is None or 1 + sum(map(self._least, split.parts)) < best[0]:
                cost = 1 + sum(map(self._cost, split.parts))
                if best is None or cost < best[0]:
                    best = cost, split
        assert best is not None  # a word of more than two others can be split
        return best

    def _least(self, wanted: _Wanted) -> int:
        """Steps for a word at least, without those that it shares with others."""
        return int(len(wanted.sources) <= 2 or wanted not in self._made)

    def _splits(self, wanted: _Wanted) -> list[_Split]:
        masks, table, sources = wanted
        slots = self.slots
        # Words that are asked for in turn share most when all are divided by the same conditions first.
        if len(masks) > 2 or (masks and len(sources) > slots):
            return [_by_condition(masks, table, len(masks) - 1, slots)]
        splits = [_by_condition(masks, table, bit, slots) for bit in reversed(range(len(masks)))]
        if slots > 1:
            for chosen in _HALVES[slots]:
                split = _by_slots(masks, table, chosen, slots)
                if all(part.sources for part in split.parts):
                    splits.append(split)
                    if not masks:  # a half has two sources at most then, so that all halves cost the same
                        break
        return splits


class _Wanted(NamedTuple):
    """A word that is asked for: only conditions on which it depends, and the words that it reads, in the order
    of the table."""

    masks: tuple[int, ...]
    table: Table
    sources: tuple[int, ...]


class _Split(NamedTuple):
    """A word as one of two others: by a condition, or slot by slot."""

    parts: tuple[_Wanted, _Wanted]
    mask: int
    slots: tuple[int, ...] | None


_HALVES = {2: ((1,),), 4: ((2, 3), (1, 3), (1, 2))}


def _by_condition(masks: tuple[int, ...], table: Table, bit: int, slots: int) -> _Split:
    rest = (*masks[:bit], *masks[bit + 1 :])
    zero = tuple([row for number, row in enumerate(table) if not number >> bit & 1])
    one = tuple([row for number, row in enumerate(table) if number >> bit & 1])
    return _Split((_essential(rest, zero, slots), _essential(rest, one, slots)), masks[bit], None)


def _by_slots(masks: tuple[int, ...], table: Table, chosen: tuple[int, ...], slots: int) -> _Split:
    first = tuple(
        [tuple([NOWHERE if slot in chosen else place for slot, place in enumerate(row)]) for row in table]
    )
    second = tuple(
        [tuple([place if slot in chosen else NOWHERE for slot, place in enumerate(row)]) for row in table]
    )
    return _Split((_essential(masks, first, slots), _essential(masks, second, slots)), 0, chosen)


def _essential(masks: tuple[int, ...], table: Table, slots: int) -> _Wanted:
    """Without the conditions on which nothing depends."""
    if not masks:
        return _Wanted(masks, table, tuple(dict.fromkeys([p // slots for p in table[0] if p >= 0])))
    for bit in reversed(range(len(masks))):
        low, count = 1 << bit, len(table)
        # Rows for which the condition does not hold stand in runs, each before the run for which it does. Most
        # often the first two tell.
        if table[:low] == table[low : 2 * low] and all(
            table[at : at + low] == table[at + low : at + 2 * low] for at in range(2 * low, count, 2 * low)
        ):
            table = tuple([row for at in range(0, count, 2 * low) for row in table[at : at + low]])
            masks = (*masks[:bit], *masks[bit + 1 :])
    sources = dict.fromkeys([place // slots for row in table for place in row if place >= 0])
    return _Wanted(masks, table, tuple(sources))


def read_by(step: Step) -> tuple[int, ...]:
    """The words that a step reads."""
    if isinstance(step, Pick):
        return step.sources
    return step.words if isinstance(step, Trade) else (step.word,)


def steering(columns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(vector, mask) with: the sum of `columns` over the set bits of x is that of the vectors whose
    parity(mask & x) is one; the vectors are independent.

    >>> steering((1, 0, 3, 1))
    ((1, 9), (3, 4))
    """
    span = f2.Echelon()
    independent = [column for column in columns if span.add(column)]
    coordinates = f2.Echelon(independent)
    masks = [0] * len(independent)
    for bit, column in enumerate(columns):
        combination = coordinates.solve(column)
        assert combination is not None  # every column is in the span
        for index in range(len(independent)):
            masks[index] |= (combination >> index & 1) << bit
    return tuple(zip(independent, masks, strict=True))


def spread(steps: Sequence[Step], outputs: Sequence[int], given: int) -> tuple[Step, ...]:
    """The same steps, up to half of them marked as replacements: those can run beside the others, on another
    pipe. The words of `outputs` are needed in the end; the first `given` words are not made by steps.

    What is put in another's place is multiplied by one, and must have come from another lane: of two values
    that the kernel multiplied by one float, `ptxas` (12.8) takes that float into the integer multiplications of
    both, as if products of floats and integers were associative. It cannot see through a shuffle.
    """
    travelled = [False] * given
    for step in steps:
        travelled.append(not isinstance(step, Pick) or all(travelled[word] for word in step.sources))
    last_use: dict[int, int] = {}
    for index, step in enumerate(steps):
        last_use |= dict.fromkeys(read_by(step), index)
    last_use |= dict.fromkeys(outputs, len(steps))
    marked: list[Step] = []
    gathered = replaced = 0
    for index, step in enumerate(steps):
        if isinstance(step, Pick):
            gathered += 1
            whole = step.whole() if 2 * replaced < gathered else None
            if whole is not None and len(whole) == 2:
                free = [
                    place
                    for place, word in enumerate(step.sources)
                    if last_use[word] == index
                    and all(travelled[other] for other in step.sources if other != word)
                ]
                if free:
                    marked.append(Pick(step.sources, step.masks, step.picks, free[0]))
                    replaced += 1
                    continue
        marked.append(step)
    return tuple(marked)
