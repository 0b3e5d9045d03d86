"""How registers become the words of memory accesses, and back.

Registers lie in words as the kernel keeps them, `per_word` neighbours each; an access has words of its own,
of the registers that its plan names. Where threads split the stores of copies among them, what a word takes
depends on the thread.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from triton_linear.lowering.plan import SharedPlan
from triton_linear.lowering.words import Row, Step, WordBuilder


@dataclass(frozen=True, slots=True)
class StoredWords:
    """A program that makes the words of every store from `given` words of source registers; by round and
    access, the numbers of the words that it stores."""

    given: int
    steps: tuple[Step, ...]
    words: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class LoadedWords:
    """A program that makes the words of destination registers, `outputs`, from the `given` words of the loads,
    in order."""

    given: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


@functools.lru_cache(maxsize=1024)
def stored_words(plan: SharedPlan) -> StoredWords:
    """How the registers of `plan` become the words of its stores."""
    slots, side = plan.per_word, plan.store
    given = max(1, plan.source_registers // slots)
    builder = WordBuilder(slots, given)

    def row(registers: tuple[int, ...]) -> Row:
        places = tuple((register // slots, register % slots) for register in registers)
        return (*places, *((None,) * (slots - len(places))))

    def words(registers: tuple[int, ...]) -> tuple[int, ...]:
        starts = range(0, side.slots, slots)
        alternatives = range(0, len(registers), side.slots)
        return tuple(
            builder.gather(
                plan.split,
                tuple(row(registers[a + start : a + min(start + slots, side.slots)]) for a in alternatives),
            )
            for start in starts
        )

    rounds = tuple(tuple(words(access.registers) for access in accesses) for accesses in side.rounds)
    return StoredWords(given, tuple(builder.steps), rounds)


@functools.lru_cache(maxsize=1024)
def loaded_words(plan: SharedPlan) -> LoadedWords:
    """How the words of the loads of `plan` become its destination registers."""
    slots, side = plan.per_word, plan.load
    per_access = max(1, side.slots // slots)
    starts, given = [], 0
    for accesses in side.rounds:
        starts.append(given)
        given += len(accesses) * per_access
    builder = WordBuilder(slots, given)
    outputs = []
    for first in range(0, len(plan.outputs), slots):
        places = tuple(
            (starts[round_] + access * per_access + position // slots, position % slots)
            for round_, access, position in plan.outputs[first : first + slots]
        )
        outputs.append(builder.gather((), ((*places, *((None,) * (slots - len(places)))),)))
    return LoadedWords(given, tuple(builder.steps), tuple(outputs))
