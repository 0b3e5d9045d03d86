"""Whole functions that all CTAs of a cluster run: loads from another CTA in a loop, and barriers left out."""

from __future__ import annotations

import numpy as np
import pytest
from simulate_cases import NVIDIA

from triton_linear.lowering.interpreter.function import FunctionOutcome, simulate_function

CTAS, THREADS = 4, 64
BARRIER = "nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}\n"
# Each iteration passes a word from each CTA to the one whose rank differs in bit 0, by piece 0 or 1 of memory.
TEXT = """llvm.mlir.global external @global_smem() {addr_space = 3 : i32} : !llvm.array<0 x i8>
llvm.func @f(%x: i32, %n: i32) -> i32 {
%tid = nvvm.read.ptx.sreg.tid.x : i32
%rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
%smem = llvm.mlir.addressof @global_smem : !llvm.ptr<3>
%zero = llvm.mlir.constant(0 : i32) : i32
%one = llvm.mlir.constant(1 : i32) : i32
%size = llvm.mlir.constant(64 : i32) : i32
%other = llvm.xor %rank, %one : i32
llvm.br ^head(%zero, %x : i32, i32)
^head(%i: i32, %a: i32):
%more = llvm.icmp "slt" %i, %n : i32
llvm.cond_br %more, ^body, ^end
^body:
%turn = llvm.and %i, %one : i32
%start = llvm.mul %turn, %size : i32
%place = llvm.add %start, %tid : i32
%own = llvm.getelementptr %smem[%place] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
llvm.store %a, %own : i32, !llvm.ptr<3>
BARRIER%far = nvvm.mapa %own, %other : !llvm.ptr<3> -> !llvm.ptr<7>
%b = llvm.load %far : !llvm.ptr<7> -> i32
%next = llvm.add %i, %one : i32
llvm.br ^head(%next, %b : i32, i32)
^end:
BARRIERllvm.return %a : i32
}
"""


def run(text: str, iterations: int) -> FunctionOutcome:
    given = np.arange(CTAS * THREADS, dtype=np.uint64)[None]
    whole = text.replace("BARRIER", BARRIER)
    return simulate_function(whole, "f", [[given], iterations], NVIDIA, THREADS // 32, 512, ctas=CTAS)


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_ctas_pass_words_in_a_loop(iterations: int) -> None:
    outcome = run(TEXT, iterations)
    threads = np.arange(CTAS * THREADS)
    assert np.array_equal(outcome.values[0, 0], threads ^ THREADS * (iterations & 1))
    assert not outcome.races


@pytest.mark.parametrize(
    ("change", "hazard"),
    [
        (("BARRIER%far", "%far"), "read after write"),
        (("BARRIERllvm.return", "llvm.return"), "end after read"),
        (("%turn = llvm.and %i, %one", "%turn = llvm.and %i, %zero"), "write after read"),
    ],
)
def test_a_missing_barrier_or_piece_is_found(change: tuple[str, str], hazard: str) -> None:
    found = {(race.scope, race.hazard) for race in run(TEXT.replace(*change), 3).races}
    assert ("cluster", hazard) in found
