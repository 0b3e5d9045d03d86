"""Kernels that carry a state, whose conversions are priced for the warps of one CTA."""

from __future__ import annotations

import pytest

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes import pipeline
from triton_linear.passes.analysis.residency import Residency, carries_state
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.options import PipelineOptions

B = (
    "#ttg.linear<{register = [[0, 2], [0, 4], [0, 16], [0, 1]], "
    "lane = [[8, 0], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], block = []}>"
)
K, V = "!ttg.memdesc<64x64xf16, #sk, #smem>", "!ttg.memdesc<64x32xf16, #sv, #smem>"
H = "tensor<64x32xf32, #mma>"
KERNEL = f"""
#b = {B}
#mma = #ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 32, 16]}}>
#sk = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#sv = #ttg.nvmma_shared<{{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}}>
#smem = #ttg.shared_memory
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32}} {{
tt.func public @chunks(%to: tensor<64x32x!tt.ptr<f32>, #b>, %n: i32, %last: i1, %scale: {H},
    %k: {K}, %v: {V}) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zeros = arith.constant dense<0.0> : {H}
  %h = scf.for %i = %c0 to %n step %c1 iter_args(%state = %zeros) -> ({H}) : i32 {{
    INSIDE
    %decayed = arith.mulf %state, %scale : {H}
    %product = ttng.warp_group_dot %k, %v, %decayed {{isAsync = true}} : {K} * {V} -> {H}
    %sum:2 = ttng.warp_group_dot_wait %product, %v {{pendings = 0 : i32}} : {H}, {V}
    scf.yield %sum#0 : {H}
  }}
  AFTER
  tt.return
}}
}}
"""
STORED = """%out = ttg.convert_layout $ : tensor<64x32xf32, #mma> -> tensor<64x32xf32, #b>
    tt.store %to, %out : tensor<64x32x!tt.ptr<f32>, #b>"""
TO_MEMORY = """%half = arith.truncf %state : tensor<64x32xf32, #mma> to tensor<64x32xf16, #mma>
    %held = ttg.local_alloc %half : (tensor<64x32xf16, #mma>) -> !ttg.memdesc<64x32xf16, #sv, #smem>"""
SOMETIMES = f"scf.if %last {{\n    {STORED.replace('$', '%state')}\n    }}"


def _module(inside: str = "", after: str = "") -> Module:
    text = KERNEL.replace("INSIDE", inside).replace("AFTER", after)
    return bridge.text_to_upstream(text, bridge.upstream_context(), "chunks.ttgir")


@pytest.mark.parametrize(
    ("inside", "after", "reads"),
    [
        (STORED.replace("$", "%state"), "", True),
        (TO_MEMORY, "", True),
        ("", STORED.replace("$", "%h"), False),
        (SOMETIMES, "", False),
    ],
    ids=["stored in each iteration", "put into shared memory", "stored behind the loop", "stored at times"],
)
def test_what_carries_a_state(inside: str, after: str, reads: bool) -> None:
    module = _module(inside, after)
    ops = operations(module.operation)
    assert carries_state(ops) is reads
    usual, on_amd = (Situation.on(target(name)) for name in ("cuda:90", "hip:gfx942"))
    priced = Residency.of(usual, ops, 4, LayoutTable()).situation
    assert priced.resident_warps == (0 if reads else usual.resident_warps)
    assert Residency.of(on_amd, ops, 4, LayoutTable()).situation is on_amd


@pytest.mark.parametrize(("threshold", "kind"), [("", "warp-shared"), ("{state_warps=8}", "shuffle")])
def test_a_state_is_converted_the_way_that_is_waited_for_least(threshold: str, kind: str) -> None:
    """The same conversion goes by shuffles where other warps hide how long they take."""
    module = _module(STORED.replace("$", "%state"))
    gpu = target(f"cuda:90{threshold}")
    found = pipeline.rewrite(module, PipelineOptions(assign=False), gpu)
    assert [conversion.kind for conversion in found.conversions] == [kind]
    behind = pipeline.rewrite(_module(after=STORED.replace("$", "%h")), PipelineOptions(assign=False), gpu)
    assert [conversion.kind for conversion in behind.conversions] == ["shuffle"]
