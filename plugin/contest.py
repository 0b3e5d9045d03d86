"""Begins a contest for each kernel that a program launches, and ends it with the faster kernel.

A first launch compiles stock Triton's kernel, as without the plugin, and does not wait for ours, which a
worker compiles beside the program (`workers`). When it is there, launches take turns (`launches`). Afterwards
Triton's kernel cache holds the winner, and the launch path is Triton's own. The winner is kept on disk, so a
later process has no contest: it begins with the winner.

Both kernels give the same bits (the option `exact`), so it does not matter when a contest ends, or in which
process."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from triton_linear import contest_job
from triton_linear.contest_job import Answer
from triton_linear.contests.events import Clock, driver_clock
from triton_linear.contests.launches import LaunchContest
from triton_linear.contests.verdict import Side, Verdict
from triton_linear.contests.workers import PATIENCE, Workers
from triton_linear.decisions import NO_DECISIONS, NONE
from triton_linear.environment import VARIABLE
from triton_linear.gpus import gpu_names
from triton_linear.kept import store
from triton_linear.outlets import Outlets
from triton_linear.setting import Setting

_log = logging.getLogger("triton_linear")
COMMAND = (sys.executable, "-m", "triton_linear.contest_worker")
"""What starts a worker."""

KernelCache = MutableMapping[Any, Any]
"""Triton's kernels in memory for one function and GPU, by key."""


class Contests:
    """The contests of this process.

    workers: compile our kernels. clocks: gives the clock of a backend; None: it has none, and stock Triton's
    kernel stays."""

    def __init__(
        self, workers: Workers | None = None, clocks: Callable[[str], Clock | None] = driver_clock
    ) -> None:
        self._workers = workers or Workers(COMMAND, {VARIABLE: ""})
        self._clocks = clocks

    def enter(self, kernel: Any, options: Any, setting: Setting, cache: KernelCache, key: Any) -> Any:
        """The kernel to launch first: stock Triton's, or ours if that has won before.

        kernel: stock Triton's `CompiledKernel`, which `cache` has under `key`. options: those of its
        backend."""
        if setting.options.leaves_out(kernel.name):
            return kernel
        contested = Setting(
            replace(setting.options, exact=True, decisions=NONE, report=""), decided=NO_DECISIONS
        )
        contest = _Contest(kernel, contest_job.key_of(kernel.hash, contested), setting, cache, key)
        known = store.read(contest.name) or {}
        winner = store.read(contest.winner_name) or {}
        if known.get("differs") is False or winner.get("winner") == Side.STOCK.value:
            return kernel
        ours = contest_job.found(kernel, contest.name) if known else None
        if ours is not None and winner.get("winner") == Side.OURS.value:
            cache[key] = ours
            return ours
        clock = self._clocks(kernel.metadata.target.backend)
        if clock is None:
            return kernel
        with suppress(Exception):  # what fails here fails again when the kernel is launched
            kernel._init_handles()
        if ours is not None:
            contest.begin(ours, clock)
        else:
            given = contest_job.job_of(kernel, options, contest.name, contested.options)
            self._workers.submit(given, lambda answer: contest.answered(answer, clock))
        return kernel


class _Contest:
    """The contest of one kernel. name: of ours on disk. winner_name: of the winner's entry in the store."""

    def __init__(self, kernel: Any, name: str, setting: Setting, cache: KernelCache, key: Any) -> None:
        self.name = name
        self.winner_name = store.digest("winner", name, *sorted(gpu_names()))
        self._kernel = kernel
        self._setting = setting
        self._cache = cache
        self._key = key
        self._launcher: Callable[..., Any] | None = None

    def answered(self, answer: object, clock: Clock) -> None:
        """A worker has compiled ours, or says why not. Called in a thread of its own."""
        if not isinstance(answer, Answer):
            answer = Answer(failure=f"the process that compiled ours ended, or took {PATIENCE:.0f} s")
        for report in answer.reports:
            Outlets(self._setting, report.target).tell(report)
        if answer.failure:
            _log.warning("%s: stock Triton's kernel stays: %s", self._kernel.name, answer.failure)
        elif answer.differs and (ours := contest_job.found(self._kernel, self.name)) is not None:
            self.begin(ours, clock)

    def begin(self, ours: Any, clock: Clock) -> None:
        """Have launches take turns from here on, if stock Triton's kernel could be loaded."""
        self._launcher = self._kernel._run
        if self._launcher is None or self._kernel.module is None:
            return
        self._kernel._run = LaunchContest(
            self._launcher, ours, clock, lambda winner, verdicts: self._closed(ours, winner, verdicts)
        )

    def _closed(self, ours: Any, winner: Side | None, verdicts: Mapping[int, Verdict]) -> None:
        judged = [verdict for verdict in verdicts.values() if verdict.winner]
        said = ", ".join(f"{verdict.speedup:.3f} after {4 * verdict.blocks} launches" for verdict in judged)
        _log.info("%s: %s; speed of ours by size: %s", self._kernel.name, _WINS[winner], said or "unknown")
        if winner is None:
            return  # `LaunchContest` goes on, and launches the winner of each size
        if winner is Side.OURS and self._cache.get(self._key) is self._kernel:
            self._cache[self._key] = ours
        self._kernel._run = self._launcher
        if judged:
            entry = {"winner": winner.value, "speedups": [verdict.speedup for verdict in judged]}
            threading.Thread(target=store.write, args=(self.winner_name, entry)).start()


_WINS = {
    Side.OURS: "our kernel wins",
    Side.STOCK: "stock Triton's kernel wins",
    None: "the winner depends on the number of CTAs",
}
