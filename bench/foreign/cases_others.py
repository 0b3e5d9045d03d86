"""Operators of conch-triton-kernels, bitsandbytes, torchao and unsloth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .case import Cases, Inputs, graded, plain

CASES = Cases()
CONCH, BNB, TORCHAO, UNSLOTH = "conch-triton-kernels", "bitsandbytes", "torchao", "unsloth"


@CASES.of(CONCH)
def silu_and_mul(t: Inputs) -> Callable[[], Any]:
    from conch.ops.activation.silu_and_mul import silu_and_mul

    return plain(silu_and_mul, t.normal(1024, 4096))


@CASES.of(CONCH)
def gelu_and_mul(t: Inputs) -> Callable[[], Any]:
    from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul

    return plain(gelu_tanh_and_mul, t.normal(1024, 4096))


@CASES.of(CONCH)
def rms_norm(t: Inputs) -> Callable[[], Any]:
    from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm

    x, r, w = t.normal(2048, 1024), t.normal(2048, 1024), t.normal(1024)
    return lambda: [rms_norm(x, w, 1e-6), *fused_add_rms_norm(x.clone(), r.clone(), w, 1e-6)]


@CASES.of(CONCH)
def gemma_rms_norm(t: Inputs) -> Callable[[], Any]:
    from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm

    return plain(gemma_rms_norm, t.normal(2048, 1024), t.normal(1024), 1e-6)


@CASES.of(CONCH)
def quantisation(t: Inputs) -> Callable[[], Any]:
    from conch.ops.quantization.fp8 import scaled_fp8_quant
    from conch.ops.quantization.int8 import scaled_int8_quant

    x, scale = t.normal(1024, 1024), t.uniform(1)
    return lambda: [*scaled_fp8_quant(x, scale), *scaled_int8_quant(x, scale)]


@CASES.of(CONCH)
def four_bits(t: Inputs) -> Callable[[], Any]:
    from conch.ops.quantization.bitsandbytes.functional import dequantize_4bit, quantize_4bit

    x = t.normal(1024, 1024)

    def call() -> list[Any]:
        packed, state = quantize_4bit(x, blocksize=64, quant_type="nf4")
        return [packed, dequantize_4bit(packed, state, quant_type="nf4")]

    return call


@CASES.of(CONCH)
def paged_attention(t: Inputs) -> Callable[[], Any]:
    from conch.ops.attention.paged_attention import paged_attention

    q, k, v = t.normal(8, 16, 128), t.normal(256, 32, 4, 128), t.normal(256, 32, 4, 128)
    table = t.integers(0, 256, 8, 32, dtype="int32")
    return plain(paged_attention, q, k, v, table, t.integers(500, 1000, 8, dtype="int32"))


@CASES.of(CONCH)
def varlen_attention(t: Inputs) -> Callable[[], Any]:
    from conch.ops.attention.varlen_attention import varlen_attention

    q, k, v = t.normal(512, 16, 128), t.normal(128, 32, 4, 128), t.normal(128, 32, 4, 128)
    table, starts = t.integers(0, 128, 4, 8, dtype="int32"), t.torch.arange(0, 513, 128, dtype=t.torch.int32)
    lengths = t.torch.full((4,), 200, dtype=t.torch.int32, device="cuda")
    return plain(varlen_attention, q, k, v, starts.to("cuda"), 128, lengths, 200, table, causal=True)


@CASES.of(CONCH)
def four_bit_matmul(t: Inputs) -> Callable[[], Any]:
    from conch.ops.quantization.gemm import mixed_precision_gemm

    x, w = t.normal(256, 1024, dtype="float16"), t.integers(0, 1 << 30, 128, 512, dtype="int32")
    return plain(mixed_precision_gemm, x, w, t.uniform(8, 512, dtype="float16"), None, 4, 8, 128)


@CASES.of(CONCH)
def scaled_matmul(t: Inputs) -> Callable[[], Any]:
    from conch.ops.quantization.gemm import scaled_gemm

    a, b = t.integers(-9, 9, 256, 512, dtype="int8"), t.integers(-9, 9, 512, 256, dtype="int8")
    return plain(scaled_gemm, a, b, t.uniform(256, 1), t.uniform(256, 1), t.torch.bfloat16)


@CASES.of(CONCH)
def rotary_embedding(t: Inputs) -> Callable[[], Any]:
    from conch.ops.embedding.rotary_embedding import rotary_embedding

    where, cache = t.integers(0, 1024, 512), t.normal(1024, 128)
    return plain(rotary_embedding, where, t.normal(512, 2048), t.normal(512, 512), 128, cache)


@CASES.of(CONCH)
def boxes(t: Inputs) -> Callable[[], Any]:
    from conch.ops.vision.nms import nms

    corner = t.uniform(512, 2)
    made = t.torch.cat([corner, corner + t.uniform(512, 2)], dim=1)
    return plain(nms, made, t.uniform(512), 0.5)


@CASES.of(CONCH)
def filling_a_cache(t: Inputs) -> Callable[[], Any]:
    from conch.ops.vllm.reshape_and_cache import reshape_and_cache

    k, v = t.normal(256, 4, 128), t.normal(256, 4, 128)
    caches, slots = (
        (t.zeros(64, 32, 4, 128), t.zeros(64, 32, 4, 128)),
        t.torch.randperm(2048, device="cuda")[:256],
    )

    def call() -> list[Any]:
        reshape_and_cache(k, v, *caches, slots)
        return [*caches]

    return call


@CASES.of(BNB)
def quantise_in_blocks(t: Inputs) -> Callable[[], Any]:
    from bitsandbytes.backends.triton import ops

    x, code = t.normal(1024, 1024, dtype="float32"), t.uniform(256, low=-1.0).sort().values

    def call() -> list[Any]:
        packed, most = ops.quantize_blockwise(x, code, 256)
        return [packed, most, ops.dequantize_blockwise(packed, most, code, 256, t.torch.float32)]

    return call


def _four_bits(t: Inputs, kind: str) -> Callable[[], Any]:
    from bitsandbytes.backends.triton import ops

    x = t.normal(1024, 1024)

    def call() -> list[Any]:
        packed, most = ops.quantize_4bit(x, 64, kind, t.torch.uint8)
        return [packed, most, ops.dequantize_4bit(packed, most, 64, kind, x.shape, x.dtype)]

    return call


@CASES.of(BNB)
def nf4(t: Inputs) -> Callable[[], Any]:
    return _four_bits(t, "nf4")


@CASES.of(BNB)
def fp4(t: Inputs) -> Callable[[], Any]:
    return _four_bits(t, "fp4")


def _step(t: Inputs, optimizer: str, second: bool) -> Callable[[], Any]:
    from bitsandbytes.backends.triton import ops

    g, p, first = (t.normal(1 << 20, dtype="float32") for _ in range(3))
    other = t.uniform(1 << 20) if second else None

    def call() -> list[Any]:
        ops.optimizer_update_32bit(
            optimizer, g, p, first, other, None, 0.0, 0.0, 0.9, 0.99, 0.0, 0.0, 1e-8, 0.01, 2, 1e-3, 1.0, False
        )
        return [p, first]

    return call


@CASES.of(BNB)
def adam(t: Inputs) -> Callable[[], Any]:
    return _step(t, "adam", True)


@CASES.of(BNB)
def lion(t: Inputs) -> Callable[[], Any]:
    return _step(t, "lion", False)


@CASES.of(BNB)
def adam_of_eight_bits(t: Inputs) -> Callable[[], Any]:
    from bitsandbytes.backends.triton import ops

    g, p = t.normal(1 << 20, dtype="float32"), t.normal(1 << 20, dtype="float32")
    states = [t.integers(0, 256, 1 << 20, dtype="uint8") for _ in range(2)]
    codes, most = [t.uniform(256).sort().values for _ in range(2)], [t.uniform(1 << 12) for _ in range(2)]

    def call() -> list[Any]:
        ops.optimizer_update_8bit_blockwise(
            "adam", g, p, *states, 0.9, 0.99, 0.0, 0.0, 1e-8, 2, 1e-3, *codes, *most, 0.01, 1.0, False
        )
        return [p, *states, *most]

    return call


def _attention_operands(t: Inputs) -> tuple[Any, Any, Any]:
    return t.normal(2, 4, 512, 128), t.normal(2, 4, 512, 128), t.normal(2, 4, 512, 128)


@CASES.of(TORCHAO)
def int8_matmul(t: Inputs) -> Callable[[], Any]:
    from torchao.prototype.quantized_training.int8_mm import scaled_int8_mm_cuda

    a, b = t.integers(-99, 99, 512, 512, dtype="int8"), t.integers(-99, 99, 512, 512, dtype="int8")
    return plain(
        scaled_int8_mm_cuda, a, b.t(), t.uniform(512, dtype="bfloat16"), t.uniform(512, dtype="bfloat16")
    )


@CASES.of(TORCHAO)
def blocks_of_fp8(t: Inputs) -> Callable[[], Any]:
    from torchao.kernel import blockwise_quantization as ops

    x, w = t.normal(512, 1024), t.normal(512, 1024)

    def call() -> list[Any]:
        a, a_scale = ops.fp8_blockwise_act_quant(x)
        b, b_scale = ops.fp8_blockwise_weight_quant(w)
        product = ops.blockwise_fp8_gemm(a, a_scale, b, b_scale)
        return [a, a_scale, b, b_scale, product, ops.fp8_blockwise_weight_dequant(b, b_scale)]

    return call


@CASES.of(TORCHAO)
def fp8_for_attention(t: Inputs) -> Callable[[], Any]:
    from torchao.prototype.attention.quantization.triton_qkv_quantization import triton_fp8_sdpa_quantize

    return plain(triton_fp8_sdpa_quantize, *_attention_operands(t))


@CASES.of(TORCHAO)
def fp8_for_attention_rotated(t: Inputs) -> Callable[[], Any]:
    from torchao.prototype.attention.quantization.triton_rope_qkv_quantization import (
        triton_fp8_rope_sdpa_quantize,
    )

    q, k, v = (t.normal(2, 512, 4, 128) for _ in range(3))
    return plain(triton_fp8_rope_sdpa_quantize, q, k, v, t.normal(512, 128), t.normal(512, 128))


@CASES.of(TORCHAO)
def fp8_for_attention_by_hadamard(t: Inputs) -> Callable[[], Any]:
    from torchao.prototype.attention.quantization.triton_hadamard_qkv_quantization import (
        triton_fp8_hadamard_sdpa_quantize,
    )

    return plain(triton_fp8_hadamard_sdpa_quantize, *_attention_operands(t))


@CASES.of(TORCHAO)
def fp8_for_inference(t: Inputs) -> Callable[[], Any]:
    from torchao.prototype.fp8_sdpa_inference.fp8_sdpa_quantization import fp8_sdpa_quantize_func

    return plain(fp8_sdpa_quantize_func, *_attention_operands(t))


@CASES.of(TORCHAO)
def fp8_of_experts(t: Inputs) -> Callable[[], Any]:
    from torchao.prototype.moe_training.kernels import float8_rowwise as ops

    x, rows = t.normal(4, 512, 512), t.normal(512, 512)

    def call() -> list[Any]:
        return [
            *ops.triton_fp8_rowwise_3d_transpose_rhs(x),
            *ops.triton_fp8_rowwise_3d_transpose_rhs_fused_reduction(x),
            *ops.triton_fp8_colwise_3d_scale_and_cast(x),
            *ops.triton_fp8_rowwise_2d_scale_and_cast(rows),
        ]

    return call


@CASES.of(TORCHAO)
def fp8_of_groups(t: Inputs) -> Callable[[], Any]:
    from torchao.prototype.moe_training.kernels import jagged_float8_scales as ops

    x, ends = t.normal(512, 512), t.torch.arange(128, 513, 128, dtype=t.torch.int32, device="cuda")

    def call() -> list[Any]:
        return [
            *ops.triton_fp8_per_group_rowwise_scales(x, ends),
            *ops.triton_fp8_per_group_colwise_scales(x, ends),
        ]

    return call


@CASES.of(UNSLOTH)
def attention_of_large_heads(t: Inputs) -> Callable[[], Any]:
    from unsloth.kernels.large_head_attention import _dense_intervals, large_head_attention

    q, k, v = (t.normal(1, 4, 256, 512, grad=True) for _ in range(3))
    low, high = _dense_intervals(1, 256, True, q.device)
    return graded(large_head_attention, q, k, v, low, high)
