"""Layers of experts of vLLM, in its own configurations for an H100."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..foreign.case import Cases, plain
from .experts import (
    BF16,
    BLOCKS,
    DEEPSEEK,
    FP8,
    GPT_OSS,
    IN_BLOCKS,
    IN_FOUR_BITS,
    INT4_WEIGHTS,
    INT8,
    INT8_WEIGHTS,
    MIXTRAL,
    QUANTISED,
    QWEN3,
    Experts,
    Operands,
    Sorted,
    aligned,
    operands,
    routed,
)
from .inputs import Inputs
from .mxfp4 import Mxfp4Experts

CASES = Cases()
VLLM = "vllm"


def configuration(
    model: Experts, tokens: int, kind: str | None, block: tuple[int, int] | None
) -> dict[str, Any]:
    """What vLLM takes for both matmuls of a layer."""
    from vllm.model_executor.layers.fused_moe.fused_moe import try_get_optimal_moe_config

    inner = model.inner // 2 if kind == INT4_WEIGHTS else model.inner
    up, down = (model.count, 2 * model.inner, model.hidden), (model.count, model.hidden, inner)
    shape = None if block is None else list(block)
    return dict(try_get_optimal_moe_config(up, down, model.chosen, kind, tokens, shape))


@dataclass(frozen=True)
class Layer:
    """What both matmuls of a layer have in common."""

    model: Experts
    kind: str | None
    block: tuple[int, int] | None
    config: dict[str, Any]
    order: Sorted


def matmul(layer: Layer, given: Operands, weights: Any, out: Any, bias: Any = None) -> Any:
    """One matmul of a layer: from tokens, or from rows that have gone to their experts already, whose results
    are multiplied by the experts' weights."""
    import triton.language as tl
    from vllm.model_executor.layers.fused_moe import fused_moe as ops

    first, kind, order = len(given.a) == len(weights), layer.kind, layer.order
    common = {
        "config": layer.config,
        "compute_type": tl.bfloat16,
        "mul_routed_weight": not first,
        "top_k": layer.model.chosen if first else 1,
        "block_shape": None if layer.block is None else list(layer.block),
    }
    where = weights, order.rows, order.experts, order.padded
    if kind in (INT4_WEIGHTS, INT8_WEIGHTS):
        ops.invoke_fused_moe_wna16_triton_kernel(
            *(given.a, given.b, out, given.b_scale, given.zeros, *where),
            use_int8_w8a16=kind == INT8_WEIGHTS,
            use_int4_w4a16=kind == INT4_WEIGHTS,
            **common,
        )
    else:
        ops.invoke_fused_moe_triton_kernel(
            *(given.a, given.b, out, given.a_scale, given.b_scale, *where),
            use_fp8_w8a8=kind == FP8,
            use_int8_w8a8=kind == INT8,
            use_int8_w8a16=False,
            use_int4_w4a16=False,
            per_channel_quant=kind == INT8,
            B_bias=bias,
            **common,
        )
    return out


@CASES.each(
    VLLM,
    {
        **BF16,
        **QUANTISED,
        "moe bf16 gpt-oss decode 64 bias": {"tokens": 64, "model": GPT_OSS, "bias": True},
        "moe fp8 blocks deepseek decode 16": {"tokens": 16, "model": DEEPSEEK, **IN_BLOCKS},
        "moe fp8 blocks qwen3 decode 256": {"tokens": 256, "model": QWEN3, **IN_BLOCKS},
        "moe fp8 tensor mixtral prefill 2048": {"tokens": 2048, "model": MIXTRAL, "kind": FP8},
        "moe int8 channels mixtral prefill 2048": {"tokens": 2048, "model": MIXTRAL, "kind": INT8},
        "moe int8 w8a16 qwen3 decode 64": {"tokens": 64, **IN_FOUR_BITS, "kind": INT8_WEIGHTS},
        "moe int4 w4a16 qwen3 decode 16": {"tokens": 16, **IN_FOUR_BITS},
        "moe int4 w4a16 qwen3 decode 256": {"tokens": 256, **IN_FOUR_BITS},
        "moe int4 w4a16 qwen3 prefill 2048": {"tokens": 2048, **IN_FOUR_BITS},
    },
)
def layer(
    t: Inputs,
    tokens: int,
    model: Experts,
    kind: str | None = None,
    block: tuple[int, int] | None = None,
    bias: bool = False,
) -> Callable[[], Any]:
    """Both matmuls of a layer; what is between them is no kernel of Triton's."""
    weights, chosen = routed(t, tokens, model)
    config = configuration(model, tokens, kind, block)
    of_both = Layer(model, kind, block, config, aligned(t, chosen, config["BLOCK_SIZE_M"], model.count))

    def half(rows: int, n: int, k: int) -> Callable[[], Any]:
        given = operands(t, rows, model.count, n, k, kind, block)
        shift = t.normal(model.count, n) if bias else None
        return plain(matmul, of_both, given, weights, t.empty(tokens, model.chosen, n), shift)

    up = half(tokens, 2 * model.inner, model.hidden)
    down = half(tokens * model.chosen, model.hidden, model.inner)
    return lambda: [up(), down()]


@CASES.each(
    VLLM,
    {
        "moe batched bf16": {"n": 1536, "k": 2048, "fp8": False},
        "moe batched fp8 blocks": {"n": 4096, "k": 7168, "fp8": True},
    },
)
def batched(t: Inputs, n: int, k: int, fp8: bool, experts: int = 32, most: int = 128) -> Callable[[], Any]:
    """Tokens that lie in a batch for each expert."""
    import triton.language as tl
    from vllm.model_executor.layers.fused_moe.experts.fused_batched_moe import invoke_moe_batched_triton_kernel

    make = t.fp8 if fp8 else t.normal
    a, b, out = make(experts, most, k), make(experts, n, k), t.empty(experts, most, n)
    counts = t.integers(most // 4, most, experts, dtype="int32")
    a_scale = t.scales(experts, most, k // 128) if fp8 else None
    b_scale = t.scales(experts, n // 128, k // 128) if fp8 else None
    config = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "num_stages": 3}
    config |= {"BLOCK_SIZE_K": 128, "num_warps": 4} if fp8 else {"BLOCK_SIZE_K": 64, "num_warps": 8}
    block = list(BLOCKS) if fp8 else None
    return plain(
        invoke_moe_batched_triton_kernel,
        *(a, b, out, counts, tl.bfloat16, a_scale, b_scale, None, fp8, False, False, config, False, block),
    )


@CASES.each(
    VLLM, {"moe mxfp4 gpt-oss decode 64": {"tokens": 64}, "moe mxfp4 gpt-oss prefill 2048": {"tokens": 2048}}
)
def four_bits(t: Inputs, tokens: int) -> Callable[[], Any]:
    """A layer with its router, all of it Triton's."""
    experts = Mxfp4Experts(t, GPT_OSS)
    return plain(experts, t.normal(tokens, GPT_OSS.hidden), t.normal(tokens, GPT_OSS.count))


@CASES.of(VLLM)
def moe_fused_mul_sum(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.fused_moe.moe_fused_mul_sum import moe_fused_mul_sum

    weights, _ = routed(t, 1024, QWEN3)
    return plain(moe_fused_mul_sum, t.normal(1024, 8, 2048), weights, t.empty(1024, 2048))


@CASES.each(
    VLLM, {"moe lora rank 16": {"tokens": 64, "rank": 16}, "moe lora rank 128": {"tokens": 512, "rank": 128}}
)
def adapters(t: Inputs, tokens: int, rank: int, model: Experts = GPT_OSS, block: int = 16) -> Callable[[], Any]:
    """An adapter of each expert's weights; of several, kernels would add to one row at the same time."""
    from vllm.lora.ops.triton_ops.fused_moe_lora_op import _fused_moe_lora

    weights, chosen = routed(t, tokens, model)
    order = aligned(t, chosen, block, model.count)
    a = [t.normal(1, model.count, rank, model.hidden, scale=0.05) for _ in range(2)]
    b = [t.normal(1, model.count, model.inner, rank, scale=0.05) for _ in range(2)]
    out, x = t.zeros(tokens, model.chosen, 2 * model.inner), t.normal(tokens, model.hidden)
    mapping, ids, active = t.zeros(tokens, dtype="int32"), t.tensor([0, -1]), t.full(1, 2)
    loras = t.torch.tensor([1], dtype=t.torch.int32)
    config = (block, 64, 64, 8, 4, 3, 1)
    return plain(
        _fused_moe_lora,
        *(out, x, a, b, weights, order.rows[None], order.experts[None], order.padded, mapping),
        *(rank, model.chosen, ids, loras, active, *config, *config),
    )
