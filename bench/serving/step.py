"""What steps of models are made of: sequences and their cache, rotary tables, and operators of both servers.

Where a server calls a kernel of Triton's, so does a step, whichever of the two servers has one: norms, rotary
embeddings, caches, attention, experts, gates, quantisation, sampling. Matmuls that a server gives to cuBLAS are
PyTorch's, and so are sums with the residual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..foreign.case import Case
from .cases_vllm_attention import segments
from .inputs import Inputs

EPSILON = 1e-6
PAGE = 16
WORDS = 32768
"""Positions of a rotary table."""


@dataclass(frozen=True)
class Step(Case):
    """Some `layers` of the `of_layers` that a model has, once, over so many `tokens`."""

    tokens: int = 0
    layers: int = 1
    of_layers: int = 1


@dataclass(frozen=True)
class Batch:
    """So many sequences, each with new tokens after others that are in the cache."""

    sequences: int
    new: int
    before: int

    @property
    def tokens(self) -> int:
        return self.sequences * self.new

    @property
    def length(self) -> int:
        """Of each sequence, with what is new."""
        return self.before + self.new


DECODE, PREFILL = Batch(64, 1, 2048), Batch(1, 2048, 0)


class Pages:
    """Which pages of a cache the sequences of a batch have, and where new tokens go."""

    def __init__(self, t: Inputs, batch: Batch) -> None:
        each = -(-batch.length // PAGE)
        self.total = batch.sequences * each + 7
        self.table = t.pages(batch.sequences, each, self.total)
        self.lengths, self.starts = (
            t.full(batch.length, batch.sequences),
            t.starts([batch.new] * batch.sequences),
        )
        new = t.torch.arange(batch.before, batch.length, device="cuda")
        self.positions = new.repeat(batch.sequences)
        pages = self.table.long()[:, new // PAGE]
        self.slots = (pages * PAGE + new % PAGE).flatten()


class Cache:
    """Keys and values in pages."""

    def __init__(self, t: Inputs, batch: Batch, heads: int, kv_heads: int, size: int) -> None:
        self.pages, self._batch = Pages(t, batch), batch
        self.keys, self.values = (t.normal(self.pages.total, PAGE, kv_heads, size) for _ in range(2))
        self._out = t.empty(batch.tokens, heads, size)
        self._parts = segments(t, batch.tokens, heads, kv_heads, size) if batch.new == 1 else {}

    def attention(self, q: Any, sinks: Any = None, window: int | None = None) -> Any:
        """Of the new tokens, whose keys and values have been written: a row each."""
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention

        batch, pages = self._batch, self.pages
        q = q.view(self._out.shape)
        unified_attention(
            *(q, self.keys, self.values, self._out, pages.starts, batch.new, pages.lengths, batch.length),
            *(q.shape[-1] ** -0.5, True, (-1, -1) if window is None else (window, 0), pages.table, 0.0),
            *(None, None, None),
            sinks=sinks,
            **self._parts,
        )
        return self._out.flatten(1)

    def rotated(self, q: Any, k: Any, v: Any, table: Any) -> Any:
        """Queries with rotary embeddings; keys with them, and values, are in the cache then."""
        from sglang.kernels.ops.attention.fused_qk_rope_reshape_and_cache import fused_qk_rope_reshape_and_cache

        pages = self.pages
        return fused_qk_rope_reshape_and_cache(
            *(q, k, v, self.keys, self.values, pages.slots, pages.positions, table, None, None, True, True),
            output_zeros=False,
        )[0]

    def write(self, k: Any, v: Any) -> None:
        """Keys and values as they are."""
        from vllm.v1.attention.ops.triton_reshape_and_cache_flash import triton_reshape_and_cache_flash

        triton_reshape_and_cache_flash(k, v, self.keys, self.values, self.pages.slots, "auto", None, None)


def rotary_table(t: Inputs, size: int, dtype: str = "float32") -> Any:
    """Cosines and sines of each position."""
    torch = t.torch
    rates = 10000.0 ** (-torch.arange(0, size, 2, device="cuda") / size)
    angles = torch.arange(WORDS, device="cuda")[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], -1).to(getattr(torch, dtype))


def weights(t: Inputs, n: int, k: int) -> Any:
    """Of a matmul from `k` to `n`, which keeps how large values are."""
    return t.normal(n, k, scale=k**-0.5)


def linear(t: Inputs, x: Any, w: Any, shift: Any = None) -> Any:
    """A matmul of cuBLAS's."""
    if t.pretended:
        return t.empty(*x.shape[:-1], len(w))
    return t.torch.nn.functional.linear(x, w, shift)


def each_head(t: Inputs, x: Any, w: Any) -> Any:
    """A matmul of cuBLAS's for each head: tokens, heads, k times heads, k, n."""
    if t.pretended:
        return t.empty(len(x), len(w), w.shape[-1])
    return t.torch.bmm(x.transpose(0, 1), w).transpose(0, 1)


def norm(x: Any, w: Any) -> Any:
    """Root mean square norm."""
    from sglang.kernels.ops.layernorm.fused_rmsnorm import fused_rmsnorm

    return fused_rmsnorm(x, w, EPSILON)


def gated(x: Any) -> Any:
    """SiLU of the first half of a row times the second."""
    from sglang.kernels.ops.moe.fused_moe_triton_kernels import act_and_mul_triton

    out = x.new_empty(len(x), x.shape[-1] // 2)
    act_and_mul_triton(x, out, {})
    return out


def summed(partial: Any) -> Any:
    """The sum over a token's experts."""
    from sglang.kernels.ops.moe.fused_moe_triton_kernels import moe_sum_reduce_triton

    out = partial.new_empty(len(partial), partial.shape[-1])
    moe_sum_reduce_triton(partial, out, 1.0)
    return out


Layer = Callable[[Inputs, Batch], Callable[[], Any]]
