"""Contests take annotated arguments that are 1 for constants, and only where they are 1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
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
from triton_linear.passes.reductions.strides import same_bits, strides
from triton_linear.setting import Options, Setting
from triton_linear.unit_arguments import NO_UNITS, UnitArguments, are_units, units_of, with_units

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
def biased(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """Where it is known that the bias is added, a product and a sum are one operation."""
    at = tl.arange(0, N)
    product = tl.load(x + at) * tl.load(x + N + at)
    if column == 1:
        product += tl.load(x + 2 * N + at)
    tl.store(out + at, product)


@triton.jit
def carried(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """One iteration is no loop."""
    at = tl.arange(0, N)
    total = tl.load(x + at) * tl.load(x + N + at)
    for _ in range(column):
        total += tl.load(x + 2 * N + at)
    tl.store(out + at, total)


@triton.jit
def exponential(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """The compiler's exponential is not the GPU's."""
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) * tl.exp(column * -80.3))


@triton.jit
def masked(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at), mask=at * column < N)


@triton.jit
def turned(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    tile = tl.load(x + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out + at, tile.trans())


@triton.jit
def advanced(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """A stride of pointers that a loop carries is one all the same."""
    source = x + tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    best = tl.full((N, N), float("-inf"), tl.float32)
    for _ in range(4):
        best = tl.maximum(best, tl.load(source))
        source += N * column
    tl.store(out + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], best)


@triton.jit
def written_before(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """A load that is begun earlier would pass the store of the iteration before."""
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    for k in range(4):
        tile = tl.load(x + k * N * row + at)
        tl.store(x + (k + 1) * N * row + at, tl.exp(tile))


@triton.jit
def counted_before(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """What waits for others by an atomic operation must not have loaded before."""
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    total = tl.zeros((N, N), tl.float32)
    for _ in range(4):
        tl.atomic_add(out, 1.0, sem="acq_rel")
        total = tl.maximum(total, tl.load(x + at))
    tl.store(out + at, total)


@triton.jit
def read_again(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """A thread reads what it has written."""
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    tl.store(out + at, tl.exp(tl.load(x + at)))
    tl.store(x + at, tl.load(out + at))


@triton.jit
def fused(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """Which products are fused depends on how wide loads and stores are."""
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    product = tl.load(x + at) * 3
    tl.store(out + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], product + tl.load(x + N * N + at))


@triton.jit
def stored_sum(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """The same of what is stored."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = tl.load(x + at) * 3 + tl.load(x + N * N + at)
    tl.store(out + tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column, total)


@triton.jit
def scaled(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """Dots are in between: they take what is loaded, and the sum of their products is behind a loop."""
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    total = tl.zeros((N, N), tl.float32)
    for k in range(4):
        left, right = tl.load(x + k * N * column + at), tl.load(x + k * N * row + at)
        total += tl.dot(left, right) * tl.load(x + k)
    tl.store(out + at, total)


@triton.jit
def compared(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """A pointer that becomes a number is no address alone."""
    at = tl.arange(0, N)
    far = (x + N * column).to(tl.int64) - x.to(tl.int64)
    tl.store(out + at, tl.load(x + at * column), mask=at < far)


@triton.jit
def numbered(x, out, row: tl.int64, column: tl.int64, N: tl.constexpr):
    """Which thread has an element shows."""
    at = tl.arange(0, N)[:, None] * row + tl.arange(0, N)[None, :] * column
    loaded = tl.load(x + at)
    thread = tl.inline_asm_elementwise(
        "mov.u32 $0, %tid.x;", "=r,r", [loaded], dtype=tl.int32, is_pure=False, pack=1
    )
    tl.store(out + at, thread.to(tl.float32))


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
    for kernel in (copied, plain):
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


def arithmetic(kernel: Any) -> Counter[str]:
    """How many products and sums of floats there are, and how many of both in one, however packed."""
    text = kernel.asm.get("ptx") or kernel.asm["amdgcn"]
    found: Counter[str] = Counter()
    for packed, kind, two in re.findall(r"\b(?:v_(pk_)?)?(fma|mul|add|sub)c?[._]\S*?f(?:16|32|64)(x2)?", text):
        found[kind] += 2 if packed or two else 1
    return found


def is_specialised(ours: Any) -> bool:
    return ours is not None and hasattr(ours.metadata, contest_job.SPECIALISED)


def answered(kernel: Any, target: GPUTarget, note: str = "") -> tuple[Any, Any]:
    """Stock Triton's kernel, and what a worker makes of it for launches with a column of 1; None if nothing
    else. note: what the worker says of it."""
    stock = compiled(kernel, target)
    units = UnitArguments((3,), PARAMETERS)
    key = contest_job.key_of(stock.hash, Setting(EXACT, decided=NO_DECISIONS), units)
    job = contest_job.job_of(stock, make_backend(target).parse_options({}), key, EXACT, units)
    assert isinstance(job, contest_job.Job)
    assert contest_job._answer(job).note == note
    return stock, contest_job.found(stock, key)


def test_the_code_of_a_launch_with_a_unit_stride_has_wide_accesses(folder: None) -> None:
    stock, ours = answered(copied, TARGETS[1])
    assert "ld.global.v4" not in stock.asm["ptx"] and ours.asm["ptx"].count("ld.global.v4") == 8
    assert ours.metadata.unit_arguments == [3] and ours.metadata.num_warps == stock.metadata.num_warps
    assert "%column = arith.constant 1 : i64" in ours.asm["ttir"]


KINDS = {copied: True, count: True, multiplied: True, advanced: True, scaled: True, sums: False}
"""Whether each is specialised."""


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_layouts_that_bits_depend_on_stay(target: GPUTarget, folder: None) -> None:
    """All kinds of kernels on two GPUs; on the others those whose layouts follow from the GPU."""
    for kernel, taken in KINDS.items():
        if target.arch in (90, "gfx942") or kernel in (multiplied, sums):
            stock, ours = answered(kernel, target)
            assert is_specialised(ours) == taken, kernel
            if taken:
                assert arithmetic(stock) == arithmetic(ours), kernel


OTHERS = [biased, carried, exponential, masked, numbered, compared]
OTHERS += [written_before, counted_before, read_again, fused, stored_sum]


@pytest.mark.parametrize("kernel", OTHERS, ids=lambda kernel: str(kernel.__name__))
def test_what_may_change_more_than_addresses_is_read(kernel: Any, folder: None) -> None:
    stock = compiled(kernel, TARGETS[1])
    module = bridge.text_to_upstream(stock.asm["ttir"], bridge.upstream_context())
    assert strides(module.operation, PARAMETERS) == [] or kernel is numbered
    assert not is_specialised(answered(kernel, TARGETS[1])[1])


@pytest.mark.parametrize("fault", ["stage", "memory"])
def test_what_cannot_be_specialised_is_compiled_as_ever(
    fault: str, folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("Triton's pass failed")

    if fault == "stage":
        monkeypatch.setattr(contest_job, "_specialised", broken)
        monkeypatch.setattr(f"{__name__}.EXACT", replace(EXACT, strict=False))
    else:
        monkeypatch.setattr(contest_job, "_fits", lambda made, job: False)
    note = "it is not specialised on strides: RuntimeError: Triton's pass failed" if fault == "stage" else ""
    _, ours = answered(turned, TARGETS[1], note)
    assert ours is not None and not is_specialised(ours)


def test_each_argument_is_judged_by_itself(folder: None) -> None:
    module = bridge.text_to_upstream(compiled(carried, TARGETS[1]).asm["ttir"], bridge.upstream_context())
    assert strides(module.operation, [2, 3]) == []
    module = bridge.text_to_upstream(compiled(copied, TARGETS[1]).asm["ttir"], bridge.upstream_context())
    assert strides(module.operation, [3, 2]) == [3, 2] and strides(module.operation, [0, 1]) == []


COMBINING = """
    %s = "tt.{}"(%x) <{{axis = 1 : i32{}}}> ({{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.{}.return %c : f32
    }}) : (tensor<64x64xf32, #l>) -> {}
"""
PARTS = {
    "sum": COMBINING.format("reduce", "", "reduce", "tensor<64xf32, #ttg.slice<{dim = 1, parent = #l}>>"),
    "scan": COMBINING.format("scan", ", reverse = false", "scan", "tensor<64x64xf32, #l>"),
    "dot": """
    %a = ttg.convert_layout %x : tensor<64x64xf32, #l> -> tensor<64x64xf32, #left>
    %b = ttg.convert_layout %x : tensor<64x64xf32, #l> -> tensor<64x64xf32, #right>
    %d = tt.dot %a, %b, %x : tensor<64x64xf32, #left> * tensor<64x64xf32, #right> -> tensor<64x64xf32, #l>
""",
    "product on its way to a sum": """
    %p = arith.mulf %x, %x : tensor<64x64xf32, #l>
    %s = arith.addf %p, %x : tensor<64x64xf32, #l>
""",
    "product that a loop carries": """
    %i = arith.constant 0 : i32
    %n = arith.constant 1 : i32
    %p = arith.mulf %x, %x : tensor<64x64xf32, #l>
    %r = scf.for %j = %i to %n step %n iter_args(%q = %p) -> (tensor<64x64xf32, #l>) : i32 {
      %s = arith.addf %q, %x : tensor<64x64xf32, #l>
      scf.yield %s : tensor<64x64xf32, #l>
    }
""",
    "assembly": """
    %y = tt.elementwise_inline_asm "mov.u32 $0, %tid.x;" {constraints = "=r,r", packed_element = 1 : i32,
      pure = false} %x : tensor<64x64xf32, #l> -> tensor<64x64xi32, #l>
""",
    "nothing": "%y = math.exp %x : tensor<64x64xf32, #l>",
}


@pytest.mark.parametrize("part", PARTS)
def test_same_bits_compares_what_bits_depend_on(part: str) -> None:
    def module(width: int) -> Any:
        shape = "threadsPerWarp = [1, 32], warpsPerCTA = [1, 1], order = [1, 0]"
        text = f"""
#l = #ttg.blocked<{{sizePerThread = [1, {width}], {shape}}}>
#left = #ttg.dot_op<{{opIdx = 0, parent = #l}}>
#right = #ttg.dot_op<{{opIdx = 1, parent = #l}}>
module attributes {{"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @f(%x: tensor<64x64xf32, #l>) {{
    {PARTS[part]}
    tt.return
  }}
}}"""
        return bridge.text_to_upstream(text, bridge.upstream_context()).operation

    assert same_bits(module(1), module(1))
    assert same_bits(module(1), module(2)) == (part == "nothing")


@pytest.mark.usefixtures("installed")
def test_kernels_of_unit_strides_have_a_contest_of_their_own(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = kept_jobs(monkeypatch, gpu)
    launch(column=1)
    launch(column=2)
    assert [job.units for job in jobs] == [UnitArguments((3,), PARAMETERS), NO_UNITS]
    assert jobs[0].key != jobs[1].key and jobs[0].ttgir == jobs[1].ttgir
    assert [len(set(gpu.launched))] == [1], "stock Triton has one kernel for both"


@pytest.mark.usefixtures("installed")
def test_arguments_without_a_type_are_constants_anyway(
    gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = kept_jobs(monkeypatch, gpu)
    launch(plain)
    assert [job.units for job in jobs] == [NO_UNITS]


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
    for column, expected in ((2, stock), (1, kept.kernel), (2, stock)):
        kept[(4, 1, 1)](*pointers(), ROW, column, 64)
        assert gpu.launched[-1] == expected, "after it"
    kept.run(4, 1, 1, 0, kept.function, kept.packed_metadata, None, None, None, *pointers(), ROW, 2, 64)
    assert gpu.launched[-1] == stock
    copied.device_caches.clear()
    del first
    kept[(4, 1, 1)](*pointers(), ROW, 1, 64)
    assert gpu.launched[-1] == kept.kernel


@pytest.mark.usefixtures("installed")
def test_what_triton_compiles_has_its_own_key(gpu: LaunchingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    import triton_linear

    kept_jobs(monkeypatch, gpu)
    ours = launch()
    assert units_of(ours.src.attrs) == NO_UNITS
    triton_linear.uninstall()
    copied.device_caches.clear()
    assert launch().hash == ours.hash


def test_kernels_of_other_strides_have_other_keys_on_disk() -> None:
    setting = Setting(EXACT, decided=NO_DECISIONS)
    keys = {
        contest_job.key_of("stock", setting, units)
        for units in (NO_UNITS, UnitArguments((3,), (3,)), UnitArguments((2,), (2,)))
    }
    assert len(keys) == 3


def test_units_are_what_the_cache_key_says() -> None:
    key = [("*fp32", "D"), ("constexpr", 1), ("i64", 1), ("i64", "D"), ("i64", ""), ("u1", None), ("i32", 1)]
    units = UnitArguments.of([*key, '("custom_pipeline", 1)'])
    assert units == UnitArguments((2, 6), (1, 5))
    for several in (("i64", "i32"), (1, "D")), ("tensordesc<fp16[64, 64]>", None):
        assert UnitArguments.of([("i64", 1), several, ("i64", 1)]) == UnitArguments((0,), (0,)), (
            "which are several parameters"
        )
    assert are_units([1, 2], [None, 1, 1]) and are_units([], [])
    for other in (2, True, 1.0, None):
        assert not are_units([1, 2], [None, 1, other])


def test_only_integers_are_replaced() -> None:
    text = '  tt.func public @f(%x: !tt.ptr<f32> {a = 1 : i32} loc("x"(#loc)), %n: i32) {\n    use %n\n'
    lines = with_units(text, [1]).split("\n")
    assert lines[0].endswith("%n_is_1: i32) {") and lines[1:3] == [
        "    %n = arith.constant 1 : i32",
        "    use %n",
    ]
    assert "%n_is_1_: i32" in with_units(text.replace("use", "use %n_is_1,"), [1])
    with pytest.raises(ValueError, match="parameter 0 is no integer"):
        with_units(text, [0])
