"""More variants than one take part in a contest: each challenges the winner of those before."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from autotune_support import LaunchingDriver, gpu, transposed
from contests_support import WORKERS, Beside, SimulatedClock, installed, later_process, launch

import triton_linear
from triton_linear import contest
from triton_linear.contests.launches import LaunchContest
from triton_linear.contests.revisits import Revisits

__all__ = ["gpu", "installed"]
pytestmark = pytest.mark.usefixtures("installed")
VARIANTS = ("ours", "latency", "lower", "layouts")
"""The second has the code of the first."""


class Variants:
    """A contest of these variants, of which each launch takes as long as a test says, by its number in the
    order in which their kernels come."""

    def __init__(self, gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, times: list[float]) -> None:
        monkeypatch.setattr(contest, "CONTESTED", VARIANTS)
        self.codes: list[bytes] = []
        self.gpu = gpu
        self.times = times
        self.clock = SimulatedClock(gpu, lambda code: self.times[self.number(code)])
        self.beside = Beside(monkeypatch, self.clock, WORKERS)
        launch()
        self.number(gpu.launched[-1])

    def number(self, code: bytes) -> int:
        if code not in self.codes:
            self.codes.append(code)
        return self.codes.index(code)

    def launched(self, times: int) -> list[int]:
        """The numbers of the kernels of so many launches."""
        self.gpu.launched.clear()
        launch(times=times)
        return [self.number(code) for code in self.gpu.launched]


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Two variants; the revisits that are asked for."""
    monkeypatch.setattr(sys.modules[__name__], "VARIANTS", ("ours", "lower"))
    asked: list[Any] = []
    monkeypatch.setattr(Revisits, "add", lambda self, number, again: asked.append(again))
    return asked


def refuses(rest: Any) -> bool:
    return False


def in_use() -> Any:
    (kernel,) = transposed.device_caches[0][0].values()
    return kernel


@pytest.mark.parametrize("fails", ["load", "resources", "launch"])
def test_a_challenger_that_fails_leaves_the_winner(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, two: list[Any], fails: str
) -> None:
    variants = Variants(gpu, monkeypatch, [4.0, 1.0, 0.5])
    variants.beside.wait()
    assert variants.launched(100)[-1] == 1
    load, known = gpu.load_binary, list(variants.codes)

    def loading(name: str, code: bytes, *rest: Any) -> Any:
        if code not in known and fails == "load":
            raise RuntimeError("out of memory")
        loaded = load(name, code, *rest)
        return loaded if code in known else (*loaded[:4], 1)  # more threads than the GPU has

    if fails != "launch":
        monkeypatch.setattr(gpu, "load_binary", loading)
    variants.beside.wait()
    if fails == "launch":
        variants.launched(2)
        _, own, its = in_use()._run._loaded[2]

        def refusing(*given: Any) -> None:
            raise RuntimeError("the driver does not take it")

        in_use()._run._loaded[2] = refusing, own, its
    for _ in range(2):
        numbers = variants.launched(100)
        assert set(numbers) <= {0, 1} and set(numbers[8:]) == {1} and len(numbers) == 100
        assert not isinstance(in_use()._run, LaunchContest)
        two.pop()()  # once more, some time later


def test_launches_that_the_challenger_does_not_take_are_the_winners(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, two: list[Any]
) -> None:
    variants = Variants(gpu, monkeypatch, [4.0, 1.0, 0.5])
    variants.beside.wait()
    assert variants.launched(100)[-1] == 1
    known = list(variants.codes)
    monkeypatch.setattr(contest, "check_of", lambda kernel: None if kernel.kernel in known else refuses)
    variants.beside.wait()
    assert set(variants.launched(200)) == {1} and not isinstance(in_use()._run, LaunchContest)


def test_a_graph_gets_the_winner_so_far(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, two: list[Any]
) -> None:
    variants = Variants(gpu, monkeypatch, [4.0, 1.0, 0.5])
    for _ in VARIANTS:
        variants.beside.wait()
    variants.launched(48)
    variants.clock.capturing = True
    assert set(variants.launched(10)) == {1}


def test_a_kernel_that_is_no_longer_in_use_stays_so(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has it, and Triton's cache another one, whose contest is over."""
    monkeypatch.setattr(sys.modules[__name__], "VARIANTS", ("ours",))
    answered, late = contest._Contest._answered, list[Any]()
    monkeypatch.setattr(contest._Contest, "_answered", lambda *given: late.append(given))
    variants = Variants(gpu, monkeypatch, [4.0, 1.0, 0.5])
    held = in_use()
    variants.beside.wait()
    monkeypatch.setattr(contest._Contest, "_answered", answered)
    transposed.device_caches.clear()
    launch()
    now = in_use()
    answered(*late[0])
    assert in_use() is now is not held and not isinstance(held._run, LaunchContest)


def test_all_variants_are_compiled_as_stock_tritons_kernel_was(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, two: list[Any]
) -> None:
    jobs = list[Any]()
    submit = WORKERS.submit
    monkeypatch.setattr(WORKERS, "submit", lambda job, then: (jobs.append(job), submit(job, then)))
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    variants = Variants(gpu, monkeypatch, [4.0, 1.0, 0.5])
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "0")
    for _ in VARIANTS:
        variants.beside.wait()
    assert [job.surroundings.environment["DISABLE_PTXAS_OPT"] for job in jobs] == ["1", "1"]


def test_each_variant_challenges_the_winner(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = Variants(gpu, monkeypatch, [4.0, 2.0, 3.0, 1.0])
    assert [variants.beside.wait().differs, variants.launched(100)[-1]] == [True, 1]
    assert not variants.beside.wait().differs, "the same code"
    assert variants.beside.wait().differs
    met = variants.launched(100)
    assert set(met[:32]) == {1, 2} and met[-1] == 1
    assert variants.beside.wait().differs
    assert variants.launched(100)[-1] == 3
    assert triton_linear.status().kernels["contests won by layouts"] >= 1
    timed = variants.clock.timed
    assert set(variants.launched(50)) == {3} and variants.clock.timed == timed
    later_process()
    assert set(variants.launched(100)) == {3}, "it begins with the winner"
    assert variants.clock.timed == timed


def test_variants_join_a_contest_that_runs(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been found before an end of the program is known later."""
    variants = Variants(gpu, monkeypatch, [2.0, 1.0, 0.5, 4.0])
    for _ in VARIANTS:
        variants.beside.wait()
    met = variants.launched(64)
    assert set(met[:32]) == {0, 1} and set(met[48:]) <= {1, 2}
    later_process()
    variants.times = [1.0, 2.0, 4.0, 4.0]
    assert set(variants.launched(100)) == {1}, "the others take part some time later"


def test_sizes_have_winners_of_their_own(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = Variants(gpu, monkeypatch, [2.0, 1.0, 0.5, 4.0])
    for _ in VARIANTS:
        variants.beside.wait()
    for _ in range(200):
        variants.times = [2.0, 1.0, 0.5, 4.0]
        launch(grid=4)
        variants.times = [1.0, 2.0, 0.9, 0.5]
        launch(grid=400)
    gpu.launched.clear()
    launch(grid=4)
    launch(grid=400)
    assert [variants.number(code) for code in gpu.launched] == [2, 3]


def test_kernels_that_nobody_needs_are_unloaded(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    unloaded: list[Any] = []
    load = gpu.load_binary
    monkeypatch.setattr(gpu, "load_binary", lambda name, code, *rest: (code, *load(name, code, *rest)[1:]))
    monkeypatch.setattr(gpu, "unload_module", unloaded.append)
    variants = Variants(gpu, monkeypatch, [4.0, 2.0, 3.0, 1.0])
    for _ in VARIANTS:
        variants.beside.wait()
    variants.launched(200)
    gc.collect()
    assert unloaded == [], "a graph may have them"
    gc.disable()
    try:
        later_process()
        assert len(unloaded) == 4
    finally:
        gc.enable()
    assert not [each for each in gc.get_objects() if type(each) is LaunchContest and each.runs]
