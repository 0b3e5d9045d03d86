"""The interpreter's loads that transpose, on their own: where their words come from, and what orders them."""

from __future__ import annotations

import numpy as np
import pytest
from simulate_cases import function, random_registers

from triton_linear.lowering.interpreter.function import simulate
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.target.targets import target

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


NAMES = {2: ("tr16", "vector<4xi16>"), 1: ("tr8", "vector<2xi32>")}
ROW_OF = {
    # unit: for lanes 0, 1, 5 and 17, the (lane, unit) that each unit of the result is read by
    2: {
        0: [(0, 0), (4, 0), (8, 0), (12, 0)],
        1: [(0, 1), (4, 1), (8, 1), (12, 1)],
        5: [(1, 1), (5, 1), (9, 1), (13, 1)],
        17: [(16, 1), (20, 1), (24, 1), (28, 1)],
    },
    1: {
        0: [(2 * r, 0) for r in range(8)],
        1: [(2 * r, 1) for r in range(8)],
        5: [(2 * r, 5) for r in range(8)],
        9: [(2 * r + 1, 1) for r in range(8)],
        17: [(16 + 2 * r, 1) for r in range(8)],
    },
}


def transposed(unit: int, gpu: str) -> tuple[np.ndarray, np.ndarray]:
    """What 64 lanes store, 8 bytes each, and what they then read, as units."""
    name, type_ = NAMES[unit]
    body = (
        OWN
        + "llvm.store %a0, %own {alignment = 8 : i64} : i64, !llvm.ptr<3>\n"
        + f'%v = llvm.call_intrinsic "llvm.amdgcn.ds.read.{name}.b64"(%own) : (!llvm.ptr<3>) -> {type_}\n'
        + f"%r0 = llvm.bitcast %v : {type_} to i64"
    )
    registers = random_registers(3, ["i64"], 64)
    outcome = simulate(function(["i64"], body, ["i64"]), registers, target(gpu), 1, 512)
    shifts = np.arange(8 // unit, dtype=np.uint64) * np.uint64(8 * unit)
    mask = np.uint64((1 << 8 * unit) - 1)
    given, read = (np.asarray(one[0][0], np.uint64) for one in (registers, outcome.values))
    return (given[:, None] >> shifts) & mask, (read[:, None] >> shifts) & mask


@pytest.mark.parametrize("unit", NAMES)
def test_lanes_receive_what_the_manual_says(unit: int) -> None:
    given, read = transposed(unit, "hip:gfx950")
    for lane, sources in ROW_OF[unit].items():
        assert [given[source, place] for source, place in sources] == list(read[lane]), lane


@pytest.mark.parametrize("gpu", ["hip:gfx942", "hip:gfx90a"])
def test_other_gpus_have_no_such_loads(gpu: str) -> None:
    with pytest.raises(SimulationError, match=f"{gpu} has no loads that transpose"):
        transposed(2, gpu)
