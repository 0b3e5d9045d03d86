"""More variants than one take part in a contest: each challenges the winner of those before."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from autotune_support import LaunchingDriver, gpu
from contests_support import WORKERS, Beside, SimulatedClock, installed, later_process, launch

import triton_linear
from triton_linear import contest
from triton_linear.contests.launches import LaunchContest

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
