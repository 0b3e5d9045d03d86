"""Operators of flash-linear-attention (the wheel fla-core)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .case import Case, Cases, Inputs, graded, plain

CASES = Cases()
FLA = "fla-core"
BATCH, TIME, HEADS, WIDTH = 2, 1024, 4, 64


class Operands:
    """What the operators call their operands, made when asked for."""

    def __init__(self, t: Inputs, time: int = TIME, width: int = WIDTH) -> None:
        self.t, self.time, self.width = t, time, width

    def head(self, scale: float = 1.0, width: int | None = None) -> Any:
        return self.t.normal(BATCH, self.time, HEADS, width or self.width, grad=True, scale=scale)

    def unit(self) -> Any:
        made = self.t.torch.nn.functional.normalize(self.head().detach().float(), dim=-1)
        return made.to(self.t.torch.bfloat16).requires_grad_()

    def decay(self, *shape: int, dtype: str = "bfloat16") -> Any:
        made = self.t.torch.nn.functional.logsigmoid(self.t.normal(*shape, dtype="float32") + 2.0)
        return made.to(getattr(self.t.torch, dtype)).requires_grad_()

    def gates(self, dtype: str = "bfloat16") -> Any:
        return self.decay(BATCH, self.time, HEADS, self.width, dtype=dtype)

    def gate(self, dtype: str = "float32") -> Any:
        return self.decay(BATCH, self.time, HEADS, dtype=dtype)

    def share(self, *shape: int, dtype: str = "bfloat16") -> Any:
        shape = shape or (BATCH, self.time, HEADS)
        return self.t.uniform(*shape, dtype=dtype).requires_grad_()


def _operator(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"fla.{module}"), name)


def _add(
    path: str, make: Callable[[Operands], dict[str, Any]], name: str = "", time: int = TIME, width: int = WIDTH
) -> None:
    def case(t: Inputs) -> Callable[[], Any]:
        function = _operator(path)
        return graded(function, **make(Operands(t, time, width)))

    CASES.append(Case(f"{FLA}: {name or path.rpartition('.')[2].replace('_', ' ')}", FLA, case))


def _qkv(o: Operands) -> dict[str, Any]:
    return {"q": o.head(), "k": o.head(), "v": o.head()}


def _unit_qkv(o: Operands) -> dict[str, Any]:
    return {"q": o.unit(), "k": o.unit(), "v": o.head()}


def _state(o: Operands, value: int | None = None) -> dict[str, Any]:
    made = o.t.normal(BATCH, HEADS, o.width, value or o.width, dtype="float32", grad=True)
    return {"initial_state": made, "output_final_state": True}


_add("ops.gla.chunk_gla", lambda o: _qkv(o) | {"g": o.gates()} | _state(o))
_add("ops.gla.fused_recurrent_gla", lambda o: _qkv(o) | {"gk": o.gates()} | _state(o), time=64)
_add("ops.simple_gla.chunk_simple_gla", lambda o: _qkv(o) | {"g": o.gate()} | _state(o))
_add("ops.simple_gla.fused_chunk_simple_gla", lambda o: _qkv(o) | {"g": o.gate()})
_add("ops.simple_gla.fused_recurrent_simple_gla", lambda o: _qkv(o) | {"g": o.gate()}, time=64)
_add("ops.simple_gla.parallel_simple_gla", lambda o: _qkv(o) | {"g": o.gate()})
_add("ops.retention.chunk_retention", _qkv, "chunk retention of wide heads", width=128)
_add("ops.retention.parallel_retention", _qkv)
_add("ops.linear_attn.chunk_linear_attn", lambda o: _qkv(o) | {"normalize": False})
_add("ops.linear_attn.fused_chunk_linear_attn", lambda o: _qkv(o) | {"normalize": False})
_add("ops.delta_rule.chunk_delta_rule", lambda o: _unit_qkv(o) | {"beta": o.share()} | _state(o))
_add("ops.delta_rule.fused_recurrent_delta_rule", lambda o: _unit_qkv(o) | {"beta": o.share()}, time=64)
_add(
    "ops.gated_delta_rule.chunk_gated_delta_rule",
    lambda o: _qkv(o) | {"g": o.gate(), "beta": o.share(), "use_qk_l2norm_in_kernel": True} | _state(o),
)
_add(
    "ops.gated_delta_rule.fused_recurrent_gated_delta_rule",
    lambda o: {
        key: value.detach() for key, value in (_unit_qkv(o) | {"g": o.gate(), "beta": o.share()}).items()
    },
    time=64,
)
_add("ops.comba.chunk_comba", lambda o: _unit_qkv(o) | {"p": o.unit(), "g": o.gate(), "beta": o.share()})
_add(
    "ops.generalized_delta_rule.chunk_dplr_delta_rule",
    lambda o: _qkv(o) | {"a": o.unit(), "b": o.unit(), "gk": o.gates("float32")} | _state(o),
)
_add(
    "ops.generalized_delta_rule.chunk_iplr_delta_rule",
    lambda o: _qkv(o) | {"a": o.unit(), "b": o.unit()} | _state(o),
)
_add(
    "ops.generalized_delta_rule.fused_recurrent_iplr_delta_rule",
    lambda o: _qkv(o) | {"a": o.unit(), "b": o.unit()},
    time=64,
)
_add("ops.kda.chunk_kda", lambda o: _unit_qkv(o) | {"g": o.gates("float32"), "beta": o.share()} | _state(o))
_add(
    "ops.kda.fused_recurrent_kda",
    lambda o: {
        key: value.detach() for key, value in (_unit_qkv(o) | {"g": o.gates(), "beta": o.share()}).items()
    },
    time=64,
)
_add(
    "ops.gsa.chunk_gsa",
    lambda o: _qkv(o) | {"s": o.head(), "g": o.gates()},
)
_add("ops.abc.chunk_abc", lambda o: _qkv(o) | {"s": o.head()})
_add(
    "ops.rwkv6.chunk_rwkv6",
    lambda o: (
        {"r": o.head(), "k": o.head(), "v": o.head(), "w": o.gates(), "u": o.t.normal(HEADS, WIDTH, grad=True)}
        | _state(o)
    ),
)
_add(
    "ops.rwkv6.fused_recurrent_rwkv6",
    lambda o: {
        "r": o.head(),
        "k": o.head(),
        "v": o.head(),
        "w": o.gates(),
        "u": o.t.normal(HEADS, WIDTH, grad=True),
    },
    time=64,
)
_add(
    "ops.rwkv7.chunk_rwkv7",
    lambda o: {"r": o.head(), "w": o.gates(), "k": o.head(), "v": o.head(), "a": o.unit(), "b": o.unit()},
)
_add(
    "ops.hgrn.fused_recurrent_hgrn",
    lambda o: {"x": o.t.normal(BATCH, 256, 512, grad=True), "g": o.decay(BATCH, 256, 512)},
)
_add(
    "ops.hgrn.chunk_hgrn",
    lambda o: {"x": o.t.normal(BATCH, TIME, 512, grad=True), "g": o.decay(BATCH, TIME, 512)},
)
_add("ops.based.parallel_based", lambda o: {"q": o.head(width=16), "k": o.head(width=16), "v": o.head()})
_add("ops.based.fused_chunk_based", lambda o: {"q": o.head(width=16), "k": o.head(width=16), "v": o.head()})
_add("ops.rebased.parallel_rebased", lambda o: {"q": o.head(width=16), "k": o.head(width=16), "v": o.head()})
_add("ops.attn.parallel_attn", _qkv)
_add("ops.attn.parallel_attn", lambda o: _qkv(o) | {"g": o.gate()}, "parallel attn with gates")
_add("ops.forgetting_attn.parallel_forgetting_attn", lambda o: _qkv(o) | {"g": o.gate()}, width=128)
_add("ops.path_attn.parallel_path_attn", lambda o: _qkv(o) | {"w": o.unit(), "beta": o.share(), "g": o.gate()})
_add("ops.stickbreaking_attn.parallel_stickbreaking_attn", _qkv)
_add("ops.deltaformer.deltaformer_attn", lambda o: _qkv(o) | {"beta": o.share()})
_add("ops.wall_attn.parallel_wall_attn", lambda o: _qkv(o) | {"g": o.gates("float32")})
_add("ops.parallax.parallel_parallax", lambda o: _qkv(o) | {"r": o.head()})
_add(
    "ops.mesa_net.chunk_mesa_net",
    lambda o: (
        _unit_qkv(o)
        | {"g": o.gate(), "beta": o.share(), "lamb": o.share(HEADS, o.width), "max_CG_iteration": 4}
    ),
)
_add(
    "ops.log_linear_attn.chunk_log_linear_attn",
    lambda o: _qkv(o) | {"g": o.gate(), "level_scales": o.share(BATCH, o.time, HEADS, 11)},
)
_add(
    "ops.gated_delta_product.chunk_gated_delta_product",
    lambda o: {
        "q": o.unit(),
        "k": Operands(o.t, 2 * o.time).unit(),
        "v": Operands(o.t, 2 * o.time).head(),
        "g": o.gate(),
        "beta": Operands(o.t, 2 * o.time).share(),
        "num_householder": 2,
    },
)
_add(
    "ops.precond_kda.chunk_precond_kda",
    lambda o: (
        _unit_qkv(o) | {"g": o.gates("float32"), "g_atk": o.gate(), "beta_atk": o.share(), "beta": o.share()}
    ),
)
_add(
    "ops.ttt.chunk_ttt_linear",
    lambda o: (
        _qkv(o)
        | {
            "w": o.t.normal(HEADS, WIDTH, dtype="float32", grad=True),
            "b": o.t.normal(HEADS, WIDTH, dtype="float32", grad=True),
            "eta": o.share(BATCH, o.time, HEADS, 1),
            "chunk_size": 16,
        }
    ),
)
_add(
    "ops.ttt.fused_chunk_ttt_linear",
    lambda o: (
        _qkv(o)
        | {
            "w": o.t.normal(HEADS, WIDTH, dtype="float32", grad=True),
            "b": o.t.normal(HEADS, WIDTH, dtype="float32", grad=True),
            "eta": o.share(BATCH, o.time, HEADS, 1),
            "chunk_size": 16,
        }
    ),
)
_add(
    "ops.nsa.parallel_nsa",
    lambda o: {
        "q": o.t.normal(BATCH, o.time, 16, WIDTH, grad=True),
        "k": o.t.normal(BATCH, o.time, 1, WIDTH, grad=True),
        "v": o.t.normal(BATCH, o.time, 1, WIDTH, grad=True),
        "g_cmp": o.share(BATCH, o.time, 16),
        "g_slc": o.share(BATCH, o.time, 16),
        "block_counts": 4,
        "block_size": 64,
    },
)


def _rows(t: Inputs, rows: int = 2048, width: int = 1024) -> Any:
    return t.normal(rows, width, grad=True)


@CASES.of(FLA)
def layer_norm(t: Inputs) -> Callable[[], Any]:
    return graded(_operator("modules.norm.layernorm.layer_norm"), _rows(t), _rows(t, 1)[0], _rows(t, 1)[0])


@CASES.of(FLA)
def rms_norm_of_short_rows(t: Inputs) -> Callable[[], Any]:
    weight = t.normal(128, grad=True)
    return graded(_operator("modules.norm.layernorm.rms_norm"), _rows(t, 32768, 128), weight, None)


@CASES.of(FLA)
def norm_with_gate(t: Inputs) -> Callable[[], Any]:
    function = _operator("modules.norm.fused_norm_gate.rms_norm_gated")
    return graded(function, _rows(t), _rows(t), t.normal(1024, grad=True), None)


@CASES.of(FLA)
def l2_norm(t: Inputs) -> Callable[[], Any]:
    return graded(_operator("modules.norm.l2norm.l2norm"), _rows(t, 16384, 128))


@CASES.of(FLA)
def short_convolution(t: Inputs) -> Callable[[], Any]:
    function = _operator("modules.causal_conv1d.causal_conv1d")
    x, w = t.normal(BATCH, TIME, 512, grad=True), t.normal(512, 4, grad=True)
    return graded(lambda a, b: function(a, b, activation="silu", backend="triton"), x, w)


@CASES.of(FLA)
def rotary(t: Inputs) -> Callable[[], Any]:
    function = _operator("modules.rotary.rotary_embedding")
    x = t.normal(BATCH, TIME, 8, 128, grad=True)
    return graded(function, x, t.normal(TIME, 64), t.normal(TIME, 64))


@CASES.of(FLA)
def swiglu(t: Inputs) -> Callable[[], Any]:
    return graded(_operator("modules.activations.swiglu"), _rows(t), _rows(t))


@CASES.of(FLA)
def log_sigmoid(t: Inputs) -> Callable[[], Any]:
    return graded(_operator("modules.activations.logsigmoid"), _rows(t))


@CASES.of(FLA)
def token_shift(t: Inputs) -> Callable[[], Any]:
    return graded(_operator("modules.token_shift.token_shift"), t.normal(BATCH, TIME, 512, grad=True))


@CASES.of(FLA)
def cross_entropy(t: Inputs) -> Callable[[], Any]:
    function = _operator("modules.fused_cross_entropy.cross_entropy_loss")
    labels = t.integers(0, 16000, 512)
    return graded(lambda x: function(x * 1.0, labels)[0], t.normal(512, 16000, grad=True))


@CASES.of(FLA)
def pooling(t: Inputs) -> Callable[[], Any]:
    return graded(
        _operator("ops.utils.pooling.mean_pooling"), t.normal(BATCH, TIME, HEADS, WIDTH, grad=True), 64
    )


@CASES.of(FLA)
def sums_along_time(t: Inputs) -> Callable[[], Any]:
    return plain(_operator("ops.utils.cumsum.chunk_global_cumsum"), t.normal(BATCH, TIME, HEADS, WIDTH))


@CASES.of(FLA)
def softmax(t: Inputs) -> Callable[[], Any]:
    return plain(_operator("ops.utils.softmax.softmax_fwd"), t.normal(BATCH, TIME, HEADS, WIDTH))


@CASES.of(FLA)
def matmul(t: Inputs) -> Callable[[], Any]:
    return plain(_operator("ops.utils.matmul.matmul"), t.normal(1024, 512), t.normal(512, 1024))


@CASES.of(FLA)
def triangular_inverse(t: Inputs) -> Callable[[], Any]:
    lower = t.normal(BATCH, TIME, HEADS, 64, dtype="float32", scale=0.1)
    return plain(_operator("ops.utils.solve_tril.solve_tril"), lower)
