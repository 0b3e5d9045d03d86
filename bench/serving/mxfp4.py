"""Experts whose weights have four bits and a scale for each 32, by the kernels that vLLM brings for gpt-oss."""

from __future__ import annotations

from typing import Any

from .experts import Experts
from .inputs import Inputs

EXPONENTS = 118, 121
"""Of scales: weights are then about as large as the root of a row's length wants."""


class Mxfp4Experts:
    """A layer of experts with its weights; where the GPU is, in the order that its kernels want."""

    def __init__(self, t: Inputs, model: Experts) -> None:
        from triton_kernels.matmul_ogs import FnSpecs, FusedActivation
        from triton_kernels.swiglu import swiglu_fn

        self._t, self._model = t, model
        self._up = self._half(2 * model.inner, model.hidden)
        self._down = self._half(model.hidden, model.inner)
        self._gate = FusedActivation(FnSpecs("swiglu", swiglu_fn, ("alpha", "limit")), (1.702, 7.0), 2)

    def _half(self, n: int, k: int) -> tuple[Any, Any, Any]:
        from triton_kernels.matmul_ogs import FlexCtx, PrecisionConfig
        from vllm.model_executor.layers.quantization.utils.mxfp4_utils import _swizzle_mxfp4

        t, experts = self._t, self._model.count
        packed, exponents = (
            t.bytes(experts, n, k // 2),
            t.integers(*EXPONENTS, experts, n, k // 32, dtype="uint8"),
        )
        if not t.pretended:
            weights, flex, scales = _swizzle_mxfp4(packed, exponents)
        else:
            # Where no kernel reads them it is enough to know how they lie.
            weights, flex, scales = _swizzle_mxfp4(packed.to("meta"), exponents.to("meta"))
            for each in (weights, scales):
                lies = each.storage.data
                each.storage.data = t.torch.empty_strided(lies.shape, lies.stride(), dtype=lies.dtype)
        config = PrecisionConfig(weight_scale=scales, flex_ctx=FlexCtx(rhs_data=flex))
        return weights, t.normal(experts, n, dtype="float32", scale=0.1), config

    def __call__(self, x: Any, logits: Any) -> Any:
        """The layer, of tokens and the router's logits of them."""
        from triton_kernels.matmul_ogs import matmul_ogs
        from triton_kernels.routing import routing

        data, gather, scatter = routing(logits, self._model.chosen)
        weights, shift, config = self._up
        inner = matmul_ogs(
            x, weights, shift, data, gather_indx=gather, precision_config=config, fused_activation=self._gate
        )
        weights, shift, config = self._down
        return matmul_ogs(
            inner, weights, shift, data, scatter_indx=scatter, precision_config=config, gammas=data.gate_scal
        )
