"""Sampling and rotary embeddings of vLLM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..foreign.case import Cases, plain
from .alike import queries_to_norm_and_rotate
from .inputs import Inputs

CASES = Cases()
VLLM = "vllm"
WORDS = 128256


@CASES.each(
    VLLM,
    {
        "top-k top-p 64": {"batch": 64, "k": True, "p": True},
        "top-k 256": {"batch": 256, "k": True, "p": False},
        "top-p 16": {"batch": 16, "k": False, "p": True},
    },
)
def most_likely(t: Inputs, batch: int, k: bool, p: bool) -> Callable[[], Any]:
    from vllm.v1.sample.ops.topk_topp_triton import apply_top_k_top_p_triton

    logits = t.normal(batch, WORDS, dtype="float32", scale=3.0)
    most = t.full(50, batch) if k else None
    share = t.full(0.9, batch, dtype="float32") if p else None
    return lambda: apply_top_k_top_p_triton(logits.clone(), most, share)


@CASES.of(VLLM)
def sampler_gumbel_penalties_logprobs(t: Inputs) -> Callable[[], Any]:
    from vllm.v1.worker.gpu.sample import gumbel, logprob, min_p, penalties

    n = 64
    logits, where = t.normal(n, WORDS, dtype="float32"), t.tensor(list(range(n)))
    one, least = t.uniform(n, low=0.5, high=1.0), t.full(0.05, n, dtype="float32")
    seeds, places, ids = t.integers(0, 1000, n), t.integers(0, 1000, n), t.integers(0, WORDS, n, dtype="int32")
    mask = t.integers(0, 100, n, WORDS // 32 + 1, dtype="int32")
    counts = t.integers(0, 3, n, WORDS, dtype="int32")
    asked = t.integers(0, WORDS, n, 6)

    def call() -> Any:
        penalties.apply_penalties(logits, where, ids, t.zeros(n, dtype="int32"), one, one, one, mask, counts)
        gumbel.apply_temperature(logits, where, one)
        min_p.apply_min_p(logits, where, least)
        gumbel.gumbel_sample(logits, where, one, seeds, places, False, False)
        return logprob.compute_token_logprobs(logits, asked)

    return call


@CASES.of(VLLM)
def rejection_sampler(t: Inputs) -> Callable[[], Any]:
    from vllm.v1.sample import rejection_sampler as ops

    batch, drafts = 64, 3
    n = batch * drafts
    ends, ids = t.starts([drafts] * batch)[1:].contiguous(), t.integers(0, WORDS, n, dtype="int32")
    draft, target, noise = t.uniform(n, WORDS), t.uniform(n, WORDS), t.uniform(batch, WORDS)
    out, bonus = t.zeros(batch, drafts + 1, dtype="int32"), t.integers(0, WORDS, batch, 1, dtype="int32")
    recovered, best = t.integers(0, WORDS, n, dtype="int32"), t.integers(0, WORDS, n)
    uniform, greedy = t.uniform(n), t.full(False, batch, dtype="bool")

    def call() -> None:
        ops._sample_recovered_tokens(recovered, ends, ids, draft, target, noise, max_spec_len=drafts)
        ops._rejection_random_sample(
            out, ends, ids, draft, target, bonus, recovered, uniform, greedy, drafts, None
        )
        ops._rejection_greedy_sample(out, ends, ids, best, bonus, None, drafts, None, None)

    return call


@CASES.of(VLLM, "mrope qwen2-vl")
def rotary_of_images(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.rotary_embedding.mrope import triton_mrope

    tokens, size = 4096, 128
    q, k = t.normal(tokens, 28 * size), t.normal(tokens, 4 * size)
    cos, sin = t.normal(3, tokens, size // 2), t.normal(3, tokens, size // 2)
    return plain(triton_mrope, q, k, cos, sin, [16, 24, 24], size, size, False, True)


@CASES.of(VLLM, "fused qk norm rope gate qwen3-next")
def normed_rotary(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.fused_qk_norm_rope import fused_qk_rmsnorm_rope_gate

    return plain(fused_qk_rmsnorm_rope_gate, *queries_to_norm_and_rotate(t))
