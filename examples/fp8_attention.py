"""Flash attention, forward, with operands of eight bits and a scale for each: softmax(q k^T / sqrt(d)) v."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from triton_linear.examples.spec import KernelSpec, Problem


@triton.jit
def fp8_attention_forward(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    v_scale,
    length,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """BLOCK_M queries of one head against all keys, with the running maximum and sum of the online softmax.

    `q`, `k` and `out` are [heads, length, HEAD_DIM] and `v` is [heads, HEAD_DIM, length], all contiguous:
    tensor cores want operands of eight bits along the axis that is summed over. `scale` is 1 / sqrt(HEAD_DIM)
    times the scales of q and k. `length` is a multiple of BLOCK_N.
    """
    head = tl.program_id(1).to(tl.int64) * length * HEAD_DIM
    queries = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    keys = tl.arange(0, BLOCK_N)
    channels = tl.arange(0, HEAD_DIM)
    query_ok = queries < length
    rows = head + queries[:, None] * HEAD_DIM + channels[None, :]
    q = tl.load(q_ptr + rows, mask=query_ok[:, None], other=0.0)
    k_tile = k_ptr + head + channels[:, None] + keys[None, :] * HEAD_DIM
    v_tile = v_ptr + head + keys[:, None] + channels[None, :] * length

    # exp(x) is computed as exp2(x / ln 2).
    exponent_scale = scale * 1.4426950408889634
    running_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_M,), tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for _ in range(0, length, BLOCK_N):
        k = tl.load(k_tile)
        scores = tl.dot(q, k) * exponent_scale
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        # Weights up to 2^7 use more of the range of eight bits than those up to 1; the sum takes it back.
        weights = tl.exp2(scores - (new_max - 7.0)[:, None])
        correction = tl.exp2(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, 1)
        v = tl.load(v_tile)
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * correction[:, None])
        running_max = new_max
        k_tile += BLOCK_N * HEAD_DIM
        v_tile += BLOCK_N

    out = accumulator * (v_scale / running_sum)[:, None]
    tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty), mask=query_ok[:, None])


def operands(target: GPUTarget) -> tuple[str, str]:
    """The type of q, k, v and the weights that a target computes with, as Triton and as PyTorch call it."""
    if target.backend == "hip":
        return ("fp8e4b8", "float8_e4m3fnuz") if target.arch == "gfx942" else ("fp8e4nv", "float8_e4m3fn")
    return ("fp8e4nv", "float8_e4m3fn") if target.arch >= 89 else ("fp8e5", "float8_e5m2")


def blocks(target: GPUTarget, head_dim: int) -> tuple[dict[str, int], dict[str, int]]:
    """Tile sizes and launch options that suit a target's registers and shared memory."""
    constants = {"BLOCK_M": 128, "BLOCK_N": 64, "HEAD_DIM": head_dim}
    if target.backend == "hip":
        return constants, {"num_warps": 4, "num_stages": 1}
    return constants, {"num_warps": 8, "num_stages": 3 if target.arch >= 90 else 2}


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """The kernel for heads of 128 channels and a result in f16."""
    constants, options = blocks(target, head_dim=128)
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr"), f"*{operands(target)[0]}") | {"out_ptr": "*fp16"}
    signature = pointers | {"scale": "fp32", "v_scale": "fp32", "length": "i32"}
    aligned = (*pointers, "length")
    return (KernelSpec("fp8_attention", fp8_attention_forward, signature, constants, aligned, options),)


def fp8_attention(q: Any, k: Any, v: Any, scales: tuple[float, float, float], target: GPUTarget) -> Any:
    """Attention over `q` and `k` [heads, length, head_dim] and `v` [heads, head_dim, length], in f16.

    `scales` are what the elements of q, k and v are multiplied by.
    """
    import torch

    heads, length, head_dim = q.shape
    constants, options = blocks(target, head_dim)
    if length % constants["BLOCK_N"]:
        raise ValueError(f"fp8_attention: length {length} is not a multiple of {constants['BLOCK_N']}")
    out = torch.empty(q.shape, device=q.device, dtype=torch.float16)
    grid = (triton.cdiv(length, constants["BLOCK_M"]), heads)
    scale = scales[0] * scales[1] * head_dim**-0.5
    fp8_attention_forward[grid](q, k, v, out, scale, scales[2], length, **constants, **options)
    return out


def problem(
    device: str, target: GPUTarget, heads: int = 64, length: int = 1024, head_dim: int = 128
) -> Problem:
    """Attention on random input; the reference sees the same rounded q, k and v, but rounds no weight."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    kind = getattr(torch, operands(target)[1])
    scales = (0.5, 0.25, 0.125)

    def random(*shape: int) -> Any:
        return torch.randn(shape, device=device, generator=generator)

    q, k = ((random(heads, length, head_dim) / scale).to(kind) for scale in scales[:2])
    v = (random(heads, head_dim, length) / scales[2]).to(kind)

    def reference() -> dict[str, Any]:
        scores = (q.float() @ k.float().mT) * (scales[0] * scales[1] * head_dim**-0.5)
        return {"out": scores.softmax(-1) @ v.float().mT * scales[2]}

    def launch() -> dict[str, Any]:
        return {"out": fp8_attention(q, k, v, scales, target)}

    return Problem("fp8_attention", launch, reference, tolerance=8e-2)
