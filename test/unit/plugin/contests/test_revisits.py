"""Contests that have ended are opened again: what a program launches later may have other sizes."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from autotune_support import LaunchingDriver, gpu, transposed
from contests_support import Contested, installed, launch

from triton_linear import hook
from triton_linear.contests.revisits import Revisits

__all__ = ["gpu", "installed"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("first", [0.5, 2.0])
def test_a_size_that_comes_later_has_a_contest_too(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, first: float
) -> None:
    grid = 4
    contest = Contested(gpu, monkeypatch, lambda: first if grid == 4 else 1 / first)
    again = []
    monkeypatch.setattr(hook._contests()._revisits, "add", lambda number, call: again.append((number, call)))
    launch(times=100)
    assert (gpu.launched[-1] == contest.stock) == (first < 1) and not contest.runs
    grid = 4000
    gpu.launched.clear()
    launch(times=100, grid=grid)
    assert len(set(gpu.launched)) == 1, "nobody looks"
    ((number, call),) = again
    assert number == 0
    call()
    contest.clock.capturing = True
    launch(grid=grid)
    assert (gpu.launched[-1] == contest.stock) == (first < 1), "a graph gets the winner so far"
    contest.clock.capturing = False
    launch(times=400, grid=grid)
    assert (gpu.launched[-1] == contest.stock) == (first > 1)
    assert len(gpu.launched) == 501, "each launch once"


@pytest.mark.usefixtures("installed")
def test_what_is_gone_or_has_failed_is_not_opened_again(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contested(gpu, monkeypatch)
    again = []
    monkeypatch.setattr(hook._contests()._revisits, "add", lambda number, call: again.append(call))
    launch(times=100)
    kernel = contest.kernel
    for _ in range(2):
        again[0]()
        assert contest.runs, "opened once"
    launch(times=100)
    assert len(again) == 2 and contest.kernel is kernel
    transposed.device_caches[0][0].clear()
    again[1]()
    assert not transposed.device_caches[0][0]


def test_each_is_called_in_its_time() -> None:
    called: list[str] = []
    done = threading.Event()
    revisits = Revisits(after=(0.05, 0.0))
    begun = time.monotonic()

    def last() -> None:
        called.append("late")
        done.set()

    def fails() -> None:
        called.append("fails")
        raise RuntimeError("on purpose")

    revisits.add(0, last)
    revisits.add(1, fails)
    revisits.add(2, lambda: called.append("never"))
    assert done.wait(10) and time.monotonic() >= begun + 0.05
    assert called == ["fails", "late"]
    deadline = time.monotonic() + 10
    while revisits._thread is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert revisits._thread is None, "the thread ends"
    done.clear()
    revisits.add(1, done.set)
    assert done.wait(10), "and another one begins"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("times", [8, 100], ids=["in its contest", "behind it"])
@pytest.mark.parametrize("speedup", [0.5, 2.0])
def test_a_kernel_that_nobody_needs_is_gone_at_once(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, times: int, speedup: float
) -> None:
    """Not when garbage is collected: a graph may be captured then, which unloading would end."""
    contest = Contested(gpu, monkeypatch, lambda: speedup)
    launch(times=times)
    assert contest.runs == (times == 8)
    kernels = [weakref.ref(each) for each in (contest.kernel, *vars(contest.kernel)["_triton_linear_other"])]
    gc.collect()
    gc.disable()
    try:
        transposed.device_caches.clear()
        assert [kernel() for kernel in kernels] == [None, None]
    finally:
        gc.enable()
