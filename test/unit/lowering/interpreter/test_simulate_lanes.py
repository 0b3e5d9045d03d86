"""Lane exchanges against scalar oracles, and identifiers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from simulate_cases import Bits, random_registers, run, threads

from triton_linear.lowering.interpreter.memory import SimulationError


def shfl_oracle(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane read and the predicate, transcribed from the PTX ISA's pseudocode of shfl.sync."""
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    max_lane = (lane & segmask) | (cval & ~segmask & 31)
    min_lane = lane & segmask
    if mode == "up":
        j = lane - bval
        pval = j >= max_lane
    elif mode == "down":
        j = lane + bval
        pval = j <= max_lane
    elif mode == "bfly":
        j = lane ^ bval
        pval = j <= max_lane
    else:
        j = min_lane | (bval & ~segmask & 31)
        pval = j <= max_lane
    return (j if pval else lane), pval


PAIR = "!llvm.struct<(i32, i1)>"
CLAMPS = [0x1F, 0x0, 0x0F, 0x181F, 0x1C1F, 0x1807, 0x1F1F]


@pytest.mark.parametrize("mode", ["bfly", "idx", "up", "down"])
@pytest.mark.parametrize("clamp", CLAMPS)
def test_shuffle_with_a_uniform_operand(mode: str, clamp: int) -> None:
    registers = random_registers(0, ["i32"], 64)
    for b in (0, 1, 5, 16, 31, 33):
        body = f"""%all = llvm.mlir.constant(-1 : i32) : i32
        %b = llvm.mlir.constant({b} : i32) : i32
        %c = llvm.mlir.constant({clamp} : i32) : i32
        %r0 = nvvm.shfl.sync {mode} %all, %a0, %b, %c : i32 -> i32
        %p = nvvm.shfl.sync {mode} %all, %a0, %b, %c {{return_value_and_is_valid}} : i32 -> {PAIR}
        %r1 = llvm.extractvalue %p[0] : {PAIR}
        %r2 = llvm.extractvalue %p[1] : {PAIR}"""
        outcome = run(["i32"], body, ["i32", "i32", "i1"], registers)
        assert outcome.counts.shuffles == 2
        for trial, thread in itertools.product(range(3), range(64)):
            source, valid = shfl_oracle(mode, thread % 32, b, clamp)
            expected = int(registers[0][trial, thread // 32 * 32 + source])
            assert [int(x) for x in outcome.values[:, trial, thread]] == [expected, expected, valid]


@pytest.mark.parametrize("mode", ["bfly", "idx", "up", "down"])
def test_shuffle_with_an_operand_per_lane(mode: str) -> None:
    body = f"""%all = llvm.mlir.constant(-1 : i32) : i32
    %c = llvm.mlir.constant({0 if mode == "up" else 31} : i32) : i32
    %r0 = nvvm.shfl.sync {mode} %all, %a0, %a1, %c : i32 -> i32"""
    registers = random_registers(1, ["i32", "i32"], 64)
    outcome = run(["i32", "i32"], body, ["i32"], registers)
    clamp = 0 if mode == "up" else 31
    for trial, thread in itertools.product(range(3), range(64)):
        source, _ = shfl_oracle(mode, thread % 32, int(registers[1][trial, thread]), clamp)
        assert outcome.values[0, trial, thread] == registers[0][trial, thread // 32 * 32 + source]


@pytest.mark.parametrize("type_", ["i32", "f32"])
def test_shuffle_of_undefined_and_poison_stays_so(type_: str) -> None:
    body = f"""%all = llvm.mlir.constant(-1 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %u = llvm.mlir.undef : {type_}
    %p = llvm.mlir.poison : {type_}
    %r0 = nvvm.shfl.sync bfly %all, %u, %one, %all : {type_} -> {type_}
    %r1 = nvvm.shfl.sync bfly %all, %p, %one, %all : {type_} -> {type_}"""
    outcome = run(["i32"], body, [type_] * 2, random_registers(2, ["i32"], 64))
    assert (outcome.undefined & np.uint64(0xFFFFFFFF) == 0xFFFFFFFF).all()


def test_shuffle_moves_undefined_bits_with_their_lane() -> None:
    body = """%all = llvm.mlir.constant(-1 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %clamp = llvm.mlir.constant(31 : i32) : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %first = llvm.icmp "eq" %tid, %one : i32
    %u = llvm.mlir.undef : i32
    %x = llvm.select %first, %u, %a0 : i1, i32
    %r0 = nvvm.shfl.sync bfly %all, %x, %one, %clamp : i32 -> i32"""
    outcome = run(["i32"], body, ["i32"], random_registers(2, ["i32"], 64))
    assert np.flatnonzero(outcome.undefined[0, 0]).tolist() == [0]


@pytest.mark.parametrize(("mask", "refused"), [("-1", False), ("2147483647", True), ("-2", True)])
def test_member_mask_must_name_every_executing_lane(mask: str, refused: bool) -> None:
    body = f"""%m = llvm.mlir.constant({mask} : i32) : i32
    %c = llvm.mlir.constant(31 : i32) : i32
    %r0 = nvvm.shfl.sync bfly %m, %a0, %c, %c : i32 -> i32"""
    registers = random_registers(2, ["i32"], 64)
    if not refused:
        run(["i32"], body, ["i32"], registers)
        return
    with pytest.raises(SimulationError) as error:
        run(["i32"], body, ["i32"], registers)
    assert str(error.value) == (
        "5:7: nvvm.shfl.sync: the member mask leaves out a lane that executes the instruction"
    )


def test_undefined_lane_operand_is_refused() -> None:
    body = """%m = llvm.mlir.constant(-1 : i32) : i32
    %u = llvm.mlir.undef : i32
    %r0 = nvvm.shfl.sync idx %m, %a0, %u, %m : i32 -> i32"""
    with pytest.raises(SimulationError, match="the shuffle's lane operand is undefined"):
        run(["i32"], body, ["i32"], random_registers(2, ["i32"], 64))


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ("i32, i32 {llvm.range = #llvm.constant_range<i32, 0, 16>}, i32) -> i32", "of arguments"),
        ("i32, i32, i32) -> (i32 {llvm.range = #llvm.constant_range<i32, 1, 16>})", "of results"),
        ("i32, i32, i32) -> (i32 {llvm.noundef})", "of results"),
    ],
)
def test_promises_are_refused(attributes: str, complaint: str) -> None:
    body = f'%r0 = llvm.call_intrinsic "llvm.nvvm.prmt"(%a0, %a0, %a0) : ({attributes}'
    with pytest.raises(SimulationError, match=rf"{complaint} is not interpreted"):
        run(["i32"], body, ["i32"], random_registers(5, ["i32"], 64))


def of_lanes(values: Bits, trial: int, thread: int, lane: int) -> int:
    """What `lane` of the thread's wave of 64 holds."""
    return int(values[trial, thread // 64 * 64 + lane])


def test_ds_bpermute_addresses_bytes_and_wraps() -> None:
    body = "%r0 = rocdl.ds_bpermute %a1, %a0 : (i32, i32) -> i32"
    registers = random_registers(3, ["i32", "i32"], 128)
    outcome = run(["i32", "i32"], body, ["i32"], registers, amd=True)
    for trial, thread in itertools.product(range(3), range(128)):
        lane = int(registers[1][trial, thread]) // 4 % 64
        assert outcome.values[0, trial, thread] == of_lanes(registers[0], trial, thread, lane)


def test_first_and_given_lane() -> None:
    body = """%k = llvm.mlir.constant(37 : i32) : i32
    %r0 = rocdl.readfirstlane %a0 : i32
    %r1 = rocdl.readlane %a0, %k : (i32, i32) -> i32"""
    registers = random_registers(3, ["i32"], 128)
    outcome = run(["i32"], body, ["i32", "i32"], registers, amd=True)
    for trial, thread in itertools.product(range(3), range(128)):
        expected = [of_lanes(registers[0], trial, thread, lane) for lane in (0, 37)]
        assert outcome.values[:, trial, thread].tolist() == expected


def test_readlane_needs_one_lane_for_the_wave() -> None:
    body = "%t = rocdl.workitem.id.x : i32\n%r0 = rocdl.readlane %a0, %t : (i32, i32) -> i32"
    with pytest.raises(SimulationError, match="the lane operand differs within a wave"):
        run(["i32"], body, ["i32"], random_registers(3, ["i32"], 128), amd=True)


@pytest.mark.parametrize("amd", [False, True])
def test_thread_identifiers(amd: bool) -> None:
    count = threads(4, amd=amd)
    body = "%r0 = rocdl.workitem.id.x : i32" if amd else "%r0 = nvvm.read.ptx.sreg.tid.x : i32"
    outcome = run(["i32"], body, ["i32"], random_registers(3, ["i32"], count), amd=amd, num_warps=4)
    assert outcome.values[0, 2].tolist() == list(range(count))


def test_lane_and_size_identifiers() -> None:
    body = "%r0 = nvvm.read.ptx.sreg.laneid : i32\n%r1 = nvvm.read.ptx.sreg.ntid.x : i32"
    outcome = run(["i32"], body, ["i32", "i32"], random_registers(3, ["i32"], 64))
    assert outcome.values[0, 0].tolist() == list(range(32)) * 2
    assert outcome.values[1, 0].tolist() == [64] * 64
