"""Operators of flag_gems, which stand for PyTorch's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .case import Case, Cases, Inputs, graded, plain

CASES = Cases()
GEMS = "flag-gems"


def _add(path: str, make: Callable[[Inputs], tuple[Any, ...]], name: str = "", grad: bool = False) -> None:
    """A case of `flag_gems.PATH`, called with what `make` gives; the last of these may be named arguments."""

    def case(t: Inputs) -> Callable[[], Any]:
        module, _, function = path.rpartition(".")
        called = getattr(importlib.import_module(f"flag_gems.{module}"), function)
        given = make(t)
        named = given[-1] if given and isinstance(given[-1], dict) else {}
        positional = given[: len(given) - bool(named)]
        return (graded if grad else plain)(called, *positional, **named)

    CASES.append(Case(f"{GEMS}: {name or path.rpartition('.')[2].replace('_', ' ').strip()}", GEMS, case))


def _half(t: Inputs, *shape: int, grad: bool = False) -> Any:
    return t.normal(*shape, dtype="float16", grad=grad)


def _one(*shape: int) -> Callable[[Inputs], tuple[Any, ...]]:
    return lambda t: (_half(t, *shape),)


def _along(*dims: int, shape: tuple[int, ...] = (2048, 1024)) -> Callable[[Inputs], tuple[Any, ...]]:
    return lambda t: (_half(t, *shape), *dims)


_add("ops.softmax.softmax", lambda t: (_half(t, 2048, 1024), 1))
_add("ops.softmax.softmax", lambda t: (_half(t, 64, 1024, 128), 1), "softmax of a middle dimension")
_add(
    "ops.softmax.softmax_backward",
    lambda t: (_half(t, 2048, 1024), _half(t, 2048, 1024), 1, t.torch.float16),
)
_add("ops.log_softmax.log_softmax", lambda t: (_half(t, 2048, 1024), 1))
_add(
    "ops.log_softmax.log_softmax_backward",
    lambda t: (_half(t, 2048, 1024), _half(t, 2048, 1024), 1, t.torch.float16),
)
_add("ops.scaled_softmax.scaled_softmax_forward", lambda t: (_half(t, 2, 8, 512, 512), 0.5))
_add("ops.layernorm.layer_norm", lambda t: (_half(t, 2048, 1024), (1024,), _half(t, 1024), _half(t, 1024)))
_add(
    "ops.layernorm.layer_norm",
    lambda t: (_half(t, 32768, 64), (64,), _half(t, 64), _half(t, 64)),
    "layer norm of short rows",
)
_add(
    "ops.layernorm.layer_norm",
    lambda t: (_half(t, 64, 40000), (40000,), _half(t, 40000), _half(t, 40000)),
    "layer norm of long rows",
)
_add(
    "ops.layernorm.layer_norm_backward",
    lambda t: (
        _half(t, 2048, 1024),
        _half(t, 2048, 1024),
        (1024,),
        t.normal(2048, dtype="float32"),
        t.uniform(2048),
        _half(t, 1024),
        _half(t, 1024),
        [True] * 3,
    ),
)
_add(
    "ops.rms_norm.rms_norm",
    lambda t: (_half(t, 2048, 1024, grad=True), (1024,), _half(t, 1024, grad=True)),
    grad=True,
)
_add("ops.groupnorm.group_norm", lambda t: (_half(t, 8, 64, 1024), _half(t, 64), _half(t, 64), 8, 64, 1024, 16))
_add(
    "ops.groupnorm.group_norm_backward",
    lambda t: (
        _half(t, 8, 64, 1024),
        _half(t, 8, 64, 1024),
        t.normal(8, 16, dtype="float32"),
        t.uniform(8, 16),
        _half(t, 64),
        8,
        64,
        1024,
        16,
        [True] * 3,
    ),
)
_add(
    "ops.batch_norm.batch_norm",
    lambda t: (
        _half(t, 32, 64, 256),
        _half(t, 64),
        _half(t, 64),
        _half(t, 64),
        t.uniform(64, dtype="float16"),
        True,
    ),
)
_add(
    "ops.batch_norm.batch_norm_backward",
    lambda t: (
        _half(t, 32, 64, 256),
        _half(t, 32, 64, 256),
        _half(t, 64),
        _half(t, 64),
        t.uniform(64, dtype="float16"),
        t.normal(64, dtype="float32"),
        t.uniform(64),
        True,
        1e-5,
        [True] * 3,
    ),
)
_add("ops.weightnorm.weight_norm_interface", lambda t: (_half(t, 1024, 512), _half(t, 1024, 1), 0))
_add(
    "ops.weightnorm.weight_norm_interface",
    lambda t: (_half(t, 1024, 512), _half(t, 1, 512), 1),
    "weight norm last",
)
_add(
    "ops.weightnorm.weight_norm_interface_backward",
    lambda t: (
        _half(t, 1024, 512),
        _half(t, 1024, 512),
        _half(t, 1024, 1),
        t.uniform(1024, 1, dtype="float32"),
        0,
    ),
)
_add("ops.mm.mm", lambda t: (_half(t, 1024, 512), _half(t, 512, 1024)))
_add("ops.mm.mm", lambda t: (_half(t, 512, 1024).t(), _half(t, 1024, 512).t()), "mm of transposes")
_add(
    "ops.mm.mm",
    lambda t: (t.normal(512, 512, dtype="float32"), t.normal(512, 512, dtype="float32")),
    "mm of f32",
)
_add("ops.bmm.bmm", lambda t: (_half(t, 8, 256, 256), _half(t, 8, 256, 256)))
_add("ops.addmm.addmm", lambda t: (_half(t, 1024), _half(t, 1024, 512), _half(t, 512, 1024)))
_add("ops.baddbmm.baddbmm", lambda t: (_half(t, 8, 256, 256), _half(t, 8, 256, 256), _half(t, 8, 256, 256)))
_add("ops.mv.mv", lambda t: (_half(t, 2048, 1024), _half(t, 1024)))
_add("ops.addmv.addmv", lambda t: (_half(t, 2048), _half(t, 2048, 1024), _half(t, 1024)))
_add("ops.dot.dot", lambda t: (_half(t, 1 << 20), _half(t, 1 << 20)))
_add("fused.outer.outer", lambda t: (_half(t, 1024), _half(t, 512)))
_add(
    "ops.w8a8_block_fp8_matmul.w8a8_block_fp8_matmul",
    lambda t: (
        t.normal(512, 512).to(t.torch.float8_e4m3fn),
        t.normal(512, 512).to(t.torch.float8_e4m3fn),
        t.uniform(512, 4),
        t.uniform(4, 4),
        [128, 128],
    ),
)
_add("ops.per_token_group_quant_fp8.per_token_group_quant_fp8", lambda t: (t.normal(1024, 1024), 128))
_add("ops.act_quant.act_quant_triton", lambda t: (t.normal(1024, 1024), 128))
_add(
    "ops.attention.scaled_dot_product_attention",
    lambda t: (*(_half(t, 2, 4, 512, 64, grad=True) for _ in range(3)), {"is_causal": True}),
    grad=True,
)
_add(
    "ops.attention.flash_attention_forward",
    lambda t: (*(_half(t, 2, 512, 4, 64) for _ in range(3)), None, None, 512, 512, 0.0, True, False),
)
_add(
    "ops.conv2d.conv2d",
    lambda t: (_half(t, 4, 32, 32, 32, grad=True), _half(t, 64, 32, 3, 3, grad=True), None, 1, 1),
    grad=True,
)
_add("ops.conv1d.conv1d", lambda t: (_half(t, 4, 32, 512), _half(t, 64, 32, 3), None, 1, 1))
_add(
    "ops.conv_depthwise2d._conv_depthwise2d",
    lambda t: (_half(t, 4, 32, 32, 32), _half(t, 32, 1, 3, 3), 3, None, 1, 1, 1),
)
_add("ops.max_pool2d_with_indices.max_pool2d_with_indices", lambda t: (_half(t, 4, 32, 64, 64), 3, 2, 1))
_add("ops.avg_pool2d.avg_pool2d", lambda t: (_half(t, 4, 32, 64, 64), 3, 2, 1))
_add("ops.upsample_bicubic2d_aa._upsample_bicubic2d_aa", lambda t: (_half(t, 2, 3, 64, 64), (128, 128)))
for _name in ("sum", "mean", "max", "min", "prod", "all", "any", "amax", "argmax", "argmin"):
    _add(f"ops.{_name}.{_name}", _one(1024, 1024))
for _name in ("sum", "mean", "max", "min", "all", "any"):
    _dim: Callable[[Inputs], tuple[Any, ...]] = _along(1)
    _add(
        f"ops.{_name}.{_name}_dim",
        lambda t, _n=_name: (_half(t, 2048, 1024), [1] if _n in ("sum", "mean") else 1),
    )
_add("ops.prod.prod_dim", _along(1))
for _name in ("sum", "mean"):
    _add(f"ops.{_name}.{_name}_dim", lambda t: (_half(t, 64, 1024, 128), [1]), f"{_name} of a middle dimension")
for _name in ("argmax", "argmin"):
    _add(f"ops.{_name}.{_name}", _along(1), f"{_name} dim")
    _add(f"ops.{_name}.{_name}", lambda t: (_half(t, 64, 256, 128), 1), f"{_name} of a middle dimension")
_add("ops.amax.amax", lambda t: (_half(t, 2048, 1024), [1]), "amax dim")
_add("ops.aminmax.aminmax", lambda t: (_half(t, 2048, 1024), {"dim": 1}))
_add("ops.var_mean.var_mean", lambda t: (_half(t, 2048, 1024), [1]))
_add("ops.var_mean.var_mean", lambda t: (_half(t, 1024, 1024),), "var mean of all")
_add("ops.std.std", lambda t: (_half(t, 2048, 1024), [1]))
_add("ops.vector_norm.vector_norm", lambda t: (_half(t, 2048, 1024), 2, [1]))
_add("ops.vector_norm.vector_norm", lambda t: (_half(t, 2048, 1024), 1, None), "vector norm of all")
_add("ops.cumsum.cumsum", lambda t: (_half(t, 1024, 1024), 1))
_add("ops.cumsum.cumsum", lambda t: (_half(t, 16, 1024, 64), 1), "cumsum of a middle dimension")
_add("ops.cummax.cummax", lambda t: (_half(t, 256, 1024), 1))
_add("ops.cummin.cummin", lambda t: (_half(t, 256, 1024), 1))
_add("ops.sort.sort", lambda t: (_half(t, 64, 1024),))
_add("ops.sort.sort", lambda t: (t.integers(0, 1000, 16, 256, dtype="int32"),), "sort of integers")
_add("ops.topk.topk", lambda t: (_half(t, 64, 4096), 8))
_add("ops.quantile.quantile", lambda t: (t.normal(64, 512, dtype="float32"), t.uniform(4)))
_add("ops.gather.gather", lambda t: (_half(t, 512, 512), 1, t.integers(0, 512, 512, 512)))
_add("ops.scatter.scatter", lambda t: (_half(t, 512, 512), 1, t.distinct(512, 512, 512), _half(t, 512, 512)))
_add("ops.index_select.index_select", lambda t: (_half(t, 512, 512), 0, t.integers(0, 512, 256)))
_add("ops.index_put.index_put", lambda t: (_half(t, 512, 512), (t.distinct(512, 64),), _half(t, 64, 512)))
_add("ops.embedding.embedding", lambda t: (_half(t, 4096, 512), t.integers(0, 4096, 4, 256)))
_add("ops.embedding.embedding_backward", lambda t: (_half(t, 4, 256, 512), t.integers(0, 4096, 4, 256), 4096))
_add("ops.nllloss.nll_loss_forward", lambda t: (t.normal(512, 1000, dtype="float32"), t.integers(0, 1000, 512)))
_add(
    "fused.cross_entropy_loss.cross_entropy_loss",
    lambda t: (t.normal(512, 1000, dtype="float32", grad=True), t.integers(0, 1000, 512)),
    grad=True,
)
_add("ops.cat.cat", lambda t: ([_half(t, 256, 512), _half(t, 256, 512)], 1))
_add("ops.repeat_interleave.repeat_interleave_self_int", lambda t: (_half(t, 256, 512), 4, 1))
_add("ops.kron.kron", lambda t: (_half(t, 32, 32), _half(t, 32, 32)))
_add("ops.triu.triu", lambda t: (_half(t, 1024, 1024),))
_add("ops.trace.trace", lambda t: (_half(t, 1024, 1024),))
_add("ops.isin.isin", lambda t: (t.integers(0, 1000, 64, 64), t.integers(0, 1000, 100)))
_add("ops.unique._unique2", lambda t: (t.integers(0, 100, 4096), True, True, True))
_add("ops.hadamard_transform.hadamard_transform", lambda t: (_half(t, 1024, 1024),))
_add("ops.mse_loss.mse_loss", lambda t: (_half(t, 1024, 512), _half(t, 1024, 512)))
_add("ops.gelu.gelu", _one(1024, 1024))
_add("ops.add.add", lambda t: (_half(t, 1024, 1024), _half(t, 1024, 1024).t()), "add of a transpose")
_add("fused.silu_and_mul.silu_and_mul", lambda t: (_half(t, 1024, 1024), _half(t, 1024, 1024)))
_add("fused.geglu.geglu", _one(1024, 1024))
_add(
    "fused.skip_layernorm.skip_layer_norm",
    lambda t: (_half(t, 2048, 1024), _half(t, 2048, 1024), [1024], _half(t, 1024), _half(t, 1024)),
)
_add(
    "fused.fused_add_rms_norm.fused_add_rms_norm",
    lambda t: (_half(t, 2048, 1024), _half(t, 2048, 1024), [1024], _half(t, 1024)),
)
_add(
    "fused.weight_norm.weight_norm", lambda t: (_half(t, 1024, 512), _half(t, 1024, 1), 0), "weight norm fused"
)
_add("fused.instance_norm.instance_norm", lambda t: (_half(t, 8, 64, 32, 32), _half(t, 64), _half(t, 64)))
_add(
    "fused.rotary_embedding.apply_rotary_pos_emb",
    lambda t: (_half(t, 2, 512, 8, 64), _half(t, 2, 512, 8, 64), _half(t, 512, 32), _half(t, 512, 32)),
)
_add("fused.bincount.bincount", lambda t: (t.integers(0, 64, 4096),))
_add(
    "fused.grouped_topk.grouped_topk",
    lambda t: (t.normal(256, 64, dtype="float32"), 8, 4, 6, True, 1.0, t.normal(64, dtype="float32")),
)
_add("fused.moe_sum.moe_sum", lambda t: (_half(t, 256, 4, 512), t.empty(256, 512, dtype="float16")))
_add(
    "fused.flash_mla.flash_mla",
    lambda t: (
        t.normal(4, 1, 16, 576),
        t.integers(0, 16, 4, 4, dtype="int32"),
        t.normal(16, 64, 1, 576),
        256,
        64,
        4,
        1,
        t.torch.full((4,), 200, dtype=t.torch.int32, device="cuda"),
        16,
        1,
        576,
        512,
        True,
    ),
)
