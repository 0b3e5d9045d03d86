"""Begins a contest for each kernel that a program launches, and ends it with the faster kernel.

A first launch compiles stock Triton's kernel, as without the plugin, and does not wait for ours, which workers
compile beside the program (`contests.workers`), one variant after the other. When the first is there, launches
take turns (`contests.launches`), and each further one challenges the winner. Afterwards Triton's kernel cache
holds the winner, and the launch path is Triton's own. Winners are kept on disk by size: a later process takes
no turns for sizes that are known.

All kernels give the same bits (the option `exact`), so it does not matter when a contest ends, or in which
process.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from triton_linear import contest_job
from triton_linear.checked import check_launches, check_of, parameters
from triton_linear.contest_job import FIRST, Answer, Surroundings
from triton_linear.contests.events import Clock, driver_clock
from triton_linear.contests.launches import STOCK, Entrant, Known, LaunchContest
from triton_linear.contests.revisits import Revisits
from triton_linear.contests.workers import Workers
from triton_linear.decisions import NO_DECISIONS, NONE, gpu_names
from triton_linear.dialect import store
from triton_linear.fallback import check_table
from triton_linear.outlets import Outlets
from triton_linear.setting import Options, Setting
from triton_linear.unit_arguments import NO_UNITS, UnitArguments
from triton_linear.variants import CONTESTED, OURS, variant

_log = logging.getLogger("triton_linear")
Kernels = MutableMapping[Any, Any]
"""Triton's kernels in memory for one function and GPU, by key."""
_OTHER = "_triton_linear_other"
"""The attribute by which the kernel in use keeps the others of its contest: a graph may have captured them, and
Triton unloads a kernel that nobody refers to."""


_running: weakref.WeakSet[LaunchContest] = weakref.WeakSet()
_won: Counter[str] = Counter()
"""The contests of this process."""


def tally() -> dict[str, int]:
    """How many contests are running, and how many each variant has won; without zeros."""
    running = sum(contest.runs for contest in list(_running))
    won = {f"contests won by {name}": count for name, count in _won.items()}
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
        the arguments that are 1 in each launch from that place. Raises UnknownTarget for a GPU without a table.
        """
        if setting.options.leaves_out(kernel.name) or FIRST not in kernel.asm:
            return
        gpu = kernel.metadata.target
        check_table(f"{gpu.backend}:{gpu.arch}")
        clock = self._clocks(gpu.backend)
        if clock is None or not _loads(kernel):
            return
        with suppress(OSError):  # the launch that takes part says what fails
            clock.free()
        _Contest(kernel, options, setting, units, place, clock, self._revisits, self._workers).open()


def of_ours(
    kernel: Any, setting: Setting, units: UnitArguments = NO_UNITS, name: str = OURS
) -> tuple[Options, str]:
    """The options that a variant of a kernel of stock Triton's is compiled under, and its key on disk. units:
    the arguments that are 1 in each launch."""
    options = setting.options
    checked = parameters(kernel.src.signature) is not None
    asked = replace(options, exact=True, decisions=NONE, report="", wait=True, autotune=False)
    asked = replace(asked, measured=True, distinct=checked, **(variant(name).changes or {}))
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
    """The contest of one kernel: which variants take part, and where its winners are kept.

    Kernels refer to their contest, and it keeps none of them alive: a kernel that nobody needs is unloaded at
    once, not when garbage is collected, which may be while a graph is captured.
    """

    def __init__(
        self,
        kernel: Any,
        options: Any,
        setting: Setting,
        units: UnitArguments,
        place: Place,
        clock: Clock,
        revisits: Revisits,
        workers: Workers,
    ) -> None:
        self._stock = weakref.ref(kernel)
        self._called = kernel.name
        self._options = options
        self._setting = setting
        self._units = units
        self._place = place
        self._clock = clock
        self._revisits = revisits
        self._workers = workers
        self._surroundings = Surroundings.here()
        self._ends = 0
        self._failed = False
        self._left = list(CONTESTED)
        self._ours: dict[str, weakref.ref[Any]] = {}
        self._codes: set[str] = set()
        self._beginning = threading.Lock()
        """Held by threads beside those that launch."""
        self._speeds: Mapping[int, float] = {}
        self._winner = ""
        self._winners = store.digest("winners", of_ours(kernel, setting, units)[1], *sorted(gpu_names()))
        self._known = self._read()

    def open(self) -> None:
        """Have those take part that have won in an earlier process; if there was none, all, one by one."""
        won = {OURS if known.winner == STOCK else known.winner for known in self._known.values()}
        for name in [name for name in CONTESTED if name in won]:
            self._left.remove(name)
            self._take(name)
        if not self._ours:
            self._next()

    def _next(self) -> None:
        """Have the next variants take part, until one has to be compiled."""
        while self._left and self._take(self._left.pop(0)):
            pass

    def _take(self, name: str) -> bool:
        """Have a variant take part that is on disk with other code, or compile it. False if it is compiled."""
        kernel = self._stock()
        if kernel is None:
            return False
        asked, key = of_ours(kernel, self._setting, self._units, name)
        entry = store.read(key)
        if entry is not None and not entry.get("differs", True):
            return True
        if entry is not None and (ours := contest_job.found(kernel, key)) is not None:
            self._join(name, ours)
            return True
        given = contest_job.job_of(
            kernel, self._options, key, asked, self._units, self._codes, self._surroundings
        )
        if isinstance(given, str):
            _log.debug("%s: no contest: %s", kernel.name, given)
            return False
        self._workers.submit(given, functools.partial(self._answered, name, key))
        return False

    def _answered(self, name: str, key: str, answer: object) -> None:
        """A worker has compiled a variant, or says why not. Called in a thread of its own."""
        if not isinstance(answer, Answer):
            answer = Answer(failure=f"the process that compiled ours ended: {answer}")
        for report in answer.reports if name == OURS else ():
            Outlets(self._setting, report.target).tell(report)
        if answer.note:
            _log.warning("%s: %s", self._called, answer.note)
        kernel = self._stock()
        if kernel is None:
            return  # the program no longer has it
        ours = contest_job.found(kernel, key) if answer.differs else None
        if answer.failure or (answer.differs and ours is None):
            reason = answer.failure or "this process does not find what its worker has put into Triton's cache"
            _log.warning("%s: the contest ends without '%s': %s", self._called, name, reason)
            return
        if ours is not None:
            self._join(name, ours)
        self._next()

    def _join(self, name: str, ours: Any) -> None:
        """Have a variant take part."""
        kernel = self._stock()
        if kernel is None or self._failed:
            return
        self._codes |= contest_job.digests_of(ours)
        with self._beginning:
            self._ours = {**self._ours, name: weakref.ref(ours)}
            run = kernel._run
            if not isinstance(run, LaunchContest):
                self._begin()
            else:
                setattr(kernel, _OTHER, (*getattr(kernel, _OTHER, ()), ours))
                run.enter(Entrant(name, ours, check_of(ours)))  # or some time later, if the contest just ends

    def _begin(self) -> None:
        """Have launches take turns from here on. Requires: this thread holds `_beginning`."""
        kernel, now, found = self._stock(), self._place.kernel(), self._entrants()
        if kernel is None or not found or not any(now is each for each in (kernel, *found.values())):
            return  # the program no longer has it there
        launcher = kernel._run

        def over(winner: str, failed: Collection[str]) -> None:
            self._ours = {name: ref for name, ref in self._ours.items() if name not in failed}
            self._failed = not self._ours
            self._end(launcher, winner)
            if not self._failed:
                self._revisits.add(self._ends, self._again)
                self._ends += 1

        entrants = [Entrant(name, ours, check_of(ours)) for name, ours in found.items()]
        contest = LaunchContest(launcher, entrants, self._clock, self._decided, over, self._known, self._winner)
        self._put(kernel, now, found.values())
        kernel._run = contest
        _running.add(contest)

    def _entrants(self) -> dict[str, Any]:
        """The kernels of ours that take part."""
        return {name: ours for name, ref in self._ours.items() if (ours := ref()) is not None}

    def _put(self, kernel: Any, before: Any, ours: Iterable[Any]) -> None:
        """Have a kernel in use in place of the one before; it keeps all others."""
        stock = self._stock()
        vars(before).pop(_OTHER, None)
        setattr(kernel, _OTHER, tuple(each for each in (stock, *ours) if each is not kernel))
        if before is not kernel:
            self._place.put(kernel)

    def _end(self, launcher: Any, winner: str) -> None:
        """Have launches go to the winner alone."""
        kernel, found = self._stock(), self._entrants()
        if kernel is None:
            return
        ours = found.get(winner)
        if ours is not None and self._place.kernel() is kernel:
            check_launches(ours, self._stock)
            self._put(ours, kernel, found.values())
        kernel._run = launcher
        if winner != self._winner:  # another contest of the kernel may end alike
            _won[winner] += 1
            if self._winner:
                _won[self._winner] -= 1
            self._winner = winner
            speeds = [f"{speed:.2f} below {1 << size} CTAs" for size, speed in sorted(self._speeds.items())]
            said = f"speed of ours {', '.join(speeds)}" if speeds else "as measured earlier"
            whose = {STOCK: "stock Triton's", OURS: "our"}.get(winner, f"our '{winner}'")
            _log.info("%s: %s kernel stays: %s", self._called, whose, said)

    def _again(self) -> None:
        """Begin once more, if the program still has the kernel, with those that have not taken part yet."""
        kernel = self._stock()
        if kernel is None or self._failed:
            return
        with self._beginning:
            if not isinstance(kernel._run, LaunchContest):
                self._begin()
        self._next()

    def _read(self) -> dict[int, Known]:
        """What earlier processes have found, by size."""
        entry = store.read(self._winners) or {}
        return {
            int(size): Known(found["winner"], tuple(found["met"]))
            for size, found in entry.items()
            if size.isdigit() and isinstance(found, dict) and {"winner", "met"} <= found.keys()
        }

    def _decided(self, known: Mapping[int, Known], speeds: Mapping[int, float]) -> None:
        self._speeds = {**self._speeds, **speeds}
        self._known = {**self._known, **{size: each for size, each in known.items() if len(each.met) > 1}}
        threading.Thread(target=self._keep, args=(self._known,)).start()

    def _keep(self, known: Mapping[int, Known]) -> None:
        if any(map(os.environ.get, _TRACERS)):
            return  # what takes part in each launch is in its time
        found = {**self._read(), **known}.items()  # other processes find winners too
        store.write(self._winners, {str(size): {"winner": x.winner, "met": sorted(x.met)} for size, x in found})


_TRACERS = ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "ROCP_TOOL_LIB")
"""Variables by which profilers come into a process."""
