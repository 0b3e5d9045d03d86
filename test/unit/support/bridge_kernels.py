"""Kernels that between them use what TritonGPU IR has, and a way to get that IR for a target without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from aligned_sources import aligned
from triton.backends.compiler import GPUTarget

from triton_linear.tools.support.backend import ttgir_of

TARGETS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:100": GPUTarget("cuda", 100, 32),
    "hip:gfx90a": GPUTarget("hip", "gfx90a", 64),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
    "hip:gfx950": GPUTarget("hip", "gfx950", 64),
}


@triton.jit
def matmul(a, b, c, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ap = a + m[:, None] * K + k[None, :]
    bp = b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(ap), tl.load(bp), acc)
        ap += BK
        bp += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=WS):
        acc = tl.dot(left.load([m, k]), right.load([n, k]).T, acc)
    out.store([m, n], acc.to(tl.float16))


@triton.jit
def combine(a, b):
    return tl.where(a > b, a, b * 2)


@triton.jit(noinline=True)
def callee(factor):
    return factor * 2.0 + 1.0


@triton.jit
def control_flow(x, out, limit, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :])
    steps = 0
    while steps < limit:
        tile = tile * 0.5 + tl.trans(tl.load(x + columns[:, None] * BM + rows[None, :]))
        steps += 1
    if limit > 3:  # noqa: SIM108  an scf.if is wanted
        tile = tl.associative_scan(tile, 1, combine)
    else:
        tile = tl.cumsum(tile, 0)
    total = callee(3.0) + tl.reduce(tile, 1, combine)
    tl.store(out + rows, total)


@triton.jit
def shapes(x, out, scale, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :], mask=rows[:, None] < scale, other=1.0)
    joined = tl.join(tile, tile + 1.0)
    even, odd = tl.split(tl.permute(joined, 1, 0, 2))
    packed = tl.inline_asm_elementwise(
        'mov.b32 $0, $1; // "#blocked"', "=r,r", [even], dtype=tl.int32, is_pure=True, pack=1
    )
    wide = tl.reshape(odd, (BN // 2, BM * 2)) + tl.sum(tile) + tl.sort(tl.reshape(even, (BN // 2, BM * 2)))
    tl.device_print("#blocked -> !tt.ptr ", tl.program_id(0))
    tl.atomic_add(out + tl.arange(0, BN // 2)[:, None] * BM * 2 + tl.arange(0, BM * 2)[None, :], wide)
    tl.store(out + tl.arange(0, BN)[:, None] * BM + rows[None, :], packed.to(tl.float32))


@triton.jit
def dot_scaled(a, a_scale, b, b_scale, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    s = tl.arange(0, BK // 32)
    acc = tl.dot_scaled(
        tl.load(a + m[:, None] * BK + k[None, :]),
        tl.load(a_scale + m[:, None] * (BK // 32) + s[None, :]),
        "e4m3",
        tl.load(b + k[:, None] * BN + n[None, :]),
        tl.load(b_scale + n[:, None] * (BK // 32) + s[None, :]),
        "e4m3",
    )
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@dataclass(frozen=True)
class Case:
    """A kernel with the types of its arguments, its constants and its options."""

    kernel: Any
    signature: Mapping[str, str]
    constants: Mapping[str, int | bool]
    options: Mapping[str, int] = field(default_factory=dict)


_MATMUL = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "K": "i32", "N": "i32"}
_TILES = {"BM": 64, "BN": 64, "BK": 64}
_F8 = {"a": "*fp8e4nv", "a_scale": "*u8", "b": "*fp8e4nv", "b_scale": "*u8", "c": "*fp32"}
_DESCRIPTORS = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
CASES = {
    "matmul": Case(matmul, _MATMUL, _TILES),
    "matmul_clusters": Case(matmul, _MATMUL, _TILES, {"num_ctas": 2}),
    "matmul_eight_warps": Case(matmul, _MATMUL, {**_TILES, "BM": 128}, {"num_warps": 8, "num_stages": 3}),
    "descriptors": Case(descriptors, _DESCRIPTORS, {**_TILES, "WS": False}),
    "warp_specialised": Case(descriptors, _DESCRIPTORS, {**_TILES, "BM": 128, "WS": True}),
    "control_flow": Case(control_flow, {"x": "*fp32", "out": "*fp32", "limit": "i32"}, {"BM": 32, "BN": 64}),
    "shapes": Case(shapes, {"x": "*fp32", "out": "*fp32", "scale": "i32"}, {"BM": 32, "BN": 64}),
    "dot_scaled": Case(dot_scaled, _F8, {"BM": 128, "BN": 128, "BK": 128}),
}


def ttgir(name: str, target: str) -> Any:
    """The libtriton module of a case as the backend of `target` leaves its TTGIR stage."""
    case, gpu = CASES[name], TARGETS[target]
    return ttgir_of(aligned(case.kernel, case.signature, case.constants), gpu, case.options)
