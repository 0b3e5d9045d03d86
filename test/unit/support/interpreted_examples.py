"""Runs the example kernels on numpy arrays in Triton's interpreter and prints their errors as JSON.

A process of its own, because Triton decides at import whether kernels are interpreted:
TRITON_INTERPRET=1 python interpreted_examples.py
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from host_tensors import HostTensor
from triton.runtime import interpreter

from triton_linear.examples import (
    attention,
    fp8_attention,
    int4_matmul,
    layer_norm,
    matmul,
    specialised,
    transpose8,
)

_patch_tensor = interpreter._patch_lang_tensor


def patch_tensor(tensor: Any, scope: Any) -> None:
    """Triton's patch, less its int(array of one element), which NumPy 2.5 refuses."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


interpreter._patch_lang_tensor = patch_tensor


def error(got: HostTensor, expected: np.ndarray[Any, Any]) -> float:
    """Largest difference relative to the largest expected value."""
    return float(np.abs(got.array.astype(np.float64) - expected).max() / np.abs(expected).max())


def half(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    """Random f16 numbers."""
    return rng.standard_normal(shape).astype(np.float16)


def empty(*shape: int, dtype: type = np.float16) -> HostTensor:
    """Room for a result, filled with what no kernel computes."""
    return HostTensor(np.full(shape, np.nan, dtype))


def run_matmul(rng: np.random.Generator) -> dict[str, float]:
    """Sizes that divide no tile, and more rows of tiles than a group has."""
    m, n, k = 90, 40, 56
    a, b, bias, residual = half(rng, m, k), half(rng, k, n) / 8, half(rng, n), half(rng, m, n)
    out = empty(m, n)
    constants = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32, "GROUP_M": 4}
    tensors = [HostTensor(array) for array in (a, b, bias, residual)]
    matmul.matmul_gelu_residual[(6 * 3,)](*tensors, out, m, n, k, k, n, n, **constants)
    x = a.astype(np.float64) @ b + bias
    gelu = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return {"matmul": error(out, gelu + residual)}


def run_attention(rng: np.random.Generator, causal: bool) -> dict[str, float]:
    """Two heads of two batches, a length that divides no block."""
    batch, heads, length, width = 2, 2, 40, 16
    q, k, v = (half(rng, batch, heads, length, width) for _ in range(3))
    out, lse = empty(*q.shape), empty(batch, heads, length, dtype=np.float32)
    constants = {"BLOCK_M": 16, "BLOCK_N": 16, "HEAD_DIM": width, "CAUSAL": causal}
    tensors = [HostTensor(array) for array in (q, k, v)]
    strides = tensors[0].stride()[:3]
    attention.attention_forward[(3, batch * heads)](
        *tensors, out, lse, width**-0.5, heads, length, *strides, **constants
    )
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3) * width**-0.5
    if causal:
        scores[..., np.triu(np.ones((length, length), bool), 1)] = -np.inf
    weights = np.exp(scores)
    sums = weights.sum(-1, keepdims=True)
    name = "causal attention" if causal else "attention"
    return {name: error(out, weights / sums @ v), f"{name}, lse": error(lse, np.log(sums[..., 0]))}


def e4m3_values() -> np.ndarray[Any, Any]:
    """The number that each code of a float8_e4m3fn stands for."""
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    size[(code & 127) == 127] = np.nan
    return np.where(code < 128, size, -size)


def run_fp8_attention(rng: np.random.Generator) -> dict[str, float]:
    """Three heads; the last block of queries is half empty.

    Scores are small whole numbers and the weights powers of two, as Triton's interpreter loses the carry of
    numbers that it rounds up to the next power of two.
    """
    heads, length, width = 3, 48, 16
    values = e4m3_values()
    zero, one, minus_one = 0x00, 0x38, 0xB8
    q = np.full((heads, length, width), zero, np.uint8)
    q[..., :3] = one
    k = rng.choice(np.array([minus_one, zero, one], np.uint8), (heads, length, width))
    v = rng.choice(np.flatnonzero(np.abs(values) <= 4).astype(np.uint8), (heads, width, length))
    out = empty(heads, length, width)
    tensors = [HostTensor(array) for array in (q, k, v)]
    constants = {"BLOCK_M": 32, "BLOCK_N": 16, "HEAD_DIM": width}
    fp8_attention.fp8_attention_forward[(2, heads)](*tensors, out, math.log(2), 0.5, length, **constants)
    weights = 2.0 ** (values[q] @ values[k].swapaxes(1, 2))
    expected = weights / weights.sum(-1, keepdims=True) @ values[v].swapaxes(1, 2) * 0.5
    return {"fp8 attention": error(out, expected)}


def run_transpose8(rng: np.random.Generator) -> dict[str, float]:
    """Two matrices of sizes that divide no tile."""
    x = rng.integers(-128, 128, (2, 40, 70), dtype=np.int8)
    out = HostTensor(np.zeros((2, 70, 40), np.int8))
    transpose8.transpose8_kernel[(2, 3, 2)](HostTensor(x), out, 40, 70, BLOCK_M=32, BLOCK_N=32)
    return {"transpose8": error(out, x.swapaxes(1, 2).astype(np.float64))}


def run_layer_norm(rng: np.random.Generator) -> dict[str, float]:
    """Rows and columns that divide no block; fewer programs than blocks of rows."""
    rows, columns, programs = 23, 40, 3
    x, grad, weight, bias = (
        half(rng, rows, columns),
        half(rng, rows, columns),
        half(rng, columns),
        half(rng, columns),
    )
    constants = {"BLOCK_ROWS": 4, "BLOCK_COLUMNS": 64}
    out, grad_x = empty(rows, columns), empty(rows, columns)
    mean, rstd = empty(rows, dtype=np.float32), empty(rows, dtype=np.float32)
    grad_weight, grad_bias = (empty(programs, columns, dtype=np.float32) for _ in range(2))
    tensors = {
        name: HostTensor(array)
        for name, array in (("x", x), ("weight", weight), ("bias", bias), ("grad", grad))
    }
    layer_norm.layer_norm_forward[(6,)](
        tensors["x"],
        tensors["weight"],
        tensors["bias"],
        out,
        mean,
        rstd,
        rows,
        columns,
        columns,
        1e-5,
        **constants,
    )
    layer_norm.layer_norm_backward[(programs,)](
        tensors["grad"],
        tensors["x"],
        tensors["weight"],
        mean,
        rstd,
        grad_x,
        grad_weight,
        grad_bias,
        rows,
        columns,
        columns,
        **constants,
    )
    wide = x.astype(np.float64)
    deviation = 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    normal = (wide - wide.mean(1, keepdims=True)) * deviation
    scaled = grad.astype(np.float64) * weight
    expected = (
        scaled - normal * (normal * scaled).mean(1, keepdims=True) - scaled.mean(1, keepdims=True)
    ) * deviation
    grad_weight.array, grad_bias.array = grad_weight.array.sum(0), grad_bias.array.sum(0)
    return {
        "layer norm": error(out, normal * weight + bias),
        "layer norm, grad x": error(grad_x, expected),
        "layer norm, grad weight": error(grad_weight, (grad * normal).sum(0)),
        "layer norm, grad bias": error(grad_bias, grad.astype(np.float64).sum(0)),
    }


def run_int4_matmul(rng: np.random.Generator) -> dict[str, float]:
    """Two groups of rows; rows and columns that divide no tile."""
    m, n, k = 20, 40, 256
    a, scale = half(rng, m, k), half(rng, k // 128, n) / 8
    weights = rng.integers(-8, 8, (k, n), dtype=np.int8)
    out = empty(m, n)
    constants = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "GROUP": 128}
    packed = (weights[0::2] & 15) | (weights[1::2] << 4)
    int4_matmul.int4_matmul_kernel[(2, 2)](
        HostTensor(a), HostTensor(packed), HostTensor(scale), out, m, n, k, k, n, n, n, **constants
    )
    dense = weights.astype(np.float64) * scale.astype(np.float64).repeat(128, 0)
    return {"int4 matmul": error(out, a.astype(np.float64) @ dense)}


def run_specialised(rng: np.random.Generator) -> dict[str, float]:
    """Fewer programs than tiles; two heads of three blocks of keys."""
    m, n, k = 48, 64, 96
    a, b, bias = half(rng, m, k), half(rng, n, k) / 8, rng.standard_normal(n).astype(np.float32)
    out = empty(m, n)
    constants = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}
    tensors = [HostTensor(array) for array in (a, b, bias)]
    specialised.specialised_matmul[(2,)](*tensors, out, m, n, k, **constants)
    errors = {"specialised matmul": error(out, np.maximum(a.astype(np.float64) @ b.T + bias, 0))}
    heads, length, width = 2, 48, 16
    q, keys, v = (half(rng, heads, length, width) for _ in range(3))
    out, lse = empty(*q.shape), empty(heads, length, dtype=np.float32)
    constants = {"BLOCK_M": 16, "BLOCK_N": 16, "HEAD_DIM": width}
    tensors = [HostTensor(array) for array in (q, keys, v)]
    specialised.specialised_attention[(3, heads)](*tensors, out, lse, width**-0.5, length, **constants)
    weights = np.exp(q.astype(np.float64) @ keys.astype(np.float64).swapaxes(1, 2) * width**-0.5)
    sums = weights.sum(-1, keepdims=True)
    errors["specialised attention"] = error(out, weights / sums @ v)
    errors["specialised attention, lse"] = error(lse, np.log2(sums[..., 0]))
    return errors


def main() -> None:
    rng = np.random.default_rng(0)
    errors = run_matmul(rng) | run_attention(rng, True) | run_attention(rng, False)
    errors |= run_layer_norm(rng) | run_int4_matmul(rng) | run_fp8_attention(rng) | run_transpose8(rng)
    errors |= run_specialised(rng)
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
