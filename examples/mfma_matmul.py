"""out = a @ b in Gluon on the matrix cores of CDNA GPUs, with every layout written by hand.

Each tile is loaded in a blocked layout that suits the memory, and converted to operands of the mfma
instructions. Their result is converted to a blocked layout again, so that whole rows are stored.
"""

from __future__ import annotations

from typing import Any

import triton.experimental.gluon.language as gl
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon

from triton_linear.examples.spec import KernelSpec, Problem

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 64
WARPS = 4
INSTRUCTIONS = {"gfx90a": (2, [32, 32, 8], 4), "gfx942": (3, [32, 32, 8], 4), "gfx950": (4, [32, 32, 16], 8)}
"""The version of mfma, the instruction for 16-bit floats, and the consecutive elements of K that a lane
holds."""


@gluon.jit
def mfma_matmul_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    k,
    stride_am,
    stride_bk,
    stride_om,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    LOAD_A: gl.constexpr,
    LOAD_B: gl.constexpr,
    MFMA: gl.constexpr,
    K_WIDTH: gl.constexpr,
    STORE: gl.constexpr,
):
    """One BLOCK_M x BLOCK_N tile; all sizes are multiples of the blocks."""
    first_row, first_column = gl.program_id(0) * BLOCK_M, gl.program_id(1) * BLOCK_N
    left: gl.constexpr = gl.DotOperandLayout(0, MFMA, K_WIDTH)
    right: gl.constexpr = gl.DotOperandLayout(1, MFMA, K_WIDTH)

    a_rows = first_row + gl.arange(0, BLOCK_M, gl.SliceLayout(1, LOAD_A))
    a_inner = gl.arange(0, BLOCK_K, gl.SliceLayout(0, LOAD_A))
    b_inner = gl.arange(0, BLOCK_K, gl.SliceLayout(1, LOAD_B))
    b_columns = first_column + gl.arange(0, BLOCK_N, gl.SliceLayout(0, LOAD_B))
    a = a_ptr + a_rows[:, None] * stride_am + a_inner[None, :]
    b = b_ptr + b_inner[:, None] * stride_bk + b_columns[None, :]

    accumulator = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, MFMA)
    for _ in range(0, k, BLOCK_K):
        a_tile = gl.convert_layout(gl.load(a), left)
        b_tile = gl.convert_layout(gl.load(b), right)
        accumulator = gl.amd.cdna3.mfma(a_tile, b_tile, accumulator)
        a += BLOCK_K
        b += BLOCK_K * stride_bk

    out = gl.convert_layout(accumulator.to(out_ptr.dtype.element_ty), STORE)
    rows = first_row + gl.arange(0, BLOCK_M, gl.SliceLayout(1, STORE))
    columns = first_column + gl.arange(0, BLOCK_N, gl.SliceLayout(0, STORE))
    gl.store(out_ptr + rows[:, None] * stride_om + columns[None, :], out)


def constants(target: GPUTarget) -> dict[str, Any]:
    """The blocks, layouts with memory accesses of 16 bytes per lane, and the layouts of the target's
    instruction.

    Requires: `target` is a CDNA GPU of `INSTRUCTIONS`.
    """
    version, instruction, k_width = INSTRUCTIONS[target.arch]
    return {
        "BLOCK_M": BLOCK_M,
        "BLOCK_N": BLOCK_N,
        "BLOCK_K": BLOCK_K,
        "LOAD_A": gl.BlockedLayout([1, 8], [8, 8], [WARPS, 1], [1, 0]),
        "LOAD_B": gl.BlockedLayout([1, 8], [4, 16], [WARPS, 1], [1, 0]),
        "MFMA": gl.amd.AMDMFMALayout(version, instruction, transposed=True, warps_per_cta=[2, 2]),
        "K_WIDTH": k_width,
        "STORE": gl.BlockedLayout([1, 8], [4, 16], [WARPS, 1], [1, 0]),
    }


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """The kernel for f16 matrices; none for GPUs without mfma."""
    if target.arch not in INSTRUCTIONS:
        return ()
    pointers, integers = ("a_ptr", "b_ptr", "out_ptr"), ("k", "stride_am", "stride_bk", "stride_om")
    signature = dict.fromkeys(pointers, "*fp16") | dict.fromkeys(integers, "i32")
    aligned = pointers + integers
    options = {"num_warps": WARPS}
    return (KernelSpec("mfma_matmul", mfma_matmul_kernel, signature, constants(target), aligned, options),)


def matmul(a: Any, b: Any, target: GPUTarget) -> Any:
    """a @ b of f16 matrices, row-major: `a` [m, k], `b` [k, n], sizes multiples of the blocks."""
    import torch

    (m, k), n = a.shape, b.shape[1]
    if m % BLOCK_M or n % BLOCK_N or k % BLOCK_K:
        raise ValueError(f"matmul: [{m}, {k}] @ [{k}, {n}] are not whole blocks")
    out = torch.empty(m, n, device=a.device, dtype=a.dtype)
    mfma_matmul_kernel[m // BLOCK_M, n // BLOCK_N](
        a, b, out, k, a.stride(0), b.stride(0), out.stride(0), **constants(target), num_warps=WARPS
    )
    return out


def problem(device: str, target: GPUTarget, m: int = 2048, n: int = 2048, k: int = 1024) -> Problem:
    """A matmul of the given sizes on random input."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    a = torch.randn(m, k, device=device, dtype=torch.float16, generator=generator)
    b = torch.randn(k, n, device=device, dtype=torch.float16, generator=generator) / k**0.5

    def reference() -> dict[str, Any]:
        return {"out": a.float() @ b.float()}

    return Problem("mfma_matmul", lambda: {"out": matmul(a, b, target)}, reference)
