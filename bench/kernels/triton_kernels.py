"""Triton kernels, each with a loop that needs its tensors in more than one layout."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softmax_column_sums(
    x_ptr, out_ptr, sums_ptr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The softmax of each row of COLUMNS, and the sums of the columns of what this program has made."""
    program = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for step in range(STEPS):
        rows = (program * STEPS + step) * ROWS + tl.arange(0, ROWS)
        offsets = rows[:, None] * COLUMNS + columns[None, :]
        x = tl.load(x_ptr + offsets).to(tl.float32)
        weights = tl.exp(x - tl.max(x, 1)[:, None])
        weights = weights / tl.sum(weights, 1)[:, None]
        tl.store(out_ptr + offsets, weights.to(tl.float16))
        total += tl.sum(weights, 0)
    tl.store(sums_ptr + program * COLUMNS + columns, total)


@triton.jit
def splitk_gemv(w_ptr, scale_ptr, x_ptr, out_ptr, n, k, steps, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """This program's share of k of the products of BLOCK_N rows of int8 weights [n, k] with x."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.program_id(1) * steps * BLOCK_K + tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for _ in range(steps):
        w = tl.load(w_ptr + rows[:, None] * k + inner[None, :])
        x = tl.load(x_ptr + inner).to(tl.float32)
        total += tl.sum(w.to(tl.float32) * x[None, :], 1)
        inner += BLOCK_K
    tl.store(out_ptr + tl.program_id(1) * n + rows, total * tl.load(scale_ptr + rows).to(tl.float32))


@triton.jit
def gather_gemv(w_ptr, index_ptr, x_ptr, out_ptr, k, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """out[i] = w[index[i]] . x for BLOCK_N indices."""
    places = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.load(index_ptr + places)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, k, BLOCK_K):
        w = tl.load(w_ptr + rows[:, None] * k + (start + inner)[None, :]).to(tl.float32)
        total += tl.sum(w * tl.load(x_ptr + start + inner).to(tl.float32)[None, :], 1)
    tl.store(out_ptr + places, total)


@triton.jit
def column_stats(x_ptr, mean_ptr, peak_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The mean and the largest magnitude of BLOCK_N columns, reduced in every step."""
    here = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    peak = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, rows, BLOCK_M):
        offsets = (start + tl.arange(0, BLOCK_M))[:, None] * columns + here[None, :]
        x = tl.load(x_ptr + offsets).to(tl.float32)
        total += tl.sum(x, 0)
        peak = tl.maximum(peak, tl.max(tl.abs(x), 0))
    tl.store(mean_ptr + here, total / rows)
    tl.store(peak_ptr + here, peak)


@triton.jit
def quantise_transposed(x_ptr, out_ptr, scale_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """BLOCK_N columns of f16 x [rows, columns] as int8 out [columns, rows], with a scale for each."""
    here = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    peak = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, rows, BLOCK_M):
        offsets = (start + tl.arange(0, BLOCK_M))[:, None] * columns + here[None, :]
        peak = tl.maximum(peak, tl.max(tl.abs(tl.load(x_ptr + offsets).to(tl.float32)), 0))
    scale = tl.maximum(peak, 1e-10) / 127.0
    tl.store(scale_ptr + here, scale)
    for start in range(0, rows, BLOCK_M):
        line = start + tl.arange(0, BLOCK_M)
        x = tl.load(x_ptr + line[:, None] * columns + here[None, :]).to(tl.float32)
        x = x / scale[None, :]
        x = tl.where(x >= 0, x + 0.5, x - 0.5).to(tl.int8)
        tl.store(out_ptr + here[:, None] * rows + line[None, :], x.trans())


@triton.jit
def matmul_mixed(
    a_ptr,
    b_ptr,
    out_ptr,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    TYPE: tl.constexpr,
):
    """One tile of a b, each of any type and lying either way, multiplied as TYPE."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a = a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b = b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K):
        accumulator = tl.dot(tl.load(a).to(TYPE), tl.load(b).to(TYPE), accumulator)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], accumulator.to(out_ptr.dtype.element_ty))


@triton.jit
def chained_dot(q_ptr, k_ptr, v_ptr, out_ptr, length, BLOCK: tl.constexpr, DIM: tl.constexpr):
    """Attention without softmax: (q k^T) v, for BLOCK rows of one head of f16 [length, DIM]."""
    head = tl.program_id(1) * length * DIM
    channels = tl.arange(0, DIM)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + head + rows[:, None] * DIM + channels[None, :])
    accumulator = tl.zeros((BLOCK, DIM), tl.float32)
    for start in range(0, length, BLOCK):
        keys = head + (start + tl.arange(0, BLOCK))[:, None] * DIM + channels[None, :]
        scores = tl.dot(q, tl.load(k_ptr + keys).trans())
        accumulator = tl.dot(scores.to(tl.float16), tl.load(v_ptr + keys), accumulator)
    tl.store(out_ptr + head + rows[:, None] * DIM + channels[None, :], accumulator.to(tl.float16))


@triton.jit
def add_transposed(x_ptr, y_ptr, out_ptr, n, steps, BLOCK: tl.constexpr):
    """out = x + y^T for some tiles of a row of tiles of n x n matrices."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for step in range(steps):
        columns = (tl.program_id(1) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + columns[:, None] * n + rows[None, :])
        offsets = rows[:, None] * n + columns[None, :]
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + y.trans())


@triton.jit
def rotate_pairs(x_ptr, cos_ptr, sin_ptr, out_ptr, steps, ROWS: tl.constexpr, DIM: tl.constexpr):
    """Rotary embedding of neighbours (2i, 2i + 1) of rows of DIM."""
    channels = tl.arange(0, DIM)
    halves = tl.arange(0, DIM // 2)
    for step in range(steps):
        rows = (tl.program_id(0) * steps + step) * ROWS + tl.arange(0, ROWS)
        offsets = rows[:, None] * DIM + channels[None, :]
        angles = rows[:, None] * (DIM // 2) + halves[None, :]
        a, b = tl.load(x_ptr + offsets).to(tl.float32).reshape(ROWS, DIM // 2, 2).split()
        cos, sin = tl.load(cos_ptr + angles), tl.load(sin_ptr + angles)
        out = tl.join(a * cos - b * sin, b * cos + a * sin).reshape(ROWS, DIM)
        tl.store(out_ptr + offsets, out.to(tl.float16))


@triton.jit
def cumulative_columns(x_ptr, out_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Running sums down BLOCK_N columns, block by block with what came before."""
    here = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    before = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, rows, BLOCK_M):
        offsets = (start + tl.arange(0, BLOCK_M))[:, None] * columns + here[None, :]
        x = tl.load(x_ptr + offsets).to(tl.float32)
        tl.store(out_ptr + offsets, tl.cumsum(x, 0) + before[None, :])
        before += tl.sum(x, 0)


@triton.jit
def argmax_columns(x_ptr, peak_ptr, place_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Where the largest value of BLOCK_N columns is, and that value."""
    here = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    peak = tl.full((BLOCK_N,), float("-inf"), tl.float32)
    place = tl.zeros((BLOCK_N,), tl.int32)
    for start in range(0, rows, BLOCK_M):
        offsets = (start + tl.arange(0, BLOCK_M))[:, None] * columns + here[None, :]
        value, index = tl.max(tl.load(x_ptr + offsets), 0, return_indices=True)
        place = tl.where(value > peak, start + index, place)
        peak = tl.maximum(value, peak)
    tl.store(peak_ptr + here, peak)
    tl.store(place_ptr + here, place)
