"""Operators of liger-kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .case import Cases, Inputs, graded, plain

CASES = Cases()
LIGER = "liger-kernel"
ROWS, WIDTH, WORDS = 2048, 2048, 16000


@CASES.of(LIGER)
def rms_norm(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as F

    x, w = t.normal(ROWS, WIDTH, grad=True), t.normal(WIDTH, grad=True)
    return graded(F.apply, x, w, 1e-6, 0.0, "llama", False, None)


@CASES.of(LIGER)
def rms_norm_of_short_rows(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as F

    x, w = t.normal(32768, 128, grad=True), t.normal(128, grad=True)
    return graded(F.apply, x, w, 1e-6, 0.0, "gemma", False, None)


@CASES.of(LIGER)
def layer_norm(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction as F

    x, w, b = t.normal(ROWS, WIDTH, grad=True), t.normal(WIDTH, grad=True), t.normal(WIDTH, grad=True)
    return graded(F.apply, x, w, b, 1e-6)


@CASES.of(LIGER)
def group_norm(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.group_norm import LigerGroupNormFunction as F

    x = t.normal(16, 128, 1024, dtype="float32", grad=True)
    w, b = t.normal(128, dtype="float32", grad=True), t.normal(128, dtype="float32", grad=True)
    return graded(F.apply, x, w, b, 128, 32, 1e-6)


@CASES.of(LIGER)
def fused_add_rms_norm(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction as F

    x, r = t.normal(ROWS, WIDTH, grad=True), t.normal(ROWS, WIDTH, grad=True)
    return graded(F.apply, x, r, t.normal(WIDTH, grad=True), 1e-6, 0.0, "llama", False)


@CASES.of(LIGER)
def modulated_rms_norm(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.modulated_rms_norm import LigerModulatedRMSNormFunction as F

    x = t.normal(4, 512, WIDTH, grad=True)
    scale, shift = t.normal(4, WIDTH, grad=True), t.normal(4, WIDTH, grad=True)
    return graded(F.apply, x, t.normal(WIDTH, grad=True), scale, shift, 1e-6, 0.0, "llama", False)


@CASES.of(LIGER)
def poly_norm(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.poly_norm import LigerPolyNormFunction as F

    x = t.normal(ROWS, WIDTH, grad=True)
    return graded(F.apply, x, t.normal(3, grad=True), t.normal(grad=True), 1e-6, False)


@CASES.of(LIGER)
def dynamic_tanh(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.dyt import LigerDyTFunction as F

    x, alpha = t.normal(ROWS, WIDTH, grad=True), t.normal(1, grad=True)
    return graded(F.apply, x, alpha, t.normal(WIDTH, grad=True), t.normal(WIDTH, grad=True))


@CASES.of(LIGER)
def softmax(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as F

    return graded(F.apply, t.normal(ROWS, WIDTH, grad=True))


@CASES.of(LIGER)
def softmax_of_long_rows(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as F

    return graded(F.apply, t.normal(64, 50000, grad=True))


@CASES.of(LIGER)
def sparsemax(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction as F

    return graded(F.apply, t.normal(1024, 1024, dtype="float32", grad=True), -1)


@CASES.of(LIGER)
def multi_token_attention(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.multi_token_attention import LigerMultiTokenAttentionFunction as F

    scores = t.normal(1, 4, 128, 128, dtype="float32", grad=True)
    return graded(F.apply, scores, t.normal(4, 4, 3, 3, dtype="float32", grad=True), None, 1, 1, 1, 1, False)


@CASES.of(LIGER)
def swiglu(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction as F

    return graded(F.apply, t.normal(ROWS, 4096, grad=True), t.normal(ROWS, 4096, grad=True))


@CASES.of(LIGER)
def swiglu_of_one_tensor(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction as F

    return graded(F.apply, t.normal(ROWS, 4096, grad=True), False)


@CASES.of(LIGER)
def geglu(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.geglu import LigerGELUMulFunction as F

    return graded(F.apply, t.normal(ROWS, 4096, grad=True), t.normal(ROWS, 4096, grad=True))


@CASES.of(LIGER)
def relu_squared(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction as F

    return graded(F.apply, t.normal(ROWS, 4096, grad=True))


@CASES.of(LIGER)
def mlp(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.mlp import LigerMLPFunction as F

    x = t.normal(1, 512, 512, grad=True, scale=0.1)
    gate, up = t.normal(1024, 512, grad=True, scale=0.1), t.normal(1024, 512, grad=True, scale=0.1)
    return graded(F.apply, x, gate, up, t.normal(512, 1024, grad=True, scale=0.1))


@CASES.of(LIGER)
def rope(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.rope import LigerRopeFunction as F

    q, k = t.normal(2, 16, 1024, 128, grad=True), t.normal(2, 4, 1024, 128, grad=True)
    return graded(F.apply, q, k, t.normal(1, 1024, 128), t.normal(1, 1024, 128))


@CASES.of(LIGER)
def rope_of_images(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.qwen2vl_mrope import LigerQwen2VLMRopeFunction as F

    q, k = t.normal(2, 16, 1024, 128, grad=True), t.normal(2, 4, 1024, 128, grad=True)
    return graded(F.apply, q, k, t.normal(3, 2, 1024, 128), t.normal(3, 2, 1024, 128), [16, 24, 24])


@CASES.of(LIGER)
def rope_interleaved(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction as F

    q, k = t.normal(2, 1024, 16, 128, grad=True), t.normal(2, 1024, 4, 128, grad=True)
    angles = t.torch.polar(t.uniform(1024, 64), t.uniform(1024, 64))
    return graded(F.apply, q, k, angles)


@CASES.of(LIGER)
def cross_entropy(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as F

    x, y = t.normal(512, WORDS, grad=True), t.integers(0, WORDS, 512)
    return graded(lambda given: F.apply(given * 1.0, y, None, -100, 1e-4, 0.1, "mean", 30.0, True)[:2], x)


@CASES.of(LIGER)
def fused_linear_cross_entropy(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as F

    x, w = t.normal(256, 256, grad=True), t.normal(4000, 256, grad=True, scale=0.1)
    return graded(lambda a, b: F.apply(a, b, t.integers(0, 4000, 256))[0], x, w)


@CASES.of(LIGER)
def fused_linear_jsd(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.fused_linear_jsd import LigerFusedLinearJSDFunction as F

    x, w = t.normal(256, 256, grad=True), t.normal(4000, 256, grad=True, scale=0.1)
    return graded(F.apply, x, w, t.normal(256, 256), t.normal(4000, 256, scale=0.1))


@CASES.of(LIGER)
def fused_linear_kl_divergence(t: Inputs) -> Callable[[], Any]:
    importlib.import_module("liger_kernel.functional")  # Registers what the operator looks up.
    from liger_kernel.ops.fused_linear_kl_div import LigerFusedLinearKLDivFunction as F

    x, w = t.normal(256, 256, grad=True), t.normal(4000, 256, grad=True, scale=0.1)
    return graded(F.apply, x, w, t.normal(256, 4000, dtype="float32").softmax(-1))


@CASES.of(LIGER)
def jensen_shannon_divergence(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.jsd import LigerJSDFunction as F

    x = t.normal(512, WORDS, dtype="float32").log_softmax(-1).requires_grad_()
    return graded(F.apply, x, t.normal(512, WORDS, dtype="float32").log_softmax(-1))


@CASES.of(LIGER)
def kl_divergence(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction as F

    x = t.normal(512, WORDS, dtype="float32").log_softmax(-1).requires_grad_()
    return graded(F.apply, x, t.normal(512, WORDS, dtype="float32").softmax(-1))


@CASES.of(LIGER)
def total_variation_distance(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.tvd import LigerTVDLossFunction as F

    x = t.normal(512, WORDS, dtype="float32").softmax(-1).requires_grad_()
    return graded(F.apply, x, t.normal(512, WORDS, dtype="float32").softmax(-1))


@CASES.of(LIGER)
def cross_entropy_and_distance(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.fused_ce_tvd import LigerFusedCETVDFunction as F

    x, y = t.normal(512, WORDS, grad=True), t.integers(0, WORDS, 512)
    return graded(F.apply, x, t.normal(512, WORDS), y)


@CASES.of(LIGER)
def grpo_loss(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.grpo_loss import GrpoLossFunction as F

    logits, ids = t.normal(4, 129, 8000, grad=True), t.integers(0, 8000, 4, 128)
    old, ref = t.normal(4, 128, dtype="float32"), t.normal(4, 128, dtype="float32")
    mask, gain = t.integers(0, 2, 4, 128), t.normal(4, dtype="float32")
    return graded(F.apply, logits, old, ref, ids, gain, mask, 0.9, 0.04, 0.2, 0.4, False)


@CASES.of(LIGER)
def attention_residuals(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.attn_res import LigerAttnResFunction as F

    v = t.normal(8, 2, 512, 1024, grad=True)
    return graded(F.apply, v, t.normal(1024, grad=True), t.normal(1024, grad=True), 1e-6)


@CASES.of(LIGER)
def neighborhood_attention(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.fused_neighborhood_attention import LigerFusedNeighborhoodAttentionFunction as F

    q, k, v = (t.normal(2, 4, 256, 64, dtype="float32", grad=True) for _ in range(3))
    return graded(F.apply, q, k, v, 7, 1)


@CASES.of(LIGER)
def embedding(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction as F

    return graded(F.apply, t.normal(WORDS, 1024, dtype="float32", grad=True), t.integers(0, WORDS, 4, 512))


@CASES.of(LIGER)
def int8_times_two_bits(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.experimental.mm_int8int2 import matmul

    a, b = t.integers(-128, 127, 512, 1024, dtype="int8"), t.integers(0, 127, 256, 512, dtype="uint8")
    return plain(matmul, a, b)


@CASES.of(LIGER)
def mixture_of_experts(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.fused_moe import LigerFusedMoEFunction as F

    x = t.normal(1024, 256, grad=True)
    up, down = t.normal(8, 512, 256, grad=True, scale=0.1), t.normal(8, 256, 256, grad=True, scale=0.1)
    where = t.torch.stack([t.torch.randperm(8, device="cuda")[:2] for _ in range(1024)]).to(t.torch.int32)
    return graded(F.apply, x, up, down, where, t.uniform(1024, 2, dtype="bfloat16").requires_grad_())


def _coefficients(t: Inputs) -> Callable[..., Any]:
    from liger_kernel.ops.mhc import LigerMHCCoeffsFunction as F

    def call(x: Any, phi: Any, bias: Any, *alphas: Any) -> Any:
        return F.apply(x, phi, bias, *alphas, True, 20, 1e-6, 1e-6, 1e-6, 2.0)

    return call


@CASES.of(LIGER)
def hyper_connections(t: Inputs) -> Callable[[], Any]:
    x, phi = t.normal(512, 4, 512, grad=True), t.normal(2048, 24, grad=True, scale=0.02)
    alphas = [t.normal(dtype="float32", grad=True) for _ in range(3)]
    return graded(_coefficients(t), x, phi, t.normal(24, dtype="float32", grad=True), *alphas)


@CASES.of(LIGER)
def hyper_connections_before(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.mhc import LigerMHCPreFunction as F

    return graded(F.apply, t.normal(512, 4, 512, grad=True), t.uniform(512, 4).requires_grad_())


@CASES.of(LIGER)
def hyper_connections_after(t: Inputs) -> Callable[[], Any]:
    from liger_kernel.ops.mhc import LigerMHCPostResFunction as F

    x, f = t.normal(512, 4, 512, grad=True), t.normal(512, 512, grad=True)
    post, res = t.uniform(512, 4).requires_grad_(), t.uniform(512, 4, 4).requires_grad_()
    return graded(F.apply, x, f, post, res)
