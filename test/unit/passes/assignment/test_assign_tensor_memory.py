"""What is loaded from tensor memory, and stored there, keeps the layout that Triton chose."""

from __future__ import annotations

import pytest

from triton_linear.dialect.mlir_adapter import operations
from triton_linear.dialect.triton_versions import installed_release

pytest.importorskip("triton._C.libtriton")

from triton_linear.tools.support.compile import compile_text

ROWS = (
    "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], "
    "[8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>"
)
TILES = (
    "#ttg.linear<{register = [[0, 1], [8, 0], [0, 8], [0, 16], [16, 0]], lane = [[0, 2], [0, 4], [1, 0], "
    "[2, 0], [4, 0]], warp = [[32, 0], [64, 0]], block = []}>"
)
SPACE = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 32, colStride = 1>, #ttng.tensor_memory, mutable"
MEMORY, FIRST, SECOND = (
    f"!ttg.memdesc<128x32xf32, {SPACE}>",
    *(f"tensor<128x32xf32, {e}>" for e in (ROWS, TILES)),
)
MODULE = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100",
    "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @k(%p: !tt.ptr<f32>) {{
    %true = arith.constant true
    %m = ttng.tmem_alloc : () -> {MEMORY}
    %x = ttng.tmem_load %m : {MEMORY} -> {FIRST}
    %y = arith.addf %x, %x : {FIRST}
    %z = ttg.convert_layout %y : {FIRST} -> {SECOND}
    %e = math.exp %z : {SECOND}
    ttng.tmem_store %e, %m, %true : {SECOND} -> {MEMORY}
    tt.return
  }}
}}
"""


@pytest.mark.skipif(installed_release() < (3, 8), reason="Triton serves fewer layouts")
def test_accesses_keep_their_layouts_and_the_conversion_between_them_is_ours() -> None:
    found = compile_text(MODULE, "k.ttgir", "cuda:100", "llvm")
    accesses = [op for op in operations(found.module.operation) if op.name.startswith("ttng.tmem_")]
    types = [str(value.type) for op in accesses for value in (*op.operands, *op.results)]
    assert [each for each in types if each.startswith("tensor")] == [FIRST, SECOND]
    (converted,) = found.conversions
    assert (converted.source, converted.stub is not None) == (FIRST, True)
