"""Two kernels take turns on the launches of a program, until the faster one is known.

Each launch is done once, by one of the two: none is repeated, and no argument is copied. So kernels that
update in place, add atomically or take locks are measured like all others. Requires: both compute the same
bits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, Final

from triton_linear.contests.events import Clock, Interval
from triton_linear.contests.verdict import Side, Verdict

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


Winners = Mapping[int, Side]
"""The winner of each size that is decided."""


class LaunchContest:
    """What launches a kernel while its contest runs, in place of Triton's launcher.

    Launches are compared with their like: those whose number of CTAs has as many bits (their size). Once most
    launches have sizes whose winner is the same, the contest is over. If sizes have different winners, it
    goes on: each launch goes to the winner of its size, and a size that is new is measured first.

    Where a graph is captured while its size is not decided, and where launches are not timed, `last` is
    launched; where a profiler has hooks, stock Triton's kernel, and where ours does not take the arguments.

    stock: Triton's launcher of its kernel. ours: the other kernel, a `CompiledKernel`. known: winners that are
    known already. last: the winner of an earlier contest of these kernels.
    takes: tells of the `rest` of a launch whether ours takes its arguments; None: it takes all.
    decided: called with the winners and the tests by size when there is another winner. over: called once, when
    launches should no longer come here, with the winner, and whether something has failed.
    """

    def __init__(
        self,
        stock: Callable[..., Any],
        ours: Any,
        clock: Clock,
        decided: Callable[[Winners, Mapping[int, Verdict]], None],
        over: Callable[[Side, bool], None],
        known: Winners | None = None,
        last: Side = Side.STOCK,
        takes: Callable[[Sequence[Any]], bool] | None = None,
    ) -> None:
        self._last = last
        self._takes = takes
        self._stock = stock
        self._ours = ours
        self._clock = clock
        self._decided = decided
        self._over = over
        self._loaded: tuple[Callable[..., Any], Any, Any] | None = None
        self._verdicts = {size: Verdict(winner) for size, winner in (known or {}).items()}
        self._known = len(self._verdicts)
        self._count = 0
        self._waiting: deque[tuple[Verdict, int, Interval]] = deque()
        self._free: list[Interval] = []
        self._alone = threading.Lock()
        self._untimed = 0
        self._ended = False

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
            or not (self._takes is None or self._takes(rest))
        ):
            return self._stock(x, y, z, stream, function, packed, *rest)
        verdict = self._verdicts.get(size) or self._verdicts.setdefault(size, Verdict())
        verdict.launches += 1
        self._count += 1
        if not self._count % _ASKED_EVERY:
            self._collect()
        side, interval, number = verdict.winner, None, 0
        if side is None:
            interval = self._begun(stream, verdict.least < _LONG)
            if interval is None:
                side = self._last
            else:
                number, side = verdict.next_turn()
        ours = (self._loaded or self._load()) if side is Side.OURS else None
        if ours is None:
            result = self._stock(x, y, z, stream, function, packed, *rest)
        else:
            run, own, its = ours
            try:
                result = run(x, y, z, stream, own, its, *rest)
            except RuntimeError as error:  # what Triton raises if the driver does not take a launch
                self._give_up(error)
                return self._stock(x, y, z, stream, function, packed, *rest)
        if interval is not None:
            try:
                interval.end(stream)
                self._waiting.append((verdict, number, interval))
            except OSError as error:
                self._give_up(error)
        return result

    def _load(self) -> tuple[Callable[..., Any], Any, Any] | None:
        """Our kernel: launcher, function and metadata; None while another thread loads it, or if it cannot be
        loaded."""
        if self._loaded is not None or self._ended or not self._alone.acquire(blocking=False):
            return self._loaded
        try:
            with self._clock.relaxed():
                run = self._ours.run  # the driver loads it
                self._free = self._clock.free()
                self._loaded = run, self._ours.function, self._ours.packed_metadata
        except Exception as error:
            self._give_up(error)
        finally:
            self._alone.release()
        return self._loaded

    def _begun(self, stream: int, brief: bool) -> Interval | None:
        """What times a launch from now on; None if it is not timed."""
        if len(self._waiting) >= _WAITING or (self._loaded or self._load()) is None:
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
                    verdict, number, interval = self._waiting.popleft()
                    self._free.append(interval)
                    if time > 0:
                        verdict.add(number, time)
            self._judge()
        except (OSError, RuntimeError) as error:  # the driver's, or no thread can be started
            self._give_up(error)
        finally:
            self._alone.release()

    def _judge(self) -> None:
        verdicts = dict(self._verdicts)
        winners = {size: verdict.winner for size, verdict in verdicts.items() if verdict.winner}
        if len(winners) > self._known:
            self._known = len(winners)
            self._decided(winners, verdicts)
        for side in Side:
            won = sum(verdicts[size].launches for size, winner in winners.items() if winner is side)
            if self._count >= _LEAST and won >= _DECIDED * self._count and not self._ended:
                self._ended = True
                self._free.extend(interval for _, _, interval in self._waiting)
                self._waiting.clear()
                self._over(side, False)

    def _give_up(self, error: Exception) -> None:
        """End the contest with stock Triton's kernel."""
        said = f"{type(error).__name__}: {error}"  # not the error, whose frames refer to kernels
        if not self._ended:
            self._ended = True
            _log.warning("a contest ends with stock Triton's kernel: %s", said)
            self._over(Side.STOCK, True)
