"""Two kernels take turns on the launches of a program, until the faster one is known.

Each launch is done once, by one of the two: none is repeated, and no argument is copied. So kernels that
update in place, add atomically or take locks are measured like all others. Requires: both compute the same
bits."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from triton_linear.contests.events import Clock, Interval
from triton_linear.contests.verdict import Side, Verdict
from triton_linear.dialect.records import dataclass

_log = logging.getLogger("triton_linear")
_WAITING: Final = 64
"""Timed launches that the GPU has not done yet. While there are so many, stock Triton's kernel is launched
untimed."""
_ASKED_EVERY: Final = 4
"""Launches between two questions to the driver for finished ones."""
_DECIDED: Final = 0.9
"""The part of a kernel's launches whose sizes must be decided before the kernel is."""


class Loaded(Protocol):
    """A kernel that is loaded: what `JITFunction.run` reads of Triton's `CompiledKernel`."""

    @property
    def run(self) -> Callable[..., Any]: ...
    @property
    def function(self) -> Any: ...
    @property
    def packed_metadata(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class _Turn:
    """A timed launch: of which size, which turn of its test, and how long."""

    verdict: Verdict
    number: int
    interval: Interval


class LaunchContest:
    """What launches a kernel while its contest runs, in place of Triton's launcher.

    Launches are compared with their like: those whose number of CTAs has as many bits. If all sizes have the
    same winner, `closed` is called with it, and launches should no longer come here. If not, each launch goes
    to the winner of its size, and a size that is new is measured first.

    Stock Triton's kernel is launched, untimed, where a graph is captured and where a profiler has hooks.

    stock: Triton's launcher of its kernel. ours: the other kernel. closed: called once with the winner, and
    with the tests by size; the winner is None if sizes differ."""

    def __init__(
        self,
        stock: Callable[..., Any],
        ours: Loaded,
        clock: Clock,
        closed: Callable[[Side | None, dict[int, Verdict]], None],
    ) -> None:
        self._stock = stock
        self._ours: Loaded | None = ours
        self._clock = clock
        self._closed = closed
        self._verdicts: dict[int, Verdict] = {}
        self._launches: Counter[int] = Counter()
        self._waiting: deque[_Turn] = deque()
        self._free: list[Interval] = []
        self._asking = threading.Lock()
        self._loaded = False
        self._told = False

    def __call__(self, x: int, y: int, z: int, stream: int, function: Any, packed: Any, *rest: Any) -> Any:
        """Launch one of the kernels; the parameters are those of Triton's launcher for stock Triton's kernel:
        grid, stream, function, metadata, and `rest`: launch metadata, both hooks, and the arguments."""
        _, enter_hook, exit_hook, *_ = rest
        size = (x * y * z).bit_length()
        verdict = self._verdicts.get(size) or self._verdicts.setdefault(size, Verdict())
        side = verdict.winner
        interval = None
        if self._ours is None or not size or _is_called(enter_hook) or _is_called(exit_hook):
            side = Side.STOCK
        elif side is None:
            self._launches[size] += 1
            interval = self._new_interval(stream, size)
            number, side = verdict.next_turn() if interval else (0, Side.STOCK)
        result = self._launch(side, (x, y, z, stream), (function, packed), rest)
        if interval:
            try:
                interval.end(stream)
                self._waiting.append(_Turn(verdict, number, interval))
            except OSError as error:
                self._give_up(error)
        return result

    def _launch(self, side: Side, grid: Sequence[int], stock: Sequence[Any], rest: Sequence[Any]) -> Any:
        if side is Side.OURS and (ours := self._ours) is not None:
            try:
                return ours.run(*grid, ours.function, ours.packed_metadata, *rest)
            except Exception as error:  # the driver took nothing, so nothing runs twice
                self._give_up(error)
        return self._stock(*grid, *stock, *rest)

    def _new_interval(self, stream: int, size: int) -> Interval | None:
        """What times a launch, and has begun to; None if it is not timed."""
        try:
            if self._clock.is_capturing(stream):
                return None
            if self._ours is not None and not self._loaded:
                self._ours.run  # noqa: B018  # loads it, which is no part of the first turn
                self._loaded = True
            if self._launches[size] % _ASKED_EVERY == 0:
                self._collect()
            if len(self._waiting) >= _WAITING:
                return None
            interval = self._free.pop() if self._free else self._clock.interval()
            interval.begin(stream)
            return interval
        except Exception as error:  # the driver's, or of loading ours
            self._give_up(error)
            return None

    def _collect(self) -> None:
        """Count the times of the launches that are done, and close the contest if it is decided."""
        if not self._asking.acquire(blocking=False):
            return  # another thread does
        try:
            while self._waiting and (time := self._waiting[0].interval.milliseconds()) is not None:
                turn = self._waiting.popleft()
                self._free.append(turn.interval)
                if time > 0:
                    turn.verdict.add(turn.number, time)
            self._close_if_decided()
        finally:
            self._asking.release()

    def _close_if_decided(self) -> None:
        winners = {size: verdict.winner for size, verdict in self._verdicts.items() if verdict.winner}
        if self._told or sum(self._launches[size] for size in winners) < _DECIDED * self._launches.total():
            return
        self._told = True
        sides = set(winners.values())
        self._closed(sides.pop() if len(sides) == 1 else None, self._verdicts)

    def _give_up(self, error: Exception) -> None:
        """End the contest with stock Triton's kernel."""
        said = f"{type(error).__name__}: {error}"  # not the error, whose frames refer to kernels
        _log.warning("a contest ends with stock Triton's kernel: %s", said)
        self._ours = None
        if not self._told:
            self._told = True
            self._closed(Side.STOCK, {})


def _is_called(hook: Any) -> bool:
    """True if a hook of launches does something; Triton keeps them in chains, which may be empty."""
    return hook is not None and bool(getattr(hook, "calls", True))
