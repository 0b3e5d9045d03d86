"""Functions for `torch.compile` that reduce: sums, normalisations, softmaxes, losses, quantisation.

Each function here gives the one that is compiled, and its arguments. What is compiled computes new tensors and
changes none, so that every run has the same input.
"""

from __future__ import annotations

import functools
from typing import Any

from .case import Case, Inputs, Made, compiled_case

CASES: list[Case] = []
case = functools.partial(compiled_case, CASES)

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
        return torch.nn.functional.layer_norm(x.flatten(2).transpose(1, 2), (384,), w, b).contiguous()

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
