"""Straight-line programs over the 32-bit words of a warp's registers; `target.steps` has their steps.

`WordBuilder.choose` makes any word, from as few steps as a small search finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from triton_linear.dialect import f2
from triton_linear.lowering.target.steps import Pick, Shuffle, Step, Trade

Place = tuple[int, int]
"""A slot of a word: (word, slot)."""

Row = tuple[int, ...]
"""The origin of each slot of a word: slot s of word w is w * slots + s; `NOWHERE` for a slot that is not
read."""

Table = tuple[Row, ...]
"""A row for each alternative: bit i of the alternative's number is the parity of mask i and the thread."""

NOWHERE = -1


class TooLong(Exception):
    """A program has reached the limit of its steps."""


class WordBuilder:
    """A program being written. Words are numbered: first the `given` ones, then the word of each step.

    With a `limit`, the step that makes the program `limit` steps long raises `TooLong`.
    """

    def __init__(self, slots: int, given: int, limit: int | None = None) -> None:
        self.slots = slots
        self.given = given
        self.limit = limit
        self.steps: list[Step] = []
        self._made: dict[object, int] = {}
        self._costs: dict[object, int] = {}
        self._halves: dict[_WordRequest, tuple[int, Row]] = {}
        self._halves_made: dict[object, int] = {}

    def copy(self, limit: int | None = None) -> WordBuilder:
        """A copy of the program, which can be continued independently."""
        twin = WordBuilder(self.slots, self.given, limit)
        twin.steps, twin._made = list(self.steps), dict(self._made)
        twin._halves, twin._halves_made = dict(self._halves), dict(self._halves_made)
        return twin

    def shuffle(self, step: Shuffle) -> int:
        """The number of the word of a shuffle; equal shuffles are made once."""
        return self._step(step, step)

    def trade(self, first: int, second: int, lane_bit: int) -> tuple[int, int]:
        """The numbers of two words after the bit that numbers them and a lane bit have changed places."""
        steps = [Trade((first, second), lane_bit, side) for side in (0, 1)]
        return self._step(steps[0], steps[0]), self._step(steps[1], steps[1])

    def choose_places(self, masks: Sequence[int], table: Sequence[Sequence[Place | None]]) -> int:
        """`choose`, for places that are given as (word, slot)."""
        slots = self.slots
        rows = [[NOWHERE if place is None else place[0] * slots + place[1] for place in row] for row in table]
        return self.choose(masks, tuple(map(tuple, rows)))

    def choose(self, masks: Sequence[int], table: Table) -> int:
        """The number of the word that `table` describes; a word that exists already is not made again."""
        if not masks and table[0][0] >= 0:
            word = table[0][0] // self.slots
            if table[0] == tuple(range(word * self.slots, (word + 1) * self.slots)):
                return word  # as it is
        return self._choose(_essential(tuple(masks), table, self.slots))

    def _step(self, key: object, step: Step) -> int:
        made = self._made.get(key)
        return self._append(key, step) if made is None else made

    def _append(self, key: object, step: Step) -> int:
        """Append a step; return the number of its word. Raises `TooLong` at the limit."""
        made = self._made[key] = self.given + len(self.steps)
        self.steps.append(step)
        if self.limit is not None and len(self.steps) >= self.limit:
            raise TooLong
        return made

    def _choose(self, wanted: _WordRequest) -> int:
        """The number of a requested word; splits it until each part reads two words at most."""
        if not wanted.sources:
            return 0
        if len(wanted.sources) <= 2:
            return self._pick(wanted)
        made = self._made.get(wanted)
        if made is not None:
            return made
        splits = self._splits(wanted)
        split = splits[0] if len(splits) == 1 else self._cheapest(splits)[1]
        own = tuple(range(self.slots))
        if split.slots is None:
            first, second = map(self._choose, split.parts)
            other = tuple([slot + self.slots for slot in own])
            step = Pick((first, second), (split.mask,), (own, other))
        else:
            (first, low), (second, high) = map(self._half, split.parts)
            picked = tuple([high[slot] + self.slots if slot in split.slots else low[slot] for slot in own])
            step = Pick((first, second), (), (picked,))
        if first == second:  # both halves found room in it
            step = replace(
                step,
                sources=(first,),
                picks=tuple(tuple(pick % self.slots for pick in row) for row in step.picks),
            )
        return self._append(wanted, step)

    def _half(self, wanted: _WordRequest) -> tuple[int, Row]:
        """(word, slots): the word with the requested slots, and where in it they are.

        They may be in one word with those of another request, if both read the same sources by the same
        conditions, and there is room.
        """
        own = tuple(range(self.slots))
        if len(wanted.sources) > 2 or wanted in self._made:
            return self._choose(wanted), own
        if wanted not in self._halves:
            key = frozenset(wanted.sources), wanted.masks
            found = self._beside(wanted, self._halves_made[key]) if key in self._halves_made else None
            if found is None:
                before = len(self.steps)
                found = self._choose(wanted), own
                if len(self.steps) > before:
                    self._halves_made[key] = found[0]
            self._halves[wanted] = found
        return self._halves[wanted]

    def _beside(self, wanted: _WordRequest, word: int) -> tuple[int, Row] | None:
        """`_half`, by slots of a word's pick that may be anything; None if they are too few."""
        step = self.steps[word - self.given]
        assert isinstance(step, Pick)
        needed = [slot for slot in range(self.slots) if any(row[slot] >= 0 for row in wanted.table)]
        free = [slot for slot in range(self.slots) if all(row[slot] < 0 for row in step.picks)]
        if len(needed) > len(free):
            return None
        stays = [slot for slot in needed if slot in free]
        others = iter([slot for slot in free if slot not in stays])
        at = {slot: slot if slot in stays else next(others) for slot in needed}
        rows = [list(row) for row in step.picks]
        for row, picks in zip(rows, _picks(wanted.table, step.sources, self.slots), strict=True):
            for slot in needed:
                row[at[slot]] = picks[slot]
        self.steps[word - self.given] = replace(step, picks=tuple(map(tuple, rows)))
        return word, tuple([at.get(slot, slot) for slot in range(self.slots)])

    def _pick(self, wanted: _WordRequest) -> int:
        """The word, made of one or two others by at most one step."""
        slots, sources = self.slots, wanted.sources
        first = sources[0] * slots
        if len(sources) == 1 and all(
            place < 0 or place == first + slot for row in wanted.table for slot, place in enumerate(row)
        ):
            return sources[0]
        made = self._made.get(wanted)
        if made is not None:
            return made
        return self._append(wanted, Pick(sources, wanted.masks, _picks(wanted.table, sources, slots)))

    def _cost(self, wanted: _WordRequest) -> int:
        """Steps for a word, without steps that were made for other words."""
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
        """(steps, split) of the first split that takes the fewest steps."""
        best: tuple[int, _Split] | None = None
        for split in splits:
            if best is None or 1 + sum(map(self._least, split.parts)) < best[0]:
                cost = 1 + sum(map(self._cost, split.parts))
                if best is None or cost < best[0]:
                    best = cost, split
        assert best is not None  # a word of more than two others can be split
        return best

    def _least(self, wanted: _WordRequest) -> int:
        """A lower bound of `_cost`."""
        return int(len(wanted.sources) <= 2 or wanted not in self._made)

    def _splits(self, wanted: _WordRequest) -> list[_Split]:
        """The ways worth trying to split a word that reads more than two others."""
        masks, table, sources = wanted
        slots = self.slots
        # Successive words share the most steps if all of them are split by the same conditions first.
        if len(masks) > 2 or (masks and len(sources) > slots):
            return [_by_condition(masks, table, len(masks) - 1, slots)]
        splits = [_by_condition(masks, table, bit, slots) for bit in reversed(range(len(masks)))]
        if slots > 1:
            for chosen in _HALVES[slots]:
                split = _by_slots(masks, table, chosen, slots)
                if all(part.sources for part in split.parts):
                    splits.append(split)
                    if not masks:  # a half then has at most two sources, so that all halves cost the same
                        break
        return splits


class _WordRequest(NamedTuple):
    """A requested word: the conditions that it depends on, its table, and the words that it reads, in the order
    of the table."""

    masks: tuple[int, ...]
    table: Table
    sources: tuple[int, ...]


class _Split(NamedTuple):
    """A word as a choice between two others: by a condition (`slots` is None), or slot by slot."""

    parts: tuple[_WordRequest, _WordRequest]
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


def _picks(table: Table, sources: Sequence[int], slots: int) -> Table:
    """The table with slots counted through the sources, of which there are one or two."""
    first, second = sources[0] * slots, sources[-1] * slots
    places = {NOWHERE: NOWHERE}
    for slot in range(slots):
        places[second + slot] = slots + slot
    for slot in range(slots):  # of one source, these count
        places[first + slot] = slot
    return tuple([tuple([places[place] for place in row]) for row in table])


def _essential(masks: tuple[int, ...], table: Table, slots: int) -> _WordRequest:
    """The requested word without the conditions that it does not depend on."""
    if not masks:
        return _WordRequest(masks, table, tuple(dict.fromkeys([p // slots for p in table[0] if p >= 0])))
    for bit in reversed(range(len(masks))):
        low, count = 1 << bit, len(table)
        # Runs of rows in which the condition is false alternate with runs in which it is true. The first two
        # runs mostly differ, which is tested first.
        if table[:low] == table[low : 2 * low] and all(
            table[at : at + low] == table[at + low : at + 2 * low] for at in range(2 * low, count, 2 * low)
        ):
            table = tuple([row for at in range(0, count, 2 * low) for row in table[at : at + low]])
            masks = (*masks[:bit], *masks[bit + 1 :])
    sources = dict.fromkeys([place // slots for row in table for place in row if place >= 0])
    return _WordRequest(masks, table, tuple(sources))


def parity_terms(columns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(vector, mask) pairs that compute a xor of columns by parities.

    Ensures: the xor of `columns[j]` over the set bits j of x is the xor of the vectors with parity(mask & x) =
    1, for every x; the vectors are independent.

    >>> parity_terms((1, 0, 3, 1))
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
