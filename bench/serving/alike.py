"""What operators that both servers have are given."""

from __future__ import annotations

from typing import Any

from .inputs import Inputs


def sequences_without_cache(t: Inputs) -> tuple[Any, ...]:
    """Queries, keys, values and results of four sequences of 1,024, as an encoder has them; not causal."""
    q, k, v = (t.normal(4096, 16, 64) for _ in range(3))
    return q, k, v, t.empty(4096, 16, 64), t.starts([1024] * 4)[:4], t.full(1024, 4), 1024, False


def queries_to_norm_and_rotate(t: Inputs) -> tuple[Any, ...]:
    """Of Qwen3-Next: queries with their gates, keys, norms, a rotary table, positions and sizes."""
    tokens, heads, kv_heads, size = 2048, 16, 2, 256
    q, k, table = t.normal(tokens, 2 * heads * size), t.normal(tokens, kv_heads * size), t.normal(8192, 64)
    where = t.integers(0, 8192, tokens)
    return q, k, t.normal(size), t.normal(size), table, where, 1e-6, heads, kv_heads, size, 64


def fp8_in_blocks(t: Inputs, m: int, n: int, k: int = 7168) -> tuple[Any, ...]:
    """Operands of a matmul with a scale for each 128 of a row and each block of weights."""
    scales = t.scales(m, k // 128), t.scales(-(-n // 128), k // 128)
    return t.fp8(m, k), t.fp8(n, k), *scales, [128, 128], t.torch.bfloat16


def scaled(t: Inputs, m: int, n: int, fp8: bool, k: int = 4096) -> tuple[Any, ...]:
    """Operands of a matmul with a scale for each row and column."""
    make = t.fp8 if fp8 else t.int8
    return make(m, k), make(n, k).t(), t.uniform(m, 1, high=0.02), t.uniform(n, 1, high=0.02), t.torch.bfloat16
