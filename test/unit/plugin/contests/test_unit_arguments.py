"""Contests take annotated arguments that are 1 for constants, and only where they are 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import triton
import triton.language as tl
from autotune_support import LaunchingDriver, gpu, pointers
from contests_support import WORKERS, Beside, SimulatedClock, installed, kept_jobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

from triton_linear import contest_job
from triton_linear.contests.launches import LaunchContest
from triton_linear.decisions import NO_DECISIONS, NONE
from triton_linear.dialect import bridge
from triton_linear.passes.reductions.same_bits import same_bits
from triton_linear.setting import Options, Setting
from triton_linear.unit_arguments import NO_UNITS, Units, with_units

__all__ = ["gpu", "installed"]
TARGETS = [GPUTarget("cuda", 80, 32), GPUTarget("cuda", 90, 32), GPUTarget("cuda", 100, 32)]
TARGETS += [GPUTarget("hip", "gfx90a", 64), GPUTarget("hip", "gfx942", 64), GPUTarget("hip", "gfx950", 64)]
EXACT = Options(exact=True, decisions=NONE, strict=True)


@triton.jit
def copied(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    tl.store(out + at, tl.load(x + at))


@triton.jit
def sums(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    tl.store(out + tl.arange(0, N), tl.sum(tl.load(x + at), 1))


@triton.jit
def count(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    tl.store(out + tl.arange(0, N), tl.sum(tl.load(x + at).to(tl.int32, bitcast=True), 1))


@triton.jit
def multiplied(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(x + at)))


@triton.jit
def plain(x, out, row, column, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    tl.store(out + at, tl.load(x + at))


ROW, COLUMN = 64, 1
PARAMETERS = (3,)
"""The number of `column` in the compiled function."""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for kernel in (copied, sums, count, plain):
        kernel.device_caches.clear()


@pytest.fixture
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


def launch(kernel: Any = copied, column: int = COLUMN, times: int = 1) -> Any:
    for _ in range(times):
        last = kernel[(4,)](*pointers(), ROW, column, N=64)
    return last


def compiled(kernel: Any, target: GPUTarget) -> Any:
    """Stock Triton's kernel, of floats."""
    types = {"x": "*fp32", "out": "*fp32", "row": "i64", "column": "i64", "N": "constexpr"}
    aligned = {
        (0,): [["tt.divisibility", 16]],
        (1,): [["tt.divisibility", 16]],
        (2,): [["tt.divisibility", 16]],
    }
    return triton.compile(ASTSource(kernel, types, {"N": 64}, aligned), target=target)


def answered(kernel: Any, target: GPUTarget) -> tuple[Any, Any]:
    """Stock Triton's kernel, and what a worker makes of it for launches with a column of 1; None if nothing
    else."""
    stock = compiled(kernel, target)
    units = Units((3,), PARAMETERS)
    key = contest_job.key_of(stock.hash, Setting(EXACT, decided=NO_DECISIONS), units)
    job = contest_job.job_of(stock, make_backend(target).parse_options({}), key, EXACT, units)
    assert isinstance(job, contest_job.Job)
    contest_job._answer(job)
    return stock, contest_job.found(stock, key)


def test_the_code_of_a_launch_with_a_unit_stride_has_wide_accesses(folder: None) -> None:
    stock, ours = answered(copied, TARGETS[1])
    assert "ld.global.v4" not in stock.asm["ptx"] and ours.asm["ptx"].count("ld.global.v4") == 8
    assert ours.metadata.num_warps == stock.metadata.num_warps and ours.asm["ttir"] == stock.asm["ttir"]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_layouts_that_bits_depend_on_stay(target: GPUTarget, folder: None) -> None:
    for kernel, taken in ((copied, True), (count, True), (multiplied, True), (sums, False)):
        _, ours = answered(kernel, target)
        wide = ours is not None and "sizePerThread = [1, 4]" in ours.asm["ttgir"]
        assert wide == taken, kernel


def test_same_bits_compares_the_order_of_sums_and_dots() -> None:
    def sum_of(layout: str) -> Any:
        text = f"""
#l = #ttg.blocked<{layout}>
module attributes {{"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"}} {{
  tt.func @f(%x: tensor<64x64xf32, #l>) -> tensor<64xf32, #ttg.slice<{{dim = 1, parent = #l}}>> {{
    %s = "tt.reduce"(%x) <{{axis = 1 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }}) : (tensor<64x64xf32, #l>) -> tensor<64xf32, #ttg.slice<{{dim = 1, parent = #l}}>>
    tt.return %s : tensor<64xf32, #ttg.slice<{{dim = 1, parent = #l}}>>
  }}
}}"""
        return bridge.text_to_upstream(text, bridge.upstream_context()).operation

    shape = "threadsPerWarp = [1, 32], warpsPerCTA = [1, 1], order = [1, 0]"
    one, other = (f"{{sizePerThread = [1, {width}], {shape}}}" for width in (1, 2))
    assert same_bits(sum_of(one), sum_of(one))
    assert not same_bits(sum_of(one), sum_of(other))


@pytest.mark.usefixtures("installed")
def test_kernels_of_unit_strides_have_a_contest_of_their_own(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = kept_jobs(monkeypatch, gpu)
    launch(column=1)
    launch(column=2)
    assert [job.units for job in jobs] == [PARAMETERS, ()]
    assert jobs[0].key != jobs[1].key and jobs[0].ttgir == jobs[1].ttgir
    assert [len(set(gpu.launched))] == [1], "stock Triton has one kernel for both"


@pytest.mark.usefixtures("installed")
def test_arguments_without_a_type_are_constants_anyway(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = kept_jobs(monkeypatch, gpu)
    launch(plain)
    assert [job.units for job in jobs] == [()]


@pytest.mark.usefixtures("installed")
def test_a_kernel_that_a_program_keeps_takes_other_arguments(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock(gpu, lambda code: 2.0 if code == stock else 1.0)
    beside = Beside(monkeypatch, clock, WORKERS)
    first = launch()
    (stock,) = gpu.launched
    assert beside.wait().differs
    assert isinstance(first._run, LaunchContest)
    for _ in range(40):
        first[(4, 1, 1)](*pointers(), ROW, 2, 64)
    assert set(gpu.launched) == {stock}, "in the middle of the contest"
    kept = launch(times=100)
    assert gpu.launched[-1] != stock and kept is not first
    kept[(4, 1, 1)](*pointers(), ROW, 2, 64)
    assert gpu.launched[-1] == stock, "after it"
    launch(column=2)
    assert gpu.launched[-1] == stock
    launch()
    assert gpu.launched[-1] != stock


@pytest.mark.usefixtures("installed")
def test_what_triton_compiles_has_its_own_key(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    import triton_linear

    kept_jobs(monkeypatch, gpu)
    ours = launch()
    triton_linear.uninstall()
    copied.device_caches.clear()
    assert launch().hash == ours.hash


def test_units_are_what_the_cache_key_says() -> None:
    key = [("*fp32", "D"), ("constexpr", 1), ("i64", 1), ("i64", "D"), ("i64", ""), ("u1", None), ("i32", 1)]
    units = Units.of([*key, '("custom_pipeline", 1)'])
    assert units == Units((2, 6), (1, 5))
    for several in (("i64", "i32"), (1, "D")), ("tensordesc<fp16[64, 64]>", None):
        assert Units.of([("i64", 1), several, ("i64", 1)]) == Units((0,), (0,)), "which are several parameters"
    arguments = [None] * 7
    arguments[2] = arguments[6] = 1
    assert units.hold(arguments)
    for other in (2, True, 1.0, None):
        assert not units.hold([*arguments[:6], other])
    assert NO_UNITS.hold([])


def test_only_integers_are_replaced() -> None:
    text = '  tt.func public @f(%x: !tt.ptr<f32> {a = 1 : i32} loc("x"(#loc)), %n: i32) {\n    use %n\n'
    lines = with_units(text, [1]).split("\n")
    assert lines[0].endswith("%n_is_1: i32) {") and lines[1:3] == [
        "    %n = arith.constant 1 : i32",
        "    use %n",
    ]
    with pytest.raises(ValueError, match="parameter 0 is no integer"):
        with_units(text, [0])
