"""Which of two kernels is faster, by a sequential test over launches that the program makes anyway.

Launches of like size take turns in blocks of four, stock Triton's kernel (A) and ours (B) as A B B A, then as
B A A B: whatever drifts evenly within a block, such as clocks or the length of a cache, cancels. A block with
times a1, a2, b1, b2 gives one number, the logarithm of the speed of ours:

    d = log((a1 + a2) / (b1 + b2))

After `LOOKS` blocks, with the trimmed mean m of their numbers and its standard error s (Yuen, Biometrika 61,
1974; a fifth of the blocks at each end does not count, so launches that waited for something else decide
nothing):

    |m| > SURE * s                   the faster kernel wins
    |m| + WITHIN * s < EQUAL         they are equal, and stock Triton's stays
    at the last look                 ours wins if m > WITHIN * s, else stock Triton's stays

Nothing here knows of GPUs: times come in, in any unit, and a verdict comes out.
"""

from __future__ import annotations

import bisect
import itertools
import math
from enum import Enum
from typing import Final

LOOKS: Final = (4, 6, 8, 12, 16, 24, 32, 48, 64)
SURE: Final = 4.0
"""Standard errors from zero. Of kernels that are 2 % slower, with 5 % of noise and one launch in 50 taking up
to ten times as long, 1 in 200 wins (simulated, 2,000 contests); of those 5 % slower, none."""
WITHIN: Final = 2.0
EQUAL: Final = 0.005
"""Half a percent: less is not worth another launch."""
_TRIMMED: Final = 0.2
_TURNS: Final = ("ABBA", "BAAB")


class Side(Enum):
    """A kernel of a contest."""

    STOCK = "stock"
    OURS = "ours"


class Verdict:
    """The test over launches of one size. winner: None until there is one.

    `next_turn` says whose turn it is; `add` takes the time of a turn, in any order. A turn whose time is lost
    may be left out: its block does not count.

    >>> test = Verdict()
    >>> while test.winner is None:
    ...     turn, side = test.next_turn()
    ...     test.add(turn, 2.0 if side is Side.STOCK else 1.0)
    >>> test.winner.value, round(test.speedup, 2), test.blocks
    ('ours', 2.0, 4)
    """

    def __init__(self) -> None:
        self.winner: Side | None = None
        self._turns = itertools.count()
        self._times: dict[int, dict[int, float]] = {}
        self._ratios: list[float] = []

    @property
    def blocks(self) -> int:
        """The blocks that count."""
        return len(self._ratios)

    @property
    def speedup(self) -> float:
        """Stock Triton's time divided by ours. Requires: a block counts."""
        return math.exp(self._estimate()[0])

    def next_turn(self) -> tuple[int, Side]:
        """The number of the next turn, and whose it is."""
        turn = next(self._turns)  # once each, in whichever thread
        block, place = divmod(turn, 4)
        return turn, Side.STOCK if _TURNS[block % 2][place] == "A" else Side.OURS

    def add(self, turn: int, time: float) -> None:
        """Count the time of a turn. Requires: `time` is positive."""
        block, place = divmod(turn, 4)
        times = self._times.setdefault(block, {})
        times[place] = time
        if len(times) < 4:
            return
        del self._times[block]
        letters = _TURNS[block % 2]
        stock, ours = (sum(times[each] for each in range(4) if letters[each] == letter) for letter in "AB")
        bisect.insort(self._ratios, math.log(stock / ours))
        if self.winner is None and self.blocks in LOOKS:
            self.winner = self._judge()

    def _judge(self) -> Side | None:
        mean, error = self._estimate()
        if abs(mean) + WITHIN * error < EQUAL:
            return Side.STOCK
        if abs(mean) > SURE * error:
            return Side.OURS if mean > 0 else Side.STOCK
        if self.blocks == LOOKS[-1]:
            return Side.OURS if mean > WITHIN * error else Side.STOCK
        return None

    def _estimate(self) -> tuple[float, float]:
        """The trimmed mean of the blocks and its standard error."""
        ratios, count = self._ratios, self.blocks
        cut = int(_TRIMMED * count)
        kept = ratios[cut : count - cut]
        mean = sum(kept) / len(kept)
        if count < 2:
            return mean, math.inf
        whole = [kept[0]] * cut + kept + [kept[-1]] * cut
        middle = sum(whole) / count
        squares = sum((each - middle) ** 2 for each in whole)
        return mean, math.sqrt(squares * count / (count - 1)) / len(kept)
