"""Functions for `torch.compile` that move more than they compute: permutations, gathers, and pointwise ones.

They are made as in `cases_torch`; optimiser steps too give the new state.
"""

from __future__ import annotations

import functools
from typing import Any

from .case import Case, Inputs, Made, compiled_case

CASES: list[Case] = []
case = functools.partial(compiled_case, CASES)

# Transposes and other permutations.


@case("permute")
def bias_gelu_transpose(torch: Any, inputs: Inputs) -> Made:
    x, b = inputs.normal(4096, 64, 64), inputs.normal(64)
    return lambda x, b: torch.nn.functional.gelu(x.transpose(1, 2) + b).contiguous(), (x, b)


@case("permute")
def transpose_add_f32(torch: Any, inputs: Inputs) -> Made:
    x, y = (inputs.normal(4096, 4096, dtype="float32") for _ in range(2))
    return lambda x, y: x + y.t(), (x, y)


@case("permute")
def transpose_int8(torch: Any, inputs: Inputs) -> Made:
    x = inputs.integers(-128, 128, 8192, 8192, dtype="int8")
    return lambda x: (x + 1).t().contiguous(), (x,)


@case("permute")
def heads_to_tokens(torch: Any, inputs: Inputs) -> Made:
    x, gate = inputs.normal(8, 32, 2048, 128, dtype="bfloat16"), inputs.normal(8, 2048, 4096, dtype="bfloat16")
    return lambda x, gate: x.transpose(1, 2).flatten(2) * torch.sigmoid(gate), (x, gate)


@case("permute")
def channels_last_to_first(torch: Any, inputs: Inputs) -> Made:
    """Images of bytes, normalised to f16 with channels first."""
    x = inputs.integers(0, 256, 64, 256, 256, 3, dtype="uint8")
    mean, deviation = (inputs.normal(3, 1, 1, dtype="float32").abs() + 0.1 for _ in range(2))

    def function(x: Any, mean: Any, deviation: Any) -> Any:
        return ((x.permute(0, 3, 1, 2).float() / 255 - mean) / deviation).half().contiguous()

    return function, (x, mean, deviation)


@case("permute")
def channels_first_to_last(torch: Any, inputs: Inputs) -> Made:
    x, b = inputs.normal(32, 256, 64, 64), inputs.normal(256, 1, 1)

    def function(x: Any, b: Any) -> Any:
        return torch.relu(x + b).permute(0, 2, 3, 1).contiguous()

    return function, (x, b)


@case("permute")
def pixel_shuffle(torch: Any, inputs: Inputs) -> Made:
    x, b = inputs.normal(16, 256, 64, 64), inputs.normal(256, 1, 1)
    return lambda x, b: torch.nn.functional.gelu(torch.nn.functional.pixel_shuffle(x + b, 2)), (x, b)


@case("permute")
def mean_of_images_channels_last(torch: Any, inputs: Inputs) -> Made:
    x = inputs.normal(64, 512, 28, 28).contiguous(memory_format=torch.channels_last)
    return lambda x: x.float().mean((2, 3)).half(), (x,)


# Embeddings, gathers, and products of a matrix and a vector.


@case("gather")
def embedding_sum(torch: Any, inputs: Inputs) -> Made:
    w, i = inputs.normal(50304, 1024), inputs.integers(0, 50304, 4096, 64)
    return lambda w, i: w[i].sum(1), (w, i)


@case("gather")
def embedding_bag_weighted(torch: Any, inputs: Inputs) -> Made:
    w, i, a = inputs.normal(100000, 256), inputs.integers(0, 100000, 8192, 32), inputs.normal(8192, 32)
    return lambda w, i, a: (w[i].float() * a[:, :, None]).sum(1).half(), (w, i, a)


@case("gather")
def embedding_layer_norm(torch: Any, inputs: Inputs) -> Made:
    w, i = inputs.normal(50304, 1024, dtype="bfloat16"), inputs.integers(0, 50304, 16384)
    place = inputs.normal(16384, 1024, dtype="bfloat16")
    return lambda w, i, place: torch.nn.functional.layer_norm(w[i] + place, (1024,)), (w, i, place)


@case("gather")
def expert_gemv_int8(torch: Any, inputs: Inputs) -> Made:
    """The chosen experts' weights, dequantised, times one token each."""
    w, scale = inputs.integers(-128, 128, 16, 2048, 2048, dtype="int8"), inputs.normal(16, 2048)
    i, x = inputs.integers(0, 16, 8), inputs.normal(8, 2048)

    def function(w: Any, scale: Any, i: Any, x: Any) -> Any:
        return ((w[i].to(torch.float16) * scale[i][:, :, None]) * x[:, None, :]).sum(-1)

    return function, (w, scale, i, x)


@case("gather")
def expert_gemv_int8_transposed(torch: Any, inputs: Inputs) -> Made:
    """The same with weights that lie the other way: the sum is over rows."""
    w, scale = inputs.integers(-128, 128, 16, 2048, 2048, dtype="int8"), inputs.normal(16, 2048)
    i, x = inputs.integers(0, 16, 8), inputs.normal(8, 2048)

    def function(w: Any, scale: Any, i: Any, x: Any) -> Any:
        return (w[i].to(torch.float16) * x[:, :, None]).sum(1) * scale[i]

    return function, (w, scale, i, x)


@case("gather")
def decode_attention_values(torch: Any, inputs: Inputs) -> Made:
    """One query a head against a cache: softmax of its scores, times the values."""
    scores, v = inputs.normal(8, 32, 2048), inputs.normal(8, 32, 2048, 128)

    def function(scores: Any, v: Any) -> Any:
        return (torch.softmax(scores.float(), -1)[..., None] * v).sum(2).half()

    return function, (scores, v)


# Pointwise kernels, scans, optimisers: few conversions or none, and no reason to lose.


@case("pointwise")
def rotary_halves(torch: Any, inputs: Inputs) -> Made:
    x = inputs.normal(4, 2048, 32, 128, dtype="bfloat16")
    cos, sin = (inputs.normal(2048, 1, 64, dtype="float32") for _ in range(2))

    def function(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype).transpose(1, 2).contiguous()

    return function, (x, cos, sin)


@case("pointwise")
def rotary_pairs(torch: Any, inputs: Inputs) -> Made:
    x = inputs.normal(4, 2048, 32, 128)
    cos, sin = (inputs.normal(2048, 1, 64, dtype="float32") for _ in range(2))

    def function(x: Any, cos: Any, sin: Any) -> Any:
        pairs = x.float().unflatten(-1, (64, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).half()

    return function, (x, cos, sin)


@case("pointwise")
def rms_norm_rotary(torch: Any, inputs: Inputs) -> Made:
    """Heads of one token in a row, as queries and keys of an attention layer get it."""
    x, w = inputs.normal(4096, 32, 128), inputs.normal(128)
    cos, sin = (inputs.normal(4096, 1, 64, dtype="float32") for _ in range(2))

    def function(x: Any, w: Any, cos: Any, sin: Any) -> Any:
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * w
        a, b = y.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).half()

    return function, (x, w, cos, sin)


@case("pointwise")
def swiglu(torch: Any, inputs: Inputs) -> Made:
    def function(x: Any) -> Any:
        gate, up = x.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    return function, (inputs.normal(8192, 8192, dtype="bfloat16"),)


@case("pointwise")
def dropout_residual_norm(torch: Any, inputs: Inputs) -> Made:
    x, residual = inputs.normal(8192, 2048), inputs.normal(8192, 2048)

    def function(x: Any, residual: Any) -> Any:
        total = torch.nn.functional.dropout(x, 0.1) + residual
        return total, torch.nn.functional.layer_norm(total, (2048,))

    return function, (x, residual)


@case("pointwise", tolerance=1e-3)
def cumulative_sum(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.cumsum(x, -1), (inputs.normal(8192, 2048, dtype="float32"),)


@case("pointwise")
def adamw_bf16(torch: Any, inputs: Inputs) -> Made:
    p, g = (inputs.normal(1 << 24, dtype="bfloat16") for _ in range(2))
    m, v = inputs.normal(1 << 24, dtype="float32"), inputs.normal(1 << 24, dtype="float32").abs()

    def function(p: Any, g: Any, m: Any, v: Any) -> Any:
        wide = g.float()
        m = 0.9 * m + 0.1 * wide
        v = 0.95 * v + 0.05 * wide * wide
        return (p.float() * (1 - 1e-5) - 1e-4 * m / (v.sqrt() + 1e-8)).bfloat16(), m, v

    return function, (p, g, m, v)


@case("pointwise")
def sgd_momentum_f16(torch: Any, inputs: Inputs) -> Made:
    p, g, m = inputs.normal(4096, 8192), inputs.normal(8192, 4096), inputs.normal(4096, 8192, dtype="float32")

    def function(p: Any, g: Any, m: Any) -> Any:
        """The gradient comes transposed, as from a layer whose weight is kept the other way."""
        m = 0.9 * m + g.t().float()
        return (p.float() - 1e-3 * m).half(), m

    return function, (p, g, m)
