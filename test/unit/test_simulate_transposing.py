"""The interpreter's loads that transpose, on their own: where their words come from, and what orders them."""

from __future__ import annotations

import pytest
from simulate_cases import function, random_registers
from triton_linear.lowering.simulate import simulate
from triton_linear.lowering.targets import target

CDNA4 = target("hip:gfx950")
OWN = """%tid = rocdl.workitem.id.x : i32
%eight = llvm.mlir.constant(8 : i32) : i32
%half = llvm.mlir.constant(64 : i32) : i32
%at = llvm.mul %tid, %eight : i32
%flipped = llvm.xor %tid, %half : i32
%over = llvm.mul %flipped, %eight : i32
%own = llvm.getelementptr %smem[%at] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
%others = llvm.getelementptr %smem[%over] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
"""
FENCED = """llvm.fence syncscope("workgroup") release
{}
rocdl.s.barrier
llvm.fence syncscope("workgroup") acquire
"""
READS = {
    "load": "%v = llvm.load %own {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xi32>",
    "ds_read_b64_tr_b8": '%v = llvm.call_intrinsic "llvm.amdgcn.ds.read.tr8.b64"(%own)'
    " : (!llvm.ptr<3>) -> vector<2xi32>",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_load_behind_the_fence_is_not_ordered_by_the_barrier(read: str) -> None:
    """What is loaded between the fence that releases and the barrier may still be on its way behind that, where
    the other wave stores."""
    body = (
        OWN
        + "llvm.store %a0, %own {alignment = 8 : i64} : i64, !llvm.ptr<3>\n"
        + FENCED.format(read)
        + "llvm.store %a0, %others {alignment = 8 : i64} : i64, !llvm.ptr<3>\n"
        + "%zero = llvm.mlir.constant(0 : i32) : i32\n"
        + "%r0 = llvm.extractelement %v[%zero : i32] : vector<2xi32>"
    )
    outcome = simulate(function(["i64"], body, ["i32"]), random_registers(3, ["i64"], 128), CDNA4, 2, 1024)
    assert outcome.races
