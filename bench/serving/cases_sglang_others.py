"""Matmuls and quantisation of SGLang, adapters, recurrent layers, norms, sampling and drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ..foreign.case import Cases, plain
from .alike import fp8_in_blocks, scaled
from .cases_vllm_recurrent import STATES, of_qwen3_next, states
from .inputs import Inputs

CASES = Cases()
SGLANG = "sglang"
WORDS = 128256


@CASES.each(
    SGLANG,
    {
        "block fp8 matmul decode 16": {"m": 16, "n": 1536},
        "block fp8 matmul decode 128": {"m": 128, "n": 4608},
        "block fp8 matmul prefill 4096": {"m": 4096, "n": 2304},
    },
)
def in_blocks(t: Inputs, m: int, n: int) -> Callable[[], Any]:
    from sglang.kernels.ops.gemm.fp8_kernel import w8a8_block_fp8_matmul_triton

    return plain(w8a8_block_fp8_matmul_triton, *fp8_in_blocks(t, m, n))


@CASES.of(SGLANG)
def block_int8_matmul_256(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.gemm.int8_kernel import w8a8_block_int8_matmul

    m, n, k = 256, 4608, 7168
    scales = t.uniform(m, k // 128, high=0.02), t.uniform(n // 128, k // 128, high=0.02)
    return plain(w8a8_block_int8_matmul, t.int8(m, k), t.int8(n, k), *scales, [128, 128], t.torch.bfloat16)


@CASES.of(SGLANG)
def scaled_mm_fp8_128(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.gemm.fp8_kernel import triton_scaled_mm

    return plain(triton_scaled_mm, *scaled(t, 128, 6144, fp8=True))


@CASES.of(SGLANG)
def quantisation_fp8_and_int8(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.quantization import act_quant_triton, fp8_kernel, int8_kernel

    x, scale = t.normal(2048, 7168), t.full(0.05, 1, dtype="float32")
    return lambda: [
        fp8_kernel._per_token_group_quant_8bit_raw(x, 128),
        fp8_kernel._per_token_group_quant_8bit_raw(x, 128, column_major_scales=True),
        fp8_kernel.static_quant_fp8(x, scale),
        int8_kernel.per_token_quant_int8(x),
        int8_kernel.per_token_group_quant_int8(x, 128),
        act_quant_triton.act_quant(x),
    ]


@CASES.of(SGLANG)
def quantisation_mla(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.quantization import fp8_kernel as ops

    x = t.normal(16, 2048, 512)
    return lambda: [
        ops.per_tensor_quant_mla_fp8(x, t.zeros(1, dtype="float32")),
        ops.per_token_group_quant_mla_deep_gemm_masked_fp8(x),
    ]


def adapters_of(t: Inputs, lengths: Sequence[int], rank: int, loras: int = 4) -> SimpleNamespace:
    """Which adapter each of some sequences has."""
    count = len(lengths)
    return SimpleNamespace(
        use_cuda_graph=False,
        bs=count,
        num_segments=count,
        seg_indptr=t.starts(lengths),
        weight_indices=t.tensor([number % loras for number in range(count)]),
        lora_ranks=t.full(rank, loras),
        scalings=t.full(0.5, loras, dtype="float32"),
        max_len=max(lengths),
        seg_lens=t.tensor(lengths),
        permutation=None,
        expected_tokens=None,
        has_active_lora=True,
        is_prefill=max(lengths) > 1,
    )


@CASES.each(
    SGLANG,
    {
        "lora decode 64": {"lengths": [1] * 64, "rank": 16},
        "lora prefill 4 x 512": {"lengths": [512] * 4, "rank": 64},
    },
)
def lora(t: Inputs, lengths: Sequence[int], rank: int) -> Callable[[], Any]:
    from sglang.kernels.ops.lora.dense.gate_up_lora_b import gate_up_lora_b_fwd
    from sglang.kernels.ops.lora.dense.qkv_lora_b import qkv_lora_b_fwd
    from sglang.kernels.ops.lora.dense.sgemm_lora_a import sgemm_lora_a_fwd
    from sglang.kernels.ops.lora.dense.sgemm_lora_b import sgemm_lora_b_fwd

    hidden, q, kv, inner, loras = 4096, 4096, 1024, 4096, 4
    tokens, adapters = sum(lengths), adapters_of(t, lengths, rank)
    x, a = t.normal(tokens, hidden), t.normal(loras, 3 * rank, hidden, scale=0.05)
    b = [t.normal(loras, n, rank, scale=0.05) for n in (q + 2 * kv, 2 * inner, hidden)]
    shrunk = [t.normal(tokens, parts * rank) for parts in (3, 2, 1)]
    ends = t.starts([q, kv, kv])

    def call() -> None:
        sgemm_lora_a_fwd(x, a, adapters, 3)
        qkv_lora_b_fwd(shrunk[0], b[0], adapters, ends, q)
        gate_up_lora_b_fwd(shrunk[1], b[1], adapters, inner)
        sgemm_lora_b_fwd(shrunk[2], b[2], adapters)

    return call


@CASES.of(SGLANG)
def gated_delta_rule_decode(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.fla import fused_recurrent as ops

    n, heads, value_heads, size = 64, 16, 32, 128
    state, where, given = states(t), t.slots(n, STATES), of_qwen3_next(t, n)
    mixed = t.normal(n, 2 * heads * size + value_heads * size)
    a, b, out = t.normal(n, value_heads), t.normal(n, value_heads), t.empty(n, 1, value_heads, size)
    log, bias = t.normal(value_heads, dtype="float32"), t.normal(value_heads, dtype="float32")
    starts = t.starts([1] * n, "int64")

    def call() -> None:
        ops.fused_recurrent_gated_delta_rule_update(
            *given,
            initial_state_source=state,
            initial_state_indices=where,
            cu_seqlens=starts,
            use_qk_l2norm_in_kernel=True,
        )
        ops.fused_recurrent_gated_delta_rule_packed_decode(
            mixed, a, b, log, bias, size**-0.5, state, out, where, True
        )

    return call


@CASES.of(SGLANG)
def sigmoid_gating_delta_rule_decode(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.linear.fused_sigmoid_gating_recurrent import (
        fused_sigmoid_gating_delta_rule_update,
    )

    n, heads = 64, 32
    q, k, v, _, _ = of_qwen3_next(t, n)
    log, bias = t.normal(heads, dtype="float32"), t.normal(heads, dtype="float32")
    a, b = t.normal(n, heads), t.normal(n, heads)
    return plain(
        fused_sigmoid_gating_delta_rule_update,
        *(log, a, bias, 1.0, 20.0, q, k, v, b, states(t), t.slots(n, STATES)),
        use_qk_l2norm_in_kernel=True,
        cu_seqlens=t.starts([1] * n, "int64"),
    )


@CASES.of(SGLANG)
def mamba_conv1d_and_state_update(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.mamba import causal_conv1d_triton as conv
    from sglang.kernels.ops.mamba.triton_ops.mamba_ssm import selective_state_update

    dim, width, batch, heads, size, state, groups = 8192, 4, 64, 128, 64, 128, 8
    x, kept = t.normal(4096, dim).transpose(0, 1), t.normal(STATES, width - 1, dim).transpose(1, 2)
    w, bias, y, where = t.normal(dim, width), t.normal(dim), t.normal(batch, dim), t.slots(batch, STATES)
    sequences = t.starts([1024] * 4), [1024] * 4, t.tensor([1, 2, 3, 4]), t.full(True, 4, dtype="bool")
    of_state = t.normal(STATES, heads, size, state), t.normal(batch, heads, size)
    step = t.normal(batch, heads)[:, :, None].expand(-1, -1, size)
    a = -t.uniform(heads, low=1.0, high=16.0)[:, None, None].expand(-1, size, state)
    d, shift = (t.normal(heads)[:, None].expand(-1, size) for _ in range(2))
    b, c, out = t.normal(batch, groups, state), t.normal(batch, groups, state), t.empty(batch, heads, size)

    def call() -> None:
        conv.causal_conv1d_fn(x, w, bias, kept, *sequences)
        conv.causal_conv1d_update(y, kept, w, bias, "silu", conv_state_indices=where)
        selective_state_update(
            *of_state, step, a, b, c, d, dt_bias=shift, dt_softplus=True, state_batch_indices=where, out=out
        )

    return call


@CASES.of(SGLANG)
def mamba2_chunk_scan_prefill(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.mamba.triton_ops.ssd_combined import mamba_chunk_scan_combined

    tokens, heads, size, state, groups = 4096, 64, 64, 128, 8
    x, a = t.normal(1, tokens, heads, size), -t.uniform(heads, low=1.0, high=16.0)
    b, c = t.normal(1, tokens, groups, state), t.normal(1, tokens, groups, state)
    return plain(
        mamba_chunk_scan_combined,
        *(x, t.normal(1, tokens, heads), a, b, c, 256),
        D=t.normal(heads),
        dt_bias=t.normal(heads),
        dt_softplus=True,
        out=t.empty(1, tokens, heads, size),
        return_final_states=True,
    )


@CASES.of(SGLANG)
def lightning_attention(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.linear import lightning_attn as ops

    heads, size, batch = 16, 128, 64
    q, k, v = (t.normal(1, heads, 2048, size, dtype="float32") for _ in range(3))
    small = [t.normal(batch, heads, 1, size) for _ in range(3)]
    cache, decay = t.normal(STATES, heads, size, size, dtype="float32"), t.uniform(heads, low=0.01, high=0.5)
    where = t.tensor(list(range(batch)))

    def call() -> None:
        ops.lightning_attention(q, k, v, decay, 256)
        ops.linear_decode_forward_triton(*small, cache, decay, where)

    return call


@CASES.of(SGLANG)
def batch_invariant(t: Inputs) -> Callable[[], Any]:
    from sglang.srt.batch_invariant_ops import batch_invariant_ops as ops

    a, b, x = t.normal(64, 4096), t.normal(6144, 4096).t(), t.normal(2048, 4096)
    logits = t.normal(64, WORDS, dtype="float32")
    return lambda: [
        ops._matmul_persistent_triton(a, b, t.torch.bfloat16),
        ops.log_softmax(logits),
        ops.mean_dim(x, 1),
    ]


@CASES.of(SGLANG)
def logsumexp_and_softmax_of_logits(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.sampling.temperature_softmax import temperature_softmax
    from sglang.srt.layers import logsumexp as ops

    logits, few = (t.normal(rows, WORDS, dtype="float32", scale=3.0) for rows in (64, 8))
    hot = t.full(0.7, 8, 1, dtype="float32")
    return lambda: [
        ops.row_logsumexp(logits),
        ops.row_logsumexp_topk(logits, 5),
        temperature_softmax(few, hot),
    ]


@CASES.of(SGLANG)
def speculative_sampling_chain(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.speculative.reject_sampling import chain_speculative_sampling_triton

    b, n = 32, 4
    found = t.zeros(b * n, dtype="int32"), t.zeros(b, n, dtype="int32"), t.zeros(b, dtype="int32")
    places = t.tensor(list(range(b * n)), "int64").view(b, n)
    tree = t.integers(0, WORDS, b, n), places, t.zeros(b, n, dtype="int64"), t.zeros(b, n, dtype="int64")
    chances = t.uniform(b, n), t.uniform(b), t.uniform(b, n, WORDS), t.uniform(b, n - 1, WORDS)
    return plain(chain_speculative_sampling_triton, *found, *tree, *chances, 1.0, 1.0, True)


@CASES.of(SGLANG)
def trees_of_drafts(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.speculative import spec_tree as ops

    batch, best, depth, drafts, context = 32, 4, 5, 16, 512
    nodes = batch * drafts
    parents = t.integers(0, 8, batch, best * (depth - 1) + 1)
    chosen, lengths = (
        t.tensor([list(range(drafts - 1))] * batch, "int64"),
        t.full(context, batch, dtype="int64"),
    )
    mask, places = t.full(True, nodes * (context + drafts), dtype="bool"), t.zeros(nodes, dtype="int64")
    links = [t.full(-1, batch, drafts, dtype="int64") for _ in range(5)]
    accepted, counts = t.full(-1, batch, depth + 1), t.zeros(batch, dtype="int32")
    predicted, candidates, best_of = (
        t.zeros(nodes, dtype="int32"),
        t.integers(0, 9, batch, drafts),
        t.integers(0, 9, batch, drafts),
    )
    index = t.tensor(list(range(nodes)), "int64").view(batch, drafts)

    def call() -> None:
        ops.sgl_build_tree_kernel_triton(
            parents, chosen, lengths, mask, places, *links[:3], best, depth, drafts
        )
        ops.verify_tree_greedy_triton(predicted, accepted, counts, candidates, index, *links[3:], best_of)

    return call


@CASES.of(SGLANG)
def norms_and_gates(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.elementwise.elementwise import fused_gate_sigmoid_mul
    from sglang.kernels.ops.layernorm import fused_rmsnorm as norms

    x, r, shared = t.normal(2048, 4096), t.normal(2048, 4096), t.normal(2048, 4096)
    w, gate = t.normal(4096), t.normal(4096)
    return lambda: [
        norms.fused_rmsnorm(x, w, 1e-6),
        norms.fused_dual_residual_rmsnorm(x, r, w, w, 1e-6),
        fused_gate_sigmoid_mul(x, gate, shared),
    ]


@CASES.of(SGLANG)
def gated_norms_of_linear_attention(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.fla.layernorm_gated import _layer_norm_fwd

    x, z = t.normal(8192, 128), t.normal(8192, 128)
    return plain(_layer_norm_fwd, x, t.normal(128), None, 1e-6, z=z, is_rms_norm=True)


@CASES.of(SGLANG)
def gdn_projections_split(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.triton_gdn_fused_proj import fused_qkvzba_split_reshape_cat

    tokens, heads, value_heads, size = 2048, 16, 32, 128
    mixed = t.normal(tokens, 2 * heads * size + 2 * value_heads * size)
    gates = t.normal(tokens, 2 * value_heads)
    return plain(fused_qkvzba_split_reshape_cat, mixed, gates, heads, value_heads, size, size)


@CASES.of(SGLANG, "mhc head deepseek v4")
def hyper_connections(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.layernorm.mhc_head import fused_hc_head

    scale, base = t.normal(1, dtype="float32"), t.normal(4, dtype="float32")
    x, phi = t.normal(512, 4, 4096), t.normal(4, 16384, dtype="float32")
    return plain(fused_hc_head, x, phi, scale, base, 1e-6, 1e-6)
