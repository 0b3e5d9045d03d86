"""Steps of models: decoding one token of 64 sequences of 2,048, and prefill of one sequence of 2,048 tokens."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..harness.cases import unique
from . import steps_deepseek
from .cases_vllm_experts import Layer, configuration, matmul
from .experts import GPT_OSS, GROUPS, INT4_WEIGHTS, QWEN3, aligned, operands
from .inputs import Inputs
from .mxfp4 import Mxfp4Experts
from .step import DECODE, PREFILL, Batch, Cache, Step, gated, linear, norm, rotary_table, summed, weights

WORDS = 128256
WINDOW = 127
"""Keys before its own that a query of gpt-oss sees, in every other layer."""


def llama3(t: Inputs, batch: Batch) -> Callable[[], Any]:
    """A layer of Llama 3 8B, in bf16."""
    hidden, heads, kv_heads, size, inner = 4096, 32, 8, 128, 14336
    x, cache, table = (
        t.normal(batch.tokens, hidden),
        Cache(t, batch, heads, kv_heads, size),
        rotary_table(t, size),
    )
    before, after = t.normal(hidden), t.normal(hidden)
    qkv, out = weights(t, (heads + 2 * kv_heads) * size, hidden), weights(t, hidden, heads * size)
    up, down = weights(t, 2 * inner, hidden), weights(t, hidden, inner)

    def call() -> list[Any]:
        mixed = linear(t, norm(x, before), qkv).view(batch.tokens, -1, size)
        q, k, v = mixed.split((heads, kv_heads, kv_heads), 1)
        middle = x + linear(t, cache.attention(cache.rotated(q, k, v, table)), out)
        return [middle + linear(t, gated(linear(t, norm(middle, after), up)), down)]

    return call


def llama3_head(t: Inputs, batch: Batch) -> Callable[[], Any]:
    """What follows the last layer of Llama 3 8B: logits, the likeliest words, one of them."""
    from vllm.v1.sample.ops.topk_topp_triton import apply_top_k_top_p_triton
    from vllm.v1.worker.gpu.sample.gumbel import gumbel_sample

    n, hidden = batch.sequences, 4096
    x, scale, words = t.normal(n, hidden), t.normal(hidden), weights(t, WORDS, hidden)
    most, share = t.full(50, n), t.full(0.9, n, dtype="float32")
    where, one, seeds = t.tensor(list(range(n))), t.full(1.0, n, dtype="float32"), t.integers(0, 1000, n)
    positions = t.full(batch.length, n, dtype="int64")

    def call() -> list[Any]:
        logits = apply_top_k_top_p_triton(linear(t, norm(x, scale), words).float(), most, share)
        return [logits, gumbel_sample(logits, where, one, seeds, positions, False, False)]

    return call


def gpt_oss(t: Inputs, batch: Batch) -> Callable[[], Any]:
    """Two layers of gpt-oss-20b, one of which sees a window, with experts in four bits."""
    hidden, heads, kv_heads, size = GPT_OSS.hidden, 64, 8, 64
    x, table = t.normal(batch.tokens, hidden), rotary_table(t, size)

    def layer(window: int | None) -> Callable[[Any], Any]:
        cache, sinks = Cache(t, batch, heads, kv_heads, size), t.normal(heads)
        before, after = t.normal(hidden), t.normal(hidden)
        wide = (heads + 2 * kv_heads) * size
        qkv, of_qkv, out, of_out = (
            weights(t, wide, hidden),
            t.normal(wide),
            weights(t, hidden, heads * size),
            t.normal(hidden),
        )
        router, experts = weights(t, GPT_OSS.count, hidden), Mxfp4Experts(t, GPT_OSS)

        def call(x: Any) -> Any:
            mixed = linear(t, norm(x, before), qkv, of_qkv).view(batch.tokens, -1, size)
            q, k, v = mixed.split((heads, kv_heads, kv_heads), 1)
            attended = cache.attention(cache.rotated(q, k, v, table), sinks, window)
            middle = x + linear(t, attended, out, of_out)
            normed = norm(middle, after)
            return middle + experts(normed, linear(t, normed, router)).view(middle.shape)

        return call

    first, second = layer(WINDOW), layer(None)
    return lambda: [second(first(x))]


def qwen3(t: Inputs, batch: Batch) -> Callable[[], Any]:
    """A layer of Qwen3-30B-A3B, with experts in four bits.

    Which tokens go to which expert is found once and then stays: servers sort with a kernel of CUDA's.
    """
    from sglang.kernels.ops.attention.table_qk_norm_rope import table_qk_norm_rope_

    model, kind, block = QWEN3, INT4_WEIGHTS, GROUPS
    n, hidden, heads, kv_heads, size = batch.tokens, QWEN3.hidden, 32, 4, 128
    x, cache, table = t.normal(n, hidden), Cache(t, batch, heads, kv_heads, size), rotary_table(t, size)
    before, after, of_q, of_k = t.normal(hidden), t.normal(hidden), t.normal(size), t.normal(size)
    qkv, out = weights(t, (heads + 2 * kv_heads) * size, hidden), weights(t, hidden, heads * size)
    router = weights(t, model.count, hidden)
    up, down = (operands(t, 1, model.count, *shape, kind, block) for shape in model.shapes)
    config = configuration(model, n, kind, block)

    def attended() -> Any:
        mixed = linear(t, norm(x, before), qkv)
        table_qk_norm_rope_(mixed, cache.pages.positions, of_q, of_k, table, heads, kv_heads, size, 1e-6)
        q, k, v = mixed.view(n, -1, size).split((heads, kv_heads, kv_heads), 1)
        cache.write(k, v)
        return x + linear(t, cache.attention(q.contiguous()), out)

    def chances(normed: Any) -> Any:
        return linear(t, normed, router).float().softmax(-1)

    chosen = chances(norm(attended(), after)).topk(model.chosen).indices
    order = aligned(t, chosen.to(t.torch.int32), config["BLOCK_SIZE_M"], model.count)
    layer = Layer(model, kind, block, config, order)

    def call() -> list[Any]:
        middle = attended()
        normed = norm(middle, after)
        of_chosen = chances(normed).gather(1, chosen)
        shares = of_chosen / of_chosen.sum(-1, keepdim=True)
        wide = matmul(layer, up.of(normed), shares, normed.new_empty(n, model.chosen, 2 * model.inner))
        narrow = gated(wide.view(-1, 2 * model.inner))
        return [
            middle + summed(matmul(layer, down.of(narrow), shares, normed.new_empty(n, model.chosen, hidden)))
        ]

    return call


def steps() -> list[Step]:
    """All steps; what takes longest comes first."""
    made: list[Step] = []

    def add(model: str, what: Callable[..., Any], of_layers: int, layers: int = 1) -> None:
        for name, batch in (("decode", DECODE), ("prefill", PREFILL)):
            make = functools.partial(what, batch=batch)
            sequences = f"{batch.sequences} x " if batch.sequences > 1 else ""
            step = f"{model}: {name} {sequences}{batch.new if batch.new > 1 else batch.before}"
            made.append(Step(step, model, make, None, batch.tokens, layers, of_layers))

    add("gpt-oss-20b mxfp4", gpt_oss, 24, 2)
    add("deepseek-v3 fp8, one of 8 GPUs", steps_deepseek.layer, 61)
    add("qwen3-30b-a3b int4", qwen3, 48)
    add("llama3-8b bf16", llama3, 32)
    head = functools.partial(llama3_head, batch=DECODE)
    made.append(Step("llama3-8b bf16: head and sampling 64", "llama3-8b bf16", head, None, DECODE.tokens))
    return list(unique(made))
