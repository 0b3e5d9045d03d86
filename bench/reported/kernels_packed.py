"""Products of halves with weights of four bits, in rows, and in the order of `triton-linear explain --pack`.

In rows two weights are in a byte, neighbours along K. Packed, eight are in a word of 32 bits, and those two
that a register of the operand holds are 16 bits apart in it: each operation on words is one for both. The
product is transposed, so that weights are the left operand, which the MMAs of warp groups take from registers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_of(elements):
    """A tile, of the elements of words that lie as `triton-linear explain --pack` says for an H200."""
    return elements.reshape(2, 8, 8, 4, 4, 2, 2, 2).permute(1, 7, 2, 0, 4, 6, 3, 5).reshape(128, 128)


@triton.jit
def elements_of(first, second):
    """[words, 2, 2] of 16 bits, of words that hold two each: those of a word lie along the first 2."""
    return tl.join(both(first), both(second))


@triton.jit
def both(words):
    """[words, 2] of 16 bits: the low half, and the high one."""
    return tl.join((words & 0xFFFF).to(tl.uint16), (words >> 16).to(tl.uint16))


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
def halves_of_words(words):
    """A tile of f16, of words. A nibble that begins at bit 4 of a half counts 16 times as much there."""
    later = words >> 8
    even = elements_of((words & 0x000F000F) ^ 0x64086408, (later & 0x000F000F) ^ 0x64086408)
    odd = elements_of((words & 0x00F000F0) ^ 0x64806480, (later & 0x00F000F0) ^ 0x64806480)
    even = even.to(tl.float16, bitcast=True) - 1032.0
    odd = odd.to(tl.float16, bitcast=True) * 0.0625 - 72.0
    return tile_of(tl.join(even, odd))


@triton.jit
def scaled(packed, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """[ROWS, COLUMNS] of bf16, of bytes of two e2m1 each, and exponents [ROWS, COLUMNS // 32] of powers of two.

    The three bits of a magnitude, in the last two of bf16's exponent and the first of its fraction, are 2**-126
    times as large, subnormal ones too.
    """
    bits = nibbles_of(packed, ROWS, COLUMNS)
    return times_powers(((bits & 8) << 12) | ((bits & 7) << 6), scale, ROWS, COLUMNS)


@triton.jit
def tiny_of_words(words):
    """A tile of the same bits, of words."""
    even, odd = elements_of(tiny(words << 12), tiny(words << 4)), elements_of(tiny(words << 8), tiny(words))
    return tile_of(tl.join(even, odd))


@triton.jit
def tiny(words):
    """Those bits in each half of words, of the nibble in its highest bits."""
    return (words & 0x80008000) | ((words >> 6) & 0x01C001C0)


@triton.jit
def times_powers(bits, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """[ROWS, COLUMNS] of bf16 2**126 times as large as these bits say, times their powers of two."""
    power = (scale.to(tl.uint8, bitcast=True).to(tl.uint16) << 7).to(tl.bfloat16, bitcast=True)
    parts = (bits.to(tl.bfloat16, bitcast=True) * 2.0**126).reshape(ROWS, COLUMNS // 32, 32) * power[:, :, None]
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
    WORDS: tl.constexpr = BLOCK_N * BLOCK_K // 8
    if not PACKED:
        w = w_ptr + rows[:, None] * (K // 2) + tl.arange(0, BLOCK_K // 2)[None, :]
    else:
        w = w_ptr.to(tl.pointer_type(tl.uint32)) + tl.program_id(0) * (K // BLOCK_K) * WORDS
        w += tl.arange(0, WORDS)
    x = x_ptr + columns[None, :] * K + tl.arange(0, BLOCK_K)[:, None]
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for _ in range(0, K, BLOCK_K):
        left = halves_of_words(tl.load(w)) if PACKED else halves_of(tl.load(w), BLOCK_N, BLOCK_K)
        total = tl.dot(left, tl.load(x), total)
        w += WORDS if PACKED else BLOCK_K // 2
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
    WORDS: tl.constexpr = BLOCK_N * BLOCK_K // 8
    if not PACKED:
        w = w_ptr + rows[:, None] * (K // 2) + tl.arange(0, BLOCK_K // 2)[None, :]
    else:
        w = w_ptr.to(tl.pointer_type(tl.uint32)) + tl.program_id(0) * (K // BLOCK_K) * WORDS
        w += tl.arange(0, WORDS)
    scale = scale_ptr + rows[:, None] * (K // 32) + tl.arange(0, BLOCK_K // 32)[None, :]
    x = x_ptr + columns[None, :] * K + tl.arange(0, BLOCK_K)[:, None]
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for _ in range(0, K, BLOCK_K):
        if PACKED:
            left = times_powers(tiny_of_words(tl.load(w)), tl.load(scale), BLOCK_N, BLOCK_K)
        else:
            left = scaled(tl.load(w), tl.load(scale), BLOCK_N, BLOCK_K)
        total = tl.dot(left, tl.load(x), total)
        w += WORDS if PACKED else BLOCK_K // 2
        scale += BLOCK_K // 32
        x += BLOCK_K
    tl.store(out_ptr + columns[None, :] * N + rows[:, None], total.to(out_ptr.dtype.element_ty))
