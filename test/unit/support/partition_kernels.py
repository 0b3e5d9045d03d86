"""Warp-specialised kernels with conversions in their partitions, in Triton and in Gluon."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from aligned_sources import aligned
from bridge_kernels import TARGETS
from fault_kernels import moved
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource


@triton.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A matmul whose loop over tiles is specialised, and whose epilogue stores rows and columns."""
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    for tile in tl.range(tl.program_id(0), M // BM, tl.num_programs(0), warp_specialize=True):
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(left.load([tile * BM, k]), right.load([0, k]).T, acc)
        m, n = tile * BM + tl.arange(0, BM), tl.arange(0, BN)
        tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))
        tl.store(c + M * N + n[:, None] * M + m[None, :], tl.trans(acc.to(tl.float16)))


@gluon.jit
def twice(x, out, N: gl.constexpr, source: gl.constexpr, destination: gl.constexpr):
    """Two conversions, one after the other."""
    moved(x, out, N, source, destination)
    moved(out, x, N, source, destination)


@gluon.jit
def sized(x, out, N: gl.constexpr, S4: gl.constexpr, D4: gl.constexpr, S1: gl.constexpr, D1: gl.constexpr,
          S8: gl.constexpr, D8: gl.constexpr):  # fmt: skip
    """Partitions of 1 and 8 warps beside the kernel's own 4, each with exchanges between and inside warps."""
    gl.warp_specialize(
        [
            (twice, (x, out, N, S4, D4)),
            (twice, (x + N * N, out + N * N, N, S1, D1)),
            (twice, (x + 2 * N * N, out + 2 * N * N, N, S8, D8)),
        ],
        [1, 8],
        [48, 48],
    )


def rows(warps: int) -> gl.BlockedLayout:
    """Rows over lanes and warps."""
    return gl.BlockedLayout([1, 4], [4, 8], [warps, 1], [1, 0])


def columns(warps: int) -> gl.BlockedLayout:
    """Columns over lanes and warps."""
    return gl.BlockedLayout([4, 1], [8, 4], [1, warps], [0, 1])


def sized_source() -> GluonASTSource:
    """The Gluon kernel, with tiles of 64 by 64."""
    sides = {f"{side}{n}": (rows if side == "S" else columns)(n) for n in (4, 1, 8) for side in "SD"}
    constants: dict[str, Any] = {"N": 64, **sides}
    signature = {"x": "*fp32", "out": "*fp32", **dict.fromkeys(constants, "constexpr")}
    return GluonASTSource(sized, signature, constants)


def persistent_source() -> ASTSource:
    """The Triton kernel."""
    kinds = {**dict.fromkeys("abc", "*fp16"), **dict.fromkeys("MNK", "i32")}
    return aligned(persistent, kinds, {"BM": 128, "BN": 64, "BK": 64})


SOURCES = {"sized": sized_source, "persistent": persistent_source}
GPUS = {name: TARGETS[name] for name in ("cuda:90", "cuda:100")}
