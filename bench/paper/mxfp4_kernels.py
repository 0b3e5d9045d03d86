"""Products of mxfp4 weights and activations of other types, which differ in who unpacks the weights.

Weights are e2m1, two to a byte along K, the first in the low half; each 32 along K share a scale, a power of
two as its biased exponent (e8m0; 255, which stands for no number, is not expected). The product is transposed,
so that the weights are the left operand, which `wgmma` takes from registers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scaled_matmul(
    w_ptr,
    scale_ptr,
    x_ptr,
    out_ptr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FORMAT: tl.constexpr,
):
    """out [m, N] = x [m, K] w^T by `tl.dot_scaled`."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    w = w_ptr + rows[:, None] * (K // 2) + tl.arange(0, BLOCK_K // 2)[None, :]
    scale = scale_ptr + rows[:, None] * (K // 32) + tl.arange(0, BLOCK_K // 32)[None, :]
    x = x_ptr + columns[None, :] * K + tl.arange(0, BLOCK_K)[:, None]
    accumulator = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for _ in range(0, K, BLOCK_K):
        accumulator = tl.dot_scaled(
            tl.load(w), tl.load(scale), "e2m1", tl.load(x), None, FORMAT, accumulator, fast_math=True
        )
        w += BLOCK_K // 2
        scale += BLOCK_K // 32
        x += BLOCK_K
    tl.store(out_ptr + columns[None, :] * N + rows[:, None], accumulator.to(out_ptr.dtype.element_ty))


@triton.jit
def half_byte(bits, TYPE: tl.constexpr):
    """The e2m1 in the low half of 16 bits, as TYPE.

    Its three bits without sign are put where TYPE has the end of its exponent and the top of its fraction,
    which gives the number, subnormal or not, times two to the difference of the biases.
    """
    SHIFT: tl.constexpr = 9 if TYPE.is_fp16() else 6
    UNIT: tl.constexpr = 2.0**14 if TYPE.is_fp16() else 2.0**126
    placed = ((bits & 8) << 12) | ((bits & 7) << SHIFT)
    return placed.to(TYPE, bitcast=True) * tl.full((), UNIT, TYPE)


@triton.jit
def power_of_two(exponent, TYPE: tl.constexpr):
    """2 to the biased exponent less 127, as TYPE."""
    return (exponent.to(tl.uint32) << 23).to(tl.float32, bitcast=True).to(TYPE)


@triton.jit
def unpacked(packed, scale, TYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """[ROWS, COLUMNS] of TYPE, of bytes and scales; a scale is spread by shape operations."""
    bits = packed.to(tl.uint16)
    w = tl.join(half_byte(bits & 15, TYPE), half_byte(bits >> 4, TYPE))
    w = w.reshape(ROWS, COLUMNS // 32, 32) * power_of_two(scale, TYPE)[:, :, None]
    return w.reshape(ROWS, COLUMNS)


@triton.jit
def unpacked_matmul(
    w_ptr,
    scale_ptr,
    x_ptr,
    out_ptr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    TYPE: tl.constexpr,
    SHUFFLED: tl.constexpr,
):
    """out [m, N] = x [m, K] w^T, multiplied as TYPE; x is as `shuffled` leaves it, if SHUFFLED."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    w = w_ptr + rows[:, None] * (K // 2) + tl.arange(0, BLOCK_K // 2)[None, :]
    scale = scale_ptr + rows[:, None] * (K // 32) + tl.arange(0, BLOCK_K // 32)[None, :]
    x = x_ptr + columns[None, :] * K + tl.arange(0, BLOCK_K)[:, None]
    accumulator = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for _ in range(0, K, BLOCK_K):
        left = unpacked(tl.load(w), tl.load(scale), TYPE, BLOCK_N, BLOCK_K)
        if SHUFFLED:
            left = left.reshape(BLOCK_N, 4, BLOCK_K // 8, 2).trans(0, 2, 1, 3).reshape(BLOCK_N, BLOCK_K)
        accumulator = tl.dot(left, tl.load(x).to(TYPE), accumulator)
        w += BLOCK_K // 2
        scale += BLOCK_K // 32
        x += BLOCK_K
    tl.store(out_ptr + columns[None, :] * N + rows[:, None], accumulator.to(out_ptr.dtype.element_ty))
