"""Launches take turns between stock Triton's kernel and ours, on a GPU that is not there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from autotune_support import LaunchingDriver, doubled, gpu, pointers, transposed
from triton import knobs

import triton_linear
from triton_linear import contest_job, hook
from triton_linear.contest import COMMAND, Contests
from triton_linear.contests import workers
from triton_linear.contests.workers import Workers
from triton_linear.kept import store

__all__ = ["gpu"]

SIZE = {"N": 64}
READ, WRITE = store.read, store.write


class SimulatedClock:
    """A clock of a GPU on which a launch takes as long as it is told; all are done at once."""

    def __init__(self, gpu: LaunchingDriver, milliseconds: Callable[[bytes], float]) -> None:
        self.gpu = gpu
        self.milliseconds_of = milliseconds
        self.capturing = False
        self.timed = 0

    def is_capturing(self, stream: int) -> bool:
        return self.capturing

    def interval(self) -> SimulatedInterval:
        return SimulatedInterval(self)


class SimulatedInterval:
    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.time: float | None = None

    def begin(self, stream: int) -> None:
        self.time = None

    def end(self, stream: int) -> None:
        self.clock.timed += 1
        self.time = self.clock.milliseconds_of(self.clock.gpu.launched[-1])

    def milliseconds(self) -> float | None:
        return self.time


class Beside:
    """Workers whose answers a test waits for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: SimulatedClock | None, workers: Workers) -> None:
        self.answers: list[Any] = []
        self.answered = threading.Event()
        submit = workers.submit

        def noting(job: Any, answered: Callable[[Any], None]) -> None:
            def done(answer: Any) -> None:
                answered(answer)
                self.answers.append(answer)
                self.answered.set()

            submit(job, done)

        monkeypatch.setattr(workers, "submit", noting)
        contests = Contests(workers, lambda backend: clock)
        monkeypatch.setattr(hook, "_contests", lambda: contests)

    def wait(self) -> Any:
        assert self.answered.wait(120)
        self.answered.clear()
        return self.answers[-1]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store, "read", READ)  # other tests keep nothing on disk
    monkeypatch.setattr(store, "write", WRITE)
    triton_linear.install(wait=False, strict=True)
    yield
    triton_linear.uninstall()


def launch(kernel: Any = transposed, times: int = 1, grid: int = 4) -> None:
    for _ in range(times):
        kernel[(grid,)](*pointers(), **SIZE)


def later_process() -> None:
    """Forget what this process has in memory."""
    for kernel in (transposed, doubled):
        kernel.device_caches.clear()


class Contested:
    """A contest under way: its clock, stock Triton's binary and ours."""

    def __init__(
        self, gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, speedup: Callable[[], float] = lambda: 2.0
    ) -> None:
        self.clock = SimulatedClock(gpu, lambda code: speedup() if code == self.stock else 1.0)
        self.beside = Beside(monkeypatch, self.clock, Workers(COMMAND, {}, 1))
        launch()
        (self.stock,) = gpu.launched
        assert self.beside.wait().differs
        gpu.launched.clear()


def test_the_first_launch_is_stock_tritons_and_the_faster_kernel_stays(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock(gpu, lambda code: 2.0 if code == stock else 1.0)
    beside = Beside(monkeypatch, clock, Workers(COMMAND, {}, 1))
    launch()
    (stock,) = gpu.launched
    assert clock.timed == 0
    assert beside.wait().differs
    launch(times=40)
    ours = next(code for code in gpu.launched if code != stock)
    turns = gpu.launched[1:17]
    assert [code == stock for code in turns[:8]] == [letter == "A" for letter in "ABBABAAB"]
    assert set(gpu.launched[21:]) == {ours}
    timed = clock.timed
    launch(times=5)
    assert clock.timed == timed, "the launch path is Triton's own"
    assert gpu.launched.count(stock) + gpu.launched.count(ours) == 46, "each launch once"


@pytest.mark.parametrize("speedup", [2.0, 0.5])
def test_a_later_process_begins_with_the_winner(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch, speedup: float
) -> None:
    contest = Contested(gpu, monkeypatch, lambda: speedup)
    launch(times=40)
    last = gpu.launched[-1]
    assert (last == contest.stock) == (speedup < 1)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(10)  # writes the winner
    later_process()
    gpu.launched.clear()
    timed = contest.clock.timed
    launch(times=4)
    assert gpu.launched == [last] * 4 and contest.clock.timed == timed


def test_each_size_keeps_its_winner(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = 4
    contest = Contested(gpu, monkeypatch, lambda: 2.0 if grid == 4 else 0.5)
    for _ in range(40):
        for grid in (4, 400):  # the clock reads it
            launch(grid=grid)
    gpu.launched.clear()
    timed = contest.clock.timed
    for grid in (4, 5, 400, 300, 4):
        launch(grid=grid)
    assert [code == contest.stock for code in gpu.launched] == [False, False, True, True, False]
    assert contest.clock.timed == timed
    for grid in (4000,) * 40:
        launch(grid=grid)
    assert gpu.launched[-1] == contest.stock and contest.clock.timed > timed


def test_a_graph_gets_stock_tritons_kernel(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contested(gpu, monkeypatch)
    launch(times=6)
    contest.clock.capturing = True
    gpu.launched.clear()
    launch(times=20)
    assert gpu.launched == [contest.stock] * 20 and contest.clock.timed == 6
    contest.clock.capturing = False
    launch(times=40)
    assert gpu.launched[-1] != contest.stock


@pytest.mark.skipif(not hasattr(knobs.runtime.launch_enter_hook, "add"), reason="this Triton has one hook")
def test_a_profiler_sees_stock_tritons_kernel(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contested(gpu, monkeypatch)
    profiler = print
    knobs.runtime.launch_enter_hook.add(profiler)
    try:
        launch(times=5)
    finally:
        knobs.runtime.launch_enter_hook.remove(profiler)
    assert gpu.launched == [contest.stock] * 5 and contest.clock.timed == 0


@pytest.mark.parametrize("fails", ["load_binary", "launch"])
def test_where_ours_fails_the_launch_is_stock_tritons(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Each launch is done once, and the contest is over."""
    contest = Contested(gpu, monkeypatch)
    load_binary, launched = gpu.load_binary, gpu.launched

    class Refusing(list[bytes]):
        def append(self, code: bytes) -> None:
            if code != contest.stock:
                raise RuntimeError("the driver refuses it")
            super().append(code)

    def refusing(name: str, code: bytes, *rest: Any) -> Any:
        if code != contest.stock:
            raise RuntimeError("the driver cannot load it")
        return load_binary(name, code, *rest)

    if fails == "launch":
        gpu.launched = launched = Refusing()
    else:
        monkeypatch.setattr(gpu, "load_binary", refusing)
    launch(times=7)
    assert launched == [contest.stock] * 7
    timed = contest.clock.timed
    launch(times=7)
    assert launched == [contest.stock] * 14 and contest.clock.timed == timed


def test_where_both_have_the_same_code_there_is_no_contest(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock(gpu, lambda code: 1.0)
    beside = Beside(monkeypatch, clock, Workers(COMMAND, {}, 1))
    launch(doubled)
    assert not beside.wait().differs
    launch(doubled, times=10)
    assert clock.timed == 0 and len(set(gpu.launched)) == 1
    later_process()
    launch(doubled)
    assert len(beside.answers) == 1, "a later process knows"


@pytest.mark.parametrize(
    "command",
    [("false",), ("cat", "/dev/null"), ("echo", "not an answer"), ("sleep", "60"), ("/nonexistent",)],
)
def test_where_a_worker_dies_or_hangs_stock_tritons_kernel_stays(
    gpu: LaunchingDriver,
    installed: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    command: tuple[str, ...],
) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 1.0)
    beside = Beside(monkeypatch, SimulatedClock(gpu, lambda code: 1.0), Workers(command, {}, 1))
    with caplog.at_level("WARNING", "triton_linear"):
        launch(times=3)
        assert beside.wait() is None
    launch(times=3)
    assert len(gpu.launched) == 6 and len(set(gpu.launched)) == 1
    assert len(caplog.records) == 1


def test_threads_launch_each_once(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contested(gpu, monkeypatch)
    threads = [threading.Thread(target=launch, kwargs={"times": 50}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gpu.launched) == 400
    launch(times=300)
    assert gpu.launched[-1] != contest.stock


def test_a_warmup_and_a_pinned_thread_get_ours_at_once(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = Beside(monkeypatch, SimulatedClock(gpu, lambda code: 1.0), Workers(COMMAND, {}, 1))
    compiled = transposed.warmup(*pointers(), grid=(1,), **SIZE)
    launch(times=3)
    assert set(gpu.launched) == {compiled.kernel} and beside.answers == []


def test_a_worker_that_cannot_write_says_so(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(hook, "_contests", lambda: Contests(Keeping(kept), lambda _: SimulatedClock(gpu, len)))
    launch()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(contest_job, "_put", full)
    answer = contest_job.answer_to(kept[0])
    assert not answer.differs and "No space left" in answer.failure


def test_a_worker_with_other_variables_compiles_nothing(
    gpu: LaunchingDriver, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(hook, "_contests", lambda: Contests(Keeping(kept), lambda _: SimulatedClock(gpu, len)))
    launch()
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert "environment variables" in contest_job.answer_to(kept[0]).failure


class Keeping(Workers):
    """Workers that compile nothing."""

    def __init__(self, kept: list[Any]) -> None:
        super().__init__(COMMAND, {}, 1)
        self.kept = kept

    def submit(self, job: Any, answered: Callable[[Any], None]) -> None:
        self.kept.append(job)
