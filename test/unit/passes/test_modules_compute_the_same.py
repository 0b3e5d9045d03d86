"""Modules store the same everywhere as before the passes: half of the data."""

from __future__ import annotations

from pathlib import Path

import pytest
from assign_support import MODULES, path_of
from module_equivalence import PASSES, ran, stays_the_same, upstream
from module_machine import Machine, run


@pytest.mark.parametrize("path", MODULES[::2], ids=[path.stem for path in MODULES[::2]])
def test_a_real_module_stores_what_it_did(path: Path) -> None:
    text = path.read_text()
    before = ran(upstream(text))
    assert any(len(memory.addresses) for memory in before.stored)
    assert not before.broken
    stays_the_same(text, PASSES, before)


@pytest.mark.parametrize(
    "name", ["ampere", "hopper_causal", "gfx942_causal", "matmul_mixed", "layer_norm_forward"]
)
def test_masks_leave_some_out_and_some_not(name: str) -> None:
    assert ran(upstream(path_of(name).read_text())).masked == {True, False}


REDUCED = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%p: !tt.ptr<f32>) {
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #b>
  %mask = arith.constant dense<{MASK}> : tensor<32xi32, #b>
  %i = arith.xori %r, %mask : tensor<32xi32, #b>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>, #b>
  %at = tt.addptr %ps, %i : tensor<32x!tt.ptr<f32>, #b>, tensor<32xi32, #b>
  %x = tt.load %at : tensor<32x!tt.ptr<f32>, #b>
  %sum = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = {COMBINE} %a, %b : f32
    tt.reduce.return %c : f32
  }) : (tensor<32xf32, #b>) -> f32
  tt.store %p, %sum : !tt.ptr<f32>
  tt.return
}
}
"""


@pytest.mark.parametrize(
    ("combine", "alike"), [("arith.addf", True), ("arith.maxnumf", True), ("arith.subf", False)]
)
def test_the_machine_sums_in_any_order_and_subtracts_in_one(combine: str, alike: bool) -> None:
    memories = []
    for mask in ("0", "21"):
        machine = Machine()
        text = REDUCED.replace("{COMBINE}", combine).replace("{MASK}", mask)
        memories.append(run(upstream(text), [1000], machine))
    assert memories[0].same(memories[1]) == alike


COPIED = """%m = ttg.local_alloc : () -> !ttg.memdesc<32xf32, #s, #ttg.shared_memory, mutable>
  %t = ttg.async_copy_global_to_local %at, %m {contiguity = 2 : i32} :
    tensor<32x!tt.ptr<f32>, #b> -> <32xf32, #s, #ttg.shared_memory, mutable>
  %x = ttg.local_load %m : !ttg.memdesc<32xf32, #s, #ttg.shared_memory, mutable> -> tensor<32xf32, #b>"""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("%mask :", "%mask {tt.contiguity = dense<32> : tensor<1xi32>} :", "not 32 in a row"),
        ("%x = tt.load %at : tensor<32x!tt.ptr<f32>, #b>", COPIED, "not of vectors of 2"),
    ],
)
def test_promises_that_are_not_kept_are_seen(old: str, new: str, what: str) -> None:
    assert old in REDUCED
    text = REDUCED.replace(old, new).replace("{COMBINE}", "arith.addf").replace("Thread = [1]", "Thread = [2]")
    text = f"#s = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>{text}"
    for mask in ("0", "21"):
        broken = ran(upstream(text.replace("{MASK}", mask))).broken
        assert any(what in each for each in broken) == (mask != "0")
