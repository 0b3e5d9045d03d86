"""Losses over a vocabulary: cross entropy, by itself and with the layer before it, and divergences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl

from bench.kernels.kernel import Kernel, Tensor

from .kernel_case import Drawn, Family, Work, family

FAMILIES: list[Family] = []
MOST = 32768
"""The longest piece of a row that a program takes at a time."""


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, grad_ptr, rows, columns, BLOCK: tl.constexpr):
    """The loss of one row of logits, and the gradient of the mean loss."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * columns
    grad_ptr += row * columns
    target = tl.load(target_ptr + row)
    top, total = float("-inf"), 0.0
    for start in range(0, columns, BLOCK):
        here = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + here, mask=here < columns, other=float("-inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), 0)
        top = new_top
    lse = top + tl.log(total)
    tl.store(loss_ptr + row, lse - tl.load(x_ptr + target).to(tl.float32))
    for start in range(0, columns, BLOCK):
        here = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + here, mask=here < columns, other=float("-inf")).to(tl.float32)
        grad = tl.exp(x - lse)
        grad = tl.where(here == target, grad - 1, grad) / rows
        tl.store(grad_ptr + here, grad.to(grad_ptr.dtype.element_ty), mask=here < columns)


@triton.jit
def linear_lse_kernel(
    x_ptr,
    w_ptr,
    target_ptr,
    top_ptr,
    total_ptr,
    hit_ptr,
    tokens,
    hidden,
    TILES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """What the loss needs of the logits of BLOCK_M tokens for TILES blocks of BLOCK_N words.

    Logits are x w^T, for x [tokens, hidden] and w [words, hidden]. It needs the largest, the sum of
    exp(logit - largest), and the target's logit or 0.
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    inner = tl.arange(0, BLOCK_K)
    target = tl.load(target_ptr + rows)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    hit = tl.zeros((BLOCK_M,), tl.float32)
    for tile in range(TILES):
        words = (tl.program_id(1) * TILES + tile) * BLOCK_N + tl.arange(0, BLOCK_N)
        x = x_ptr + rows[:, None] * hidden + inner[None, :]
        w = w_ptr + words[None, :] * hidden + inner[:, None]
        logits = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for _ in range(0, hidden, BLOCK_K):
            logits = tl.dot(tl.load(x), tl.load(w), logits)
            x += BLOCK_K
            w += BLOCK_K
        new_top = tl.maximum(top, tl.max(logits, 1))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(logits - new_top[:, None]), 1)
        hit += tl.sum(tl.where(words[None, :] == target[:, None], logits, 0.0), 1)
        top = new_top
    place = tl.program_id(1) * tokens + rows
    tl.store(top_ptr + place, top)
    tl.store(total_ptr + place, total)
    tl.store(hit_ptr + place, hit)


@triton.jit
def combine_lse_kernel(
    top_ptr, total_ptr, hit_ptr, loss_ptr, tokens, parts, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    """The loss of BLOCK tokens from what each part of the vocabulary gave, [parts, tokens]."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, PARTS)[:, None]
    places = part * tokens + rows[None, :]
    top = tl.load(top_ptr + places, mask=part < parts, other=float("-inf"))
    best = tl.max(top, 0)
    total = tl.load(total_ptr + places, mask=part < parts, other=0.0)
    lse = best + tl.log(tl.sum(total * tl.exp(top - best[None, :]), 0))
    hit = tl.load(hit_ptr + places, mask=part < parts, other=0.0)
    tl.store(loss_ptr + rows, lse - tl.sum(hit, 0))


@triton.jit
def jsd_kernel(x_ptr, y_ptr, loss_ptr, grad_ptr, columns, BETA: tl.constexpr, BLOCK: tl.constexpr):
    """The Jensen-Shannon divergence of one row: BETA KL(P | M) + (1 - BETA) KL(Q | M).

    M is BETA P + (1 - BETA) Q, x holds log Q, y holds log P. Each term is stored, and the gradient of log Q.
    """
    row = tl.program_id(0).to(tl.int64) * columns
    for start in range(0, columns, BLOCK):
        here = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + here, mask=here < columns, other=float("-inf")).to(tl.float32)
        y = tl.load(y_ptr + row + here, mask=here < columns, other=float("-inf")).to(tl.float32)
        q, p = (1 - BETA) * tl.exp(x), BETA * tl.exp(y)
        log_m = tl.log(p + q)
        tl.store(loss_ptr + row + here, p * (y - log_m) + q * (x - log_m), mask=here < columns)
        tl.store(grad_ptr + row + here, (q * (x - log_m)).to(grad_ptr.dtype.element_ty), mask=here < columns)


@triton.jit
def kl_div_kernel(x_ptr, y_ptr, loss_ptr, columns, EPSILON: tl.constexpr, BLOCK: tl.constexpr):
    """The sum over one row of y (log y - x), x being logarithms."""
    row = tl.program_id(0).to(tl.int64)
    total = 0.0
    for start in range(0, columns, BLOCK):
        here = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + here, mask=here < columns, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + row * columns + here, mask=here < columns, other=0.0).to(tl.float32)
        total += tl.sum(y * (tl.log(tl.maximum(y, EPSILON)) - x), 0)
    tl.store(loss_ptr + row, total)


def _block(columns: int, most: int = MOST) -> int:
    return min(int(triton.next_power_of_2(columns)), most)


VOCABULARIES = (
    {"rows": 1024, "words": 4096},
    {"rows": 1024, "words": 32000},
    {"rows": 1024, "words": 128256},
    {"rows": 4096, "words": 32000},
)


@family(FAMILIES, *VOCABULARIES, small={"rows": 3, "words": 700, "block": 512})
def cross_entropy(rows: int, words: int, block: int | None = None) -> Work:
    """Of bf16 logits, a row a program, forward and backward in one."""

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x, target = given["x_ptr"], given["target_ptr"]
        here = torch.arange(rows, device=x.device)
        grad = x.softmax(-1)
        grad[here, target] -= 1
        return {"loss_ptr": x.logsumexp(-1) - x[here, target], "grad_ptr": grad / rows}

    block = block or _block(words)
    kernel = Kernel(
        cross_entropy_kernel,
        {"x_ptr": Tensor("bfloat16", (rows, words)), "target_ptr": Tensor("int64", (rows,), words, True)},
        {"loss_ptr": Tensor("float32", (rows,)), "grad_ptr": Tensor("bfloat16", (rows, words))},
        (rows,),
        {"rows": rows, "columns": words},
        {"BLOCK": block},
        {"num_warps": 32 if block >= 16384 else 8},
    )
    return Work([kernel], reference, 1e-2)


@family(
    FAMILIES,
    {"tokens": 512, "hidden": 1024, "words": 32000},
    {"tokens": 1024, "hidden": 2048, "words": 32000},
    {"tokens": 1024, "hidden": 4096, "words": 32000},
    {"tokens": 512, "hidden": 2048, "words": 128000},
    small={"tokens": 32, "hidden": 48, "words": 192, "blocks": (16, 16, 16, 4, 1), "tiles": 4},
)
def fused_linear_cross_entropy(
    tokens: int,
    hidden: int,
    words: int,
    blocks: tuple[int, int, int, int, int] = (128, 128, 64, 8, 3),
    tiles: int = 10,
) -> Work:
    """The loss of f16 tokens under a last layer, whose logits are never stored."""
    block_m, block_n, block_k, warps, stages = blocks
    if tokens % block_m or hidden % block_k or words % (block_n * tiles):
        raise ValueError(f"fused_linear_cross_entropy: {tokens} x {hidden} x {words} in blocks of {blocks}")
    parts = words // (block_n * tiles)

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        logits = given["x_ptr"] @ given["w_ptr"].mT
        hit = logits.gather(1, given["target_ptr"][:, None])[:, 0]
        return {"loss_ptr": logits.logsumexp(-1) - hit}

    partial = {name: Tensor("float32", (parts, tokens)) for name in ("top_ptr", "total_ptr", "hit_ptr")}
    share = Kernel(
        linear_lse_kernel,
        {
            "x_ptr": Tensor("float16", (tokens, hidden)),
            "w_ptr": Drawn("float16", (words, hidden), then=lambda torch, w: w / hidden**0.5),
            "target_ptr": Tensor("int64", (tokens,), words, True),
        },
        partial,
        (tokens // block_m, parts),
        {"tokens": tokens, "hidden": hidden},
        {"TILES": tiles, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k},
        {"num_warps": warps, "num_stages": stages},
    )
    combine = Kernel(
        combine_lse_kernel,
        partial,
        {"loss_ptr": Tensor("float32", (tokens,))},
        (tokens // 16,),
        {"tokens": tokens, "parts": parts},
        {"PARTS": triton.next_power_of_2(parts), "BLOCK": 16},
        {"num_warps": 4},
    )
    return Work([share, combine], reference, 1e-3)


def _log_softmax(torch: Any, x: Any) -> Any:
    return torch.log_softmax(x, -1)


def _softmax(torch: Any, x: Any) -> Any:
    return torch.softmax(x, -1)


@family(FAMILIES, *VOCABULARIES, small={"rows": 3, "words": 700, "block": 512})
def jsd(rows: int, words: int, block: int | None = None) -> Work:
    """Of f32 logarithms of probabilities, forward and backward in one."""

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x, y = given["x_ptr"], given["y_ptr"]
        middle = torch.log((x.exp() + y.exp()) / 2)
        grad = x.exp() * (x - middle) / 2
        return {"loss_ptr": y.exp() * (y - middle) / 2 + grad, "grad_ptr": grad}

    block = block or _block(words, 8192)
    kernel = Kernel(
        jsd_kernel,
        {name: Drawn("float32", (rows, words), then=_log_softmax) for name in ("x_ptr", "y_ptr")},
        {name: Tensor("float32", (rows, words)) for name in ("loss_ptr", "grad_ptr")},
        (rows,),
        {"columns": words},
        {"BETA": 0.5, "BLOCK": block},
        {"num_warps": 16 if block >= 8192 else 8},
    )
    return Work([kernel], reference, 1e-4)


@family(FAMILIES, *VOCABULARIES, small={"rows": 3, "words": 700, "block": 512})
def kl_div(rows: int, words: int, block: int | None = None) -> Work:
    """Of f32 logarithms of probabilities against probabilities, forward."""

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x, y = given["x_ptr"], given["y_ptr"]
        return {"loss_ptr": (y * (y.clamp_min(1e-10).log() - x)).sum(-1)}

    block = block or _block(words, 8192)
    kernel = Kernel(
        kl_div_kernel,
        {
            "x_ptr": Drawn("float32", (rows, words), then=_log_softmax),
            "y_ptr": Drawn("float32", (rows, words), then=_softmax),
        },
        {"loss_ptr": Tensor("float32", (rows,))},
        (rows,),
        {"columns": words},
        {"EPSILON": 1e-10, "BLOCK": block},
        {"num_warps": 16 if block >= 8192 else 8},
    )
    return Work([kernel], reference, 1e-4)
