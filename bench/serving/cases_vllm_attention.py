"""Attention of vLLM over paged caches: decoding and prefill, plain, of latent vectors, sparse; its caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..foreign.case import Cases, plain
from .alike import sequences_without_cache
from .answers import QuantMode
from .inputs import Inputs

CASES = Cases()
VLLM = "vllm"
LLAMA3 = {"heads": 32, "kv_heads": 8, "size": 128}
QWEN3 = {"heads": 32, "kv_heads": 4, "size": 128, "page": 32, "fp8": True}
GPT_OSS = {"heads": 64, "kv_heads": 8, "size": 64, "sinks": True}
LATENT = {"kv_heads": 1, "size": 576, "value": 512, "latent": True}
SEGMENTS = 16


def segments(t: Inputs, tokens: int, heads: int, kv_heads: int, size: int) -> dict[str, Any]:
    """Where vLLM keeps parts of the softmax when several CTAs decode one sequence."""
    return {
        "seq_threshold_3D": max(1, 128 // kv_heads),
        "num_par_softmax_segments": SEGMENTS,
        "softmax_segm_output": t.empty(tokens, heads, SEGMENTS, size, dtype="float32"),
        "softmax_segm_max": t.empty(tokens, heads, SEGMENTS, dtype="float32"),
        "softmax_segm_expsum": t.empty(tokens, heads, SEGMENTS, dtype="float32"),
    }


@CASES.each(
    VLLM,
    {
        "unified attention llama3-8b decode 1": {"batch": 1, "query": 1, "context": 8192, **LLAMA3},
        "unified attention llama3-8b decode 16": {"batch": 16, "query": 1, "context": 4096, **LLAMA3},
        "unified attention llama3-8b decode 64": {"batch": 64, "query": 1, "context": 2048, **LLAMA3},
        "unified attention llama3-8b decode 256": {"batch": 256, "query": 1, "context": 1024, **LLAMA3},
        "unified attention llama3-8b prefill 4096": {"batch": 1, "query": 4096, "context": 0, **LLAMA3},
        "unified attention llama3-8b prefill 2 x 2048 after 2048": {
            "batch": 2,
            "query": 2048,
            "context": 2048,
            **LLAMA3,
        },
        "unified attention qwen3 decode 64 fp8 cache": {"batch": 64, "query": 1, "context": 2048, **QWEN3},
        "unified attention qwen3 prefill 2048 fp8 cache": {"batch": 1, "query": 2048, "context": 2048, **QWEN3},
        "unified attention gpt-oss decode 64 sinks window": {
            "batch": 64,
            "query": 1,
            "context": 2048,
            "window": 127,
            **GPT_OSS,
        },
        "unified attention gpt-oss decode 16 sinks": {"batch": 16, "query": 1, "context": 4096, **GPT_OSS},
        "unified attention gpt-oss prefill 4096 sinks window": {
            "batch": 1,
            "query": 4096,
            "context": 0,
            "window": 127,
            **GPT_OSS,
        },
        "unified attention gpt-oss verify 16 x 4": {"batch": 16, "query": 4, "context": 4096, **GPT_OSS},
        "unified attention gemma2 prefill softcap": {
            "batch": 1,
            "query": 2048,
            "context": 1024,
            "heads": 16,
            "kv_heads": 8,
            "size": 256,
            "softcap": 50.0,
        },
    },
)
def unified(
    t: Inputs,
    batch: int,
    query: int,
    context: int,
    heads: int,
    kv_heads: int,
    size: int,
    page: int = 16,
    fp8: bool = False,
    window: int = -1,
    sinks: bool = False,
    softcap: float = 0.0,
) -> Callable[[], Any]:
    """The kernel that does all of it; `window` is of keys before the query's own."""
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    tokens, each = batch * query, -(-(context + query) // page)
    total = batch * each + 7
    q, out = t.normal(tokens, heads, size), t.empty(tokens, heads, size)
    k, v = ((t.fp8 if fp8 else t.normal)(total, page, kv_heads, size) for _ in range(2))
    lengths = t.integers(context // 2, context + 1, batch, dtype="int32") + query
    scale = t.full(0.5, 1, dtype="float32") if fp8 else None
    return plain(
        unified_attention,
        *(q, k, v, out, t.starts([query] * batch), query, lengths, context + query, size**-0.5, True),
        *((window, 0) if window > 0 else (-1, -1), t.pages(batch, each, total), softcap, None, scale, scale),
        sinks=t.normal(heads) if sinks else None,
        kv_quant_mode=QuantMode.FP8_PER_TENSOR if fp8 else QuantMode.NONE,
        **(segments(t, tokens, heads, kv_heads, size) if query == 1 else {}),
    )


DECODE16, PREFILL = {"batch": 16, "query": 1}, {"batch": 1, "query": 1024}


@CASES.each(
    VLLM,
    {
        "attention int8 per token and head decode 16": {"mode": QuantMode.INT8_PER_TOKEN_HEAD, **DECODE16},
        "attention fp8 per token and head prefill 1024": {"mode": QuantMode.FP8_PER_TOKEN_HEAD, **PREFILL},
        "attention int4 per token and head decode 16": {"mode": QuantMode.INT4_PER_TOKEN_HEAD, **DECODE16},
        "attention int4 per token and head prefill 1024": {"mode": QuantMode.INT4_PER_TOKEN_HEAD, **PREFILL},
    },
)
def scaled_per_head(
    t: Inputs, mode: QuantMode, batch: int, query: int, context: int = 2048
) -> Callable[[], Any]:
    """A cache with a scale for each token and head (of four bits with a zero point in it), written and read."""
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import (
        triton_reshape_and_cache_flash_per_token_head_quant as write,
    )
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    heads, kv_heads, size, page = 32, 8, 128, 32
    tokens, each = batch * query, -(-(context + query) // page)
    total = batch * each + 7
    make, width = {
        QuantMode.INT8_PER_TOKEN_HEAD: (t.int8, size),
        QuantMode.FP8_PER_TOKEN_HEAD: (t.fp8, size),
        QuantMode.INT4_PER_TOKEN_HEAD: (t.bytes, size // 2),
    }[mode]
    k, v = make(total, page, kv_heads, width), make(total, page, kv_heads, width)
    k_scale, v_scale = t.scales(total, page, kv_heads), t.scales(total, page, kv_heads)
    q, out, new = t.normal(tokens, heads, size), t.empty(tokens, heads, size), t.normal(tokens, kv_heads, size)
    slots, table = t.order(tokens, total * page), t.pages(batch, each, total)
    lengths, starts = t.full(context + query, batch), t.starts([query] * batch)
    parts = segments(t, tokens, heads, kv_heads, size) if query == 1 else {}

    def call() -> None:
        write(new, new, k, v, k_scale, v_scale, slots, mode)
        unified_attention(
            *(q, k, v, out, starts, query, lengths, context + query, size**-0.5, True, (-1, -1), table, 0.0),
            *(None, None, None),
            kv_quant_mode=mode,
            k_scale_cache=k_scale,
            v_scale_cache=v_scale,
            **parts,
        )

    return call


@CASES.each(
    VLLM,
    {
        "mla decode deepseek 16 heads batch 64": {"batch": 64, "context": 2048, "heads": 16, **LATENT},
        "mla decode deepseek 128 heads batch 16": {"batch": 16, "context": 4096, "heads": 128, **LATENT},
        "mla decode fp8 cache batch 64": {"batch": 64, "context": 2048, "heads": 16, "fp8": True, **LATENT},
        "decode attention gqa 128": {
            "batch": 64,
            "context": 2048,
            "heads": 32,
            "kv_heads": 8,
            "size": 128,
            "value": 128,
        },
        "decode attention mha 64": {
            "batch": 64,
            "context": 1024,
            "heads": 16,
            "kv_heads": 16,
            "size": 64,
            "value": 64,
        },
    },
)
def decode(
    t: Inputs,
    batch: int,
    context: int,
    heads: int,
    kv_heads: int,
    size: int,
    value: int,
    latent: bool = False,
    fp8: bool = False,
    page: int = 16,
    splits: int = 4,
) -> Callable[[], Any]:
    """One token of each sequence; of `latent` vectors the values are a part of the keys."""
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

    each = -(-context // page)
    total, make = batch * each + 7, t.fp8 if fp8 else t.normal
    k = make(total, page, kv_heads, size)
    v = k[..., :value] if latent else make(total, page, kv_heads, value)
    q, out, logs = t.normal(batch, heads, size), t.empty(batch, heads, value), t.empty(batch, heads)
    lengths = t.integers(context // 2, context, batch, dtype="int32")
    parts, scale = t.empty(batch, heads, splits, value + 1, dtype="float32"), t.full(0.5, 1, dtype="float32")
    table = t.pages(batch, each, total)
    return plain(
        decode_attention_fwd,
        *(q, k, v, out, logs, table, lengths, parts, splits, size**-0.5, page, 0.0, scale, scale),
        is_mla=latent,
    )


@CASES.each(
    VLLM,
    {
        "prefix prefill 128": {"batch": 2, "query": 1024, "context": 2048, "heads": 32, "size": 128},
        "prefix prefill 64 window": {
            "batch": 4,
            "query": 512,
            "context": 1024,
            "heads": 64,
            "size": 64,
            "window": 128,
        },
        "prefix prefill 128 fp8 cache": {
            "batch": 2,
            "query": 1024,
            "context": 2048,
            "heads": 32,
            "size": 128,
            "fp8": True,
        },
    },
)
def after_prefix(
    t: Inputs,
    batch: int,
    query: int,
    context: int,
    heads: int,
    size: int,
    fp8: bool = False,
    window: int | None = None,
    kv_heads: int = 8,
    page: int = 16,
) -> Callable[[], Any]:
    from vllm.v1.attention.ops.prefix_prefill import context_attention_fwd

    tokens, each, x = batch * query, -(-(context + query) // page), 16 if fp8 else 8
    total, make = batch * each + 3, t.fp8 if fp8 else t.normal
    q, out = t.normal(tokens, heads, size), t.empty(tokens, heads, size)
    k, v = t.normal(tokens, kv_heads, size), t.normal(tokens, kv_heads, size)
    keys, values = make(total, kv_heads, size // x, page, x), make(total, kv_heads, size, page)
    one = t.full(1.0, 1, dtype="float32")
    return plain(
        context_attention_fwd,
        *(q, k, v, out, "fp8" if fp8 else "auto", keys, values, t.pages(batch, each, total)),
        *(t.starts([query] * batch), t.full(context + query, batch), context + query, query, one, one),
        sliding_window=window,
    )


@CASES.of(VLLM)
def prefill_attention_without_cache(t: Inputs) -> Callable[[], Any]:
    from vllm.v1.attention.ops.triton_prefill_attention import context_attention_fwd

    return plain(context_attention_fwd, *sequences_without_cache(t))


@CASES.each(
    VLLM,
    {
        "sparse attention minimax decode 32": {"batch": 32, "query": 1},
        "sparse attention minimax prefill 1024": {"batch": 1, "query": 1024},
    },
)
def sparse(t: Inputs, batch: int, query: int, context: int = 8192) -> Callable[[], Any]:
    """The blocks of keys that score best, and attention to these."""
    from vllm.models.minimax_m3.common.ops import index_topk, sparse_attn

    heads, kv_heads, size, best, page = 64, 4, 128, 16, 128
    tokens, each, length = batch * query, -(-(context + query) // page), context + query
    total, scale = batch * each + 3, size**-0.5
    q, out, cache = (
        t.normal(tokens, heads, size),
        t.empty(tokens, heads, size),
        t.normal(total, kv_heads, page, 2 * size),
    )
    index, index_cache = t.normal(tokens, kv_heads, size), t.normal(total, page, size)
    table, lengths, prefix = t.pages(batch, each, total), t.full(length, batch), t.full(context, batch)
    starts = t.starts([query] * batch)
    chosen = t.integers(0, context // page, kv_heads, tokens, best, dtype="int32").sort(-1).values.contiguous()

    def decoding() -> None:
        index_topk.minimax_m3_index_decode_score(
            index, index_cache, table, lengths, length, 1, 2, kv_heads, 1, 1
        )
        sparse_attn.minimax_m3_sparse_attn_decode(q, cache, chosen, table, lengths, kv_heads, scale, out, 1)

    def prefill() -> None:
        where = (starts, lengths, prefix, query)
        score = index_topk.minimax_m3_index_score(index, index_cache, table, *where, length, kv_heads)
        index_topk.minimax_m3_index_topk(score, starts, prefix, query, best, 1, 2)
        sparse_attn.minimax_m3_sparse_attn(q, cache, chosen, table, *where, kv_heads, scale, out)

    return decoding if query == 1 else prefill


@CASES.of(VLLM)
def merge_attention_states(t: Inputs) -> Callable[[], Any]:
    from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states

    tokens = 2048
    first = t.normal(tokens, 16, 128), t.normal(16, tokens, dtype="float32")
    second = t.normal(tokens, 16, 128), t.normal(16, tokens, dtype="float32")
    logs = t.empty(16, tokens, dtype="float32")
    return plain(merge_attn_states, t.empty(tokens, 16, 128), *first, *second, logs)


@CASES.each(VLLM, {"reshape and cache": {"fp8": False}, "reshape and cache fp8": {"fp8": True}})
def write_cache(t: Inputs, fp8: bool) -> Callable[[], Any]:
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import triton_reshape_and_cache_flash

    tokens, pages, page, heads, size = 2048, 1024, 16, 8, 128
    k, v = t.normal(tokens, heads, size), t.normal(tokens, heads, size)
    kind, one = "uint8" if fp8 else "bfloat16", t.full(1.0, 1, dtype="float32")
    keys, values = (t.empty(pages, page, heads, size, dtype=kind) for _ in range(2))
    slots = t.order(tokens, pages * page)
    return plain(triton_reshape_and_cache_flash, k, v, keys, values, slots, "fp8" if fp8 else "auto", one, one)


@CASES.of(VLLM)
def pack_and_unpack_sequences(t: Inputs) -> Callable[[], Any]:
    from vllm.v1.attention.ops import common

    x, lengths = t.normal(2048, 576), t.full(128, 16)
    return lambda: common.unpack_seq_triton(common.pack_seq_triton(x, lengths).view(16, 128, 576), lengths)
