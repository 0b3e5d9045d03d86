"""A GPU that is not there, on which a launch takes as long as a test says."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from autotune_support import LaunchingDriver, doubled, pointers, transposed

import triton_linear
from triton_linear import contest, hook
from triton_linear.contest import Contests
from triton_linear.contests.launches import LaunchContest
from triton_linear.contests.workers import Workers
from triton_linear.dialect import store
from triton_linear.variants import OURS

SIZE = {"N": 64}
WORKERS = Workers(count=1)
"""Jobs bring their surroundings, so one process serves all tests."""
READ, WRITE = store.read, store.write


class SimulatedClock:
    """A clock for which launches take what it is told, and are done at once."""

    def __init__(self, gpu: LaunchingDriver, milliseconds: Callable[[bytes], float]) -> None:
        self.gpu = gpu
        self.milliseconds_of = milliseconds
        self.capturing = False
        self.timed = 0
        self.brief: list[bool] = []

    def relaxed(self) -> AbstractContextManager[None]:
        return nullcontext()

    def free(self) -> list[Any]:
        return []

    def interval(self) -> SimulatedInterval:
        return SimulatedInterval(self)


class SimulatedInterval:
    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.time: float | None = None

    def begin(self, stream: int, brief: bool = True) -> bool:
        self.time = None
        if not self.clock.capturing:
            self.clock.brief.append(brief)
        return not self.clock.capturing

    def end(self, stream: int) -> None:
        self.clock.timed += 1
        self.time = self.clock.milliseconds_of(self.clock.gpu.launched[-1])

    def milliseconds(self) -> float | None:
        return self.time


class Beside:
    """Workers whose answers a test waits for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: SimulatedClock | None, workers: Workers) -> None:
        self.answers: list[Any] = []
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        submit = workers.submit

        def noting(job: Any, answered: Callable[[Any], None]) -> None:
            def done(answer: Any) -> None:
                answered(answer)
                self.answers.append(answer)
                self.told.put(answer)

            submit(job, done)

        monkeypatch.setattr(workers, "submit", noting)
        contests = Contests(workers, lambda backend: clock)
        monkeypatch.setattr(hook, "_contests", lambda: contests)

    def wait(self) -> Any:
        return self.told.get(timeout=120)


class Keeping(Workers):
    """Workers that keep jobs, and do none."""

    def __init__(self) -> None:
        super().__init__(count=1)
        self.jobs: list[Any] = []

    def submit(self, job: Any, answered: Callable[[Any], None]) -> None:
        self.jobs.append(job)


def kept_jobs(monkeypatch: pytest.MonkeyPatch, gpu: LaunchingDriver) -> list[Any]:
    """The jobs of contests that are not begun."""
    workers = Keeping()
    contests = Contests(workers, lambda backend: SimulatedClock(gpu, len))
    monkeypatch.setattr(hook, "_contests", lambda: contests)
    return workers.jobs


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store, "read", READ)  # other tests keep nothing on disk
    monkeypatch.setattr(store, "write", WRITE)
    monkeypatch.setattr(contest, "CONTESTED", (OURS,))
    triton_linear.install(wait=False, strict=True)
    yield
    triton_linear.uninstall()


def launch(kernel: Any = transposed, times: int = 1, grid: Any = 4) -> None:
    for _ in range(times):
        kernel[(grid,)](*pointers(), **SIZE)


def later_process() -> None:
    """Forget what this process has in memory, once threads have written what they keep."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(10)
    for kernel in (transposed, doubled):
        kernel.device_caches.clear()


class Contested:
    """A contest under way: its clock, stock Triton's binary and ours."""

    def __init__(
        self, gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, speedup: Callable[[], float] = lambda: 2.0
    ) -> None:
        self.clock = SimulatedClock(gpu, lambda code: speedup() if code == self.stock else 1.0)
        self.beside = Beside(monkeypatch, self.clock, WORKERS)
        launch()
        (self.stock,) = gpu.launched
        assert self.beside.wait().differs
        gpu.launched.clear()

    @property
    def kernel(self) -> Any:
        """What Triton's cache has."""
        (kernel,) = transposed.device_caches[0][0].values()
        return kernel

    @property
    def runs(self) -> bool:
        """True if launches take turns."""
        return isinstance(self.kernel._run, LaunchContest)
