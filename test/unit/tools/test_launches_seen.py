"""What is timed, and how: launches seen through Triton's own launchers, modes, turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import triton
from plugin_support import CUDA, FakeDriver, compile_kernel, row_sums
from triton.backends.nvidia import driver as nvidia
from triton.compiler.compiler import CompiledKernel
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Config
from triton.runtime.jit import MockTensor

from triton_linear.tools.measuring import child
from triton_linear.tools.measuring.child import mode
from triton_linear.tools.measuring.launches import Launch, Watch, again, side_by_side

# --- the timing core --------------------------------------------------------------------------------------


class Drifting:
    """A clock of a GPU that gets slower from one measurement to the next."""

    def __init__(self, speeds: dict[Callable[[], object], float]) -> None:
        self.speeds = speeds
        self.measured = 0
        self.rows: list[int] = []

    def time(self, launch: Callable[[], object], before: Callable[[], object] | None, row: int) -> float:
        if before is not None:
            before()
        for _ in range(row):
            launch()
        self.rows.append(row)
        self.measured += 1
        return self.speeds[launch] * (1 + self.measured / 50)


def test_drift_does_not_show_in_ratios() -> None:
    calls: list[str] = []
    slow, fast = lambda: calls.append("slow"), lambda: calls.append("fast")
    clock = Drifting({slow: 300.0, fast: 150.0})
    times = side_by_side({"a": slow, "b": fast}, clock, before=lambda: calls.append("before"), seconds=0)
    ratios = [first / second for first, second in zip(times["a"], times["b"], strict=True)]
    assert statistics.median(ratios) == pytest.approx(2.0, rel=0.03)
    assert clock.rows == [1] * len(clock.rows)
    assert calls[::2] == ["before"] * (len(calls) // 2)
    # After two for warming up each: six turns, whose order changes.
    assert calls[1::2][4:] == [
        "slow",
        "fast",
        "fast",
        "slow",
        "slow",
        "fast",
        "fast",
        "slow",
        "slow",
        "fast",
        "fast",
        "slow",
    ]


@pytest.mark.parametrize(("in_a_row", "row"), [(True, 10), (False, 1)])
def test_short_kernels_are_launched_in_a_row_unless_they_must_not(in_a_row: bool, row: int) -> None:
    launch: Callable[[], None] = lambda: None  # noqa: E731
    clock = Drifting({launch: 2.0})
    side_by_side({"a": launch}, clock, before=launch, seconds=0, in_a_row=in_a_row)
    assert clock.rows[2:] == [row] * 6


# --- modes ------------------------------------------------------------------------------------------------


def test_modes_compile_each_in_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    made: dict[str, str] = {}
    for name in ("stock", "ours", "lower"):
        with mode(name) as reports:
            made[name] = compile_kernel(row_sums, CUDA).asm["ptx"]
        assert len(reports) == (name != "stock")
    assert len(set(made.values())) > 1


@pytest.mark.parametrize("name", ["", "fast", "ours:1", "free"])
def test_there_is_no_other_mode(name: str) -> None:
    with pytest.raises(ValueError, match="no variant"):
        mode(name)


# --- launches ---------------------------------------------------------------------------------------------


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[tuple[Any, ...]]]:
    """What a GPU that is not there is asked to launch; Triton is as it was afterwards."""
    found: list[tuple[Any, ...]] = []

    def launch(self: Any, *arguments: Any) -> None:
        found.append(arguments)

    def init_handles(self: Any) -> None:
        self._run, self.module, self.function = nvidia.CudaLauncher.__new__(nvidia.CudaLauncher), 1, 2

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(nvidia.CudaLauncher, "__call__", launch)
    monkeypatch.setattr(CompiledKernel, "_init_handles", init_handles)
    monkeypatch.setattr(CompiledKernel, "__init__", CompiledKernel.__init__)
    monkeypatch.setattr(Autotuner, "_bench", Autotuner._bench)
    monkeypatch.setattr(driver, "_active", FakeDriver(CUDA))
    row_sums.device_caches.clear()
    yield found
    row_sums.device_caches.clear()


def arguments() -> tuple[MockTensor, MockTensor]:
    return MockTensor(triton.language.float32), MockTensor(triton.language.float32)


def test_every_way_to_launch_is_seen_and_counted(launched: list[tuple[Any, ...]]) -> None:
    seen: list[Launch] = []
    order: list[str] = []

    def visit(launch: Launch) -> Callable[[], None]:
        seen.append(launch)
        order.append(f"before {len(launched)}")
        return lambda: order.append(f"behind {len(launched)}")

    watch = Watch(visit)
    watch.start()
    x, out = arguments()
    for _ in range(3):
        row_sums[(4,)](x, out, 32, 64)
    row_sums[(5, 2)](x, out, 32, 64)
    compiled = compile_kernel(row_sums)
    compiled[(7, 1, 1)](x, out)
    assert [launch.grid for launch in seen] == [(4, 1, 1), (5, 2, 1), (7, 1, 1)]
    assert order == ["before 0", "behind 1", "before 3", "behind 4", "before 4", "behind 5"]
    assert sorted(watch.counts.values()) == [1, 1, 3]
    assert seen[0].arguments == (x, out, 32, 64)
    assert seen[0].types == ("*fp32", "*fp32", "constexpr", "constexpr")
    assert seen[0].kernel.asm["ttgir"].count("ttg.convert_layout") == 1


def test_launches_that_choose_a_configuration_are_not_shown(launched: list[tuple[Any, ...]]) -> None:
    grids: list[tuple[int, ...]] = []

    def visit(launch: Launch) -> Callable[[], None]:
        grids.append((launch.kernel.metadata.num_warps, *launch.grid))
        return lambda: None

    watch = Watch(visit)
    watch.start()

    def bench(call: Callable[[], None], quantiles: Sequence[float]) -> list[float]:
        call()
        return [1.0 + len(launched)] * 3

    configs = [Config({"BN": 64}, num_warps=warps) for warps in (2, 4)]
    tuned = triton.autotune(configs, key=[], do_bench=bench)(row_sums)
    compile_kernel()  # the choosers are patched when a kernel is made
    tuned[(4,)](*arguments(), BM=32)
    assert len(launched) == 3
    assert grids == [(2, 4, 1, 1)]


def test_a_visitor_can_wait_for_the_next_launch(launched: list[tuple[Any, ...]]) -> None:
    visits: list[str] = []
    watch = Watch(lambda launch: visits.append(launch.key))  # type: ignore[func-returns-value]
    watch.start()
    for _ in range(2):
        row_sums[(4,)](*arguments(), 32, 64)
    assert len(visits) == 2
    assert len(set(visits)) == 1


def test_a_kernel_made_anew_is_launched_alike(launched: list[tuple[Any, ...]]) -> None:
    seen: list[Launch] = []
    watch = Watch(lambda launch: seen.append(launch) or (lambda: None))  # type: ignore[func-returns-value]
    watch.start()
    row_sums[(4,)](*arguments(), 32, 64)
    ours, reports = child.compiled(seen[0].kernel, "ours")
    assert len(reports) == 1
    stock, reports = child.compiled(seen[0].kernel, "stock")
    assert reports == []
    assert stock.hash == seen[0].kernel.hash != ours.hash
    assert stock.asm["ptx"] == seen[0].kernel.asm["ptx"] != ours.asm["ptx"]
    with watch.aside():
        again(ours, seen[0], ("copy", "copy", 32, 64))()
    first, second = launched
    assert first[:3] == second[:3] == (4, 1, 1)
    assert second[-4:] == ("copy", "copy", 32, 64)
    assert second[6:9] == (None, None, None)  # no launch metadata, no hooks: nobody is told
    assert len(seen) == 1
