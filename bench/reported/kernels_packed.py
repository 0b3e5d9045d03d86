"""Products of halves with weights of four bits, in rows, and in the order of `triton-linear explain --pack`.

Two weights are in a byte, neighbours along K. The product is transposed, so that weights are the left operand,
which the MMAs of warp groups take from registers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_of(packed):
    """A tile of bytes that lies as `triton-linear explain --pack` says of these kernels for an H200."""
    return packed.reshape(2, 2, 4, 8, 4, 4, 2, 2).permute(0, 2, 6, 3, 7, 1, 5, 4).reshape(128, 64)


@triton.jit
def nibbles_of(packed, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """[ROWS, COLUMNS] of 16 bits, of bytes that hold two each."""
    bits = packed.to(tl.uint8, bitcast=True).to(tl.uint16)
    return tl.join(bits & 15, bits >> 4).reshape(ROWS, COLUMNS)


@triton.jit
def halves_of(packed, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """[ROWS, COLUMNS] of f16, of bytes of two signed integers of four bits.

    The last bits of f16 numbers from 1024 on count ones; without the sign's own bit, 8 more are there.
    """
    return (nibbles_of(packed, ROWS, COLUMNS) ^ 0x6408).to(tl.float16, bitcast=True) - 1032.0


@triton.jit
def scaled(packed, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """[ROWS, COLUMNS] of bf16, of bytes of two e2m1 each, and exponents [ROWS, COLUMNS // 32] of powers of two.

    The three bits of a magnitude, in the last two of bf16's exponent and the first of its fraction, are 2**-126
    times as large, subnormal ones too.
    """
    bits = nibbles_of(packed, ROWS, COLUMNS)
    tiny = (((bits & 8) << 12) | ((bits & 7) << 6)).to(tl.bfloat16, bitcast=True)
    power = (scale.to(tl.uint8, bitcast=True).to(tl.uint16) << 7).to(tl.bfloat16, bitcast=True)
    parts = (tiny * 2.0**126).reshape(ROWS, COLUMNS // 32, 32) * power[:, :, None]
    return parts.reshape(ROWS, COLUMNS)


@triton.jit
def int4_matmul(
    w_ptr,
    scale_ptr,
    x_ptr,
    out_ptr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PACKED: tl.constexpr,
):
    """out [m, N] = x [m, K] w^T with a scale for each row of w, which may be PACKED."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    TILE: tl.constexpr = BLOCK_N * BLOCK_K // 2
    if not PACKED:
        w = w_ptr + rows[:, None] * (K // 2) + tl.arange(0, BLOCK_K // 2)[None, :]
    else:
        w = w_ptr + tl.program_id(0) * (K // BLOCK_K) * TILE + tl.arange(0, TILE)
    x = x_ptr + columns[None, :] * K + tl.arange(0, BLOCK_K)[:, None]
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for _ in range(0, K, BLOCK_K):
        packed = tl.load(w)
        if PACKED:
            packed = tile_of(packed)
        total = tl.dot(halves_of(packed, BLOCK_N, BLOCK_K), tl.load(x), total)
        w += TILE if PACKED else BLOCK_K // 2
        x += BLOCK_K
    total *= tl.load(scale_ptr + rows)[:, None]
    tl.store(out_ptr + columns[None, :] * N + rows[:, None], total.to(tl.float16))


@triton.jit
def mxfp4_matmul(
    w_ptr,
    scale_ptr,
    x_ptr,
    out_ptr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PACKED: tl.constexpr,
):
    """The same of e2m1 with a power of two for each 32 along K."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    TILE: tl.constexpr = BLOCK_N * BLOCK_K // 2
    if not PACKED:
        w = w_ptr + rows[:, None] * (K // 2) + tl.arange(0, BLOCK_K // 2)[None, :]
    else:
        w = w_ptr + tl.program_id(0) * (K // BLOCK_K) * TILE + tl.arange(0, TILE)
    scale = scale_ptr + rows[:, None] * (K // 32) + tl.arange(0, BLOCK_K // 32)[None, :]
    x = x_ptr + columns[None, :] * K + tl.arange(0, BLOCK_K)[:, None]
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for _ in range(0, K, BLOCK_K):
        packed = tl.load(w)
        if PACKED:
            packed = tile_of(packed)
        left = scaled(packed, tl.load(scale), BLOCK_N, BLOCK_K)
        total = tl.dot(left, tl.load(x), total)
        w += TILE if PACKED else BLOCK_K // 2
        scale += BLOCK_K // 32
        x += BLOCK_K
    tl.store(out_ptr + columns[None, :] * N + rows[:, None], total.to(out_ptr.dtype.element_ty))
