"""out[b] = x[b].T for matrices of bytes, with global accesses of 16 bytes a thread on both sides."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from triton_linear.examples.spec import KernelSpec, Problem


@triton.jit
def transpose8_kernel(
    x_ptr,
    out_ptr,
    m,
    n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One BLOCK_M x BLOCK_N tile of one matrix: `x` is [batch, m, n], `out` [batch, n, m], both contiguous.

    A thread loads 16 neighbours of a row and stores 16 neighbours of a column, if `m` and `n` are multiples of
    16: what lies between is a change of layout.
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    matrix = tl.program_id(2).to(tl.int64) * m * n
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tile = tl.load(x_ptr + matrix + rows[:, None] * n + columns[None, :], mask=inside)
    tl.store(out_ptr + matrix + columns[None, :] * m + rows[:, None], tile, mask=inside)


def blocks() -> tuple[dict[str, int], dict[str, int]]:
    """Tile sizes and launch options for every target."""
    return {"BLOCK_M": 128, "BLOCK_N": 128}, {"num_warps": 4}


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """The kernel for signed bytes."""
    constants, options = blocks()
    signature = {"x_ptr": "*i8", "out_ptr": "*i8", "m": "i32", "n": "i32"}
    return (KernelSpec("transpose8", transpose8_kernel, signature, constants, tuple(signature), options),)


def transpose8(x: Any) -> Any:
    """The transposes of `x` [batch, m, n], of a type of one byte and contiguous."""
    import torch

    batch, m, n = x.shape
    if x.element_size() != 1 or not x.is_contiguous():
        raise ValueError(f"transpose8: {x.dtype} of strides {x.stride()} is not contiguous bytes")
    out = torch.empty(batch, n, m, device=x.device, dtype=x.dtype)
    constants, options = blocks()
    grid = (triton.cdiv(m, constants["BLOCK_M"]), triton.cdiv(n, constants["BLOCK_N"]), batch)
    transpose8_kernel[grid](x, out, m, n, **constants, **options)
    return out


def problem(device: str, target: GPUTarget, batch: int = 16, m: int = 1024, n: int = 2048) -> Problem:
    """Random bytes."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    x = torch.randint(-128, 128, (batch, m, n), device=device, dtype=torch.int8, generator=generator)
    return Problem("transpose8", lambda: {"out": transpose8(x)}, lambda: {"out": x.mT}, tolerance=1e-6)
