"""Launches take turns between stock Triton's kernel and ours, on a GPU that is not there."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from autotune_support import Clock, LaunchingDriver, doubled, gpu, pointers, transposed
from contests_support import (
    SIZE,
    WORKERS,
    Beside,
    Contested,
    SimulatedClock,
    installed,
    kept_jobs,
    later_process,
    launch,
)
from triton import Config, autotune, knobs

import triton_linear
from triton_linear import contest_job, hook
from triton_linear.lowering.target import table
from triton_linear.report import FallbackWarning
from triton_linear.setting import Options

__all__ = ["gpu", "installed"]
pytestmark = pytest.mark.usefixtures("installed")


def test_the_first_launch_is_stock_tritons_and_the_faster_kernel_stays(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock(gpu, lambda code: 2.0 if code == stock else 1.0)
    beside = Beside(monkeypatch, clock, WORKERS)
    launch()
    (stock,) = gpu.launched
    assert clock.timed == 0
    assert beside.wait().differs
    launch(times=100)
    ours = next(code for code in gpu.launched if code != stock)
    turns = [code == stock for code in gpu.launched[1:33]]
    assert all(sum(turns[first : first + 4]) == 2 for first in range(0, 32, 4))
    assert set(gpu.launched[65:]) == {ours}
    timed = clock.timed
    launch(times=5)
    assert clock.timed == timed, "the launch path is Triton's own"
    assert gpu.launched.count(stock) + gpu.launched.count(ours) == 106, "each launch once"


@pytest.mark.parametrize("speedup", [2.0, 0.5])
def test_a_later_process_begins_with_the_winner(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, speedup: float
) -> None:
    contest = Contested(gpu, monkeypatch, lambda: speedup)
    launch(times=100)
    last = gpu.launched[-1]
    assert (last == contest.stock) == (speedup < 1)
    later_process()
    gpu.launched.clear()
    timed = contest.clock.timed
    launch(times=100)
    assert gpu.launched == [last] * 100 and contest.clock.timed == timed
    assert not contest.runs and contest.kernel.kernel == last


def test_a_later_process_measures_other_sizes(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = 4
    contest = Contested(gpu, monkeypatch, lambda: 0.5 if grid == 4 else 2.0)
    launch(times=100)
    assert gpu.launched[-1] == contest.stock
    later_process()
    grid = 4000
    gpu.launched.clear()
    launch(times=100, grid=grid)
    assert set(gpu.launched[:32]) != {contest.stock} and gpu.launched[-1] != contest.stock


def test_each_size_keeps_its_winner(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = 4
    contest = Contested(gpu, monkeypatch, lambda: 2.0 if grid == 4 else 0.5)
    for _ in range(80):
        for grid in (4, 400):
            launch(grid=grid)
    gpu.launched.clear()
    timed = contest.clock.timed
    for grid in (4, 5, 400, 300, 4):
        launch(grid=grid)
    assert [code == contest.stock for code in gpu.launched] == [False, False, True, True, False]
    assert contest.clock.timed == timed
    for grid in (4000,) * 80:
        launch(grid=grid)
    assert gpu.launched[-1] == contest.stock and contest.clock.timed > timed


def test_a_rare_size_does_not_keep_the_contest_open(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contested(gpu, monkeypatch)
    launch(times=3, grid=400)
    launch(times=200, grid=0)  # nothing to run, and nothing to decide
    assert contest.clock.timed == 3
    launch(times=200)
    assert not contest.runs


def test_a_graph_gets_stock_tritons_kernel_which_lives_on(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    unloaded: list[Any] = []
    load = gpu.load_binary
    monkeypatch.setattr(gpu, "load_binary", lambda name, code, *rest: (code, *load(name, code, *rest)[1:]))
    monkeypatch.setattr(gpu, "unload_module", unloaded.append)
    contest = Contested(gpu, monkeypatch)
    launch(times=6)
    contest.clock.capturing = True
    gpu.launched.clear()
    launch(times=20)
    assert gpu.launched == [contest.stock] * 20 and contest.clock.timed == 6
    contest.clock.capturing = False
    launch(times=100)
    assert gpu.launched[-1] != contest.stock
    gc.collect()
    assert unloaded == []


@pytest.mark.skipif(not hasattr(knobs.runtime.launch_enter_hook, "add"), reason="this Triton has one hook")
def test_a_profiler_sees_stock_tritons_kernel(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = Contested(gpu, monkeypatch)
    seen: list[Any] = []
    knobs.runtime.launch_enter_hook.add(seen.append)
    try:
        launch(times=5)
    finally:
        knobs.runtime.launch_enter_hook.remove(seen.append)
    assert gpu.launched == [contest.stock] * 5 and contest.clock.timed == 0


class Refusing(list[bytes]):
    """Launches of a driver that takes only one kernel."""

    def __init__(self, code: bytes) -> None:
        super().__init__()
        self.code = code

    def append(self, code: bytes) -> None:
        if code != self.code:
            raise RuntimeError("the driver refuses it")
        super().append(code)


@pytest.mark.parametrize("fails", ["load_binary", "launch"])
@pytest.mark.parametrize("decided", [False, True])
def test_where_ours_fails_the_launch_is_stock_tritons(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, fails: str, decided: bool
) -> None:
    """Each launch is done once, and the contest is over."""
    contest = Contested(gpu, monkeypatch)
    if decided:
        launch(times=100)
        later_process()
    load_binary, gpu.launched = gpu.load_binary, Refusing(contest.stock)

    def refusing(name: str, code: bytes, *rest: Any) -> Any:
        if code != contest.stock:
            raise RuntimeError("the driver cannot load it")
        return load_binary(name, code, *rest)

    if fails == "load_binary":
        monkeypatch.setattr(gpu, "load_binary", refusing)
    launch(times=20)
    assert gpu.launched == [contest.stock] * 20
    timed = contest.clock.timed
    launch(times=7)
    assert gpu.launched == [contest.stock] * 27 and contest.clock.timed == timed and not contest.runs


def test_an_exception_of_the_users_goes_through(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a handler of a signal that comes when ours is launched already."""
    contest = Contested(gpu, monkeypatch)
    launch(times=8)
    gpu.launched.clear()

    def launched(*given: Any) -> None:
        gpu.launched.append(b"ours")
        raise TimeoutError("alarm")

    loaded = contest.kernel._run._loaded
    loaded[1] = (launched, *loaded[1][1:])
    before = contest.kernel._run._count
    with pytest.raises(TimeoutError):
        launch(times=8)
    assert len(gpu.launched) == contest.kernel._run._count - before


@pytest.mark.parametrize("grid", ["numpy", "lambda"])
def test_grids_of_all_kinds(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, grid: str) -> None:
    numpy = pytest.importorskip("numpy")
    Contested(gpu, monkeypatch)
    given = (numpy.int64(4),) if grid == "numpy" else lambda meta: (meta["N"] // 16,)
    for _ in range(6):
        transposed[given](*pointers(), **SIZE)
    assert len(gpu.launched) == 6 and len(set(gpu.launched)) == 2


def test_where_both_have_the_same_code_there_is_no_contest(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock(gpu, lambda code: 1.0)
    beside = Beside(monkeypatch, clock, WORKERS)
    launch(doubled)
    assert not beside.wait().differs
    launch(doubled, times=10)
    assert clock.timed == 0 and len(set(gpu.launched)) == 1
    later_process()
    launch(doubled)
    assert len(beside.answers) == 1, "a later process knows"


def test_threads_launch_each_once(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = Contested(gpu, monkeypatch)
    load = gpu.load_binary
    loaded = threading.Event()

    def slow(name: str, code: bytes, *rest: Any) -> Any:
        loaded.wait(0.2)
        return load(name, code, *rest)

    monkeypatch.setattr(gpu, "load_binary", slow)
    threads = [threading.Thread(target=launch, kwargs={"times": 50, "grid": 4 << count}) for count in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gpu.launched) == 400 and None not in gpu.launched
    launch(times=400)
    assert gpu.launched[-1] != contest.stock


def test_stock_tritons_kernel_has_the_key_that_it_has_without_the_plugin(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Contested(gpu, monkeypatch).kernel.hash
    triton_linear.uninstall()
    transposed.device_caches.clear()
    assert transposed.warmup(*pointers(), grid=(1,), **SIZE).hash == found


@pytest.mark.parametrize(("milliseconds", "brief"), [(0.5, True), (2.0, False)])
def test_an_idle_gpu_waits_for_short_launches(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, milliseconds: float, brief: bool
) -> None:
    contest = Contested(gpu, monkeypatch, lambda: milliseconds)
    contest.clock.milliseconds_of = lambda code: milliseconds
    launch(times=40)
    assert contest.clock.brief[0] and set(contest.clock.brief[20:]) == {brief}


def test_a_warmup_and_other_settings_get_ours_at_once(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contested(gpu, monkeypatch)
    with hook.pinned(Options(strict=True)) as reports:
        assert transposed.warmup(*pointers(), grid=(1,), **SIZE).kernel != contest.stock and reports
    with triton_linear.enabled(strict=True):
        launch()
    assert gpu.launched[-1] != contest.stock
    later_process()
    assert transposed.warmup(*pointers(), grid=(1,), **SIZE).kernel != contest.stock


def test_what_a_worker_could_not_compile_alike_has_no_contest(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    jobs = kept_jobs(monkeypatch, gpu)
    with hook.pinned(None):
        stock = transposed.warmup(*pointers(), grid=(1,), **SIZE)
    path = tmp_path / "override.ptx"
    path.write_text(stock.asm["ptx"].replace("ret;", "membar.gl;\n ret;"))
    transposed[(4,)](*pointers(), **SIZE, ir_override=str(path))
    triton_linear.uninstall()

    def theirs(backend: Any = None, stages: Any = None, *rest: Any) -> Any:
        return ("theirs", "theirs") if stages is None else None

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", theirs)
    triton_linear.install(wait=False, strict=True)
    launch()
    triton_linear.uninstall()
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    triton_linear.install(wait=False, strict=True)
    later_process()
    monkeypatch.setattr(knobs.compilation, "listener", lambda **_: None)
    launch()
    assert jobs == [] and len(gpu.launched) == 3


def test_without_ttgir_there_is_no_contest(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    jobs = kept_jobs(monkeypatch, gpu)
    launch()
    assert len(gpu.launched) == 1 and jobs == []


def test_on_a_gpu_without_a_table_there_is_no_contest(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(table), "GPUS", {})
    jobs = kept_jobs(monkeypatch, gpu)
    triton_linear.install(wait=False, strict=False)
    with pytest.warns(FallbackWarning, match="stock Triton: no table for cuda:90") as caught:
        launch()
        launch(doubled)
    assert len(gpu.launched) == 2 and len(caught) == 1 and jobs == []


def test_the_winner_has_what_stages_before_made(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = Contested(gpu, monkeypatch)
    launch(times=100)
    assert contest.kernel.kernel != contest.stock
    assert {"ttir", "ttgir", "llir", "ptx", "cubin"} <= set(contest.kernel.asm)


def test_who_chooses_by_an_autotuner_has_no_contest(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the choice comes from disk: other processes launch what it has chosen."""
    jobs = kept_jobs(monkeypatch, gpu)
    with hook.pinned(None):
        stock = {transposed.warmup(*pointers(), grid=(1,), **SIZE, num_warps=warps).kernel for warps in (4, 8)}
    clock = Clock(gpu, lambda code: 2.0 if code in stock else 1.0)
    configs = [Config({}, num_warps=4), Config({}, num_warps=8)]

    def first_launched() -> bytes:
        tuned = autotune(configs, key=[], do_bench=clock, cache_results=True)(transposed)
        tuned[(4,)](*pointers(), **SIZE)
        return gpu.launched[-1]

    chosen = first_launched()
    measured = clock.measured
    later_process()
    assert first_launched() == chosen and chosen not in stock
    assert clock.measured == measured and jobs == []


def test_an_autotuner_that_has_nothing_to_measure_leaves_it_to_contests(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = kept_jobs(monkeypatch, gpu)
    with hook.pinned(None):
        stock = transposed.warmup(*pointers(), grid=(1,), **SIZE).kernel
    configs = [Config({}, num_warps=4), Config({}, num_warps=8)]
    first = {"early_config_prune": lambda configs, named, **more: configs[:1]}
    autotune(configs, key=[], prune_configs_by=first)(transposed)[(4,)](*pointers(), **SIZE)
    assert gpu.launched == [stock] and len(jobs) == 1


def test_a_worker_that_cannot_write_says_so(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = kept_jobs(monkeypatch, gpu)
    launch()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(contest_job, "_put", full)
    answer = contest_job._answer
    with pytest.raises(OSError, match="No space left"):
        answer(jobs[0])


def test_one_line_says_how_a_contest_has_ended(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "triton_linear")
    won = triton_linear.status().kernels.get("contests won by ours", 0)
    Contested(gpu, monkeypatch, lambda: 2.0)
    launch(times=2)
    assert triton_linear.status().kernels["contests running"] == 1
    launch(times=100)
    assert triton_linear.status().kernels["contests won by ours"] == won + 1
    later_process()
    launch(times=100)
    said = [record.message for record in caplog.records]
    assert said[0].startswith("transposed: our kernel stays: speed of ours 2.0")
    assert said[1:] == ["transposed: our kernel stays: as measured earlier"]
