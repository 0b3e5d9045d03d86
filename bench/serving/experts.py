"""Layers of experts: their sizes, which tokens go to which expert, what the matmuls of a layer are given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .inputs import Inputs

FP8, INT8, INT8_WEIGHTS, INT4_WEIGHTS = "fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16"
"""How a layer is quantised, as servers say it; None: not at all."""
BLOCKS = (128, 128)
GROUPS = (0, 128)
"""Of fp8, blocks with a scale for each; of narrower weights, groups of a row."""


@dataclass(frozen=True)
class Experts:
    """Of `count` experts a token goes to `chosen`; each expert is `inner` wide, on the part of one GPU."""

    count: int
    chosen: int
    hidden: int
    inner: int

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the weights of an expert's two matmuls: to how many, from how many."""
        return (2 * self.inner, self.hidden), (self.hidden, self.inner)


QWEN3 = Experts(128, 8, 2048, 768)
"""Qwen3-30B-A3B."""
GPT_OSS = Experts(32, 4, 2880, 2880)
"""gpt-oss-20b."""
DEEPSEEK = Experts(256, 8, 7168, 256)
"""DeepSeek-V3 on eight GPUs."""
MINIMAX = Experts(256, 8, 3072, 384)
"""MiniMax-M2 on four."""
MIXTRAL = Experts(8, 2, 4096, 3584)
"""Mixtral-8x7B on four."""

BF16 = {
    "moe bf16 qwen3 decode 16": {"tokens": 16, "model": QWEN3},
    "moe bf16 qwen3 decode 256": {"tokens": 256, "model": QWEN3},
    "moe bf16 qwen3 prefill 4096": {"tokens": 4096, "model": QWEN3},
}
IN_BLOCKS = {"kind": FP8, "block": BLOCKS}
IN_FOUR_BITS = {"model": QWEN3, "kind": INT4_WEIGHTS, "block": GROUPS}
QUANTISED = {
    "moe fp8 blocks deepseek decode 64": {"tokens": 64, "model": DEEPSEEK, **IN_BLOCKS},
    "moe fp8 blocks deepseek prefill 4096": {"tokens": 4096, "model": DEEPSEEK, **IN_BLOCKS},
    "moe fp8 tensor mixtral decode 64": {"tokens": 64, "model": MIXTRAL, "kind": FP8},
}
"""Layers that both servers run."""


@dataclass(frozen=True)
class Sorted:
    """Tokens by expert: `rows` are pairs of a token and a choice, each expert's padded to whole blocks."""

    rows: Any
    experts: Any
    padded: Any


def routed(t: Inputs, tokens: int, model: Experts) -> tuple[Any, Any]:
    """Weights and numbers of the experts of each token."""
    logits = t.normal(tokens, model.count, dtype="float32")
    weights, chosen = t.torch.topk(logits.softmax(-1), model.chosen, dim=-1)
    return weights.contiguous(), chosen.to(t.torch.int32)


def aligned(t: Inputs, chosen: Any, block: int, experts: int) -> Sorted:
    """The tokens of each expert in blocks, as a server's operator of CUDA sorts them."""
    torch, flat = t.torch, chosen.flatten().long()
    order = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat, minlength=experts)
    padded = (counts + block - 1) // block * block
    room = flat.numel() + experts * (block - 1)
    if flat.numel() < experts:
        room = min(flat.numel() * block, room)
    room = -(-room // block) * block
    starts, before = padded.cumsum(0) - padded, counts.cumsum(0) - counts
    place = torch.arange(flat.numel(), device="cuda") - before[flat[order]]
    rows = torch.full((room,), flat.numel(), dtype=torch.int32, device="cuda")
    rows[starts[flat[order]] + place] = order.to(torch.int32)
    blocks = torch.repeat_interleave(torch.arange(experts, device="cuda"), padded // block)
    of_blocks = torch.zeros(room // block, dtype=torch.int32, device="cuda")
    of_blocks[: blocks.numel()] = blocks.to(torch.int32)
    return Sorted(rows, of_blocks, padded.sum().to(torch.int32).reshape(1))


@dataclass(frozen=True)
class Operands:
    """What a matmul of all experts is given; None where a kind of quantisation has no such thing."""

    a: Any
    b: Any
    a_scale: Any = None
    b_scale: Any = None
    zeros: Any = None

    def of(self, a: Any, a_scale: Any = None) -> Operands:
        """The same weights, of these activations."""
        return replace(self, a=a, a_scale=a_scale)


def operands(
    t: Inputs, rows: int, experts: int, n: int, k: int, kind: str | None, block: tuple[int, int] | None
) -> Operands:
    """Activations of so many rows, and weights of n by k for each expert."""
    if kind == FP8:
        a, b = t.fp8(rows, k), t.fp8(experts, n, k)
        if block is None:
            return Operands(a, b, t.scales(1), t.scales(experts))
        down, along = block
        return Operands(a, b, t.scales(rows, -(-k // along)), t.scales(experts, -(-n // down), -(-k // along)))
    if kind == INT8:
        return Operands(t.int8(rows, k), t.int8(experts, n, k), t.scales(rows, 1), t.scales(experts, n, 1))
    a = t.normal(rows, k)
    if kind is None:
        return Operands(a, t.normal(experts, n, k, scale=0.05))
    groups = k // (block or GROUPS)[1]
    b_scale = t.scales(experts, n, groups, dtype="bfloat16")
    if kind == INT8_WEIGHTS:
        return Operands(a, t.bytes(experts, n, k), b_scale=b_scale)
    return Operands(a, t.bytes(experts, n, k // 2), b_scale=b_scale, zeros=t.bytes(experts, n // 2, groups))
