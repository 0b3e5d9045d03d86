"""Flash attention, forward: softmax(q k^T / sqrt(d)) v without ever storing the scores; causal on request."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from triton_linear.examples.spec import KernelSpec, Problem


@triton.jit
def attention_forward(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    scale,
    heads,
    length,
    stride_batch,
    stride_head,
    stride_token,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """BLOCK_M queries of one head against all keys, with the running maximum and sum of the online softmax.

    `q`, `k`, `v` and `out` are [batch, heads, length, HEAD_DIM] with the same strides, the last one 1; `lse`
    is [batch, heads, length] and takes the natural logarithm of the softmax's sum, for a backward pass.
    """
    tile = tl.program_id(0)
    head = tl.program_id(1)
    base = (head // heads) * stride_batch + (head % heads) * stride_head
    queries = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    keys = tl.arange(0, BLOCK_N)
    channels = tl.arange(0, HEAD_DIM)
    query_ok = queries < length
    q = tl.load(
        q_ptr + base + queries[:, None] * stride_token + channels[None, :], mask=query_ok[:, None], other=0.0
    )
    k_tile = k_ptr + base + channels[:, None] + keys[None, :] * stride_token
    v_tile = v_ptr + base + keys[:, None] * stride_token + channels[None, :]

    # exp(x) is computed as exp2(x / ln 2).
    exponent_scale = scale * 1.4426950408889634
    running_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_M,), tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    end = min((tile + 1) * BLOCK_M, length) if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        key_ok = start + keys < length
        k = tl.load(k_tile, mask=key_ok[None, :], other=0.0)
        scores = tl.dot(q, k) * exponent_scale
        visible = key_ok[None, :]
        if CAUSAL:
            visible = visible & (queries[:, None] >= (start + keys)[None, :])
        scores = tl.where(visible, scores, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        weights = tl.exp2(scores - new_max[:, None])
        correction = tl.exp2(running_max - new_max)
        running_sum = running_sum * correction + tl.sum(weights, 1)
        v = tl.load(v_tile, mask=key_ok[:, None], other=0.0)
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * correction[:, None])
        running_max = new_max
        k_tile += BLOCK_N * stride_token
        v_tile += BLOCK_N * stride_token

    out = accumulator / running_sum[:, None]
    tl.store(
        out_ptr + base + queries[:, None] * stride_token + channels[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=query_ok[:, None],
    )
    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453
    tl.store(lse_ptr + head * length + queries, lse, mask=query_ok)


def blocks(target: GPUTarget, head_dim: int, causal: bool) -> tuple[dict[str, int | bool], dict[str, int]]:
    """Tile sizes and launch options that suit a target's registers and shared memory."""
    shape: dict[str, int | bool] = {"HEAD_DIM": head_dim, "CAUSAL": causal}
    if target.backend == "hip":
        return {"BLOCK_M": 128, "BLOCK_N": 64} | shape, {"num_warps": 4, "num_stages": 1}
    if target.arch >= 90:
        return {"BLOCK_M": 128, "BLOCK_N": 64} | shape, {"num_warps": 4, "num_stages": 3}
    return {"BLOCK_M": 128, "BLOCK_N": 32} | shape, {"num_warps": 4, "num_stages": 2}


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """The causal kernel for f16 heads of 64 channels."""
    constants, options = blocks(target, head_dim=64, causal=True)
    pointers = ("q_ptr", "k_ptr", "v_ptr", "out_ptr")
    integers = ("heads", "length", "stride_batch", "stride_head", "stride_token")
    signature = (
        dict.fromkeys(pointers, "*fp16")
        | {"lse_ptr": "*fp32", "scale": "fp32"}
        | dict.fromkeys(integers, "i32")
    )
    aligned = (*pointers, "lse_ptr", "length", "stride_batch", "stride_head", "stride_token")
    return (KernelSpec("attention", attention_forward, signature, constants, aligned, options),)


def attention(q: Any, k: Any, v: Any, target: GPUTarget, causal: bool = True) -> tuple[Any, Any]:
    """Attention over [batch, heads, length, head_dim], all of equal strides; and the scores' log-sum-exp."""
    import torch

    batch, heads, length, head_dim = q.shape
    out = torch.empty_like(q)
    lse = torch.empty(batch, heads, length, device=q.device, dtype=torch.float32)
    constants, options = blocks(target, head_dim, causal)
    grid = (triton.cdiv(length, constants["BLOCK_M"]), batch * heads)
    attention_forward[grid](
        q, k, v, out, lse, head_dim**-0.5, heads, length, *q.stride()[:3], **constants, **options
    )
    return out, lse


def problem(device: str, target: GPUTarget, batch: int = 4, heads: int = 16, length: int = 1024) -> Problem:
    """Causal attention with heads of 64 channels on random input."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    shape = (3, batch, heads, length, 64)
    q, k, v = torch.randn(shape, device=device, dtype=torch.float16, generator=generator).unbind(0)

    def launch() -> dict[str, Any]:
        out, lse = attention(q, k, v, target)
        return {"out": out, "lse": lse}

    def reference() -> dict[str, Any]:
        scores = (q.float() @ k.float().mT) * 64**-0.5
        hidden = torch.ones(length, length, device=device, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
        return {"out": scores.softmax(-1) @ v.float(), "lse": scores.logsumexp(-1)}

    return Problem("attention", launch, reference)
