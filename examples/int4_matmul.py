"""out = a @ dequantise(w), for weights of four bits with a scale per group of rows and column."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from triton_linear.examples.spec import KernelSpec, Problem


@triton.jit
def int4_matmul_kernel(
    a_ptr,
    packed_ptr,
    scale_ptr,
    out_ptr,
    m,
    n,
    k,
    stride_am,
    stride_packed,
    stride_scale,
    stride_om,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One BLOCK_M x BLOCK_N tile of the result.

    A byte of `packed` [k / 2, n] holds the signed weights of rows 2i (low nibble) and 2i + 1 (high nibble).
    `scale` is [k / GROUP, n], and a step of BLOCK_K rows lies within one group. `k` is a multiple of BLOCK_K.
    """
    tl.static_assert(GROUP % BLOCK_K == 0, "a step must lie within one group of rows")
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    pairs = tl.arange(0, BLOCK_K // 2)
    row_ok = rows < m
    column_ok = columns < n
    a = a_ptr + rows[:, None] * stride_am + inner[None, :]
    packed = packed_ptr + pairs[:, None] * stride_packed + columns[None, :]

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        a_tile = tl.load(a, mask=row_ok[:, None], other=0.0)
        byte = tl.load(packed, mask=column_ok[None, :], other=0)
        scale = tl.load(scale_ptr + (start // GROUP) * stride_scale + columns, mask=column_ok, other=0.0)
        low = (byte << 4) >> 4
        high = byte >> 4
        weights = tl.join(low, high).permute(0, 2, 1).reshape(BLOCK_K, BLOCK_N)
        weights = weights.to(a_tile.dtype) * scale[None, :]
        accumulator = tl.dot(a_tile, weights, accumulator)
        a += BLOCK_K
        packed += (BLOCK_K // 2) * stride_packed

    offsets = rows[:, None] * stride_om + columns[None, :]
    inside = row_ok[:, None] & column_ok[None, :]
    tl.store(out_ptr + offsets, accumulator.to(out_ptr.dtype.element_ty), mask=inside)


def blocks(target: GPUTarget) -> tuple[dict[str, int], dict[str, int]]:
    """Tile sizes and launch options that suit a target's registers and shared memory."""
    constants = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 128}
    return constants, {"num_warps": 4, "num_stages": 2 if target.backend == "hip" else 3}


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """The kernel for f16 activations."""
    constants, options = blocks(target)
    pointers = {"a_ptr": "*fp16", "packed_ptr": "*i8", "scale_ptr": "*fp16", "out_ptr": "*fp16"}
    integers = ("m", "n", "k", "stride_am", "stride_packed", "stride_scale", "stride_om")
    signature = pointers | dict.fromkeys(integers, "i32")
    return (KernelSpec("int4_matmul", int4_matmul_kernel, signature, constants, tuple(signature), options),)


def pack(weights: Any) -> Any:
    """Signed four-bit values [k, n], each in -8..7, as bytes [k / 2, n]: even rows in the low nibble."""
    return ((weights[0::2] & 15) | (weights[1::2] << 4)).contiguous()


def int4_matmul(a: Any, packed: Any, scale: Any, target: GPUTarget) -> Any:
    """a [m, k] times the weights in `packed` [k / 2, n] (see `pack`), each scaled by `scale` [k / 128, n]."""
    import torch

    m, k = a.shape
    n = packed.shape[1]
    constants, options = blocks(target)
    if k % constants["GROUP"]:
        raise ValueError(f"int4_matmul: k = {k} is not a multiple of the group size {constants['GROUP']}")
    out = torch.empty(m, n, device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(m, constants["BLOCK_M"]), triton.cdiv(n, constants["BLOCK_N"]))
    int4_matmul_kernel[grid](
        a,
        packed,
        scale,
        out,
        m,
        n,
        k,
        a.stride(0),
        packed.stride(0),
        scale.stride(0),
        out.stride(0),
        **constants,
        **options,
    )
    return out


def problem(device: str, target: GPUTarget, m: int = 1024, n: int = 2048, k: int = 2048) -> Problem:
    """A layer of the given sizes on random weights."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    a = torch.randn(m, k, device=device, dtype=torch.float16, generator=generator)
    weights = torch.randint(-8, 8, (k, n), device=device, dtype=torch.int8, generator=generator)
    scale = torch.rand(k // 128, n, device=device, dtype=torch.float16, generator=generator) / k**0.5
    packed = pack(weights)

    def reference() -> dict[str, Any]:
        return {"out": a.float() @ (weights.float() * scale.float().repeat_interleave(128, 0))}

    return Problem("int4_matmul", lambda: {"out": int4_matmul(a, packed, scale, target)}, reference)
