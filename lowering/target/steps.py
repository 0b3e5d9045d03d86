"""The steps of programs over the 32-bit words of a warp's registers: byte permutes and shuffles.

Elements below 32 bits are packed into words, register by register. A kernel keeps them in these words, so that
using them costs nothing. A wider element is a word of its own. A `Pick` takes the slots of a new word from one
or two other words, and its choice may depend on the thread. It packs, chooses and permutes at once, and is one
PRMT or SEL on NVIDIA and one V_PERM or V_CNDMASK on AMD.
"""

from __future__ import annotations

import functools

from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class Pick:
    """A word whose slot s is, in alternative a, slot `picks[a][s]` of `sources`, counted through both.

    Bit i of a thread's alternative is parity(masks[i] & thread). A pick of -1 may be anything.
    """

    sources: tuple[int, ...]
    masks: tuple[int, ...]
    picks: tuple[tuple[int, ...], ...]

    def whole(self) -> tuple[int, ...] | None:
        """The position of the source that each of one or two alternatives takes whole.

        None if there are more alternatives, or one of them does not take a whole word.
        """
        return _whole(self.picks) if len(self.picks) <= 2 else None


@functools.lru_cache(maxsize=1024)
def _whole(alternatives: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """`Pick.whole` by its picks, of which few differ."""
    found = []
    for picks in alternatives:
        slots = len(picks)
        sources = {pick // slots for pick in picks if pick >= 0}
        if len(sources) > 1 or any(pick >= 0 and pick % slots != slot for slot, pick in enumerate(picks)):
            return None
        found.append(sources.pop() if sources else 0)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The `word` of another lane of the warp.

    The lane read is the xor of `lane_columns[j]` over the set bits j of the thread number, xor `lane_xor`. If
    `lane_columns` is None, it is the own lane xor `lane_xor`.
    """

    word: int
    lane_xor: int
    lane_columns: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trade:
    """Word `side` of two words after a lane bit and the bit that numbers the two words have changed places.

    A lane whose bit `lane_bit` is `side` keeps `words[side]`; every other lane takes the other word of the lane
    that differs in that bit. Both sides of the same words are one instruction, or two that need no predicate.
    """

    words: tuple[int, int]
    lane_bit: int
    side: int


Step = Pick | Shuffle | Trade
