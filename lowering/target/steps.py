"""The steps of which programs over the 32-bit words of a warp's registers are made: byte permutes and shuffles.

Elements below 32 bits lie side by side in words, as many as fit, register by register; those words are what a
kernel keeps them in, so taking them as they are costs nothing. A wider element is a word of its own. A `Pick`
takes the slots of a new word from one or two others; which, may depend on the thread. That is one PRMT or SEL
on NVIDIA and one V_PERM or V_CNDMASK on AMD, however much it does: pack, choose and permute at once.
"""

from __future__ import annotations

import functools

from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class Pick:
    """A word with slot s taken, in alternative a, from slot `picks[a][s]` of `sources`, counted through both.

    Bit i of a thread's alternative is parity(masks[i] & thread). A pick of -1 may be anything. Where `replaced`
    is a source by its position, the step is a choice of whole words, nobody needs that source any more, and it
    may be overwritten in the threads that take the other.
    """

    sources: tuple[int, ...]
    masks: tuple[int, ...]
    picks: tuple[tuple[int, ...], ...]
    replaced: int = -1

    def whole(self) -> tuple[int, ...] | None:
        """Which source each alternative takes as it is, for at most two; None where one is not whole."""
        return _whole(self.picks) if len(self.picks) <= 2 else None


@functools.lru_cache(maxsize=1024)
def _whole(alternatives: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """`Pick.whole`; there are few of them."""
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

    The lane read is the xor of `lane_columns[j]` over the set bits j of the thread number, xor `lane_xor`;
    where `lane_columns` is None it is the own lane xor `lane_xor`.
    """

    word: int
    lane_xor: int
    lane_columns: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trade:
    """Word `side` of two after a bit of the lanes and the choice between the words have changed places.

    A lane whose bit `lane_bit` is `side` keeps `words[side]`; the others take the other word of the lane that
    differs in that bit. Both sides of the same words are one instruction, or two that need no condition.
    """

    words: tuple[int, int]
    lane_bit: int
    side: int


Step = Pick | Shuffle | Trade
