"""Quantised matmuls of vLLM, quantisation, and adapters."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..foreign.case import Cases, plain
from .alike import fp8_in_blocks, scaled
from .answers import WithoutCuda
from .inputs import Inputs

CASES = Cases()
VLLM = "vllm"


def in_triton(module: ModuleType) -> ModuleType:
    """The module, which takes its kernels of Triton's where it has others too."""
    module.current_platform = WithoutCuda()  # type: ignore[attr-defined]
    return module


@CASES.each(
    VLLM,
    {
        "per token group quant fp8": {"rows": 4096},
        "per token group quant fp8 columns": {"rows": 64, "column_major_scales": True},
    },
)
def quantise_groups(t: Inputs, rows: int, **options: Any) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.utils import fp8_utils

    quantise = in_triton(fp8_utils).per_token_group_quant_fp8
    return plain(quantise, t.normal(rows, 7168), 128, use_ue8m0=False, **options)


@CASES.each(
    VLLM,
    {
        "block fp8 matmul decode 16": {"m": 16, "n": 2112},
        "block fp8 matmul decode 64": {"m": 64, "n": 4096},
        "block fp8 matmul prefill 4096": {"m": 4096, "n": 4608},
    },
)
def in_blocks(t: Inputs, m: int, n: int) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.utils.fp8_utils import w8a8_triton_block_scaled_mm

    return plain(w8a8_triton_block_scaled_mm, *fp8_in_blocks(t, m, n))


@CASES.of(VLLM)
def silu_mul_quant_fp8(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.utils.fp8_utils import (
        silu_mul_per_token_group_quant_fp8_colmajor,
    )

    return plain(silu_mul_per_token_group_quant_fp8_colmajor, t.normal(4096, 4096), use_ue8m0=False)


@CASES.of(VLLM)
def int8_quantisation(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.utils import int8_utils

    x, ops = t.normal(2048, 4096), in_triton(int8_utils)
    return lambda: [ops.per_token_quant_int8(x), ops.per_token_group_quant_int8(x, 128)]


@CASES.of(VLLM, "micro-scaled formats")
def micro_scaled(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.utils.mxfp8_utils import _mxfp8_e4m3_quantize_triton
    from vllm.model_executor.layers.quantization.utils.nvfp4_emulation_utils import _triton_nvfp4_quant_dequant

    x, scale = t.normal(2048, 4096), t.full(0.01, 1, dtype="float32")
    return lambda: [_triton_nvfp4_quant_dequant(x, scale, 16), _mxfp8_e4m3_quantize_triton(x)]


def awq_weights(t: Inputs, k: int = 4096, n: int = 4096, group: int = 128) -> tuple[Any, Any, Any]:
    """Weights of four bits, scales, zero points."""
    scales = t.uniform(k // group, n, dtype="float16", high=0.02)
    return t.words(k, n // 8), scales, t.words(k // group, n // 8)


@CASES.of(VLLM)
def awq_dequantise(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.awq_triton import awq_dequantize_triton

    return plain(awq_dequantize_triton, *awq_weights(t))


@CASES.each(VLLM, {"awq gemm 16": {"m": 16}, "awq gemm 128": {"m": 128}})
def awq(t: Inputs, m: int) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.awq_triton import awq_gemm_triton

    return plain(awq_gemm_triton, t.normal(m, 4096, dtype="float16"), *awq_weights(t), 8)


@CASES.each(
    VLLM,
    {
        "scaled mm int8 32": {"m": 32, "n": 4096, "fp8": False},
        "scaled mm int8 2048": {"m": 2048, "n": 4096, "fp8": False},
        "scaled mm fp8 64": {"m": 64, "n": 6144, "fp8": True},
        "scaled mm fp8 4096": {"m": 4096, "n": 6144, "fp8": True},
    },
)
def with_scales(t: Inputs, m: int, n: int, fp8: bool) -> Callable[[], Any]:
    from vllm.model_executor.layers.quantization.compressed_tensors.triton_scaled_mm import triton_scaled_mm

    return plain(triton_scaled_mm, *scaled(t, m, n, fp8))


@CASES.each(
    VLLM,
    {
        "w4a16 gemm 16": {"m": 16, "zeros": False},
        "w4a16 gemm 64 zeros": {"m": 64, "zeros": True},
        "w4a16 gemm 2048": {"m": 2048, "zeros": False},
    },
)
def four_bits(t: Inputs, m: int, zeros: bool) -> Callable[[], Any]:
    from vllm.model_executor.kernels.linear.mixed_precision.triton_w4a16 import _triton_w4a16_gemm_impl

    k, n, group = 4096, 6144, 128
    scales = t.uniform(k // group, n, dtype="bfloat16", high=0.02)
    points = t.words(k // group, n // 8) if zeros else None
    return plain(_triton_w4a16_gemm_impl, t.normal(m, k), t.words(k, n // 8), scales, points, group)


def adapters_of(t: Inputs, tokens: int, loras: int) -> tuple[Any, ...]:
    """How tokens are spread over adapters: the adapter of each, tokens by adapter, counts, starts, numbers."""
    torch = t.torch
    mapping = t.integers(0, loras, tokens, dtype="int32")
    order = torch.argsort(mapping.long(), stable=True).to(torch.int32)
    nothing = t.zeros(1, dtype="int32")
    counts = torch.cat([torch.bincount(mapping.long(), minlength=loras).to(torch.int32), nothing])
    starts = torch.cat([nothing, counts.cumsum(0).to(torch.int32)])
    ids = t.tensor([*range(loras), -1])
    return mapping, order, counts, starts, ids, torch.tensor([False]), torch.tensor([loras], dtype=torch.int32)


DECODE = {"tokens": 64, "rank": 16, "slices": 3}
PREFILL = {"tokens": 4096, "rank": 64, "slices": 1}


@CASES.each(VLLM, {"lora shrink decode 64": DECODE, "lora shrink prefill 4096": PREFILL})
def shrink(t: Inputs, tokens: int, rank: int, slices: int, hidden: int = 4096) -> Callable[[], Any]:
    from vllm.lora.ops.triton_ops.lora_shrink_op import _lora_shrink

    weights = [t.normal(4, rank, hidden, scale=0.05) for _ in range(slices)]
    out = t.zeros(slices, tokens, rank, dtype="float32")
    return plain(_lora_shrink, t.normal(tokens, hidden), weights, out, *adapters_of(t, tokens, 4), 0.5)


@CASES.each(VLLM, {"lora expand decode 64": DECODE, "lora expand prefill 4096": PREFILL})
def expand(t: Inputs, tokens: int, rank: int, slices: int, hidden: int = 4096) -> Callable[[], Any]:
    from vllm.lora.ops.triton_ops.lora_expand_op import _lora_expand

    weights = [t.normal(4, hidden, rank, scale=0.05) for _ in range(slices)]
    x, out = t.normal(slices, tokens, rank, dtype="float32"), t.normal(tokens, hidden * slices)
    return plain(_lora_expand, x, weights, out, *adapters_of(t, tokens, 4), offset_start=0, add_inputs=True)


@CASES.each(VLLM, {"batch invariant matmul 64": {"m": 64}, "batch invariant matmul 4096": {"m": 4096}})
def invariant(t: Inputs, m: int, n: int = 6144, k: int = 4096) -> Callable[[], Any]:
    from vllm.model_executor.determinism.batch_invariant import matmul_persistent

    return plain(matmul_persistent, t.normal(m, k), t.normal(n, k).t())


@CASES.of(VLLM)
def batch_invariant_norm_softmax_mean_bmm(t: Inputs) -> Callable[[], Any]:
    from vllm.model_executor.determinism import batch_invariant as ops

    x, w, logits = t.normal(2048, 4096), t.normal(4096), t.normal(64, 128256, dtype="float32")
    a, b = t.normal(16, 64, 512), t.normal(16, 512, 128)
    return lambda: [
        ops.rms_norm_batch_invariant(x, w),
        ops.log_softmax(logits),
        ops.softmax(logits),
        ops.mean_dim(x, 1),
        ops.bmm_batch_invariant(a, b),
    ]
