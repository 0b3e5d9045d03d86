"""A kernel for each complaint, as small as still shows it. The threads are in `cases.py`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_bytes(
    slot_ptr,
    cache_ptr,
    scale_ptr,
    q_ptr,
    out_ptr,
    steps,
    BLOCK: tl.constexpr,
    DIM: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Scores and their sum of rows of a byte cache, which are found by number, with a scale for each GROUP."""
    channels = tl.arange(0, DIM)
    q = tl.load(q_ptr + tl.program_id(0) * DIM + channels).to(tl.float32)
    total = tl.zeros((DIM,), tl.float32)
    for step in range(steps):
        places = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        slots = tl.load(slot_ptr + places).to(tl.int64)
        packed = tl.load(cache_ptr + slots[:, None] * DIM + channels[None, :])
        scale = tl.load(scale_ptr + slots[:, None] * (DIM // GROUP) + channels[None, :] // GROUP)
        keys = packed.to(tl.float32) * scale.to(tl.float32)
        weights = tl.sum(keys * q[None, :], 1)
        total += tl.sum(keys * weights[:, None], 0)
    tl.store(out_ptr + tl.program_id(0) * DIM + channels, total)


@triton.jit
def gather_attention(
    slot_ptr,
    cache_ptr,
    scale_ptr,
    q_ptr,
    out_ptr,
    steps,
    scale,
    HEADS: tl.constexpr,
    BLOCK: tl.constexpr,
    DIM: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Attention to rows of a cache in e4m3 (without NaN), which are found by number and are keys and values.

    A scale for each GROUP is a power of two, kept as its exponent. Bytes become halves by their bits: of e4m3
    as the upper bits of a half, times 256.
    """
    heads, channels = tl.arange(0, HEADS), tl.arange(0, DIM)
    mine = (tl.program_id(0) * HEADS + heads[:, None]) * DIM + channels[None, :]
    q = tl.load(q_ptr + mine)
    peak = tl.full((HEADS,), float("-inf"), tl.float32)
    mass = tl.zeros((HEADS,), tl.float32)
    total = tl.zeros((HEADS, DIM), tl.float32)
    for step in range(steps):
        places = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        slots = tl.load(slot_ptr + places).to(tl.int64)
        bits = tl.load(cache_ptr + slots[:, None] * DIM + channels[None, :]).to(tl.int16)
        halves = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.float16, bitcast=True)
        power = tl.load(scale_ptr + slots[:, None] * (DIM // GROUP) + channels[None, :] // GROUP)
        power = ((power.to(tl.int32) + (127 + 8)) << 23).to(tl.float32, bitcast=True)
        keys = halves.to(tl.bfloat16) * power.to(tl.bfloat16)
        scores = tl.dot(q, keys.trans()) * scale
        higher = tl.maximum(peak, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        rescale = tl.exp2(peak - higher)
        mass = mass * rescale + tl.sum(p, 1)
        total = tl.dot(p.to(tl.bfloat16), keys, total * rescale[:, None])
        peak = higher
    tl.store(out_ptr + mine, (total / mass[:, None]).to(tl.bfloat16))


@triton.jit
def chained_division(x_ptr, sums_ptr, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of rows that are divided twice by their largest magnitude, which is got by a change of shape."""
    columns = tl.arange(0, COLUMNS)
    for step in range(steps):
        rows = (tl.program_id(0) * steps + step) * ROWS + tl.arange(0, ROWS)
        x = tl.load(x_ptr + rows[:, None] * COLUMNS + columns[None, :])
        s = tl.max(tl.abs(x).reshape(ROWS, 1, COLUMNS), 2).reshape(ROWS, 1)
        y = x / s
        w = y / s
        tl.store(sums_ptr + rows, tl.sum(w, 1))


@triton.jit
def divided_places(index_ptr, x_ptr, out_ptr, height, width, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums over rows of what lies where a number of each element, divided by sizes, says."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for step in range(steps):
        rows = step * ROWS + tl.arange(0, ROWS)
        n = rows[:, None] * (tl.num_programs(0) * COLUMNS) + columns[None, :]
        n = tl.load(index_ptr + n)
        places = (n % width) * height + (n // width) % height
        total += tl.sum(tl.load(x_ptr + places), 0)
    tl.store(out_ptr + columns, total)


@triton.jit
def embedding_sum(index_ptr, table_ptr, out_ptr, many, X: tl.constexpr, R: tl.constexpr, DIM: tl.constexpr):
    """For X outputs of a flat [bags, DIM], sums over the rows of a table that a list names."""
    x = tl.program_id(0) * X + tl.arange(0, X)[:, None]
    total = tl.zeros((X, R), tl.float32)
    for start in range(0, many, R):
        r = start + tl.arange(0, R)[None, :]
        rows = tl.load(index_ptr + (x // DIM) * many + r)
        total += tl.load(table_ptr + rows * DIM + x % DIM)
    tl.store(out_ptr + x, tl.sum(total, 1)[:, None])


@triton.jit
def reduced_then_stored(x_ptr, out_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Rows normalised by the sums of their columns' blocks, each of which is needed where the rows are."""
    here = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    for start in range(0, rows, BLOCK_M):
        offsets = (start + tl.arange(0, BLOCK_M))[:, None] * columns + here[None, :]
        x = tl.load(x_ptr + offsets).to(tl.float32)
        tl.store(out_ptr + start // BLOCK_M * columns + here, tl.sum(x, 0))


@triton.jit
def dot_atomics(
    a_ptr,
    b_ptr,
    out_ptr,
    k,
    n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    INNER: tl.constexpr,
):
    """A share of the inner dimension of a b, added to the other shares' by atomics, each BLOCK_K of it."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.program_id(2) * INNER * BLOCK_K + tl.arange(0, BLOCK_K)
    a = tl.load(a_ptr + rows[:, None] * k + inner[None, :])
    for step in range(INNER):
        b = tl.load(b_ptr + (inner + step * BLOCK_K)[:, None] * n + columns[None, :])
        product = tl.dot(a, b)
        tl.atomic_add(out_ptr + rows[:, None] * n + columns[None, :], product, sem="relaxed")


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, columns, epsilon, BLOCK: tl.constexpr):
    """Layer norm of a row of halves."""
    here = tl.arange(0, BLOCK)
    inside = here < columns
    offsets = tl.program_id(0) * columns + here
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    away = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(away * away, 0) / columns + epsilon)
    w = tl.load(w_ptr + here, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + here, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, (away * scale * w + b).to(tl.float16), mask=inside)


@triton.jit
def attention_bytes(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):
    """Attention of one head in fp8, all of [length, DIM] with channels side by side."""
    head = tl.program_id(1) * length * DIM
    channels = tl.arange(0, DIM)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = tl.load(q_ptr + head + rows[:, None] * DIM + channels[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    mass = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, DIM), tl.float32)
    for start in range(0, length, BLOCK_N):
        places = head + (start + tl.arange(0, BLOCK_N))[:, None] * DIM + channels[None, :]
        scores = tl.dot(q, tl.load(k_ptr + places).trans()) * scale
        higher = tl.maximum(peak, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        rescale = tl.exp2(peak - higher)
        mass = mass * rescale + tl.sum(p, 1)
        total = tl.dot(p.to(tl.float8e4nv), tl.load(v_ptr + places), total * rescale[:, None])
        peak = higher
    tl.store(out_ptr + head + rows[:, None] * DIM + channels[None, :], (total / mass[:, None]).to(tl.float16))


@triton.jit
def transpose_tile(x_ptr, out_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """One tile of the transpose of a matrix."""
    down = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    along = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + down[:, None] * columns + along[None, :])
    tl.store(out_ptr + along[:, None] * rows + down[None, :], x.trans())


@triton.jit
def channels_last(x_ptr, scale_ptr, out_ptr, pixels, channels, PIXELS: tl.constexpr, CHANNELS: tl.constexpr):
    """An image [channels, pixels] times a scale of each channel, as [pixels, channels]."""
    image = tl.program_id(2) * channels * pixels
    p = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    x = tl.load(x_ptr + image + c[None, :] * pixels + p[:, None])
    y = x * tl.load(scale_ptr + c)[None, :]
    tl.store(out_ptr + image + p[:, None] * channels + c[None, :], y)


@triton.jit
def sigmoid_epilogue(
    a_ptr, b_ptr, gate_ptr, out_ptr, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """sigmoid(a b) times a matrix, of which a tile is read when all of the product is there."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * k + (start + inner)[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * n + columns[None, :])
        total = tl.dot(a, b, total)
    places = rows[:, None] * n + columns[None, :]
    gate = tl.load(gate_ptr + places).to(tl.float32)
    tl.store(out_ptr + places, (tl.sigmoid(total) * gate).to(tl.float16))


@triton.jit
def block_scaled(
    a_ptr,
    b_ptr,
    row_scale_ptr,
    column_scale_ptr,
    out_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """a b in fp8, where every BLOCK_K of a row, and of a column, has a scale."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, k // BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * k + (step * BLOCK_K + inner)[None, :])
        b = tl.load(b_ptr + columns[None, :] * k + (step * BLOCK_K + inner)[:, None])
        row_scale = tl.load(row_scale_ptr + step * m + rows)
        column_scale = tl.load(column_scale_ptr + step * n + columns)
        total += tl.dot(a, b) * row_scale[:, None] * column_scale[None, :]
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def scaled_rows(
    x_ptr, scale_ptr, bias_ptr, out_ptr, peak_ptr, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Rows of bytes times one scale vector plus one bias, and the largest of each column."""
    columns = tl.arange(0, COLUMNS)
    scale, bias = tl.load(scale_ptr + columns), tl.load(bias_ptr + columns)
    peak = tl.full((COLUMNS,), float("-inf"), tl.float32)
    for step in range(steps):
        rows = (tl.program_id(0) * steps + step) * ROWS + tl.arange(0, ROWS)
        offsets = rows[:, None] * COLUMNS + columns[None, :]
        y = (
            tl.load(x_ptr + offsets).to(tl.float32) * scale.to(tl.float32)[None, :]
            + bias.to(tl.float32)[None, :]
        )
        peak = tl.maximum(peak, tl.max(y, 0))
        tl.store(out_ptr + offsets, y.to(tl.float16))
    tl.store(peak_ptr + tl.program_id(0) * COLUMNS + columns, peak)


@triton.jit
def transposed_operand(
    a_ptr, b_ptr, out_ptr, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """a b of floats as TF32, b with the columns of the product side by side in memory."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * k + (start + inner)[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * n + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total)
