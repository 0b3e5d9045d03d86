"""Attention: of every query over every key, and over blocks of keys that a mask leaves, with changed scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import triton
import triton.language as tl

from bench.kernels.kernel import Kernel, Tensor
from triton_linear.examples.attention import attention_forward

from .kernel_case import Family, Fixed, Work, family

FAMILIES: list[Family] = []
CAP = 20.0
WINDOW = 256
"""How many tokens a query sees, itself counted, where there is a window."""
DOCUMENT = 384
"""How many tokens a document has, where each is attended to by itself."""


@triton.jit
def changed_score(score, head, query, key, KIND: tl.constexpr, CAP: tl.constexpr):
    """What becomes of a score, in the manner of FlexAttention."""
    if KIND == "alibi":
        score += tl.exp2(-0.5 * (head + 1).to(tl.float32)) * (key - query)
    elif KIND == "softcap":
        score = CAP * (1 - 2 / (tl.exp(2 * score / CAP) + 1))
    return score


@triton.jit
def visible(query, key, documents_ptr, KIND: tl.constexpr, WINDOW: tl.constexpr):
    """Which keys a query attends to."""
    seen = query >= key
    if KIND == "window":
        seen = seen & (query - key < WINDOW)
    elif KIND == "document":
        seen = seen & (tl.load(documents_ptr + query) == tl.load(documents_ptr + key))
    return seen


@triton.jit
def attend_blocks(
    top,
    total,
    accumulator,
    q,
    k_ptr,
    v_ptr,
    blocks_ptr,
    count,
    documents_ptr,
    head,
    queries,
    scale,
    BLOCK_N: tl.constexpr,
    DIM: tl.constexpr,
    KIND: tl.constexpr,
    CAP: tl.constexpr,
    WINDOW: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Go on with the online softmax over `count` blocks of keys; MASKED: not all of them are visible."""
    channels = tl.arange(0, DIM)
    for place in range(count):
        keys = tl.load(blocks_ptr + place) * BLOCK_N + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[None, :] * DIM + channels[:, None])
        scores = changed_score(tl.dot(q, k) * scale, head, queries[:, None], keys[None, :], KIND, CAP)
        scores *= 1.4426950408889634
        if MASKED:
            seen = visible(queries[:, None], keys[None, :], documents_ptr, KIND, WINDOW)
            scores = tl.where(seen, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        # Of a row that has seen no key yet the maximum is -inf, and differences to it would be NaN.
        level = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights = tl.exp2(scores - level[:, None])
        correction = tl.exp2(top - level)
        total = total * correction + tl.sum(weights, 1)
        v = tl.load(v_ptr + keys[:, None] * DIM + channels[None, :])
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * correction[:, None])
        top = new_top
    return top, total, accumulator


@triton.jit
def flex_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    partial_ptr,
    partial_counts_ptr,
    full_ptr,
    full_counts_ptr,
    documents_ptr,
    out_ptr,
    lse_ptr,
    heads,
    shared_by,
    length,
    blocks,
    SCALE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DIM: tl.constexpr,
    KIND: tl.constexpr,
    CAP: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """BLOCK_M queries of one head over the blocks of keys that are listed for them.

    q and out are [batch, heads, length, DIM], k and v have one head for `shared_by` of those. `partial` and
    `full` list, for each block of queries, the blocks of keys seen in part and wholly: [blocks of queries,
    blocks], of which the first `counts` count.
    """
    tile = tl.program_id(0)
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    queries = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    channels = tl.arange(0, DIM)
    q_base = (batch * heads + head) * length * DIM
    kv_base = (batch * (heads // shared_by) + head // shared_by) * length * DIM
    q = tl.load(q_ptr + q_base + queries[:, None] * DIM + channels[None, :])
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    accumulator = tl.zeros((BLOCK_M, DIM), tl.float32)
    top, total, accumulator = attend_blocks(
        top,
        total,
        accumulator,
        q,
        k_ptr + kv_base,
        v_ptr + kv_base,
        full_ptr + tile * blocks,
        tl.load(full_counts_ptr + tile),
        documents_ptr,
        head,
        queries,
        SCALE,
        BLOCK_N,
        DIM,
        KIND,
        CAP,
        WINDOW,
        False,
    )
    top, total, accumulator = attend_blocks(
        top,
        total,
        accumulator,
        q,
        k_ptr + kv_base,
        v_ptr + kv_base,
        partial_ptr + tile * blocks,
        tl.load(partial_counts_ptr + tile),
        documents_ptr,
        head,
        queries,
        SCALE,
        BLOCK_N,
        DIM,
        KIND,
        CAP,
        WINDOW,
        True,
    )
    out = accumulator / total[:, None]
    tl.store(out_ptr + q_base + queries[:, None] * DIM + channels[None, :], out.to(out_ptr.dtype.element_ty))
    lse = (top + tl.log2(total)) * 0.6931471805599453
    tl.store(lse_ptr + (batch * heads + head) * length + queries, lse)


def _block_lists(kind: str, length: int, block_m: int, block_n: int) -> tuple[list[list[int]], list[list[int]]]:
    """(blocks of keys seen in part, blocks seen wholly), for each block of queries."""
    query, key = np.arange(length)[:, None], np.arange(length)[None, :]
    seen = query >= key
    if kind == "window":
        seen &= query - key < WINDOW
    elif kind == "document":
        seen &= query // DOCUMENT == key // DOCUMENT
    tiles = seen.reshape(length // block_m, block_m, length // block_n, block_n)
    some, every = tiles.any((1, 3)), tiles.all((1, 3))
    return _places(some & ~every), _places(every)


def _places(chosen: np.ndarray[Any, Any]) -> list[list[int]]:
    return [[int(place) for place in np.flatnonzero(row)] for row in chosen]


def _table(name: str, lists: list[list[int]], blocks: int) -> dict[str, Tensor]:
    padded = tuple(value for row in lists for value in row + [0] * (blocks - len(row)))
    return {
        f"{name}_ptr": Fixed("int32", (len(lists), blocks), values=padded),
        f"{name}_counts_ptr": Fixed("int32", (len(lists),), values=tuple(map(len, lists))),
    }


@family(
    FAMILIES,
    {"batch": 4, "heads": 16, "length": 512, "dim": 64},
    {"batch": 4, "heads": 16, "length": 2048, "dim": 64},
    {"batch": 1, "heads": 16, "length": 4096, "dim": 64},
    {"batch": 2, "heads": 16, "length": 2048, "dim": 128},
    small={"batch": 2, "heads": 2, "length": 48, "dim": 16, "blocks": (16, 16, 4, 1)},
)
def template_attention(
    batch: int, heads: int, length: int, dim: int, blocks: tuple[int, int, int, int] | None = None
) -> Work:
    """f16, every query over every key."""
    block_m, block_n, warps, stages = blocks or ((128, 64, 4, 3) if dim <= 64 else (128, 64, 8, 3))
    shape = (batch, heads, length, dim)

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        scores = given["q_ptr"] @ given["k_ptr"].mT * dim**-0.5
        return {"out_ptr": scores.softmax(-1) @ given["v_ptr"], "lse_ptr": scores.logsumexp(-1)}

    strides = {"stride_batch": heads * length * dim, "stride_head": length * dim, "stride_token": dim}
    kernel = Kernel(
        attention_forward,
        {name: Tensor("float16", shape) for name in ("q_ptr", "k_ptr", "v_ptr")},
        {"out_ptr": Tensor("float16", shape), "lse_ptr": Tensor("float32", shape[:3])},
        (-(-length // block_m), batch * heads),
        {"scale": dim**-0.5, "heads": heads, "length": length, **strides},
        {"BLOCK_M": block_m, "BLOCK_N": block_n, "HEAD_DIM": dim, "CAUSAL": False},
        {"num_warps": warps, "num_stages": stages},
    )
    return Work([kernel], reference, 5e-3)


@family(
    FAMILIES,
    {"kind": "causal", "batch": 4, "heads": 16, "length": 1024, "dim": 64},
    {"kind": "alibi", "batch": 2, "heads": 16, "length": 2048, "dim": 128},
    {"kind": "softcap", "batch": 2, "heads": 16, "length": 2048, "dim": 64},
    {"kind": "window", "batch": 1, "heads": 32, "length": 4096, "dim": 128},
    {"kind": "document", "batch": 2, "heads": 16, "length": 3072, "dim": 64},
    small={"kind": "alibi", "batch": 2, "heads": 4, "length": 64, "dim": 16, "blocks": (32, 16, 4, 1)},
    also=(
        {"kind": "causal"},
        {"kind": "softcap"},
        {"kind": "window", "length": 512, "batch": 1},
        {"kind": "document", "length": 768, "batch": 1, "blocks": (128, 64, 4, 1)},
    ),
)
def flex_attention(
    kind: str,
    batch: int,
    heads: int,
    length: int,
    dim: int,
    shared_by: int = 4,
    blocks: tuple[int, int, int, int] | None = None,
) -> Work:
    """f16, causal, with one head of keys and values for four of queries, and blocks of keys that are listed."""
    block_m, block_n, warps, stages = blocks or ((128, 64, 4, 3) if dim <= 64 else (128, 64, 8, 3))
    partial, full = _block_lists(kind, length, block_m, block_n)
    most = length // block_n
    queries, keys = (batch, heads, length, dim), (batch, heads // shared_by, length, dim)

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        device = given["q_ptr"].device
        place = torch.arange(length, device=device)
        query, key = place[:, None], place[None, :]
        seen = query >= key
        if kind == "window":
            seen &= query - key < WINDOW
        if kind == "document":
            seen &= query // DOCUMENT == key // DOCUMENT
        k, v = (given[name].repeat_interleave(shared_by, 1) for name in ("k_ptr", "v_ptr"))
        scores = given["q_ptr"] @ k.mT * dim**-0.5
        if kind == "alibi":
            slopes = torch.exp2(-0.5 * (torch.arange(heads, device=device) + 1).double())
            scores += slopes[:, None, None] * (key - query)
        if kind == "softcap":
            scores = CAP * torch.tanh(scores / CAP)
        scores = scores.masked_fill(~seen, -math.inf)
        return {"out_ptr": scores.softmax(-1) @ v, "lse_ptr": scores.logsumexp(-1)}

    kernel = Kernel(
        flex_attention_kernel,
        {
            "q_ptr": Tensor("float16", queries),
            "k_ptr": Tensor("float16", keys),
            "v_ptr": Tensor("float16", keys),
            **_table("partial", partial, most),
            **_table("full", full, most),
            "documents_ptr": Fixed("int32", (length,), values=tuple(t // DOCUMENT for t in range(length))),
        },
        {"out_ptr": Tensor("float16", queries), "lse_ptr": Tensor("float32", queries[:3])},
        (length // block_m, batch * heads),
        {"heads": heads, "shared_by": shared_by, "length": length, "blocks": most},
        {
            "SCALE": dim**-0.5,
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "DIM": dim,
            "KIND": kind,
            "CAP": CAP,
            "WINDOW": WINDOW,
        },
        {"num_warps": warps, "num_stages": stages},
    )
    return Work([kernel], reference, 5e-3)
