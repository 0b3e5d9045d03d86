"""A kernel that loads in front of stores by other arguments is launched only where their memory is distinct."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl
from autotune_support import LaunchingDriver, gpu
from contests_support import WORKERS, Beside, SimulatedClock, installed
from triton.runtime.jit import MockTensor

import triton_linear
from triton_linear.checked import DISTINCT, Checked, are_distinct, parameters
from triton_linear.contests.launches import LaunchContest

__all__ = ["gpu", "installed"]


@triton.jit
def centred(x, N: tl.constexpr, out, rows):
    """Each row less its maximum: the barriers of a maximum hold back the loads of the next row."""
    at = tl.arange(0, N)
    for row in range(rows):
        values = tl.load(x + row * N + at)
        tl.store(out + row * N + at, values - tl.max(values, 0))


class Tensor(MockTensor):
    """A tensor of PyTorch's somewhere in a storage."""

    def __init__(self, start: int, size: int) -> None:
        super().__init__(tl.int8)
        self.storage = SimpleNamespace(data_ptr=lambda: start, nbytes=lambda: size)

    def untyped_storage(self) -> SimpleNamespace:
        return self.storage


APART = Tensor(0, 4096), Tensor(4096, 4096)
WITHIN = Tensor(0, 8192), Tensor(4096, 4096)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    centred.device_caches.clear()


def launch(arguments: tuple[Any, Any], times: int = 1) -> Any:
    for _ in range(times):
        last = centred[(4,)](arguments[0], 1024, arguments[1], 64)
    return last


@pytest.mark.usefixtures("installed")
def test_contests_check_each_launch(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(monkeypatch, SimulatedClock(gpu, lambda code: 1.0 + (code == stock)), WORKERS)
    first = launch(APART)
    (stock,) = gpu.launched
    assert beside.wait().differs
    assert isinstance(first._run, LaunchContest)
    launch(WITHIN, 40)
    assert set(gpu.launched) == {stock}, "in the middle of the contest"
    kept = launch(APART, 200)
    assert kept is not first and kept.kernel != stock, "ours has won"
    assert getattr(kept.metadata, DISTINCT) == [[0, 1]], "numbers in the compiled function"
    for arguments, expected in ((APART, kept.kernel), (WITHIN, stock), (APART, kept.kernel), (WITHIN, stock)):
        launch(arguments)
        assert gpu.launched[-1] == expected, "after it"


@pytest.mark.usefixtures("installed")
def test_kernels_of_no_contest_are_checked_as_well(gpu: LaunchingDriver) -> None:
    triton_linear.install(wait=True, strict=True)
    ours = launch(APART)
    assert isinstance(ours._run, Checked) and gpu.launched == [ours.kernel]
    loaded = gpu.loaded
    launch(WITHIN)
    stock = gpu.launched[-1]
    assert stock != ours.kernel
    assert launch(APART) is ours and gpu.launched[-1] == ours.kernel
    ours[(4, 1, 1)](WITHIN[0], 1024, WITHIN[1], 64)
    assert gpu.launched[-1] == stock and gpu.loaded == loaded + 1, "which is compiled once"


@pytest.mark.usefixtures("installed")
def test_hooks_that_may_compile_too_keep_loads_behind_stores(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton_linear.install(wait=True, strict=True)
    monkeypatch.setattr(triton.knobs.runtime, "jit_post_compile_hook", lambda **_: None)
    assert not hasattr(launch(WITHIN).metadata, DISTINCT)


@pytest.mark.usefixtures("installed")
def test_what_a_program_compiles_itself_is_for_all_arguments(gpu: LaunchingDriver) -> None:
    triton_linear.install(wait=True, strict=True)
    source = triton.compiler.ASTSource(
        centred, {"x": "*i8", "N": "constexpr", "out": "*i8", "rows": "i32"}, {"N": 1024}
    )
    assert not hasattr(triton.compile(source, target=gpu.get_current_target()).metadata, DISTINCT)


def test_storages_are_distinct_if_they_share_no_byte() -> None:
    assert are_distinct([(0, 1)], APART) and are_distinct([], WITHIN)
    assert not are_distinct([(0, 1)], WITHIN) and not are_distinct([(1, 0)], WITHIN)
    assert not are_distinct([(0, 0)], APART)
    for other in (MockTensor(tl.int8), 4096, None):
        assert not are_distinct([(0, 1)], (APART[0], other)), "where it lies is not known"


def test_parameters_of_the_compiled_function() -> None:
    assert parameters({"x": "*fp32", "N": "constexpr", "y": "*fp32", "n": "i32"}) == [0, 2, 3]
    for several in (("*fp32", "i32"), "tensordesc<fp16[64, 64]>"):
        assert parameters({"x": "*fp32", "other": several}) is None
