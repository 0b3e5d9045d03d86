"""The plugin takes reductions across warps apart, says so, and leaves them where it is asked to."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import triton
import triton.language as tl
from aligned_sources import aligned
from plugin_support import CUDA, assembly
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import triton_linear
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, installed_release
from triton_linear.report import Outcome, Report, ReportedConversion

pytestmark = pytest.mark.usefixtures("fresh")


@triton.jit
def total(x, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N)), 0))


@triton.jit
def online(a, b, out, S, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.make_tensor_descriptor(a, [S, K], [K, 1], [M, K])
    columns = tl.make_tensor_descriptor(b, [S, K], [K, 1], [N, K])
    taken = rows.load([0, 0])
    best, total = tl.full((M,), -1e30, tl.float32), tl.zeros((M,), tl.float32)
    for at in tl.range(0, S, N):
        scores = tl.dot(taken, columns.load([at, 0]).T)
        most = tl.maximum(best, tl.max(scores, 1))
        total = total * tl.exp2(best - most) + tl.sum(tl.exp2(scores - most[:, None]), 1)
        best = most
    tl.store(out + tl.arange(0, M), best + tl.log2(total))


def compiled(kernel: Any, **options: bool) -> tuple[str, Report]:
    """The PTX and the report of a kernel of 1024 elements on 4 warps."""
    signature = {"x": "*fp32", "out": "*fp32", "N": "constexpr"}
    source = ASTSource(kernel, signature, constexprs={"N": 1024}, attrs={(0,): [["tt.divisibility", 16]]})
    with triton_linear.enabled(strict=True, **options) as reports:
        made = triton.compile(source, target=CUDA)
    (report,) = reports
    return assembly(made), report


def test_a_kernel_with_nothing_but_a_reduction() -> None:
    ptx, report = compiled(total)
    assert (report.outcome, report.seen, report.folded) == (Outcome.CONVERTED, 0, 0)
    (conversion,) = report.conversions
    assert conversion.partials and conversion.lowering == "cta-shared" and report.emitted == 1
    assert "converted; 0 conversions; 1 more that our passes made: 1 ours, 0 no-op, 0 left" in str(report)
    assert "of partial results, cta-shared: 1 store of 32 bits, " in str(report)
    stock, left = compiled(total, reductions=False)
    assert (left.outcome, left.conversions) == (Outcome.NOTHING_TO_DO, ())
    barriers = 1 if installed_release() in REDUCTIONS_CONVERT else 2
    assert (ptx.count("bar.sync"), stock.count("bar.sync")) == (1, barriers)
    assert ptx.count("shfl") < stock.count("shfl")


@pytest.mark.parametrize("options", [{"reductions": False}, {"lower": False}], ids=str)
def test_it_is_left_where_it_is_asked_to(options: dict[str, bool]) -> None:
    assert compiled(total, **options)[1].outcome is Outcome.NOTHING_TO_DO


def test_a_sum_of_floats_is_left_where_results_are_to_be_exact() -> None:
    """The kernel is the very one that stock Triton makes."""
    ptx, report = compiled(total, exact=True)
    assert (report.outcome, report.conversions) == (Outcome.NOTHING_TO_DO, ())
    assert ptx == compiled(total, reductions=False)[0]
    assert ptx != compiled(total)[0]


def test_conversions_that_went_are_counted_without_those_that_came() -> None:
    own = ReportedConversion("here", "A", "B", "shuffle")
    made = ReportedConversion("here", "C", "D", "cta-shared", partials=True)
    report = Report("k", "cuda:90", Outcome.CONVERTED, seen=2, conversions=(own, made, made))
    assert (report.folded, report.ours, report.emitted) == (1, 1, 3)
    assert (
        "2 conversions: 1 ours, 0 no-op, 1 folded, 0 avoided, 0 left; 2 more that our passes made: 2 ours, "
        in str(report)
    )


def test_reductions_that_tensor_memory_keeps_inside_warps_stay_there() -> None:
    """On 8 warps Triton loads scores so that a row is in one warp. A faster load would put exchanges into the
    loop."""
    kinds = {"a": "*fp16", "b": "*fp16", "out": "*fp32", "S": "i32"}
    source = aligned(online, kinds, {"M": 128, "N": 64, "K": 64}, integers=False)
    made = []
    for enabled in (False, True):
        with triton_linear.enabled(strict=True) if enabled else contextlib.nullcontext():
            made.append(triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 8}))
    stock, ours = (assembly(kernel) for kernel in made)
    assert ours.count("bar.sync") <= stock.count("bar.sync")
    assert ours.count("16x32bx2") == stock.count("16x32bx2")
