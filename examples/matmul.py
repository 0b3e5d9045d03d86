"""out = gelu(a @ b + bias) + residual, the feed-forward layer of a transformer in one kernel."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from triton_linear.examples.spec import KernelSpec, Problem


@triton.jit
def gelu(x):
    """The tanh form of GELU, 0.5 x (1 + tanh(c (x + 0.044715 x^3))), as x sigmoid(2 c (...))."""
    inner = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    return x / (1.0 + tl.exp(-inner))


@triton.jit
def matmul_gelu_residual(
    a_ptr,
    b_ptr,
    bias_ptr,
    residual_ptr,
    out_ptr,
    m,
    n,
    k,
    stride_am,
    stride_bk,
    stride_om,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One BLOCK_M x BLOCK_N tile; tiles go in groups of GROUP_M rows, which share b in the L2 cache."""
    program = tl.program_id(0)
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    first = group * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    tile_m = first + (program % (GROUP_M * tiles_n)) % height
    tile_n = (program % (GROUP_M * tiles_n)) // height

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    row_ok = rows < m
    column_ok = columns < n
    a = a_ptr + rows[:, None] * stride_am + inner[None, :]
    b = b_ptr + inner[:, None] * stride_bk + columns[None, :]

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        inner_ok = inner < k - start
        a_tile = tl.load(a, mask=row_ok[:, None] & inner_ok[None, :], other=0.0)
        b_tile = tl.load(b, mask=inner_ok[:, None] & column_ok[None, :], other=0.0)
        accumulator = tl.dot(a_tile, b_tile, accumulator)
        a += BLOCK_K
        b += BLOCK_K * stride_bk

    bias = tl.load(bias_ptr + columns, mask=column_ok, other=0.0).to(tl.float32)
    offsets = rows[:, None] * stride_om + columns[None, :]
    inside = row_ok[:, None] & column_ok[None, :]
    residual = tl.load(residual_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    out = gelu(accumulator + bias[None, :]) + residual
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside)


def blocks(target: GPUTarget) -> tuple[dict[str, int], dict[str, int]]:
    """Tile sizes and launch options that suit a target's registers and shared memory."""
    deep = target.backend == "cuda" and target.arch >= 90
    constants = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64 if deep else 32, "GROUP_M": 8}
    hip = target.backend == "hip"
    return constants, {"num_warps": 4 if hip else 8, "num_stages": 2 if hip else 3}


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """The kernel for f16 matrices."""
    constants, options = blocks(target)
    pointers = ("a_ptr", "b_ptr", "bias_ptr", "residual_ptr", "out_ptr")
    integers = ("m", "n", "k", "stride_am", "stride_bk", "stride_om")
    signature = dict.fromkeys(pointers, "*fp16") | dict.fromkeys(integers, "i32")
    return (KernelSpec("matmul", matmul_gelu_residual, signature, constants, pointers + integers, options),)


def matmul(a: Any, b: Any, bias: Any, residual: Any, target: GPUTarget) -> Any:
    """gelu(a @ b + bias) + residual, row-major: `a` [m, k], `b` [k, n], `bias` [n], `residual` [m, n]."""
    import torch

    m, k = a.shape
    n = b.shape[1]
    out = torch.empty_like(residual)
    constants, options = blocks(target)
    grid = (triton.cdiv(m, constants["BLOCK_M"]) * triton.cdiv(n, constants["BLOCK_N"]),)
    matmul_gelu_residual[grid](
        a, b, bias, residual, out, m, n, k, a.stride(0), b.stride(0), out.stride(0), **constants, **options
    )
    return out


def problem(device: str, target: GPUTarget, m: int = 2048, n: int = 2048, k: int = 1024) -> Problem:
    """A layer of the given sizes on random input."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    a = torch.randn(m, k, device=device, dtype=torch.float16, generator=generator)
    b = torch.randn(k, n, device=device, dtype=torch.float16, generator=generator) / k**0.5
    bias = torch.randn(n, device=device, dtype=torch.float16, generator=generator)
    residual = torch.randn(m, n, device=device, dtype=torch.float16, generator=generator)

    def reference() -> dict[str, Any]:
        hidden = a.float() @ b.float() + bias.float()
        return {"out": torch.nn.functional.gelu(hidden, approximate="tanh") + residual.float()}

    return Problem("matmul", lambda: {"out": matmul(a, b, bias, residual, target)}, reference)
