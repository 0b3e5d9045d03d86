"""Kernels whose conversions of floats cost nothing: what is left out, what is not, and who is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
import triton
import triton.language as tl
from plugin_support import assembly, compile_kernel, row_sums
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import triton_linear
from triton_linear import hook
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.plan.plans import FreeRegister
from triton_linear.lowering.planners.free import plan_free
from triton_linear.report import FREE, TRITON
from triton_linear.setting import Options, Setting

pytestmark = pytest.mark.usefixtures("fresh")

NAMES = ("cuda:90", "hip:gfx942")
TARGETS = pytest.mark.parametrize("target", [gpu_target(name) for name in NAMES], ids=NAMES)
CUDA = gpu_target("cuda:90")
EXCHANGE = r"\b(?:(?:ld|st)\.shared|bar\.sync|shfl\.sync|(?:ld|st)matrix|ds_\w+|s_barrier)"
GLOBAL = r"\b(?:ld|st)\.global\S*|\b(?:global|buffer)_(?:load|store)\S*"


@triton.jit
def transpose(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :])
    tl.store(out + columns[:, None] * BM + rows[None, :], tl.trans(tile) * 2)


@triton.jit
def places_from_floats(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :])
    totals = tl.sum(tile, 1)[None, :] * 2
    tl.store(out + columns[:, None] * BM + totals.to(tl.int32), totals)


@triton.jit
def masks_from_floats(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :])
    totals = tl.sum(tile, 1)[None, :] * 2
    tl.store(out + columns[:, None] * BM + rows[None, :], totals, mask=totals > 1)


@triton.jit
def turns_from_floats(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :])
    product = tl.dot(tile.to(tl.float16), tl.trans(tile.to(tl.float16)))
    total = tl.sum(tl.sum(product, 1), 0)
    while total > 1:
        total = total / 2
    tl.store(out, total)


def compiled_free(kernel: Any, target: GPUTarget) -> tuple[Any, triton_linear.Report]:
    with hook.pinned(Options(strict=True, free=True)) as reports:
        compiled = compile_kernel(kernel, target)
    (report,) = reports
    return compiled, report


@TARGETS
@pytest.mark.parametrize("kernel", [transpose, row_sums], ids=lambda k: k.__name__)
def test_nothing_of_a_conversion_is_left(kernel: Any, target: GPUTarget) -> None:
    stock, (free, report) = compile_kernel(kernel, target), compiled_free(kernel, target)
    assert [c.lowering for c in report.conversions] == [FREE]
    assert report.free == 1
    assert report.emitted == 0
    assert "1 FREE: the results are garbage" in str(report)
    # Of the sums, the shuffles of the reduction are left, and they are what they were.
    kept = [re.findall(EXCHANGE, assembly(kernel_)) for kernel_ in (stock, free)]
    reduction = [what for what in kept[0] if what in ("shfl.sync", "ds_swizzle_b32", "ds_bpermute_b32")]
    assert len(kept[0]) > len(kept[1])
    assert kept[1] == (reduction if kernel is row_sums else [])
    assert sorted(re.findall(GLOBAL, assembly(free))) == sorted(re.findall(GLOBAL, assembly(stock)))


def test_what_the_conversion_takes_is_still_computed() -> None:
    """Each thread holds eight of the sums and needs one of them: the others' sums must not be dropped."""
    stock, (free, _) = compile_kernel(row_sums, CUDA), compiled_free(row_sums, CUDA)
    for what in (r"\bFADD", r"\bSHFL", r"\bLDG", r"\bSTG"):
        count = len(re.findall(what, stock.asm["sass"]))
        assert count > 0
        assert len(re.findall(what, free.asm["sass"])) == count


@TARGETS
@pytest.mark.parametrize("kernel", [places_from_floats, masks_from_floats], ids=lambda k: k.__name__)
def test_floats_that_become_addresses_or_masks_stay(kernel: Any, target: GPUTarget) -> None:
    stock, (free, report) = compile_kernel(kernel, target), compiled_free(kernel, target)
    assert report.seen > 0
    assert {c.lowering for c in report.conversions} == {TRITON}
    floats = [c for c in report.conversions if re.match(r"tensor<[\dx]*f32", c.source)]
    assert floats
    assert all("it leads to an address, a mask" in c.detail for c in floats)
    assert re.findall(EXCHANGE, assembly(free)) == re.findall(EXCHANGE, assembly(stock))


def test_floats_that_decide_how_often_a_loop_runs_stay() -> None:
    """Through a product, which takes one operand in registers and the other from shared memory."""
    _, report = compiled_free(turns_from_floats, gpu_target("cuda:80"))
    assert report.seen > 0
    assert {c.lowering for c in report.conversions} == {TRITON}
    assert all("a branch" in c.detail for c in report.conversions)


def test_integers_stay() -> None:
    signature = {"x": "*i8", "out": "*i8", "BM": "constexpr", "BN": "constexpr"}
    source = ASTSource(transpose, signature, constexprs={"BM": 64, "BN": 64})
    with hook.pinned(Options(strict=True, free=True)) as reports:
        triton.compile(source, target=CUDA)
    details = [c.detail for c in reports[0].conversions]
    assert details
    assert all("only conversions of floats" in detail for detail in details)


def test_it_is_cached_apart() -> None:
    options = Options(), Options(free=True)
    assert len({Setting(each).fingerprint for each in options}) == len(options)
    stock = compile_kernel(transpose, CUDA)
    free, _ = compiled_free(transpose, CUDA)
    assert assembly(compile_kernel(transpose, CUDA)) == assembly(stock) != assembly(free)


def layout(register: list[int], lane: list[int]) -> LinearLayout:
    size = 1 << max(n.bit_length() for n in (*register, *lane))
    bases = [(name, [[n] for n in vectors]) for name, vectors in (("register", register), ("lane", lane))]
    return LinearLayout.from_bases(bases, ("dim0",), [size])


def test_as_many_registers_are_renamed() -> None:
    plan = plan_free(layout([1, 2], [4, 8]), layout([4, 8], [1, 2]))
    assert plan.registers == tuple(FreeRegister((i,)) for i in range(4))


def test_registers_left_over_join_others() -> None:
    plan = plan_free(layout([1, 2, 4], [8, 0]), layout([1, 0], [2, 4, 8]))
    assert plan.source_registers == 8
    even, odd = FreeRegister((0, 2, 4, 6)), FreeRegister((1, 3, 5, 7))
    assert plan.registers == (even, odd, even, odd)


def test_registers_that_are_missing_are_unlike() -> None:
    plan = plan_free(layout([0, 1], [2, 4]), layout([1, 2, 4], [0, 0]))
    assert plan.registers == tuple(FreeRegister((2 * (i % 2),), i // 2) for i in range(8))
