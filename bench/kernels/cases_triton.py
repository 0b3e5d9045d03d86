"""Kernels written by hand: those of the examples, and others with conversions in their loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import triton
import triton.language as tl

from triton_linear.examples import attention, fp8_attention, int4_matmul, layer_norm, matmul, transpose8

from ..harness.report import sizes as by
from . import gluon_kernels, triton_kernels
from .case import GLUON, TRITON, Case, Inputs, Made, Maker
from .kernel import Kernel, Tensor

CASES: list[Case] = []


def _add(name: str, group: str, kernel: Kernel, slack: int = 0, tolerance: float | None = None) -> None:
    kind = GLUON if kernel.function.is_gluon() else TRITON

    def sources(target: Any) -> Mapping[str, Any]:
        return {name: (kernel.source(), kernel.options)}

    CASES.append(Case(name, group, kind, kernel.make, tolerance, slack, sources))


def _example(module: ModuleType, name: str, group: str, names: str, *sizes: tuple[int, ...]) -> None:
    """A kernel of the examples at some sizes; the case of the first one has the kernel's name alone."""

    def sources(target: Any) -> Mapping[str, Any]:
        return {spec.name: (spec.source(), spec.options) for spec in module.compile_specs(target)}

    for number, size in enumerate(sizes):

        def make(torch: Any, inputs: Inputs, size: tuple[int, ...] = size) -> Made:
            target = triton.runtime.driver.active.get_current_target()
            return module.problem("cuda", target, **dict(zip(names.split(), size, strict=True))).launch, ()

        full = f"{name}_{by(size)}" if number else name
        CASES.append(Case(full, group, TRITON, make, sources=sources))


_example(
    attention, "attention_f16", "dot", "batch heads length",
    (4, 16, 2048), (4, 16, 1024), (4, 16, 4096), (1, 16, 8192),
)  # fmt: skip
_example(fp8_attention, "attention_fp8", "dot", "heads length", (64, 2048), (64, 1024), (64, 4096), (16, 8192))
_example(
    int4_matmul, "int4_matmul", "dot", "m n k",
    (512, 4096, 4096), (64, 4096, 4096), (1024, 4096, 4096), (4096, 4096, 4096),
)  # fmt: skip
_example(
    matmul, "matmul_gelu_residual", "dot", "m n k",
    (4096, 4096, 1024), (2048, 2048, 1024), (4096, 4096, 4096), (8192, 4096, 512),
)  # fmt: skip
_example(
    transpose8, "transpose_bytes", "permute", "batch m n", (64, 512, 2048), (16, 1024, 1024), (1, 8192, 8192)
)


def _layer_norm(backward: bool, rows: int, columns: int) -> Maker:
    def make(torch: Any, inputs: Inputs) -> Made:
        x, grad = inputs.normal(rows, columns), inputs.normal(rows, columns)
        weight, bias = inputs.normal(columns), inputs.normal(columns)
        if not backward:
            return layer_norm.forward, (x, weight, bias)
        _, mean, rstd = layer_norm.forward(x, weight, bias)
        return layer_norm.backward_shares, (grad, x, weight, mean, rstd)

    return make


def _layer_norm_sources(name: str) -> Callable[[Any], Mapping[str, Any]]:
    def sources(target: Any) -> Mapping[str, Any]:
        specs = layer_norm.compile_specs(target)
        return {spec.name: (spec.source(), spec.options) for spec in specs if spec.name == name}

    return sources


for _name in ("layer_norm_forward", "layer_norm_backward"):
    for _size in ((32768, 1024), (4096, 1024), (65536, 512)):
        CASES.append(
            Case(
                _name if _size == (32768, 1024) else f"{_name}_{by(_size)}",
                "norm",
                TRITON,
                _layer_norm(_name.endswith("backward"), *_size),
                sources=_layer_norm_sources(_name),
            )
        )

_add(
    "softmax_column_sums",
    "softmax",
    Kernel(
        triton_kernels.softmax_column_sums,
        {"x_ptr": Tensor("float16", (16384, 1024))},
        {"out_ptr": Tensor("float16", (16384, 1024)), "sums_ptr": Tensor("float32", (512, 1024))},
        (512,),
        constants={"STEPS": 4, "ROWS": 8, "COLUMNS": 1024},
        options={"num_warps": 4},
    ),
    tolerance=2e-3,
)
_add(
    "splitk_gemv_int8",
    "gather",
    Kernel(
        triton_kernels.splitk_gemv,
        {
            "w_ptr": Tensor("int8", (8192, 8192), 128),
            "scale_ptr": Tensor("float16", (8192,)),
            "x_ptr": Tensor("float16", (8192,)),
        },
        {"out_ptr": Tensor("float32", (4, 8192))},
        (8192 // 32, 4),
        {"n": 8192, "k": 8192, "steps": 8192 // 4 // 256},
        {"BLOCK_N": 32, "BLOCK_K": 256},
        {"num_warps": 4},
    ),
)
_add(
    "gather_gemv",
    "gather",
    Kernel(
        triton_kernels.gather_gemv,
        {
            "w_ptr": Tensor("float16", (50304, 1024)),
            "index_ptr": Tensor("int64", (16384,), 50304, index=True),
            "x_ptr": Tensor("float16", (1024,)),
        },
        {"out_ptr": Tensor("float32", (16384,))},
        (16384 // 32,),
        {"k": 1024},
        {"BLOCK_N": 32, "BLOCK_K": 128},
        {"num_warps": 4},
    ),
)
_add(
    "column_stats",
    "reduction",
    Kernel(
        triton_kernels.column_stats,
        {"x_ptr": Tensor("float16", (2048, 16384))},
        {"mean_ptr": Tensor("float32", (16384,)), "peak_ptr": Tensor("float32", (16384,))},
        (16384 // 64,),
        {"rows": 2048, "columns": 16384},
        {"BLOCK_M": 64, "BLOCK_N": 64},
        {"num_warps": 4},
    ),
)
_add(
    "quantise_transposed",
    "quantise",
    Kernel(
        triton_kernels.quantise_transposed,
        {"x_ptr": Tensor("float16", (2048, 16384))},
        {"out_ptr": Tensor("int8", (16384, 2048)), "scale_ptr": Tensor("float32", (16384,))},
        (16384 // 64,),
        {"rows": 2048, "columns": 16384},
        {"BLOCK_M": 64, "BLOCK_N": 64},
        {"num_warps": 4},
    ),
    slack=1,
)


def _matmul(
    name: str,
    a: str,
    b: str,
    kind: Any,
    a_down: bool,
    b_down: bool,
    blocks: tuple[int, int, int],
    out: str = "float16",
    warps: int = 4,
) -> None:
    """A product [2048, 2048] x [2048, 2048]; `a_down` and `b_down`: neighbours lie below each other."""
    size = 2048

    def strides(down: bool) -> tuple[int, int]:
        return (1, size) if down else (size, 1)

    def operand(dtype: str) -> Tensor:
        return Tensor(dtype, (size, size), 128 if dtype == "int8" else None)

    (am, ak), (bk, bn) = strides(a_down), strides(b_down)
    sizes = {"m": size, "n": size, "k": size}
    steps = {"stride_am": am, "stride_ak": ak, "stride_bk": bk, "stride_bn": bn}
    constants = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), blocks, strict=True)) | {"TYPE": kind}
    _add(
        name,
        "dot",
        Kernel(
            triton_kernels.matmul_mixed,
            {"a_ptr": operand(a), "b_ptr": operand(b)},
            {"out_ptr": Tensor(out, (size, size))},
            (size // blocks[0], size // blocks[1]),
            sizes | steps,
            constants,
            {"num_warps": warps, "num_stages": 3},
        ),
    )


_matmul("matmul_f32_b_transposed", "float32", "float32", tl.float32, False, False, (64, 64, 32), "float32")
_matmul("matmul_int8_bf16", "int8", "bfloat16", tl.bfloat16, False, False, (64, 128, 64), "bfloat16")
_matmul("matmul_bf16_int8", "bfloat16", "int8", tl.bfloat16, False, False, (64, 128, 64), "bfloat16")
_matmul("matmul_fp8_b_transposed", "float8_e4m3fn", "float8_e4m3fn", tl.float8e4nv, False, False, (64, 128, 64))
_add(
    "chained_dot",
    "dot",
    Kernel(
        triton_kernels.chained_dot,
        {name: Tensor("float16", (32, 2048, 64)) for name in ("q_ptr", "k_ptr", "v_ptr")},
        {"out_ptr": Tensor("float16", (32, 2048, 64))},
        (2048 // 64, 32),
        {"length": 2048},
        {"BLOCK": 64, "DIM": 64},
        {"num_warps": 4},
    ),
)
_add(
    "add_transposed",
    "permute",
    Kernel(
        triton_kernels.add_transposed,
        {name: Tensor("float16", (8192, 8192)) for name in ("x_ptr", "y_ptr")},
        {"out_ptr": Tensor("float16", (8192, 8192))},
        (128, 16),
        {"n": 8192, "steps": 8},
        {"BLOCK": 64},
        {"num_warps": 4},
    ),
)
_add(
    "rotate_pairs",
    "pointwise",
    Kernel(
        triton_kernels.rotate_pairs,
        {"x_ptr": Tensor("float16", (262144, 128))}
        | {name: Tensor("float32", (262144, 64)) for name in ("cos_ptr", "sin_ptr")},
        {"out_ptr": Tensor("float16", (262144, 128))},
        (2048,),
        {"steps": 4},
        {"ROWS": 32, "DIM": 128},
        {"num_warps": 4},
    ),
)
_add(
    "cumulative_columns",
    "reduction",
    Kernel(
        triton_kernels.cumulative_columns,
        {"x_ptr": Tensor("float16", (2048, 16384))},
        {"out_ptr": Tensor("float32", (2048, 16384))},
        (16384 // 64,),
        {"rows": 2048, "columns": 16384},
        {"BLOCK_M": 64, "BLOCK_N": 64},
        {"num_warps": 4},
    ),
    tolerance=1e-4,
)
_add(
    "argmax_columns_in_loop",
    "reduction",
    Kernel(
        triton_kernels.argmax_columns,
        {"x_ptr": Tensor("float32", (2048, 16384))},
        {"peak_ptr": Tensor("float32", (16384,)), "place_ptr": Tensor("int32", (16384,))},
        (16384 // 64,),
        {"rows": 2048, "columns": 16384},
        {"BLOCK_M": 64, "BLOCK_N": 64},
        {"num_warps": 4},
    ),
)
_add(
    "gluon_scale_and_transpose",
    "permute",
    Kernel(
        gluon_kernels.scale_and_transpose,
        {"x_ptr": Tensor("float16", (8192, 8192)), "scale_ptr": Tensor("float16", (8192,))},
        {"out_ptr": Tensor("float16", (8192, 8192))},
        (16, 128),
        {"rows": 8192, "columns": 8192, "steps": 8},
        {"BLOCK": 64, "SOURCE": gluon_kernels.ROWS, "DESTINATION": gluon_kernels.COLUMNS},
        {"num_warps": 4},
    ),
)
_add(
    "gluon_row_norms",
    "reduction",
    Kernel(
        gluon_kernels.row_norms,
        {"x_ptr": Tensor("float16", (131072, 256))},
        {"out_ptr": Tensor("float32", (131072,))},
        (512,),
        {"columns": 256, "steps": 2},
        {"BLOCK_M": 128, "BLOCK_N": 64, "SOURCE": gluon_kernels.ROWS, "STORED": gluon_kernels.FLAT},
        {"num_warps": 4},
    ),
)
_add(
    "gluon_centre_columns",
    "reduction",
    Kernel(
        gluon_kernels.centre_columns,
        {"x_ptr": Tensor("float16", (8192, 8192))},
        {"out_ptr": Tensor("float16", (8192, 8192))},
        (16, 128),
        {"columns": 8192, "steps": 8},
        {"BLOCK": 64, "SOURCE": gluon_kernels.ROWS, "INNER": gluon_kernels.COLUMNS},
        {"num_warps": 4},
    ),
)
