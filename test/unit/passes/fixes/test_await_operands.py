"""Products whose operands would be written while they are in flight are waited for, and compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from aligned_sources import aligned
from machine_code import shown
from module_equivalence import ran, stays_the_same, upstream
from plugin_support import CUDA
from registers_in_flight import touched

import triton_linear
from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation, operations, producers_of
from triton_linear.passes.fixes.await_operands import AwaitOperands, _Body
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.operations.names import FOR, WARP_GROUP_DOT, WARP_GROUP_WAIT
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.screen import screened
from triton_linear.tools.support.compile import lower, to_triton

KERNELS = Path(__file__).parents[3] / "data" / "ttgir" / "kernels"
MIXED = (KERNELS / "matmul_mixed.ttgir").read_text()
"""Bytes times bf16, whose product Triton 3.6 cuts in four along k."""
IN_REGISTERS = ("attention", "attention_fp8", "chained_dot", "matmul_mixed")
"""Those with products in flight whose left operand is in registers."""


def overwritten(root: Operation) -> list[Operation]:
    """The loops of which an iteration may write to registers that a dot of the one before still reads."""
    ops = operations(root)
    producers = producers_of(ops)
    return [op for op in ops if op.name == FOR and _Body.of(op, producers).hazard()]


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_code_after_the_pass_does_not_write_to_them(name: str) -> None:
    root = upstream((KERNELS / f"{name}.ttgir").read_text())
    assert run_passes(root, [AwaitOperands()], verify=True).succeeded
    assert not overwritten(root.operation)
    cubin = lower(to_triton(bridge.triton_text(root)), "cuda:90", "cubin").stages["cubin"]
    assert not touched(shown(cubin, "-c"))


@pytest.mark.parametrize("name", ["attention", "attention_fp8", "chained_dot"])
def test_products_that_are_waited_for_stay_as_they_are(name: str) -> None:
    root = upstream((KERNELS / f"{name}.ttgir").read_text())
    before = str(root)
    assert run_passes(root, [AwaitOperands()], verify=True).succeeded
    assert str(root) == before


def test_the_module_stores_the_same() -> None:
    root = stays_the_same(MIXED, [AwaitOperands()], ran(upstream(MIXED)))
    assert ll.AWAITED in root.operation.attributes
    assert not overwritten(root.operation)


def test_a_wait_for_fewer_does_not_do() -> None:
    root = upstream(MIXED)
    assert run_passes(root, [AwaitOperands()], verify=True).succeeded
    first, _ = (
        op
        for op in operations(root.operation)
        if op.name == WARP_GROUP_WAIT and int(op.attributes["pendings"]) == 0
    )
    first.attributes["pendings"] = Attribute.parse("1 : i32", root.context)
    assert overwritten(root.operation)


def test_where_the_accumulator_is_used_before_each_product_is_waited_for_at_once() -> None:
    text = MIXED.replace("scf.yield %98#0,", "scf.yield %97,")
    line = next(line for line in text.splitlines() if "= ttg.async_wait %arg15" in line)
    peek = "      %peek = arith.addf %arg9, %arg9 : tensor<64x128xf32, #mma>"
    root = upstream(text.replace(line, f"{line}\n{peek}"))
    before = sum(op.name == WARP_GROUP_WAIT for op in operations(root.operation))
    assert run_passes(root, [AwaitOperands()], verify=True).succeeded
    assert not overwritten(root.operation)
    assert sum(op.name == WARP_GROUP_WAIT for op in operations(root.operation)) > before


@triton.jit
def weighted(q, k, w, v, out, N, M: tl.constexpr, B: tl.constexpr, D: tl.constexpr):
    """Sums of squares of a product, and a second product whose left operand was loaded before the first."""
    row, column, inner = tl.arange(0, M), tl.arange(0, B), tl.arange(0, D)
    first = tl.load(q + row[:, None] * D + inner[None, :])
    total, squares = tl.zeros((M, D), tl.float32), tl.zeros((M, B), tl.float32)
    for i in range(0, N, B):
        second = tl.load(k + (i + column)[None, :] * D + inner[:, None])
        weights = tl.load(w + row[:, None] * N + (i + column)[None, :])
        values = tl.load(v + (i + column)[:, None] * D + inner[None, :])
        scores = tl.dot(first, second)
        squares += scores * scores
        total = tl.dot(weights.to(tl.float16), values, total)
    tl.store(out + row[:, None] * D + inner[None, :], total)
    tl.store(out + M * D + row[:, None] * B + column[None, :], squares)


@triton.jit
def scaled(a, b, scale, out, tiles, K, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    """A product for each tile, of parts that are scaled one by one, so that each is waited for at once."""
    row, column, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, B)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        total = tl.zeros((M, N), tl.float32)
        for i in tl.range(0, K, B):
            left = tl.load(a + (tile * M + row)[:, None] * K + (i + inner)[None, :])
            right = tl.load(b + (i + inner)[:, None] * N + column[None, :])
            total += tl.dot(left.to(tl.float16), right) * tl.load(scale + i // B)
        tl.store(out + (tile * M + row)[:, None] * N + column[None, :], total)


def _compiled(kernel: Any, kinds: dict[str, str], constants: dict[str, int]) -> tuple[Any, tuple[str, ...]]:
    """A kernel compiled with the plugin, and the report's remarks."""
    with triton_linear.enabled(strict=True) as reports:
        made = triton.compile(
            aligned(kernel, kinds, constants), target=CUDA, options={"num_warps": 4, "num_stages": 3}
        )
    return made, reports[0].remarks


@pytest.mark.parametrize("block", [32, 64])
def test_an_operand_that_is_there_before_the_wait_is_no_safer_behind_it(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM converts what was loaded where it was loaded, wherever the conversion stands."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    kinds = {"q": "*fp16", "k": "*fp16", "w": "*i8", "v": "*fp16", "out": "*fp32", "N": "i32"}
    made, remarks = _compiled(weighted, kinds, {"M": 64, "B": block, "D": 64})
    assert made.asm["ptx"].count("wgmma.mma_async") > 2
    assert not touched(shown(made.asm["cubin"], "-c"))
    assert any("dots are waited for" in remark for remark in remarks)


def test_products_that_an_inner_loop_waits_for_are_none_of_the_outer_one_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    kinds = {"a": "*i8", "b": "*fp16", "scale": "*fp32", "out": "*fp32", "tiles": "i32", "K": "i32"}
    made, remarks = _compiled(scaled, kinds, {"M": 64, "N": 128, "B": 64})
    assert not touched(shown(made.asm["cubin"], "-c"))
    assert not any("dots are waited for" in remark for remark in remarks)


@pytest.mark.parametrize("options", [{}, {"assign": False}, {"lower": False}])
def test_the_plugin_waits_and_says_so(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    with triton_linear.enabled(strict=True, **options) as reports:
        made = triton.compile(str(KERNELS / "matmul_mixed.ttgir"), target=CUDA)
    (report,) = reports
    assert any("dots are waited for" in remark for remark in report.remarks)
    assert not touched(shown(made.asm["cubin"], "-c"))


def test_screening_keeps_loops_with_such_dots() -> None:
    """A kernel that has nothing else for the passes."""
    for names, stays_in in (({FOR: 1, WARP_GROUP_DOT: 1}, True), ({WARP_GROUP_DOT: 1}, False)):
        assert (screened(PipelineOptions(), names, lambda: False) is not None) == stays_in
