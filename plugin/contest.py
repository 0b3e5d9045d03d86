"""Begins a contest for each kernel that a program launches, and ends it with the faster kernel.

A first launch compiles stock Triton's kernel, as without the plugin, and does not wait for ours, which a
worker compiles beside the program (`contests.workers`). When it is there, launches take turns
(`contests.launches`). Afterwards Triton's kernel cache holds the winner, and the launch path is Triton's own.
Winners are kept on disk by size: a later process takes no turns for sizes that are known.

Both kernels give the same bits (the option `exact`), so it does not matter when a contest ends, or in which
process.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from triton_linear import contest_job
from triton_linear.checked import check_launches, check_of, parameters
from triton_linear.contest_job import FIRST, Answer
from triton_linear.contests.events import Clock, driver_clock
from triton_linear.contests.launches import LaunchContest, Winners
from triton_linear.contests.revisits import Revisits
from triton_linear.contests.verdict import Side, Verdict
from triton_linear.contests.workers import Workers
from triton_linear.decisions import NO_DECISIONS, NONE
from triton_linear.dialect import store
from triton_linear.gpus import gpu_names
from triton_linear.outlets import Outlets
from triton_linear.setting import Options, Setting
from triton_linear.unit_arguments import NO_UNITS, UnitArguments

_log = logging.getLogger("triton_linear")
Kernels = MutableMapping[Any, Any]
"""Triton's kernels in memory for one function and GPU, by key."""
_OTHER = "_triton_linear_other"
"""The attribute by which each kernel of a contest keeps the other one: a graph may have captured it, and
Triton unloads a kernel that nobody refers to."""


_running: weakref.WeakSet[LaunchContest] = weakref.WeakSet()
_won: Counter[Side] = Counter()
"""The contests of this process."""


def tally() -> dict[str, int]:
    """How many contests are running, and how many each side has won; without zeros."""
    running = sum(contest.runs for contest in list(_running))
    won = {f"contests won by {side.value}": count for side, count in _won.items()}
    return {name: count for name, count in {"contests running": running, **won}.items() if count}


class Contests:
    """The contests of this process.

    workers: compile our kernels. clocks: gives the clock of a backend; None: it has none, and stock Triton's
    kernel stays. revisits: open contests again.
    """

    def __init__(
        self,
        workers: Workers | None = None,
        clocks: Callable[[str], Clock | None] = driver_clock,
        revisits: Revisits | None = None,
    ) -> None:
        self._workers = workers or Workers()
        self._clocks = clocks
        self._revisits = revisits or Revisits()

    def enter(
        self, kernel: Any, options: Any, setting: Setting, place: Place, units: UnitArguments = NO_UNITS
    ) -> None:
        """Begin the contest of a kernel, now or when ours is compiled.

        kernel: stock Triton's `CompiledKernel`, which is in that place. options: those of its backend. units:
        the arguments that are 1 in each launch from that place."""
        if setting.options.leaves_out(kernel.name) or FIRST not in kernel.asm:
            return
        clock = self._clocks(kernel.metadata.target.backend)
        if clock is None or not _loads(kernel):
            return
        with suppress(OSError):  # the launch that takes part says what fails
            clock.free()
        asked, name = of_ours(kernel, setting, units)
        contest = _Contest(kernel, name, setting, place, clock, self._revisits)
        known = store.read(contest.name)
        if known is not None and known.get("differs") is False:
            return
        if known is not None and (ours := contest_job.found(kernel, contest.name)) is not None:
            contest.begin(ours)
            return
        given = contest_job.job_of(kernel, options, contest.name, asked, units)
        if isinstance(given, str):
            _log.debug("%s: no contest: %s", kernel.name, given)
        else:
            self._workers.submit(given, contest.answered)


def of_ours(kernel: Any, setting: Setting, units: UnitArguments = NO_UNITS) -> tuple[Options, str]:
    """The options that our version of a kernel of stock Triton's is compiled under, and its key on disk. units:
    the arguments that are 1 in each launch."""
    options = setting.options
    checked = parameters(kernel.src.signature) is not None
    asked = replace(options, exact=True, decisions=NONE, report="", wait=True, autotune=False)
    asked = replace(asked, measured=True, distinct=checked)
    return asked, contest_job.key_of(kernel.hash, Setting(asked, decided=NO_DECISIONS), units)


def _loads(kernel: Any) -> bool:
    """Load a kernel, as the launch that follows would. False if it fails: it fails again there."""
    try:
        kernel._init_handles()
    except Exception:
        return False
    return True


class Place:
    """Where Triton keeps a kernel in memory. The function (`JITFunction`) may go."""

    def __init__(self, function: Any, device: int, key: Any) -> None:
        self._function = weakref.ref(function)
        self._device = device
        self._key = key

    def kernel(self) -> Any:
        """What is there now; None if nothing is."""
        return self._kernels().get(self._key)

    def put(self, kernel: Any) -> None:
        """Put a kernel there, if the function is still there."""
        self._kernels()[self._key] = kernel

    def _kernels(self) -> Kernels:
        function = self._function()
        entry = None if function is None else function.device_caches.get(self._device)
        return {} if entry is None else entry[0]


class _Contest:
    """The contest of one kernel. name: of ours on disk.

    Kernels refer to their contest, and it keeps none of them alive: a kernel that nobody needs is unloaded at
    once, not when garbage is collected, which may be while a graph is captured.
    """

    def __init__(
        self,
        kernel: Any,
        name: str,
        setting: Setting,
        place: Place,
        clock: Clock,
        revisits: Revisits,
    ) -> None:
        self.name = name
        self._revisits = revisits
        self._ends = 0
        self._found: dict[int, Side] = {}
        self._speeds: dict[int, float] = {}
        self._winner: Side | None = None
        self._stock = weakref.ref(kernel)
        self._called = kernel.name
        self._setting = setting
        self._place = place
        self._clock = clock
        self._winners = store.digest("winners", name, *sorted(gpu_names()))

    def answered(self, answer: object) -> None:
        """A worker has compiled ours, or says why not. Called in a thread of its own."""
        if not isinstance(answer, Answer):
            answer = Answer(failure=f"the process that compiled ours ended: {answer}")
        for report in answer.reports:
            Outlets(self._setting, report.target).tell(report)
        if answer.note:
            _log.warning("%s: %s", self._called, answer.note)
        kernel = self._stock()
        if kernel is None:
            return  # the program no longer has it
        ours = contest_job.found(kernel, self.name) if answer.differs else None
        if answer.failure or (answer.differs and ours is None):
            reason = answer.failure or "this process does not find what its worker has put into Triton's cache"
            _log.warning("%s: stock Triton's kernel stays: %s", self._called, reason)
        if ours is not None:
            self.begin(ours)

    def begin(self, ours: Any, last: Side = Side.STOCK) -> None:
        """Have launches take turns from here on. last: as for `LaunchContest`."""
        kernel, other = self._stock(), weakref.ref(ours)
        if kernel is None:
            return
        launcher = kernel._run

        def over(winner: Side, failed: bool) -> None:
            self._end(launcher, other, winner)
            if not failed:
                self._revisits.add(self._ends, lambda: self._again(other, winner))
                self._ends += 1

        contest = LaunchContest(
            launcher, ours, self._clock, self._decided, over, self._known(), last, check_of(ours)
        )
        setattr(kernel, _OTHER, ours)
        if self._place.kernel() is ours:
            vars(ours).pop(_OTHER, None)
            self._place.put(kernel)
        kernel._run = contest
        _running.add(contest)

    def _end(self, launcher: Any, other: weakref.ref[Any], winner: Side) -> None:
        """Have launches go to the winner alone."""
        kernel, ours = self._stock(), other()
        if kernel is None:
            return
        kernel._run = launcher
        if winner is Side.OURS and ours is not None and self._place.kernel() is kernel:
            vars(kernel).pop(_OTHER)
            setattr(ours, _OTHER, kernel)
            check_launches(ours, self._stock)
            self._place.put(ours)
        if winner is not self._winner:  # another contest of the kernel may end alike
            _won[winner] += 1
            if self._winner is not None:
                _won[self._winner] -= 1
            self._winner = winner
            speeds = [f"{speed:.2f} below {1 << size} CTAs" for size, speed in sorted(self._speeds.items())]
            said = f"speed of ours {', '.join(speeds)}" if speeds else "as measured earlier"
            _log.info("%s: %s kernel stays: %s", self._called, _WHOSE[winner], said)

    def _again(self, other: weakref.ref[Any], last: Side) -> None:
        """Begin once more, if the program still has the kernel."""
        kernel, ours, now = self._stock(), other(), self._place.kernel()
        if kernel is None or ours is None or isinstance(kernel._run, LaunchContest):
            return
        if now is kernel or now is ours:
            self.begin(ours, last)

    def _known(self) -> Winners:
        """The winners that this process has found, and earlier ones."""
        entry = store.read(self._winners) or {}
        sides = {side.value: side for side in Side}
        kept = {int(size): sides[side] for size, side in entry.items() if size.isdigit() and side in sides}
        return {**kept, **self._found}

    def _decided(self, winners: Winners, verdicts: Mapping[int, Verdict]) -> None:
        for size in winners:
            if (verdict := verdicts[size]).blocks:
                self._speeds[size] = verdict.speedup
        self._found.update(winners)
        threading.Thread(target=self._keep, args=(dict(winners),)).start()

    def _keep(self, winners: Winners) -> None:
        if any(map(os.environ.get, _TRACERS)):
            return  # what takes part in each launch is in its time
        store.write(
            self._winners, {str(size): side.value for size, side in {**self._known(), **winners}.items()}
        )


_TRACERS = ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "ROCP_TOOL_LIB")
"""Variables by which profilers come into a process."""
_WHOSE = {Side.OURS: "our", Side.STOCK: "stock Triton's"}
