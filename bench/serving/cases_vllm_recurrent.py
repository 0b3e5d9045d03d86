"""Recurrent layers of vLLM: Mamba, lightning attention, delta rules; a state for each sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..foreign.case import Cases, plain
from .inputs import Inputs

CASES = Cases()
VLLM = "vllm"
STATES = 80
"""A server's pool has more states than sequences run."""


@CASES.of(VLLM)
def mamba_causal_conv1d_prefill(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_fn

    dim, width = 8192, 4
    x, states = t.normal(4096, dim).transpose(0, 1), t.normal(8, width - 1, dim).transpose(1, 2)
    where = t.starts([1024] * 4), t.tensor([1, 2, 3, 4]), t.full(True, 4, dtype="bool")
    return plain(causal_conv1d_fn, x, t.normal(dim, width), t.normal(dim), states, *where, "silu")


@CASES.of(VLLM)
def mamba_causal_conv1d_decode(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_update

    dim, width = 8192, 4
    states = t.normal(STATES, width - 1, dim).transpose(1, 2)
    given = t.normal(64, dim), states, t.normal(dim, width), t.normal(dim), "silu"
    return plain(causal_conv1d_update, *given, conv_state_indices=t.slots(64, STATES))


@CASES.of(VLLM)
def mamba_selective_state_update(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.mamba.ops.mamba_ssm import selective_state_update

    batch, heads, dim, state, groups = 64, 128, 64, 128, 8
    a, bias, d = -t.uniform(heads, low=1.0, high=16.0), t.normal(heads), t.normal(heads)
    return plain(
        selective_state_update,
        t.normal(STATES, heads, dim, state),
        t.normal(batch, heads, dim),
        t.normal(batch, heads)[:, :, None].expand(-1, -1, dim),
        a[:, None, None].expand(-1, dim, state),
        *(t.normal(batch, groups, state), t.normal(batch, groups, state)),
        *(d[:, None].expand(-1, dim), bias[:, None].expand(-1, dim)),
        dt_softplus=True,
        state_batch_indices=t.slots(batch, STATES),
        out=t.empty(batch, heads, dim),
    )


@CASES.of(VLLM)
def mamba2_chunk_scan_prefill_4096(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.mamba.ops.ssd_combined import mamba_chunk_scan_combined_varlen

    tokens, heads, dim, state, groups, chunk, batch = 4096, 64, 64, 128, 8, 256, 4
    chunks = tokens // chunk
    of_chunks = t.tensor([number // (chunks // batch) for number in range(chunks)])
    last = t.tensor([(number + 1) * (chunks // batch) - 1 for number in range(batch)])
    a = -t.uniform(heads, low=1.0, high=16.0)
    b, c = t.normal(tokens, groups, state), t.normal(tokens, groups, state)
    return plain(
        mamba_chunk_scan_combined_varlen,
        *(t.normal(tokens, heads, dim), t.normal(tokens, heads), a, b, c, chunk),
        *(t.starts([tokens // batch] * batch), t.starts([chunk] * chunks), last, of_chunks),
        t.empty(tokens, heads, dim),
        D=t.normal(heads),
        dt_bias=t.normal(heads),
        initial_states=t.normal(batch, heads, dim, state),
        dt_softplus=True,
        state_dtype=t.torch.bfloat16,
    )


@CASES.of(VLLM)
def lightning_attention_prefill(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.lightning_attn import lightning_attention

    q, k, v = (t.normal(1, 16, 2048, 128, dtype="float32") for _ in range(3))
    decay, state = t.uniform(16, 1, 1, low=0.01, high=0.5), t.normal(1, 16, 128, 128, dtype="float32")
    return plain(lightning_attention, q, k, v, decay, 256, state)


@CASES.of(VLLM)
def lightning_attention_decode(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.lightning_attn import linear_decode_forward_triton

    batch, heads, size = 64, 16, 128
    q, k, v = (t.normal(batch, heads, 1, size, dtype="float32") for _ in range(3))
    state, decay = t.normal(STATES, heads, size, size, dtype="float32"), t.uniform(heads, low=0.01, high=0.5)
    return plain(linear_decode_forward_triton, q, k, v, state, decay, t.order(batch, STATES, "int32"))


def of_qwen3_next(t: Inputs, tokens: int) -> tuple[Any, ...]:
    """Queries, keys, values, gates and rates of a layer of Qwen3-Next on one of two GPUs."""
    q, k, v = t.normal(1, tokens, 16, 128), t.normal(1, tokens, 16, 128), t.normal(1, tokens, 32, 128)
    return q, k, v, -t.uniform(1, tokens, 32), t.uniform(1, tokens, 32, dtype="bfloat16")


def states(t: Inputs, count: int = STATES, heads: int = 32) -> Any:
    """States of delta rules."""
    return t.normal(count, heads, 128, 128, dtype="float32", scale=0.1)


@CASES.of(VLLM, "gated delta rule prefill qwen3-next")
def gated_delta_prefill(t: Inputs) -> Callable[[], Any]:
    from vllm.third_party.flash_linear_attention.ops.chunk import chunk_gated_delta_rule

    return plain(
        chunk_gated_delta_rule,
        *of_qwen3_next(t, 4096),
        initial_state=states(t, 3),
        output_final_state=True,
        cu_seqlens=t.starts([1024, 2048, 1024]),
        use_qk_l2norm_in_kernel=True,
    )


@CASES.of(VLLM, "gated delta rule decode qwen3-next")
def gated_delta_decode(t: Inputs) -> Callable[[], Any]:
    from vllm.third_party.flash_linear_attention.ops.fused_recurrent import fused_recurrent_gated_delta_rule

    return plain(
        fused_recurrent_gated_delta_rule,
        *of_qwen3_next(t, 64),
        initial_state=states(t),
        cu_seqlens=t.starts([1] * 64),
        ssm_state_indices=t.slots(64, STATES),
        use_qk_l2norm_in_kernel=True,
    )


@CASES.of(VLLM)
def gated_delta_rule_packed_decode(t: Inputs) -> Callable[[], Any]:
    from vllm.third_party.flash_linear_attention.ops.fused_recurrent import (
        fused_recurrent_gated_delta_rule_packed_decode,
    )

    n, heads, value_heads, size = 64, 16, 32, 128
    mixed, log, bias = (
        t.normal(n, 2 * heads * size + value_heads * size),
        t.normal(32, dtype="float32"),
        t.normal(32, dtype="float32"),
    )
    a, b = t.normal(n, value_heads), t.normal(n, value_heads)
    rest = size**-0.5, states(t), t.empty(n, 1, value_heads, size), t.slots(n, STATES), True
    return plain(fused_recurrent_gated_delta_rule_packed_decode, mixed, a, b, log, bias, *rest)


@CASES.of(VLLM)
def sigmoid_gating_delta_rule_decode(t: Inputs) -> Callable[[], Any]:
    from vllm.third_party.flash_linear_attention.ops.fused_sigmoid_gating import (
        fused_sigmoid_gating_delta_rule_update,
    )

    n, heads = 64, 32
    q, k, v, _, _ = of_qwen3_next(t, n)
    a, b = t.normal(n, heads), t.normal(n, heads)
    return plain(
        fused_sigmoid_gating_delta_rule_update,
        *(t.normal(heads, dtype="float32"), a, b, t.normal(heads, dtype="float32"), q, k, v),
        initial_state=states(t),
        cu_seqlens=t.starts([1] * n),
        ssm_state_indices=t.slots(n, STATES),
        use_qk_l2norm_in_kernel=True,
    )


@CASES.of(VLLM)
def kda_chunk_prefill_kimi(t: Inputs) -> Callable[[], Any]:
    from vllm.third_party.flash_linear_attention.ops.kda import chunk_kda

    tokens, heads, size = 2048, 16, 128
    q, k, v = (t.normal(1, tokens, heads, size) for _ in range(3))
    gates, rates = -t.uniform(1, tokens, heads, size, high=0.5), t.uniform(1, tokens, heads)
    return plain(
        chunk_kda,
        *(q, k, v, gates, rates),
        initial_state=states(t, 2, heads),
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        cu_seqlens=t.starts([1024, 1024]),
    )


@CASES.of(VLLM)
def gated_rms_norm(t: Inputs) -> Callable[[], Any]:
    from vllm.third_party.flash_linear_attention.ops.layernorm_guard import layer_norm_fwd

    x, z = t.normal(8192, 128), t.normal(8192, 128)
    return plain(layer_norm_fwd, x, t.normal(128), None, 1e-6, z=z, is_rms_norm=True)
