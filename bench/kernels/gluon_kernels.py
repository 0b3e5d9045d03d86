"""Gluon kernels, whose conversions are written where they stand."""

from __future__ import annotations

import triton.experimental.gluon.language as gl
from triton.experimental import gluon

ROWS = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
"""Eight neighbours of a row to a thread, of a tile 64 wide: what loads and stores of rows of f16 want."""
COLUMNS = gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])
"""The same for columns."""
FLAT = gl.BlockedLayout([1], [32], [4], [0])
"""A vector, an element to a thread."""


@gluon.jit
def scale_and_transpose(
    x_ptr,
    scale_ptr,
    out_ptr,
    rows,
    columns,
    steps,
    BLOCK: gl.constexpr,
    SOURCE: gl.constexpr,
    DESTINATION: gl.constexpr,
):
    """out = (x * scale of its row)^T for some tiles below each other, f16 x [rows, columns]."""
    across = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, SOURCE))
    stored_across = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, DESTINATION))
    for step in range(steps):
        first = (gl.program_id(0) * steps + step) * BLOCK
        down = first + gl.arange(0, BLOCK, gl.SliceLayout(1, SOURCE))
        x = gl.load(x_ptr + down[:, None] * columns + across[None, :])
        x = (x * gl.load(scale_ptr + down)[:, None]).to(gl.float16)
        y = gl.convert_layout(x, DESTINATION)
        stored_down = first + gl.arange(0, BLOCK, gl.SliceLayout(1, DESTINATION))
        gl.store(out_ptr + stored_across[None, :] * rows + stored_down[:, None], y)


@gluon.jit
def row_norms(
    x_ptr,
    out_ptr,
    columns,
    steps,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SOURCE: gl.constexpr,
    STORED: gl.constexpr,
):
    """Squares summed over each row of f16 x; the sums are converted and stored from a layout of vectors."""
    across = gl.arange(0, BLOCK_N, gl.SliceLayout(0, SOURCE))
    for step in range(steps):
        first = (gl.program_id(0) * steps + step) * BLOCK_M
        down = first + gl.arange(0, BLOCK_M, gl.SliceLayout(1, SOURCE))
        total = gl.zeros([BLOCK_M], gl.float32, gl.SliceLayout(1, SOURCE))
        for start in range(0, columns, BLOCK_N):
            x = gl.load(x_ptr + down[:, None] * columns + (start + across)[None, :]).to(gl.float32)
            total += gl.sum(x * x, 1)
        gl.store(out_ptr + first + gl.arange(0, BLOCK_M, STORED), gl.convert_layout(total, STORED))


@gluon.jit
def centre_columns(
    x_ptr,
    out_ptr,
    columns,
    steps,
    BLOCK: gl.constexpr,
    SOURCE: gl.constexpr,
    INNER: gl.constexpr,
):
    """Each tile less the means of its columns, there and back through a layout that holds columns."""
    across = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, SOURCE))
    for step in range(steps):
        down = (gl.program_id(0) * steps + step) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, SOURCE))
        offsets = down[:, None] * columns + across[None, :]
        x = gl.convert_layout(gl.load(x_ptr + offsets), INNER).to(gl.float32)
        centred = x - gl.sum(x, 0)[None, :] / BLOCK
        gl.store(out_ptr + offsets, gl.convert_layout(centred.to(gl.float16), SOURCE))
