"""The values of all slots after a program over words, for the proof of a plan; `target.steps` has the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triton_linear.lowering.prove.functions import ThreadFunctions, Value
from triton_linear.lowering.target.steps import Pick, Shuffle, Step, Trade

Word = tuple["Value | None", ...]
"""The value of each slot; None if it is undefined in some thread, or no element."""


class Refuted(Exception):
    """A plan is not proved: the text names a place and what is wrong there."""


def packed(values: Sequence[Value | None], slots: int) -> list[Word]:
    """Pack registers as the kernel does: `slots` neighbours in a word; missing slots of the last are None."""
    words = [tuple(values[start : start + slots]) for start in range(0, len(values), slots)]
    return [(*word, *((None,) * (slots - len(word)))) for word in words]


def run_words(
    functions: ThreadFunctions,
    steps: Iterable[Step],
    words: list[Word],
    slots: int,
    lane_bits: int,
    thread_bits: int,
) -> None:
    """Append the word of every step to `words`."""
    for number, step in enumerate(steps):
        asked = (max(step.masks, default=0),) if isinstance(step, Pick) else ()
        columns = (step.lane_columns or ()) if isinstance(step, Shuffle) else ()
        if len(columns) > thread_bits or any(mask >> thread_bits for mask in asked):
            raise Refuted(f"step {number} asks for bits that a thread number does not have")
        if isinstance(step, Shuffle):
            words.append(_shuffled(functions, step, words, lane_bits, thread_bits, number))
        elif isinstance(step, Trade):
            words.append(_traded(functions, step, words, lane_bits, thread_bits, number))
        else:
            words.append(_picked(functions, step, words, slots, number))


def words_at(words: Sequence[Word], numbers: Iterable[int]) -> list[Word]:
    """The words with these numbers."""
    found = []
    for number in numbers:
        if not 0 <= number < len(words):
            raise Refuted(f"word {number} is asked for, there are {len(words)}")
        found.append(words[number])
    return found


def _shuffled(
    functions: ThreadFunctions,
    step: Shuffle,
    words: Sequence[Word],
    lane_bits: int,
    thread_bits: int,
    number: int,
) -> Word:
    (word,) = words_at(words, (step.word,))
    own = tuple([1 << bit for bit in range(thread_bits)])
    columns = own[:lane_bits] if step.lane_columns is None else step.lane_columns
    lanes = 1 << lane_bits
    if not 0 <= step.lane_xor < lanes or any(column >= lanes for column in columns):
        raise Refuted(f"step {number} reads a lane beyond the {lanes} of a warp")
    # A shuffle reads a lane of the own warp.
    threads = tuple(
        [
            (columns[bit] if bit < len(columns) else 0) | (0 if bit < lane_bits else own[bit])
            for bit in range(thread_bits)
        ]
    )
    moved = functions.moved
    return tuple([None if value is None else moved(value, threads, step.lane_xor) for value in word])


def _traded(
    functions: ThreadFunctions,
    step: Trade,
    words: Sequence[Word],
    lane_bits: int,
    thread_bits: int,
    number: int,
) -> Word:
    if not 0 <= step.lane_bit < lane_bits or step.side not in (0, 1) or len(step.words) != 2:
        raise Refuted(f"step {number} exchanges lane bit {step.lane_bit} of {lane_bits}, side {step.side}")
    kept, other = words_at(words, (step.words[step.side], step.words[1 - step.side]))
    sent = Shuffle(0, 1 << step.lane_bit)
    taken = _shuffled(functions, sent, [other], lane_bits, thread_bits, number)
    sides = (taken, kept) if step.side else (kept, taken)
    return tuple(_selected(functions, 1 << step.lane_bit, *sides))


def _picked(
    functions: ThreadFunctions,
    step: Pick,
    words: Sequence[Word],
    slots: int,
    number: int,
) -> Word:
    if not 1 <= len(step.sources) <= 2 or len(step.picks) != 1 << len(step.masks):
        raise Refuted(f"step {number} has {len(step.sources)} sources and {len(step.picks)} alternatives")
    held = [value for word in words_at(words, step.sources) for value in word]
    rows: list[Sequence[Value | None]] = []
    for picks in step.picks:
        if len(picks) != slots or not -1 <= min(picks) <= max(picks) < len(held):
            raise Refuted(f"step {number} picks slots {picks} of {len(held)}, for {slots}")
        rows.append([None if pick < 0 else held[pick] for pick in picks])
    for mask in reversed(step.masks):
        half = len(rows) // 2
        rows = [_selected(functions, mask, *pair) for pair in zip(rows[:half], rows[half:], strict=True)]
    return tuple(rows[0])


def _selected(
    functions: ThreadFunctions, mask: int, zero: Sequence[Value | None], one: Sequence[Value | None]
) -> list[Value | None]:
    select = functions.select
    return [None if a is None or b is None else select(mask, a, b) for a, b in zip(zero, one, strict=True)]
