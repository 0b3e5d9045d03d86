"""Warp-specialised matmul and attention in Triton: loops with `warp_specialize=True`.

From Hopper on, in kernels of four warps, Triton assigns the loads of such a loop to one partition and the
dots to others. The operations after the dots, such as epilogues and their conversions, run in the partition of
the dots. On Hopper Triton 3.9 splits 128 rows between two partitions, and `tl.store` then writes wrong results;
these kernels have 64 rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from triton_linear.examples.spec import KernelSpec, Problem

CAPABILITY = 90
"""Triton specialises loops from this compute capability on."""
TILES = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}
HEAD_DIM = 64
BLOCKS = {"BLOCK_M": 64, "BLOCK_N": 64, "HEAD_DIM": HEAD_DIM}
OPTIONS = {"num_warps": 4, "num_stages": 2}


@triton.jit
def specialised_matmul(
    a_ptr,
    b_ptr,
    bias_ptr,
    out_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """out = max(a b^T + bias, 0) of f16 `a` [m, k] and `b` [n, k]; each program has tiles of its own."""
    a_tiles = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [n, k], [k, 1], [BLOCK_N, BLOCK_K])
    across = tl.cdiv(n, BLOCK_N)
    tiles = tl.cdiv(m, BLOCK_M) * across
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=True):
        row = tile // across * BLOCK_M
        column = tile % across * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, k, BLOCK_K):
            a = a_tiles.load([row, start])
            b = b_tiles.load([column, start])
            accumulator = tl.dot(a, b.T, accumulator)
        rows = row + tl.arange(0, BLOCK_M)
        columns = column + tl.arange(0, BLOCK_N)
        bias = tl.load(bias_ptr + columns, mask=columns < n, other=0.0)
        out = tl.maximum(accumulator + bias[None, :], 0.0).to(out_ptr.dtype.element_ty)
        inside = (rows < m)[:, None] & (columns < n)[None, :]
        tl.store(out_ptr + rows[:, None] * n + columns[None, :], out, mask=inside)


@triton.jit
def specialised_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    scale,
    length,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """softmax(q k^T scale) v of f16 [heads, length, HEAD_DIM], and the logarithm of its sums to base 2.

    `length` is a multiple of both blocks.
    """
    first = tl.program_id(1) * length
    total = tl.num_programs(1) * length
    q_tiles = tl.make_tensor_descriptor(q_ptr, [total, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_tiles = tl.make_tensor_descriptor(k_ptr, [total, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_tiles = tl.make_tensor_descriptor(v_ptr, [total, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    row = first + tl.program_id(0) * BLOCK_M
    q = q_tiles.load([row, 0])
    running_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_M,), tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for start in tl.range(0, length, BLOCK_N, warp_specialize=True):
        k = k_tiles.load([first + start, 0])
        # exp(x) is computed as exp2(x / ln 2).
        scores = tl.dot(q, k.T) * (scale * 1.4426950408889634)
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        weights = tl.exp2(scores - new_max[:, None])
        correction = tl.exp2(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, 1)
        v = v_tiles.load([first + start, 0])
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * correction[:, None])
        running_max = new_max
    rows = row + tl.arange(0, BLOCK_M)
    channels = tl.arange(0, HEAD_DIM)
    out = accumulator / running_sum[:, None]
    tl.store(out_ptr + rows[:, None] * HEAD_DIM + channels[None, :], out.to(out_ptr.dtype.element_ty))
    tl.store(lse_ptr + rows, running_max + tl.log2(running_sum))


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """Both kernels; none for GPUs on which Triton does not specialise loops."""
    if target.backend != "cuda" or target.arch < CAPABILITY:
        return ()
    matrices = {"a_ptr": "*fp16", "b_ptr": "*fp16", "bias_ptr": "*fp32", "out_ptr": "*fp16"}
    heads = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), "*fp16") | {"lse_ptr": "*fp32"}
    sizes = dict.fromkeys("mnk", "i32")
    return (
        KernelSpec(
            "specialised_matmul", specialised_matmul, matrices | sizes, TILES, (*matrices, *sizes), OPTIONS
        ),
        KernelSpec(
            "specialised_attention",
            specialised_attention,
            heads | {"scale": "fp32", "length": "i32"},
            BLOCKS,
            (*heads, "length"),
            OPTIONS,
        ),
    )


def descriptors_on(device: str) -> None:
    """Let Triton allocate the descriptors that kernels make in `device`'s memory."""
    import torch

    def allocate(size: int, alignment: int, stream: int | None) -> Any:
        return torch.empty(size, device=device, dtype=torch.int8)

    triton.set_allocator(allocate)


def matmul_problem(
    name: str, kernel: Any, options: Mapping[str, Any], device: str, m: int = 4096, n: int = 4096, k: int = 512
) -> Problem:
    """A matmul by a persistent kernel, with few iterations per tile, so that epilogues dominate the time."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, k, device=device, generator=generator).half() for size in (m, n))
    bias = torch.randn(n, device=device, generator=generator)
    programs = torch.cuda.get_device_properties(device).multi_processor_count
    descriptors_on(device)

    def launch() -> dict[str, Any]:
        out = torch.empty(m, n, device=device, dtype=torch.float16)
        kernel[(programs,)](a, b, bias, out, m, n, k, **options)
        return {"out": out}

    return Problem(name, launch, lambda: {"out": (a.float() @ b.float().mT + bias).relu()})


def attention_problem(device: str, heads: int = 64, length: int = 1024) -> Problem:
    """Attention of random f16."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    shape = (3, heads, length, HEAD_DIM)
    q, k, v = torch.randn(shape, device=device, generator=generator).half().unbind(0)
    scale = HEAD_DIM**-0.5
    descriptors_on(device)

    def launch() -> dict[str, Any]:
        out = torch.empty_like(q)
        lse = torch.empty(heads, length, device=device)
        grid = (length // BLOCKS["BLOCK_M"], heads)
        specialised_attention[grid](q, k, v, out, lse, scale, length, **BLOCKS, **OPTIONS)
        return {"out": out, "lse": lse}

    return Problem("attention", launch, lambda: attention_reference(q, k, v, scale))


def attention_reference(q: Any, k: Any, v: Any, scale: float) -> dict[str, Any]:
    """The attention computed by PyTorch in f32."""
    scores = (q.float() @ k.float().mT) * scale
    return {"out": scores.softmax(-1) @ v.float(), "lse": scores.logsumexp(-1) * math.log2(math.e)}


def problems(device: str) -> tuple[Problem, ...]:
    """Both kernels on a GPU against PyTorch."""
    matmul = matmul_problem("matmul", specialised_matmul, {**TILES, **OPTIONS}, device)
    return matmul, attention_problem(device)
