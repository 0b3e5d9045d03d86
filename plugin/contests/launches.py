"""Kernels take turns on the launches of a program, until the faster one is known.

Each launch is done once, by one of them: none is repeated, and no argument is copied. So kernels that
update in place, add atomically or take locks are measured like all others. Requires: all compute the same
bits.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import index
from typing import Any, Final

from triton_linear.contests.events import Clock, Interval
from triton_linear.contests.verdict import Standing, Verdict
from triton_linear.dialect.records import dataclass

_log = logging.getLogger("triton_linear")
_WAITING: Final = 64
"""Timed launches that the GPU has not done yet. While there are so many, stock Triton's kernel is launched
untimed."""
_ASKED_EVERY: Final = 16
"""Launches between two questions to the driver for finished ones."""
_DECIDED: Final = 0.9
"""The part of a kernel's launches that must have sizes with one winner before it is the kernel's."""
_LEAST: Final = 64
"""Launches that a process makes before the kernel is decided: a later one may have other sizes than those that
an earlier one has decided."""
_LONG: Final = 1.0  # milliseconds of a launch beside which the host's do not show
_UNTIMED: Final = 16
"""Launches in a row that the driver cannot time before the contest ends."""


STOCK: Final = "stock"
"""The name of stock Triton's kernel, the first of each contest."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a size: the name of the kernel that won, and those that have been compared."""

    winner: str
    met: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entrant:
    """A kernel that takes part beside stock Triton's. kernel: a `CompiledKernel`. takes: tells of the `rest` of
    a launch whether its code is for these arguments; None: it is for all."""

    name: str
    kernel: Any
    takes: Callable[[Sequence[Any]], bool] | None = None


Loaded = tuple[Callable[..., Any], Any, Any]
"""Launcher, function and metadata of a kernel."""


class LaunchContest:
    """What launches a kernel while its contest runs, in place of Triton's launcher.

    Launches are compared with their like: those whose number of CTAs has as many bits (their size). Once most
    launches have sizes whose winner is the same, the contest is over. If sizes have different winners, it
    goes on: each launch goes to the winner of its size, and a size that is new is measured first.

    Launches that are not timed, such as those that a graph captures, are of the winner so far, else of `last`;
    where a profiler has hooks, or a kernel does not take the arguments, of stock Triton's kernel. A kernel that
    cannot be loaded or launched takes no part any more.

    stock: Triton's launcher of its kernel. entrants: the other kernels. known: what is known already, by size.
    last: the name of the winner of an earlier contest of these kernels, or "". decided: called with what is
    known when that has become more, and with the speedups. over: called once, when launches should no longer
    come here, with the name of the winner, and the names of those that failed.
    """

    def __init__(
        self,
        stock: Callable[..., Any],
        entrants: Sequence[Entrant],
        clock: Clock,
        decided: Callable[[Mapping[int, Known], Mapping[int, float]], None],
        over: Callable[[str, Collection[str]], None],
        known: Mapping[int, Known] | None = None,
        last: str = "",
    ) -> None:
        self._stock = stock
        self._kernels: list[Any] = [None]
        self._names = [STOCK]
        self._takes: list[Callable[[Sequence[Any]], bool] | None] = [None]
        self._loaded: dict[int, Loaded | None] = {}  # None: it failed
        self._standings: dict[int, Standing] = {}
        self._alone = threading.Lock()
        self._ended = False
        for entrant in entrants:
            self.enter(entrant)
        self._last = self._names.index(last) if last in self._names else 0
        self._clock = clock
        self._decided = decided
        self._over = over
        for size, found in (known or {}).items():
            self._standings[size] = Standing(self._names, found.winner, found.met)
        self._count = 0
        self._waiting: deque[tuple[Standing, Verdict, int, Interval]] = deque()
        self._free: list[Interval] = []
        self._untimed = 0

    def enter(self, entrant: Entrant) -> None:
        """Have another kernel take part from here on, if the contest has not ended."""
        with self._alone:
            self._takes.append(entrant.takes)
            self._kernels.append(entrant.kernel)
            self._names.append(entrant.name)  # from here on it is challenged for

    @property
    def runs(self) -> bool:
        """False once it is decided."""
        return not self._ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)  # for those who look at Triton's launcher

    def __call__(self, x: Any, y: Any, z: Any, stream: int, function: Any, packed: Any, *rest: Any) -> Any:
        """Launch one of the kernels; the parameters are those of Triton's launcher for stock Triton's kernel:
        grid, stream, function, metadata, and `rest`: launch metadata, both hooks, and the arguments.

        The program waits for this at each launch (`bench.contest_launch`), so it calls little."""
        try:
            size = index(x * y * z).bit_length()  # the bits of the number of CTAs; 0: there are none
        except TypeError:
            size = 0  # Triton does not take such a grid
        enter, leave = rest[1], rest[2]
        # Triton keeps hooks in chains, which may be empty.
        if (
            self._ended
            or not size
            or (enter is not None and getattr(enter, "calls", True))
            or (leave is not None and getattr(leave, "calls", True))
        ):
            return self._stock(x, y, z, stream, function, packed, *rest)
        standing = self._standings.get(size) or self._standings.setdefault(size, self._begun_standing())
        standing.launches += 1
        self._count += 1
        if not self._count % _ASKED_EVERY:
            self._collect()
        duel, interval, turn, number = standing.duel, None, 0, standing.holder
        if duel is not None:
            if not (self._fits(duel.holder, rest) and self._fits(duel.challenger, rest)):
                standing.refused += 1
            elif (interval := self._begun(stream, standing.least < _LONG, duel)) is not None:
                turn, number = duel.next_turn()
            else:
                number = number or self._last
        found = None
        if number and (interval is not None or self._fits(number, rest)):
            found = self._loaded.get(number) or self._load(number)
        if found is None:
            result = self._stock(x, y, z, stream, function, packed, *rest)
        else:
            run, own, its = found
            try:
                result = run(x, y, z, stream, own, its, *rest)
            except RuntimeError as error:  # what Triton raises if the driver does not take a launch
                self._drop(number, error)
                return self._stock(x, y, z, stream, function, packed, *rest)
        if interval is not None and duel is not None:
            try:
                interval.end(stream)
                self._waiting.append((standing, duel, turn, interval))
            except OSError as error:
                self._give_up(error)
        return result

    def _fits(self, number: int, rest: Sequence[Any]) -> bool:
        """True if a kernel takes the arguments of a launch."""
        takes = self._takes[number]
        return takes is None or takes(rest)

    def _begun_standing(self) -> Standing:
        """That of a size which is new: what failed takes no part."""
        return Standing(self._names, STOCK, (STOCK, *self._failed()))

    def _failed(self) -> list[str]:
        return [self._names[number] for number, found in list(self._loaded.items()) if found is None]

    def _load(self, number: int) -> Loaded | None:
        """A kernel beside stock Triton's; None while another thread loads one, or if it cannot be loaded."""
        if number in self._loaded or self._ended or not self._alone.acquire(blocking=False):
            return self._loaded.get(number)
        try:
            kernel = self._kernels[number]
            with self._clock.relaxed():
                run = kernel.run  # the driver loads it
                if not any(self._loaded.values()):
                    self._free = self._clock.free()
                self._loaded[number] = run, kernel.function, kernel.packed_metadata
        except Exception as error:
            self._drop(number, error)
        finally:
            self._alone.release()
        return self._loaded.get(number)

    def _begun(self, stream: int, brief: bool, duel: Verdict) -> Interval | None:
        """What times a launch from now on; None if it is not timed."""
        if len(self._waiting) >= _WAITING:
            return None
        for number in (duel.holder, duel.challenger):
            if number and (self._loaded.get(number) or self._load(number)) is None:
                return None
        try:
            interval = self._free.pop() if self._free else self._clock.interval()
            begun = interval.begin(stream, brief)
        except (OSError, IndexError) as error:  # for one, this thread has no context
            self._untimed += 1
            if self._untimed >= _UNTIMED:
                self._give_up(error)
            return None
        self._untimed = 0
        if not begun:
            self._free.append(interval)
            return None
        return interval

    def _collect(self) -> None:
        """Count the times of the launches that are done, and end the contest if it is decided."""
        if not self._alone.acquire(blocking=False):
            return  # another thread does
        try:
            with self._clock.relaxed():
                while self._waiting and (time := self._waiting[0][-1].milliseconds()) is not None:
                    standing, duel, turn, interval = self._waiting.popleft()
                    self._free.append(interval)
                    if time > 0:
                        standing.add(duel, turn, time)
            self._judge()
        except (OSError, RuntimeError) as error:  # the driver's, or no thread can be started
            self._give_up(error)
        finally:
            self._alone.release()

    def _judge(self) -> None:
        standings = dict(self._standings)
        ended = [standing.judge() for standing in standings.values()]
        failed = self._failed()
        if any(ended):
            met = {size: tuple(each.met.difference(failed)) for size, each in standings.items()}
            self._decided(
                {size: Known(self._names[each.holder], met[size]) for size, each in standings.items()},
                {size: each.speedup for size, each in standings.items() if each.speedup is not None},
            )
        won = Counter[int]()
        for each in standings.values():
            won[each.holder] += each.launches if each.duel is None else each.refused
        for number, launches in won.items():
            if self._count >= _LEAST and launches >= _DECIDED * self._count and not self._ended:
                self._ended = True
                while self._waiting:
                    self._free.append(self._waiting.popleft()[-1])
                self._over(self._names[number], failed)

    def _drop(self, number: int, error: Exception) -> None:
        """Have a kernel that failed take no part any more; if there is no other of ours, end the contest."""
        self._loaded[number] = None
        if len(self._failed()) == len(self._names) - 1:
            self._give_up(error)
            return
        _log.warning("a contest goes on without '%s': %s", self._names[number], _said(error))
        for standing in list(self._standings.values()):
            standing.drop(number)

    def _give_up(self, error: Exception) -> None:
        """End the contest with stock Triton's kernel."""
        if not self._ended:
            self._ended = True
            _log.warning("a contest ends with stock Triton's kernel: %s", _said(error))
            self._over(STOCK, self._names[1:])


def _said(error: Exception) -> str:
    """What is logged: not the error itself, whose frames refer to kernels."""
    return f"{type(error).__name__}: {error}"
