"""How registers become the words of memory accesses, and back.

The kernel packs `per_word` neighbouring registers into a word. A memory access has other words, made of the
registers that its plan names. If threads split the stores of copies among them, the registers of a word depend
on the thread.
"""

from __future__ import annotations

import functools

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.lowering.plan.words import NOWHERE, Row, WordBuilder
from triton_linear.lowering.target.steps import Step

Rounds = tuple[tuple[tuple[int, ...], ...], ...]
"""The registers that each access stores, by round and access."""


@dataclass(frozen=True, slots=True)
class StoredWords:
    """A program that makes the words of every store from the `given` words of the source registers; `words` has
    the numbers of the words that each access stores, by round and access."""

    given: int
    steps: tuple[Step, ...]
    words: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class LoadedWords:
    """A program that makes the words of the destination registers, `outputs`, from the `given` words of the
    loads, in order."""

    given: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


def stored_words(plan: SharedPlan) -> StoredWords:
    """The program that makes the words of the stores of `plan` from its source registers."""
    rounds = tuple([tuple([access.registers for access in accesses]) for accesses in plan.store.rounds])
    return _stored(plan.per_word, plan.source_registers, plan.store.slots, plan.split, rounds)


@functools.lru_cache(maxsize=1024)
def _stored(
    slots: int, source_registers: int, width: int, split: tuple[int, ...], accesses: Rounds
) -> StoredWords:
    """`stored_words`; plans that differ in addresses alone share its result. `width`: elements of an access."""
    given = max(1, source_registers // slots)
    builder = WordBuilder(slots, given)

    def row(registers: tuple[int, ...]) -> Row:
        # Register r is slot r % slots of word r // slots, so its number is that of its place.
        return (*registers, *((NOWHERE,) * (slots - len(registers))))

    def words(registers: tuple[int, ...]) -> tuple[int, ...]:
        starts = range(0, width, slots)
        alternatives = range(0, len(registers), width)
        return tuple(
            builder.choose(
                split,
                tuple(row(registers[a + start : a + min(start + slots, width)]) for a in alternatives),
            )
            for start in starts
        )

    rounds = tuple(tuple(map(words, round_)) for round_ in accesses)
    return StoredWords(given, tuple(builder.steps), rounds)


def loaded_words(plan: SharedPlan) -> LoadedWords:
    """The program that makes the destination registers of `plan` from the words of its loads."""
    counts = tuple([len(accesses) for accesses in plan.load.rounds])
    return _loaded(plan.per_word, plan.load.slots, counts, plan.outputs)


@functools.lru_cache(maxsize=1024)
def _loaded(
    slots: int, width: int, counts: tuple[int, ...], places_of: tuple[tuple[int, int, int], ...]
) -> LoadedWords:
    """`loaded_words`. `width`: elements of an access; `counts`: accesses of each round."""
    per_access = max(1, width // slots)
    starts, given = [], 0
    for count in counts:
        starts.append(given)
        given += count * per_access
    builder = WordBuilder(slots, given)
    outputs = []
    for first in range(0, len(places_of), slots):
        places = [
            (starts[round_] + access * per_access) * slots + position
            for round_, access, position in places_of[first : first + slots]
        ]
        outputs.append(builder.choose((), ((*places, *((NOWHERE,) * (slots - len(places)))),)))
    return LoadedWords(given, tuple(builder.steps), tuple(outputs))
