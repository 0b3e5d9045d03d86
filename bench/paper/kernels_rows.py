"""Kernels that change rows or elements: embedding, gated units, rotary embedding, dropout, addition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl

from bench.kernels.kernel import Kernel, Tensor

from .kernel_case import Drawn, Family, Work, family

FAMILIES: list[Family] = []
SEED = 123
KEPT = 0.7
"""Which share of the elements dropout keeps."""


@triton.jit
def embedding_kernel(
    index_ptr, table_ptr, out_ptr, tokens, width, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """BLOCK_N columns of the rows of a table that BLOCK_M tokens stand for."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < tokens) & (columns[None, :] < width)
    index = tl.load(index_ptr + rows, mask=rows < tokens, other=0)
    values = tl.load(table_ptr + index[:, None] * width + columns[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + rows[:, None] * width + columns[None, :], values, mask=inside)


@triton.jit
def geglu_kernel(gate_ptr, up_ptr, out_ptr, columns, COLUMNS: tl.constexpr):
    """gelu(gate) up of one row, with the approximation of gelu by tanh."""
    here = tl.arange(0, COLUMNS)
    offsets = tl.program_id(0).to(tl.int64) * columns + here
    gate = tl.load(gate_ptr + offsets, mask=here < columns, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=here < columns, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    # (1 + tanh(x)) / 2 = sigmoid(2 x).
    out = gate * tl.sigmoid(2 * inner) * up
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=here < columns)


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, columns, COLUMNS: tl.constexpr):
    """silu(gate) up of one row."""
    here = tl.arange(0, COLUMNS)
    offsets = tl.program_id(0).to(tl.int64) * columns + here
    gate = tl.load(gate_ptr + offsets, mask=here < columns, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=here < columns, other=0.0).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=here < columns)


@triton.jit
def rotated_heads(x_ptr, out_ptr, cos, sin, HEADS: tl.constexpr, DIM: tl.constexpr):
    """All heads of one token, [HEADS, DIM], of which element i is rotated with element i + DIM / 2."""
    half: tl.constexpr = DIM // 2
    low = tl.arange(0, HEADS)[:, None] * DIM + tl.arange(0, half)[None, :]
    high = low + half
    a = tl.load(x_ptr + low).to(tl.float32)
    b = tl.load(x_ptr + high).to(tl.float32)
    tl.store(out_ptr + low, (a * cos[None, :] - b * sin[None, :]).to(out_ptr.dtype.element_ty))
    tl.store(out_ptr + high, (b * cos[None, :] + a * sin[None, :]).to(out_ptr.dtype.element_ty))


@triton.jit
def rope_kernel(
    q_ptr,
    k_ptr,
    cos_ptr,
    sin_ptr,
    q_out_ptr,
    k_out_ptr,
    length,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
):
    """Rotary embedding of the queries and keys of one token, by the angles of its place."""
    token = tl.program_id(0).to(tl.int64)
    channels = tl.arange(0, DIM // 2)
    place = (token % length) * (DIM // 2)
    cos, sin = tl.load(cos_ptr + place + channels), tl.load(sin_ptr + place + channels)
    queries, keys = token * HEADS * DIM, token * KV_HEADS * DIM
    rotated_heads(q_ptr + queries, q_out_ptr + queries, cos, sin, HEADS, DIM)
    rotated_heads(k_ptr + keys, k_out_ptr + keys, cos, sin, KV_HEADS, DIM)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, count, SEED: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr):
    """x / KEPT where a random number, which the seed and the element's place give, is below KEPT, else 0."""
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + here, mask=here < count, other=0.0)
    out = tl.where(tl.rand(SEED, here) < KEPT, x / KEPT, 0.0)
    tl.store(out_ptr + here, out.to(out_ptr.dtype.element_ty), mask=here < count)


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
    """x + y."""
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + here, mask=here < count)
    y = tl.load(y_ptr + here, mask=here < count)
    tl.store(out_ptr + here, x + y, mask=here < count)


@family(
    FAMILIES,
    {"tokens": 4096, "words": 32000, "width": 768},
    {"tokens": 8192, "words": 32000, "width": 4096},
    {"tokens": 16384, "words": 128256, "width": 4096},
    {"tokens": 32768, "words": 1024, "width": 768},
    small={"tokens": 40, "words": 50, "width": 24, "blocks": (16, 16)},
)
def embedding(tokens: int, words: int, width: int, blocks: tuple[int, int] = (128, 128)) -> Work:
    """Rows of an f32 table."""
    block_m, block_n = blocks

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"out_ptr": given["table_ptr"][given["index_ptr"]]}

    kernel = Kernel(
        embedding_kernel,
        {
            "index_ptr": Tensor("int64", (tokens,), words, True),
            "table_ptr": Tensor("float32", (words, width)),
        },
        {"out_ptr": Tensor("float32", (tokens, width))},
        (-(-tokens // block_m), -(-width // block_n)),
        {"tokens": tokens, "width": width},
        {"BLOCK_M": block_m, "BLOCK_N": block_n},
        {"num_warps": 4},
    )
    return Work([kernel], reference, 0.0)


GATED = (
    {"rows": 2048, "columns": 4096},
    {"rows": 4096, "columns": 11008},
    {"rows": 8192, "columns": 14336},
)


def _gated(function: Any, rows: int, columns: int, gate: Any) -> Work:
    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"out_ptr": gate(torch, given["gate_ptr"]) * given["up_ptr"]}

    block = triton.next_power_of_2(columns)
    kernel = Kernel(
        function,
        {name: Tensor("bfloat16", (rows, columns)) for name in ("gate_ptr", "up_ptr")},
        {"out_ptr": Tensor("bfloat16", (rows, columns))},
        (rows,),
        {"columns": columns},
        {"COLUMNS": block},
        {"num_warps": 16 if block >= 8192 else 8 if block >= 2048 else 4},
    )
    return Work([kernel], reference, 1e-2)


@family(FAMILIES, *GATED, small={"rows": 5, "columns": 100})
def geglu(rows: int, columns: int) -> Work:
    """bf16 rows."""
    return _gated(geglu_kernel, rows, columns, lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"))


@family(FAMILIES, *GATED, small={"rows": 5, "columns": 100})
def swiglu(rows: int, columns: int) -> Work:
    """bf16 rows."""
    return _gated(swiglu_kernel, rows, columns, lambda torch, x: torch.nn.functional.silu(x))


@family(
    FAMILIES,
    {"batch": 1, "length": 2048, "heads": 32, "kv_heads": 8, "dim": 128},
    {"batch": 4, "length": 2048, "heads": 32, "kv_heads": 8, "dim": 64},
    {"batch": 1, "length": 8192, "heads": 32, "kv_heads": 32, "dim": 128},
    {"batch": 1, "length": 16384, "heads": 64, "kv_heads": 8, "dim": 128},
    small={"batch": 2, "length": 5, "heads": 4, "kv_heads": 2, "dim": 16},
)
def rope(batch: int, length: int, heads: int, kv_heads: int, dim: int) -> Work:
    """bf16 queries and keys."""
    tokens, angles = batch * length, (length, dim // 2)
    shapes = {"q": (tokens, heads, dim), "k": (tokens, kv_heads, dim)}

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        cos, sin = (given[name].repeat(batch, 1)[:, None, :] for name in ("cos_ptr", "sin_ptr"))
        found = {}
        for name in shapes:
            a, b = given[f"{name}_ptr"].split(dim // 2, -1)
            found[f"{name}_out_ptr"] = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        return found

    kernel = Kernel(
        rope_kernel,
        {f"{name}_ptr": Tensor("bfloat16", shape) for name, shape in shapes.items()}
        | {
            "cos_ptr": Drawn("float32", angles, then=lambda torch, x: torch.cos(math.pi * x)),
            "sin_ptr": Drawn("float32", angles, then=lambda torch, x: torch.sin(math.pi * x)),
        },
        {f"{name}_out_ptr": Tensor("bfloat16", shape) for name, shape in shapes.items()},
        (tokens,),
        {"length": length},
        {"HEADS": heads, "KV_HEADS": kv_heads, "DIM": dim},
        {"num_warps": 4},
    )
    return Work([kernel], reference, 1e-2)


def _random(torch: Any, seed: int, count: int, device: Any) -> Any:
    """What tl.rand(seed, 0..count-1) gives: first words of Philox-4x32-10 (Salmon et al., SC'11), in [0, 1)."""
    low_word = 0xFFFFFFFF
    words = [torch.zeros(count, dtype=torch.int64, device=device) for _ in range(4)]
    words[0] = torch.arange(count, device=device)
    keys = [seed & low_word, seed >> 32]

    def product(a: int, b: Any) -> tuple[Any, Any]:
        """(high, low) word of a b, by halves of b, so that 64 bits do."""
        above, below = a * (b >> 16), a * (b & 0xFFFF)
        middle = above + (below >> 16)
        return middle >> 16, ((middle & 0xFFFF) << 16) | (below & 0xFFFF)

    for _ in range(10):
        high0, low0 = product(0xD2511F53, words[0])
        high2, low2 = product(0xCD9E8D57, words[2])
        words = [high2 ^ words[1] ^ keys[0], low2, high0 ^ words[3] ^ keys[1], low0]
        keys = [(keys[0] + 0x9E3779B9) & low_word, (keys[1] + 0xBB67AE85) & low_word]
    signed = torch.where(words[0] >= 1 << 31, low_word - words[0], words[0])
    return signed.float() * 4.6566127342e-10


def _elements(function: Any, inputs: tuple[str, ...], count: int, constants: Mapping[str, Any]) -> Kernel:
    return Kernel(
        function,
        {name: Tensor("float32", (count,)) for name in inputs},
        {"out_ptr": Tensor("float32", (count,))},
        (-(-count // 1024),),
        {"count": count},
        {**constants, "BLOCK": 1024},
        {"num_warps": 4},
    )


@family(FAMILIES, {"count": 1 << 20}, {"count": 1 << 24}, {"count": 1 << 26}, small={"count": 3000})
def low_mem_dropout(count: int) -> Work:
    """f32, with random numbers that a seed gives instead of a stored mask."""

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x = given["x_ptr"]
        kept = _random(torch, SEED, count, x.device) < torch.tensor(KEPT, dtype=torch.float32)
        return {"out_ptr": torch.where(kept, x / KEPT, 0.0)}

    kernel = _elements(dropout_kernel, ("x_ptr",), count, {"SEED": SEED, "KEPT": KEPT})
    return Work([kernel], reference, 1e-6)


@family(FAMILIES, {"count": 1 << 20}, {"count": 1 << 24}, {"count": 1 << 26}, small={"count": 3000})
def vector_add(count: int) -> Work:
    """f32."""

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"out_ptr": given["x_ptr"] + given["y_ptr"]}

    return Work([_elements(vector_add_kernel, ("x_ptr", "y_ptr"), count, {})], reference, 1e-6)
