"""What an autotuner has chosen without the plugin enters a contest."""

from __future__ import annotations

import pytest
import triton
from autotune_support import Clock, LaunchingDriver, binaries, gpu, pointers, transposed
from contests_support import WORKERS, Beside, SimulatedClock, installed

import triton_linear
from triton_linear.autotuner import OFF, mark_of

__all__ = ["gpu", "installed"]


@pytest.mark.usefixtures("installed")
def test_a_choice_of_stock_s_kernel_enters_a_contest(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An autotuner sees few launches: the program's own decide."""
    triton_linear.uninstall()
    stock, ours = binaries(transposed, num_warps=4, N=32)
    triton_linear.install(wait=False, strict=True)
    beside = Beside(monkeypatch, SimulatedClock(gpu, lambda code: 2.0 if code == stock else 1.0), WORKERS)
    tuned = triton.autotune([triton.Config(dict(size), num_warps=4) for size in ({"N": 32}, {"N": 64})], [])
    kernel = tuned(transposed)
    kernel.do_bench = clock = Clock(gpu, lambda code: 1.0 + (code != stock))
    kernel[(4,)](*pointers())
    assert (clock.measured, gpu.launched[-1], mark_of(kernel.best_config)) == (4, stock, OFF)
    assert beside.wait().differs
    gpu.launched.clear()
    for _ in range(200):
        kernel[(4,)](*pointers())
    assert (clock.measured, set(gpu.launched), gpu.launched[-1]) == (4, {stock, ours}, ours)
    other = tuned(transposed)
    other.do_bench = Clock(gpu, lambda code: 1.0 + (code != ours))
    other[(4,)](*pointers())
    assert (gpu.launched[-1], mark_of(other.best_config)) == (ours, None), "and ours stays what it was"
