"""A layer of DeepSeek-V3 on one of eight GPUs: latent attention and experts, in fp8, each block with a scale.

What GPUs send each other is left out. Which tokens go to which expert is found once and then stays: servers
sort with a kernel of CUDA's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cases_vllm_experts import Layer, configuration, matmul
from .cases_vllm_matmul import in_triton
from .experts import BLOCKS, DEEPSEEK, FP8, aligned, operands
from .inputs import Inputs
from .step import EPSILON, PAGE, Batch, Pages, each_head, gated, linear, norm, rotary_table, summed, weights

HEADS, OF_QUERY, LATENT, PLAIN, ROTARY, VALUE = 16, 1536, 512, 128, 64, 128
"""Heads of one GPU; sizes of queries and keys before they are per head, and of each head's parts."""
SPLITS = 4
GROUPS, OF_GROUPS, SCALE = 8, 4, 2.5
"""How the router chooses among groups of experts."""


def quantised(x: Any) -> tuple[Any, Any]:
    """In 8 bits, with a scale for each 128 of a row."""
    from vllm.model_executor.layers.quantization.utils import fp8_utils

    quantise = in_triton(fp8_utils).per_token_group_quant_fp8
    found: tuple[Any, Any] = quantise(x.contiguous(), 128, use_ue8m0=False)
    return found


class Linear:
    """A matmul in 8 bits, its weights, and a scale for each block of them."""

    def __init__(self, t: Inputs, n: int, k: int) -> None:
        self._weights = t.fp8(n, k)
        self._scales = t.uniform(-(-n // 128), k // 128, low=0.9 * k**-0.5, high=1.1 * k**-0.5)

    def __call__(self, x: Any, x_scales: Any) -> Any:
        import torch
        from vllm.model_executor.layers.quantization.utils.fp8_utils import w8a8_triton_block_scaled_mm

        blocks = list(BLOCKS)
        return w8a8_triton_block_scaled_mm(x, self._weights, x_scales, self._scales, blocks, torch.bfloat16)


class Attention:
    """Latent attention: decoding as over one key for all heads, prefill with keys of each head."""

    def __init__(self, t: Inputs, batch: Batch, hidden: int) -> None:
        self._t, self._batch, self._pages = t, batch, Pages(t, batch)
        self._cache = t.normal(self._pages.total, PAGE, LATENT + ROTARY)
        self._table = rotary_table(t, ROTARY)
        self._down = Linear(t, OF_QUERY + LATENT + ROTARY, hidden)
        self._of_query, self._of_latent = t.normal(OF_QUERY), t.normal(LATENT)
        self._up = Linear(t, HEADS * (PLAIN + ROTARY), OF_QUERY)
        self._out = Linear(t, hidden, HEADS * VALUE)
        self._chosen = t.zeros(batch.tokens, 1, dtype="int32")
        self._one = t.full(1.0, 1, dtype="float32")
        if batch.new == 1:
            self._to_latent = t.normal(HEADS, PLAIN, LATENT, scale=PLAIN**-0.5)
            self._from_latent = t.normal(HEADS, LATENT, VALUE, scale=LATENT**-0.5)
            self._parts = t.empty(batch.tokens, HEADS, SPLITS, LATENT + 1, dtype="float32")
        else:
            self._keys_and_values = Linear(t, HEADS * (PLAIN + VALUE), LATENT)
            self._nothing = t.starts([0]), t.zeros(0, dtype="int64")

    def __call__(self, x: Any) -> Any:
        from vllm.models.deepseek_v32.common.kernels import fused_norm_rope, fused_q

        query, latent, rotary = self._down(*quantised(x)).split((OF_QUERY, LATENT, ROTARY), -1)
        normed, rotated = latent.new_empty(latent.shape), rotary.new_empty(rotary.shape)
        query = fused_norm_rope(
            *(self._pages.positions, query, self._of_query, EPSILON, latent, self._of_latent, EPSILON),
            *(rotary, self._table, None, None, None, EPSILON, None, self._chosen),
            slot_mapping=self._pages.slots,
            mla_kv_cache=self._cache,
            has_indexer=False,
            kv_c_out=normed,
            k_pe_out=rotated,
        )
        q = self._up(*quantised(query)).view(len(x), HEADS, PLAIN + ROTARY)
        plain, turned = q.split((PLAIN, ROTARY), -1)
        turned = fused_q(
            *(self._pages.positions, turned, self._table, None, None, plain, self._one, None, 1.0, 1.0),
            has_indexer=False,
            quantize_mqa=False,
        )[2]
        attended = (
            self._decoded(plain, turned)
            if self._batch.new == 1
            else self._prefilled(plain, turned, normed, rotated)
        )
        return self._out(*quantised(attended.reshape(len(x), HEADS * VALUE)))

    def _decoded(self, plain: Any, turned: Any) -> Any:
        from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

        t, pages, keys = self._t, self._pages, self._cache[:, :, None]
        q = t.torch.cat([each_head(t, plain, self._to_latent), turned], -1)
        out, logs = q.new_empty(len(q), HEADS, LATENT), q.new_empty(len(q), HEADS)
        decode_attention_fwd(
            *(q, keys, keys[..., :LATENT], out, logs, pages.table, pages.lengths, self._parts, SPLITS),
            *((PLAIN + ROTARY) ** -0.5, PAGE, 0.0, self._one, self._one),
            is_mla=True,
        )
        return each_head(t, out, self._from_latent)

    def _prefilled(self, plain: Any, turned: Any, latent: Any, rotary: Any) -> Any:
        from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd
        from sglang.kernels.ops.attention.mla_qk_prep import concat_and_cast_mha_k_triton

        t, n = self._t, len(plain)
        both = self._keys_and_values(*quantised(latent)).view(n, HEADS, PLAIN + VALUE)
        q, k, out = (
            t.torch.cat([plain, turned], -1),
            plain.new_empty(n, HEADS, PLAIN + ROTARY),
            plain.new_empty(n, HEADS, VALUE),
        )
        concat_and_cast_mha_k_triton(k, both[..., :PLAIN], rotary[:, None])
        values = both[..., PLAIN:].contiguous()
        starts = self._pages.starts
        extend_attention_fwd(
            *(q, k, values, out, k, values, starts, *self._nothing, None, True, None, n, 1.0, 1.0)
        )
        return out


def layer(t: Inputs, batch: Batch) -> Callable[[], Any]:
    """Attention, a router, experts and the one that every token has."""
    from sglang.kernels.ops.moe.moe_fused_gate import moe_fused_gate

    model, n = DEEPSEEK, batch.tokens
    x, before, after = t.normal(n, model.hidden), t.normal(model.hidden), t.normal(model.hidden)
    attention = Attention(t, batch, model.hidden)
    router, bias = weights(t, model.count, model.hidden), t.normal(model.count, dtype="float32", scale=0.1)
    up, down = (operands(t, 1, model.count, *shape, FP8, BLOCKS) for shape in model.shapes)
    shared_up, shared_down = (Linear(t, *shape) for shape in model.shapes)
    config = configuration(model, n, FP8, BLOCKS)

    def routed(normed: Any) -> Any:
        options = {"num_expert_group": GROUPS, "topk_group": OF_GROUPS, "routed_scaling_factor": SCALE}
        return moe_fused_gate(linear(t, normed, router).float(), bias, model.chosen, **options)

    _, chosen = routed(norm(x + attention(norm(x, before)), after))
    if t.pretended:
        chosen = t.integers(0, model.count, n, model.chosen, dtype="int32")
    both = Layer(model, FP8, BLOCKS, config, aligned(t, chosen, config["BLOCK_SIZE_M"], model.count))

    def call() -> list[Any]:
        middle = x + attention(norm(x, before))
        normed = norm(middle, after)
        shares, _ = routed(normed)
        narrow, scales = quantised(normed)
        wide = matmul(both, up.of(narrow, scales), shares, normed.new_empty(n, model.chosen, 2 * model.inner))
        inner = quantised(gated(wide.view(-1, 2 * model.inner)))
        partial = matmul(both, down.of(*inner), shares, normed.new_empty(n, model.chosen, model.hidden))
        own = shared_down(*quantised(gated(shared_up(narrow, scales))))
        return [middle + summed(partial) + own]

    return call
