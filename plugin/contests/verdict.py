"""Which of two kernels is faster, by a sequential test over launches that the program makes anyway.

Launches of like size take turns in blocks of four: two of stock Triton's kernel (A), two of ours (B), in an
order that is drawn for each block. A fixed order would be in step with programs that repeat themselves every
few launches, such as the layers of a model. A block with times a1, a2, b1, b2 gives one number, the logarithm
of the speed of ours:

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
import random
from enum import Enum
from typing import Final

LOOKS: Final = (8, 12, 16, 24, 32, 48, 64)
SURE: Final = 4.0
"""Standard errors from zero. Of kernels that are 2 % slower, with 5 % of noise and one launch in 50 taking up
to ten times as long, none of 500 wins (simulated); where every fourth launch takes 30 % longer, 1 in 25."""
WITHIN: Final = 2.0
EQUAL: Final = 0.005
"""Half a percent: less is not worth another launch."""
_TRIMMED: Final = 0.2


class Side(Enum):
    """A kernel of a contest."""

    STOCK = "stock"
    OURS = "ours"


_ORDERS: Final = tuple(
    tuple(Side.STOCK if each == "A" else Side.OURS for each in order)
    for order in ("AABB", "ABAB", "ABBA", "BAAB", "BABA", "BBAA")
)


class Verdict:
    """The test over launches of one size. winner: None until there is one. least: the shortest time of a turn;
    0 before there is one. launches: counted by whoever launches, timed or not.

    `next_turn` says whose turn it is; `add` takes the time of a turn, in any order. A turn whose time is lost
    may be left out: its block does not count.

    >>> test = Verdict()
    >>> while test.winner is None:
    ...     turn, side = test.next_turn()
    ...     test.add(turn, 2.0 if side is Side.STOCK else 1.0)
    >>> test.winner.value, round(test.speedup, 2), test.blocks
    ('ours', 2.0, 8)
    """

    def __init__(self, winner: Side | None = None) -> None:
        self.winner = winner
        self.least = 0.0
        self.launches = 0
        self._numbers = itertools.count()
        # With lost turns it may begin anew.
        self._order = tuple(itertools.chain.from_iterable(random.choices(_ORDERS, k=2 * LOOKS[-1])))
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
        turn = next(self._numbers)  # once each, in whichever thread
        return turn, self._order[turn % len(self._order)]

    def add(self, turn: int, time: float) -> None:
        """Count the time of a turn. Requires: `time` is positive."""
        self.least = min(self.least, time) if self.least else time
        block = turn // 4
        times = self._times.setdefault(block, {})
        times[turn] = time
        if len(times) < 4:
            return
        del self._times[block]
        stock = sum(times[each] for each in times if self._order[each % len(self._order)] is Side.STOCK)
        ours = sum(times.values()) - stock
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
