"""Attention of SGLang: decoding, extending a prefix, verifying drafts, sparse; caches of latent vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..foreign.case import Cases, plain
from .alike import queries_to_norm_and_rotate, sequences_without_cache
from .inputs import Inputs

CASES = Cases()
SGLANG = "sglang"
LLAMA3 = {"heads": 32, "kv_heads": 8, "size": 128, "value": 128}
QWEN3 = {"heads": 32, "kv_heads": 4, "size": 128, "value": 128, "fp8": True}
GPT_OSS = {"heads": 64, "kv_heads": 8, "size": 64, "value": 64}
LATENT = {"kv_heads": 1, "size": 576, "value": 512}
"""DeepSeek's: values are a part of keys."""


@CASES.each(
    SGLANG,
    {
        "decode attention llama3-8b 1": {"batch": 1, "context": 8192, **LLAMA3},
        "decode attention llama3-8b 64": {"batch": 64, "context": 2048, **LLAMA3},
        "decode attention llama3-8b 256": {"batch": 256, "context": 1024, **LLAMA3},
        "decode attention qwen3 64 fp8 cache": {"batch": 64, "context": 2048, **QWEN3},
        "decode attention gpt-oss 64": {"batch": 64, "context": 2048, **GPT_OSS},
        "decode attention mha 64 heads of 64": {
            "batch": 16,
            "context": 2048,
            "heads": 32,
            "kv_heads": 32,
            "size": 64,
            "value": 64,
        },
        "decode attention mla deepseek 16 heads 64": {"batch": 64, "context": 2048, "heads": 16, **LATENT},
        "decode attention mla deepseek 128 heads 16": {"batch": 16, "context": 4096, "heads": 128, **LATENT},
        "decode attention mla fp8 cache 64": {
            "batch": 64,
            "context": 2048,
            "heads": 16,
            "fp8": True,
            **LATENT,
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
    fp8: bool = False,
    most: int = 8,
) -> Callable[[], Any]:
    """One token of each of some sequences, each in up to `most` parts."""
    from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd

    latent, make = kv_heads == 1, t.fp8 if fp8 else t.normal
    slots = batch * context + 17
    k = make(slots, kv_heads, size)
    v = k[..., :value] if latent else make(slots, kv_heads, value)
    lengths = [context - (31 * number) % (context // 3) for number in range(batch)]
    parts = t.full(4 if batch > 16 else most, batch)
    sums, logs = (
        t.empty(batch, heads, most, value, dtype="float32"),
        t.empty(batch, heads, most, dtype="float32"),
    )
    return plain(
        decode_attention_fwd,
        *(t.normal(batch, heads, size), k, v, t.empty(batch, heads, value)),
        *(t.starts(lengths), t.order(sum(lengths), slots), sums, logs, parts, most, size**-0.5, 1.0, 1.0, 0.0),
        has_mla=latent,
    )


HALVES: dict[str, Any] = {"lengths": [1024, 1024], "prefixes": [2048, 1024]}


@CASES.each(
    SGLANG,
    {
        "extend attention llama3-8b 4096": {"lengths": [4096], "prefixes": [0], **LLAMA3},
        "extend attention llama3-8b 2 x 1024 after 2048": {**HALVES, **LLAMA3},
        "extend attention gpt-oss sinks window": {
            "lengths": [2048, 1024],
            "prefixes": [512, 1024],
            "window": 127,
            "sinks": True,
            **GPT_OSS,
        },
        "extend attention qwen3 fp8 cache": {**HALVES, **QWEN3},
        "extend attention deepseek prefill 192": {
            "lengths": [2048],
            "prefixes": [0],
            "heads": 16,
            "kv_heads": 16,
            "size": 192,
            "value": 128,
        },
        "extend attention deepseek absorbed 576": {"lengths": [512], "prefixes": [1024], "heads": 16, **LATENT},
        "extend attention gemma2 256 cap": {
            "lengths": [1024],
            "prefixes": [1024],
            "heads": 16,
            "kv_heads": 8,
            "size": 256,
            "value": 256,
            "cap": 50.0,
        },
        "extend attention llama3-8b unified": {**HALVES, **LLAMA3, "unified": True},
    },
)
def extend(
    t: Inputs,
    lengths: Sequence[int],
    prefixes: Sequence[int],
    heads: int,
    kv_heads: int,
    size: int,
    value: int,
    fp8: bool = False,
    window: int = -1,
    sinks: bool = False,
    cap: float = 0.0,
    unified: bool = False,
) -> Callable[[], Any]:
    """Prefill of some sequences, each after a prefix that is in the cache; `unified`: all of it is."""
    from sglang.kernels.ops.attention import extend_attention as ops

    tokens, before = sum(lengths), sum(prefixes)
    slots, make = before + tokens + 13, t.fp8 if fp8 else t.normal
    q, out = t.normal(tokens, heads, size), t.empty(tokens, heads, value)
    keys, values = make(slots, kv_heads, size), make(slots, kv_heads, value)
    each = t.normal(heads) if sinks else None
    if unified:
        both = [new + old for new, old in zip(lengths, prefixes, strict=True)]
        return plain(
            ops.extend_attention_fwd_unified,
            *(q, out, keys, values, 1.0, 1.0, t.starts(lengths), t.starts(both)),
            *(t.order(tokens + before, slots), t.tensor(prefixes), max(lengths)),
            sinks=each,
        )
    return plain(
        ops.extend_attention_fwd,
        *(q, t.normal(tokens, kv_heads, size), t.normal(tokens, kv_heads, value), out, keys, values),
        *(t.starts(lengths), t.starts(prefixes), t.order(before, slots), None, True, None, max(lengths)),
        *(1.0, 1.0),
        logit_cap=cap,
        sliding_window_size=window,
        sinks=each,
    )


@CASES.of(SGLANG)
def prefill_attention_without_cache(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.prefill_attention import context_attention_fwd

    return plain(context_attention_fwd, *sequences_without_cache(t))


@CASES.of(SGLANG, "speculative verify attention 16 x 4")
def verify(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.verify_splitkv import verify_splitkv_fwd

    batch, drafts, context, heads, kv_heads, size = 16, 4, 2048, 32, 8, 128
    tokens, slots = batch * drafts, batch * context + 11
    q, k, v = t.normal(tokens, heads, size), t.normal(tokens, kv_heads, size), t.normal(tokens, kv_heads, size)
    keys, values = t.normal(slots, kv_heads, size), t.normal(slots, kv_heads, size)
    return plain(
        verify_splitkv_fwd,
        *(q, k, v, t.empty(tokens, heads, size), keys, values, t.starts([drafts] * batch)),
        *(t.starts([context] * batch), t.order(batch * context, slots), None, True, None, drafts, 1.0, 1.0),
    )


@CASES.of(SGLANG)
def merge_state(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.merge_state import merge_state_triton

    n = 4096
    first = t.normal(n, 16, 128), t.normal(n, 16, dtype="float32")
    return plain(merge_state_triton, *first, t.normal(n, 16, 128), t.normal(n, 16, dtype="float32"))


SPARSE = {"heads": 16, "rows": 32768, "best": 2048}


@CASES.each(SGLANG, {"sparse mla prefill deepseek v3.2": SPARSE})
def sparse_prefill(t: Inputs, heads: int, rows: int, best: int, tokens: int = 256) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.dsa.triton_sparse_mla_prefill import sparse_mla_prefill

    chosen = t.integers(0, rows, tokens, 1, best, dtype="int32")
    return plain(sparse_mla_prefill, t.normal(tokens, heads, 576), t.normal(rows, 1, 576), chosen, 576**-0.5)


@CASES.each(SGLANG, {"sparse mla decode deepseek v3.2": SPARSE})
def sparse_decode(t: Inputs, heads: int, rows: int, best: int, tokens: int = 32) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.dsa.triton_sparse_mla import triton_sparse_mla_fwd

    q, rotary = t.normal(tokens, heads, 512), t.normal(tokens, heads, 64)
    chosen = t.integers(0, rows, tokens, 1, best, dtype="int32")
    return plain(triton_sparse_mla_fwd, q, rotary, t.normal(rows, 1, 576), chosen, 576**-0.5)


@CASES.of(SGLANG)
def mla_cache_and_keys(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.mla_qk_prep import concat_and_cast_mha_k_triton
    from sglang.kernels.ops.kvcache import mla_buffer as ops

    n, slots = 2048, 16384
    cache, narrow = t.normal(slots, 1, 576), t.empty(slots, 1, 576, dtype="float8_e4m3fn")
    where, latent, rotary = t.order(n, slots), t.normal(n, 1, 512), t.normal(n, 1, 64)
    k, per_head, shared = t.empty(n, 128, 192), t.normal(n, 128, 128), t.normal(n, 1, 64)

    def call() -> None:
        ops.set_mla_kv_buffer_triton(cache, where, latent, rotary)
        ops.set_mla_kv_buffer_triton_fp8_quant(narrow, where, latent, rotary, t.torch.float8_e4m3fn)
        concat_and_cast_mha_k_triton(k, per_head, shared)

    return call


@CASES.of(SGLANG)
def qk_gemma_norm_rope_gate(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.fused_qk_rmsnorm_rope_gate import fused_qk_gemma_rmsnorm_rope_gate

    return plain(fused_qk_gemma_rmsnorm_rope_gate, *queries_to_norm_and_rotate(t))


@CASES.of(SGLANG)
def mrope_fused(t: Inputs) -> Callable[[], Any]:
    from sglang.kernels.ops.attention.rotary_triton import triton_mrope_fused

    tokens, size = 4096, 128
    q, k, table = t.normal(tokens, 28 * size), t.normal(tokens, 4 * size), t.normal(8192, size)
    where = t.integers(0, 8192, 3, tokens)
    rest = [16, 24, 24], size, size, False, False, True, t.zeros(64, dtype="int32")
    return plain(triton_mrope_fused, q, k, table, where, *rest)
