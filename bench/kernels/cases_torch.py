"""Functions for `torch.compile`: reductions, normalisations, softmaxes, quantisation, gathers, permutations.

Each function here gives the one that is compiled, and its arguments. What is compiled computes new tensors and
changes none, so that every run has the same input. Optimiser steps too give the new state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .case import TORCH, Case, Inputs

Made = tuple[Callable[..., Any], tuple[Any, ...]]

CASES: list[Case] = []


def case(
    group: str, tolerance: float | None = None, slack: int = 0
) -> Callable[[Callable[[Any, Inputs], Made]], Callable[[Any, Inputs], Made]]:
    """Make the function that is decorated a case of that group."""

    def add(make: Callable[[Any, Inputs], Made]) -> Callable[[Any, Inputs], Made]:
        CASES.append(Case(make.__name__, group, TORCH, make, tolerance, slack))
        return make

    return add


# Sums and other reductions.


@case("reduction")
def row_sum_small(torch: Any, inputs: Inputs) -> Made:
    return lambda x: x.float().sum(-1), (inputs.normal(262144, 32),)


@case("reduction")
def row_sum_8(torch: Any, inputs: Inputs) -> Made:
    return lambda x: x.float().sum(-1), (inputs.normal(1048576, 8, dtype="bfloat16"),)


@case("reduction")
def column_sum(torch: Any, inputs: Inputs) -> Made:
    return lambda x: x.sum(0), (inputs.normal(16384, 4096),)


@case("reduction")
def column_sum_f32(torch: Any, inputs: Inputs) -> Made:
    return lambda x: x.sum(0), (inputs.normal(8192, 4096, dtype="float32"),)


@case("reduction")
def column_sum_int8(torch: Any, inputs: Inputs) -> Made:
    x = inputs.integers(-128, 128, 16384, 4096, dtype="int8")
    return lambda x: x.sum(0, dtype=torch.int32), (x,)


@case("reduction")
def mean_var_middle(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.var_mean(x.float(), dim=1), (inputs.normal(64, 1024, 1024),)


@case("reduction")
def sum_middle_bf16(torch: Any, inputs: Inputs) -> Made:
    return lambda x: x.sum(1), (inputs.normal(256, 512, 512, dtype="bfloat16"),)


@case("reduction")
def max_middle_int8(torch: Any, inputs: Inputs) -> Made:
    return lambda x: x.amax(1), (inputs.integers(-128, 128, 64, 1024, 1024, dtype="int8"),)


@case("reduction")
def argmax_columns(torch: Any, inputs: Inputs) -> Made:
    # Rounded to 16 bits the largest value may occur twice; f32 values hardly do.
    return lambda x: x.argmax(0), (inputs.normal(4096, 4096, dtype="float32"),)


@case("reduction")
def argmin_rows(torch: Any, inputs: Inputs) -> Made:
    return lambda x: x.argmin(-1), (inputs.normal(8192, 4096, dtype="float32"),)


@case("reduction")
def logsumexp_middle(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.logsumexp(x.float(), 1), (inputs.normal(64, 512, 1024),)


# Normalisations.


@case("norm")
def layer_norm_rows(torch: Any, inputs: Inputs) -> Made:
    x, w, b = inputs.normal(16384, 2048), inputs.normal(2048), inputs.normal(2048)
    return lambda x, w, b: torch.nn.functional.layer_norm(x, (2048,), w, b), (x, w, b)


@case("norm")
def layer_norm_small_rows(torch: Any, inputs: Inputs) -> Made:
    x, w, b = inputs.normal(262144, 64), inputs.normal(64), inputs.normal(64)
    return lambda x, w, b: torch.nn.functional.layer_norm(x, (64,), w, b), (x, w, b)


@case("norm")
def layer_norm_of_patches(torch: Any, inputs: Inputs) -> Made:
    """Images with channels first, normalised over their channels, tokens first."""
    x, w, b = inputs.normal(32, 384, 28, 28), inputs.normal(384), inputs.normal(384)

    def function(x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.layer_norm(x.flatten(2).transpose(1, 2), (384,), w, b)

    return function, (x, w, b)


@case("norm", tolerance=1e-3)
def layer_norm_backward_weights(torch: Any, inputs: Inputs) -> Made:
    x, grad = inputs.normal(16384, 2048), inputs.normal(16384, 2048)
    mean, rstd = inputs.normal(16384, 1, dtype="float32"), inputs.normal(16384, 1, dtype="float32")

    def function(x: Any, grad: Any, mean: Any, rstd: Any) -> Any:
        wide = grad.float()
        return (wide * (x.float() - mean) * rstd).sum(0), wide.sum(0)

    return function, (x, grad, mean, rstd)


@case("norm")
def rms_norm_bf16(torch: Any, inputs: Inputs) -> Made:
    x, w = inputs.normal(8192, 4096, dtype="bfloat16"), inputs.normal(4096, dtype="bfloat16")

    def function(x: Any, w: Any) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w

    return function, (x, w)


@case("norm")
def rms_norm_backward(torch: Any, inputs: Inputs) -> Made:
    x, grad, w = inputs.normal(8192, 2048), inputs.normal(8192, 2048), inputs.normal(2048)

    def function(x: Any, grad: Any, w: Any) -> Any:
        wide, up = x.float(), grad.float() * w.float()
        rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        normal = wide * rstd
        along = (up * normal).mean(-1, keepdim=True)
        return (rstd * (up - normal * along)).half(), (grad.float() * normal).sum(0)

    return function, (x, grad, w)


@case("norm")
def group_norm(torch: Any, inputs: Inputs) -> Made:
    x, w, b = inputs.normal(32, 256, 32, 32), inputs.normal(256), inputs.normal(256)
    return lambda x, w, b: torch.nn.functional.group_norm(x, 32, w, b), (x, w, b)


@case("norm")
def group_norm_channels_last(torch: Any, inputs: Inputs) -> Made:
    x = inputs.normal(32, 256, 32, 32).contiguous(memory_format=torch.channels_last)
    w, b = inputs.normal(256), inputs.normal(256)

    def function(x: Any, w: Any, b: Any) -> Any:
        grouped = x.float().unflatten(1, (32, 8))
        var, mean = torch.var_mean(grouped, (2, 3, 4), keepdim=True, correction=0)
        normal = ((grouped - mean) * torch.rsqrt(var + 1e-5)).flatten(1, 2)
        return torch.nn.functional.silu(normal * w[:, None, None] + b[:, None, None]).half()

    return function, (x, w, b)


@case("norm")
def instance_norm_channels_last(torch: Any, inputs: Inputs) -> Made:
    x = inputs.normal(32, 128, 48, 48).contiguous(memory_format=torch.channels_last)

    def function(x: Any) -> Any:
        var, mean = torch.var_mean(x.float(), (2, 3), keepdim=True, correction=0)
        return ((x - mean) * torch.rsqrt(var + 1e-5)).half()

    return function, (x,)


@case("norm")
def batch_norm_channels_last(torch: Any, inputs: Inputs) -> Made:
    x = inputs.normal(32, 256, 64, 64).contiguous(memory_format=torch.channels_last)

    def function(x: Any) -> Any:
        mean = x.float().mean((0, 2, 3), keepdim=True)
        var = x.float().var((0, 2, 3), keepdim=True, correction=0)
        return ((x - mean) * torch.rsqrt(var + 1e-5)).half()

    return function, (x,)


# Softmaxes and losses.


@case("softmax")
def softmax_rows(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.softmax(x, -1), (inputs.normal(8192, 4096, dtype="bfloat16"),)


@case("softmax")
def softmax_columns(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.softmax(x, 0), (inputs.normal(2048, 8192),)


@case("softmax")
def softmax_rows_of_16(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.softmax(x, -1), (inputs.normal(524288, 16),)


@case("softmax")
def softmax_plus_transpose(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.softmax(x, -1) + x.t(), (inputs.normal(4096, 4096),)


@case("softmax")
def masked_softmax_with_bias(torch: Any, inputs: Inputs) -> Made:
    scores, bias = inputs.normal(16, 16, 512, 512), inputs.normal(512, 512, 16)

    def function(scores: Any, bias: Any) -> Any:
        later = torch.ones(512, 512, device=scores.device, dtype=torch.bool).triu(1)
        biased = scores.float() * 0.125 + bias.permute(2, 0, 1)
        return torch.softmax(biased.masked_fill(later, float("-inf")), -1).half()

    return function, (scores, bias)


@case("softmax")
def log_softmax_wide(torch: Any, inputs: Inputs) -> Made:
    return lambda x: torch.log_softmax(x.float(), -1), (inputs.normal(2048, 32768),)


@case("softmax", tolerance=1e-4)
def cross_entropy(torch: Any, inputs: Inputs) -> Made:
    x, target = inputs.normal(4096, 32000, dtype="bfloat16"), inputs.integers(0, 32000, 4096)
    return lambda x, target: torch.nn.functional.cross_entropy(x.float(), target), (x, target)


@case("softmax", tolerance=1e-4)
def kl_divergence(torch: Any, inputs: Inputs) -> Made:
    student, teacher = inputs.normal(8192, 4096), inputs.normal(8192, 4096)

    def function(student: Any, teacher: Any) -> Any:
        ours, theirs = (torch.log_softmax(x.float(), -1) for x in (student, teacher))
        return (theirs.exp() * (theirs - ours)).sum(-1)

    return function, (student, teacher)


# Quantisation.


@case("quantise", slack=1)
def quantise_columns_transposed(torch: Any, inputs: Inputs) -> Made:
    def function(x: Any) -> Any:
        scale = x.abs().amax(0).float() / 127
        return (x.float() / scale).round().clamp(-128, 127).to(torch.int8).t().contiguous(), scale

    return function, (inputs.normal(8192, 4096),)


@case("quantise", slack=1)
def quantise_rows_int8(torch: Any, inputs: Inputs) -> Made:
    def function(x: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float() / 127
        return (x.float() / scale).round().to(torch.int8), scale

    return function, (inputs.normal(8192, 4096, dtype="bfloat16"),)


@case("quantise")
def quantise_rows_fp8(torch: Any, inputs: Inputs) -> Made:
    def function(x: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float() / 448
        return (x.float() / scale).to(torch.float8_e4m3fn), scale

    return function, (inputs.normal(8192, 4096, dtype="bfloat16"),)


@case("quantise")
def quantise_blocks_fp8(torch: Any, inputs: Inputs) -> Made:
    def function(x: Any) -> Any:
        blocks = x.float().unflatten(0, (-1, 128)).unflatten(2, (-1, 128))
        scale = blocks.abs().amax((1, 3), keepdim=True) / 448
        return (blocks / scale).to(torch.float8_e4m3fn).flatten(2, 3).flatten(0, 1), scale

    return function, (inputs.normal(4096, 4096, dtype="bfloat16"),)


@case("quantise")
def quantise_groups_fp8_transposed(torch: Any, inputs: Inputs) -> Made:
    """Groups of 128 along the columns of x, laid out for the product that sums over its rows."""

    def function(x: Any) -> Any:
        groups = x.float().unflatten(0, (-1, 128))
        scale = groups.abs().amax(1, keepdim=True) / 448
        return (groups / scale).to(torch.float8_e4m3fn).flatten(0, 1).t().contiguous(), scale

    return function, (inputs.normal(4096, 4096, dtype="bfloat16"),)


@case("quantise")
def dequantise_transposed(torch: Any, inputs: Inputs) -> Made:
    w, scale = inputs.integers(-128, 128, 8192, 4096, dtype="int8"), inputs.normal(8192, 1)
    return lambda w, scale: (w.to(torch.float16) * scale).t().contiguous(), (w, scale)


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
