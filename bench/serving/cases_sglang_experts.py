"""Layers of experts of SGLang, in its own configurations for an H100, and how tokens get to experts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..foreign.case import Cases, plain
from .experts import (
    BF16,
    DEEPSEEK,
    FP8,
    GPT_OSS,
    IN_BLOCKS,
    IN_FOUR_BITS,
    INT4_WEIGHTS,
    MINIMAX,
    QUANTISED,
    Experts,
    Sorted,
    aligned,
    operands,
    routed,
)
from .inputs import Inputs

CASES = Cases()
SGLANG = "sglang"
KNOBS = ("num_warps", "num_stages")


def configuration(
    model: Experts, tokens: int, kind: str | None, block: tuple[int, int] | None
) -> dict[str, int]:
    """SGLang's for an H100, of the newest Triton for which it has one, or else its default."""
    import sglang.kernels.ops.moe.fused_moe_triton_kernels as module

    name = f"E={model.count},N={model.inner},device_name=NVIDIA_H100_80GB_HBM3"
    name += f",dtype={kind}" if kind else ""
    name += f",block_shape={list(block)}" if block else ""
    tables = Path(module.__file__).parents[3] / "srt/layers/moe/moe_runner/triton_utils/configs"
    found = sorted(tables.glob(f"triton_*/{name.replace('[', '[[]')}.json"))
    if found:
        table = {int(rows): each for rows, each in json.loads(found[-1].read_text()).items() if rows.isdigit()}
        nearest = table[min(table, key=lambda rows: abs(rows - tokens))]
        return {
            key: each for key, each in nearest.items() if key.startswith(("BLOCK_", "GROUP_")) or key in KNOBS
        }
    many = tokens > model.count
    if kind == FP8:
        sizes = (
            (64, 128, 128, 32, 4, 3)
            if block
            else (128, 256, 128, 32, 8, 4)
            if many
            else (64, 128, 128, 32, 4, 4)
        )
    else:
        sizes = (64, 64, 32, 8) if many else (16, 32, 64, 1)
    names = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", *KNOBS)
    return dict(zip(names, sizes, strict=False))


def matmul(
    t: Inputs,
    model: Experts,
    rows: int,
    n: int,
    k: int,
    kind: str | None,
    block: tuple[int, int] | None,
    config: dict[str, int],
    weights: Any,
    chosen: Any,
    order: Sorted,
) -> Callable[[], Any]:
    """One matmul of a layer: from tokens, or from `rows` that have gone to their experts already."""
    import triton.language as tl
    from sglang.kernels.ops.moe import fused_moe_triton_kernels as ops

    if kind == FP8 and not block:
        # What is quantised is given; the server would quantise with a kernel of CUDA's.
        ops.scaled_fp8_quant, ops.padding_size = (lambda x, scale, **_: (x, scale)), 0
    given = operands(t, rows, model.count, n, k, kind, block)
    first = rows == len(weights)
    return plain(
        ops.invoke_fused_moe_kernel,
        *(given.a, given.b, None, t.empty(len(weights), model.chosen, n)),
        *(given.a_scale, given.b_scale, given.zeros, weights, chosen, order.rows, order.experts, order.padded),
        *(not first, model.chosen if first else 1, config, tl.bfloat16),
        *(kind == FP8, False, False, kind == INT4_WEIGHTS, False, list(block) if block else None),
    )


@CASES.each(
    SGLANG,
    {
        **BF16,
        **QUANTISED,
        "moe bf16 gpt-oss prefill 2048": {"tokens": 2048, "model": GPT_OSS},
        "moe fp8 blocks minimax prefill 2048": {"tokens": 2048, "model": MINIMAX, **IN_BLOCKS},
        "moe int4 w4a16 qwen3 decode 64": {"tokens": 64, **IN_FOUR_BITS},
    },
)
def layer(
    t: Inputs, tokens: int, model: Experts, kind: str | None = None, block: tuple[int, int] | None = None
) -> Callable[[], Any]:
    """A layer: both matmuls, the gate between them, the sum over a token's experts."""
    from sglang.kernels.ops.moe import fused_moe_triton_kernels as ops

    weights, chosen = routed(t, tokens, model)
    config = configuration(model, tokens, kind, block)
    order = aligned(t, chosen, config["BLOCK_SIZE_M"], model.count)
    rest = (kind, block, config, weights, chosen, order)
    up = matmul(t, model, tokens, 2 * model.inner, model.hidden, *rest)
    down = matmul(t, model, tokens * model.chosen, model.hidden, model.inner, *rest)
    gate, gated = t.normal(tokens * model.chosen, 2 * model.inner), t.empty(tokens * model.chosen, model.inner)
    partial, out = t.normal(tokens, model.chosen, model.hidden), t.empty(tokens, model.hidden)

    def call() -> None:
        up()
        ops.act_and_mul_triton(gate, gated, config, chosen, order.experts)
        down()
        ops.moe_sum_reduce_triton(partial, out, 1.0)

    return call


@CASES.each(
    SGLANG,
    {"moe gate deepseek 64": {"tokens": 64, "groups": 8}, "moe gate 2048": {"tokens": 2048, "groups": 1}},
)
def gate(t: Inputs, tokens: int, groups: int) -> Callable[[], Any]:
    from sglang.kernels.ops.moe.moe_fused_gate import moe_fused_gate

    return plain(
        moe_fused_gate,
        t.normal(tokens, 256, dtype="float32"),
        t.normal(256, dtype="float32"),
        8,
        num_expert_group=groups,
        topk_group=4 if groups > 1 else 1,
        routed_scaling_factor=2.5,
    )


@CASES.of(SGLANG)
def moe_router_tensor_cores(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.moe.router import fused_moe_router_shim

    return plain(fused_moe_router_shim, 30.0, t.normal(1024, 6144), t.normal(16, 6144), 2, False)


@CASES.of(SGLANG)
def moe_unpermute_and_gather(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.moe import ep_moe_kernels as ops

    tokens, hidden = 2048, DEEPSEEK.hidden
    weights, chosen = routed(t, tokens, DEEPSEEK)
    rows, where = t.normal(tokens * 8, hidden), t.order(tokens * 8, dtype="int32")
    out = t.empty(tokens, hidden)

    def call() -> None:
        ops.moe_unpermute(rows, where, chosen, weights)
        ops.ep_gather(rows, chosen, weights, where.view(tokens, 8), out)

    return call


@CASES.of(SGLANG)
def silu_mul_masked_quantise(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.moe.ep_moe_kernels import silu_and_mul_masked_post_quant_fwd

    experts, rows, n = 32, 256, 2048
    out, scales = (
        t.empty(experts, rows, n, dtype="float8_e4m3fn"),
        t.empty(experts, rows, n // 128, dtype="float32"),
    )
    counts = t.integers(32, rows, experts, dtype="int32")
    return plain(silu_and_mul_masked_post_quant_fwd, t.normal(experts, rows, 2 * n), out, scales, 128, counts)
