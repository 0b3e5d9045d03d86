"""Which of two kernels is faster, by a sequential test over launches that the program makes anyway.

Launches of like size take turns in blocks of four: two of the kernel that holds the place (A), two of one that
challenges it (B), in an order that is drawn for each block. A fixed order would be in step with programs that
repeat themselves every few launches, such as the layers of a model. A block with times a1, a2, b1, b2 gives one
number, the logarithm of the challenger's speed:

    d = log((a1 + a2) / (b1 + b2))

After `LOOKS` blocks, with the trimmed mean m of their numbers and its standard error s (Yuen, Biometrika 61,
1974; a fifth of the blocks at each end does not count, so launches that waited for something else decide
nothing):

    |m| > SURE * s                   the faster kernel wins
    |m| + WITHIN * s < EQUAL         they are equal, and the holder stays
    at the last look                 the challenger wins if m > WITHIN * s, else the holder stays

Kernels of which there are more than two challenge the holder one after the other (`Standing`). Nothing here
knows of GPUs: times come in, in any unit, and a verdict comes out.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Collection, Sequence
from typing import Final

LOOKS: Final = (8, 12, 16, 24, 32, 48, 64)
SURE: Final = 4.0
"""Standard errors from zero. In one such test, of kernels that are 2 % slower, with 5 % of noise and one launch
in 50 taking up to ten times as long, none of 500 wins (simulated); where every fourth launch takes 30 % longer,
1 in 25."""
WITHIN: Final = 2.0
EQUAL: Final = 0.005
"""Half a percent: less is not worth another launch."""
_TRIMMED: Final = 0.2


_ORDERS: Final = ("AABB", "ABAB", "ABBA", "BAAB", "BABA", "BBAA")
_HOLDERS: Final = "A"


class Verdict:
    """The test of two kernels over launches of one size. holder, challenger: their numbers, by any count.
    winner: None until there is one.

    `next_turn` says whose turn it is; `add` takes the time of a turn, in any order. A turn whose time is lost
    may be left out: its block does not count.

    >>> test = Verdict(0, 1)
    >>> while test.winner is None:
    ...     turn, kernel = test.next_turn()
    ...     test.add(turn, 2.0 if kernel == 0 else 1.0)
    >>> test.winner, round(test.speedup, 2), test.blocks
    (1, 2.0, 8)
    """

    def __init__(self, holder: int, challenger: int) -> None:
        self.holder = holder
        self.challenger = challenger
        self.winner: int | None = None
        self._numbers = itertools.count()
        # With lost turns it may begin anew.
        self._order = "".join(random.choices(_ORDERS, k=2 * LOOKS[-1]))
        self._times: dict[int, dict[int, float]] = {}
        self._ratios: list[float] = []

    @property
    def blocks(self) -> int:
        """The blocks that count."""
        return len(self._ratios)

    @property
    def speedup(self) -> float:
        """The holder's time divided by the challenger's. Requires: a block counts."""
        return math.exp(self._estimate()[0])

    def next_turn(self) -> tuple[int, int]:
        """The number of the next turn, and that of the kernel whose it is."""
        turn = next(self._numbers)  # once each, in whichever thread
        return turn, self.holder if self._holds(turn) else self.challenger

    def _holds(self, turn: int) -> bool:
        return self._order[turn % len(self._order)] == _HOLDERS

    def add(self, turn: int, time: float) -> None:
        """Count the time of a turn. Requires: `time` is positive."""
        block = turn // 4
        times = self._times.setdefault(block, {})
        times[turn] = time
        if len(times) < 4:
            return
        del self._times[block]
        held = sum(times[each] for each in times if self._holds(each))
        bisect.insort(self._ratios, math.log(held / (sum(times.values()) - held)))
        if self.winner is None and self.blocks in LOOKS:
            self.winner = self._judge()

    def _judge(self) -> int | None:
        mean, error = self._estimate()
        if abs(mean) + WITHIN * error < EQUAL:
            return self.holder
        if abs(mean) > SURE * error:
            return self.challenger if mean > 0 else self.holder
        if self.blocks == LOOKS[-1]:
            return self.challenger if mean > WITHIN * error else self.holder
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


class Standing:
    """Which of several kernels is the fastest for launches of one size.

    Each kernel that has not been compared (`met`) challenges the holder of the place, one after the other. The
    first in the list of names holds it at the beginning; the list may grow.

    holder: the number of the kernel in the list. duel: the test under way; None: all have been compared.
    speedup: the time of the first divided by the holder's, or by that of the fastest challenger while the first
    still holds the place; None if that is not known. launches: counted by whoever launches, timed or not.
    refused: those of a duel whose arguments one of both does not take. least: the shortest time of a turn; 0
    before there is one.

    >>> names = ["stock", "one", "two"]
    >>> standing = Standing(names)
    >>> while standing.duel:
    ...     turn, kernel = standing.duel.next_turn()
    ...     standing.add(standing.duel, turn, (3.0, 2.0, 1.5)[kernel])
    ...     _ = standing.judge()
    >>> names[standing.holder], round(standing.speedup, 2)
    ('two', 2.0)
    """

    def __init__(self, names: Sequence[str], winner: str = "", met: Collection[str] = ()) -> None:
        self._names = names
        known = winner in names
        self.holder = names.index(winner) if known else 0
        self.met = {names[self.holder], *(met if known else ())}
        self.speedup: float | None = None
        self.launches = self.refused = 0
        self.least = 0.0
        self.duel: Verdict | None = None
        self.challenge()

    def challenge(self) -> None:
        """Begin the next duel, if none is under way."""
        if self.duel is None:
            others = (number for number, name in enumerate(self._names) if name not in self.met)
            if (number := next(others, None)) is not None:
                self.duel = Verdict(self.holder, number)

    def add(self, duel: Verdict, turn: int, time: float) -> None:
        """Count the time of a turn."""
        self.least = min(self.least, time) if self.least else time
        duel.add(turn, time)

    def drop(self, number: int) -> None:
        """Have a kernel that failed take no part."""
        self.met.add(self._names[number])
        if self.holder == number:
            self.holder = 0
        if self.duel is not None and number in (self.duel.holder, self.duel.challenger):
            self.duel = None
        self.challenge()

    def judge(self) -> bool:
        """End the duel and begin the next one, if its test has a winner. True if one has ended."""
        duel = self.duel
        if duel is None or duel.winner is None:
            self.challenge()
            return False
        if self.holder == 0:
            self.speedup = max(self.speedup or 0.0, duel.speedup)
        elif self.speedup is not None and duel.winner != self.holder:
            self.speedup *= duel.speedup
        self.holder = duel.winner
        self.met.add(self._names[duel.challenger])
        self.duel, self.refused = None, 0
        self.challenge()
        return True
