"""Norms of rows, forward and backward, and softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl

from bench.kernels.kernel import Kernel, Tensor
from triton_linear.examples.layer_norm import layer_norm_backward as layer_norm_backward_kernel
from triton_linear.examples.layer_norm import layer_norm_forward

from .kernel_case import Drawn, Family, Work, family

FAMILIES: list[Family] = []
EPSILON = 1e-5
PROGRAMS = 264
"""Of a backward pass, each with its share of the gradients of weights: two a multiprocessor."""


@triton.jit
def rms_norm_kernel(
    x_ptr,
    w_ptr,
    out_ptr,
    rstd_ptr,
    rows,
    columns,
    EPSILON: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """out = x rstd w for ROWS rows; keeps rstd for the backward pass."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    offsets = row[:, None] * columns + column[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, 1) / columns + EPSILON)
    tl.store(rstd_ptr + row, rstd, mask=row < rows)
    w = tl.load(w_ptr + column, mask=column < columns, other=0.0).to(tl.float32)
    out = x * rstd[:, None] * w[None, :]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm_backward_kernel(
    grad_ptr,
    x_ptr,
    w_ptr,
    rstd_ptr,
    grad_x_ptr,
    grad_w_ptr,
    rows,
    columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The gradient of x, and this program's share of that of w: row `program` of grad_w."""
    program = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    w = tl.load(w_ptr + column, mask=column < columns, other=0.0).to(tl.float32)
    grad_w = tl.zeros((COLUMNS,), tl.float32)
    for start in range(program * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        offsets = row[:, None] * columns + column[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row, mask=row < rows, other=0.0)
        normal = x * rstd[:, None]
        scaled = grad * w[None, :]
        along = tl.sum(normal * scaled, 1) / columns
        grad_x = (scaled - normal * along[:, None]) * rstd[:, None]
        tl.store(grad_x_ptr + offsets, grad_x.to(grad_x_ptr.dtype.element_ty), mask=inside)
        grad_w += tl.sum(grad * normal, 0)
    tl.store(grad_w_ptr + program * columns + column, grad_w, mask=column < columns)


@triton.jit
def welford_combine(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    """Mean, sum of squared differences from it, and number of two sets of values together."""
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, count_b / count)
    difference = mean_b - mean_a
    m2 = m2_a + m2_b + difference * difference * count_a * share
    return mean_a + difference * share, m2, count


@triton.jit
def welford_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    out_ptr,
    columns,
    EPSILON: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Layer norm of ROWS rows, BLOCK columns at a time, with a running mean and variance of each lane."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = tl.arange(0, BLOCK)
    mean = tl.zeros((ROWS, BLOCK), tl.float32)
    m2 = tl.zeros((ROWS, BLOCK), tl.float32)
    count = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, columns, BLOCK):
        inside = (start + here < columns)[None, :]
        offsets = row[:, None] * columns + (start + here)[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        new_count = count + 1
        difference = x - mean
        new_mean = mean + difference / new_count
        new_m2 = m2 + difference * (x - new_mean)
        mean = tl.where(inside, new_mean, mean)
        m2 = tl.where(inside, new_m2, m2)
        count = tl.where(inside, new_count, count)
    row_mean, row_m2, _ = tl.reduce((mean, m2, count), 1, welford_combine)
    rstd = tl.rsqrt(row_m2 / columns + EPSILON)
    for start in range(0, columns, BLOCK):
        inside = start + here < columns
        offsets = row[:, None] * columns + (start + here)[None, :]
        x = tl.load(x_ptr + offsets, mask=inside[None, :], other=0.0).to(tl.float32)
        w = tl.load(w_ptr + start + here, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + start + here, mask=inside, other=0.0).to(tl.float32)
        out = (x - row_mean[:, None]) * rstd[:, None] * w[None, :] + b[None, :]
        tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside[None, :])


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The softmax of ROWS rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    offsets = row[:, None] * columns + column[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=float("-inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, 1)[:, None])
    out = weights / tl.sum(weights, 1)[:, None]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside)


def _rows_at_once(columns: int) -> tuple[int, int]:
    """(rows, warps) of a program that holds whole rows of so many columns."""
    if columns <= 256:
        return 16, 4
    if columns <= 1024:
        return 4, 4
    return 1, 8 if columns <= 4096 else 16


SIZES = (
    {"rows": 65536, "columns": 128},
    {"rows": 8192, "columns": 1024},
    {"rows": 8192, "columns": 4096},
    {"rows": 4096, "columns": 8192},
)
SMALL = {"rows": 23, "columns": 40}
MORE_ROWS = {"rows": 4500, "columns": 20}
"""More than the programs of a backward pass take at once."""


def _near_one(torch: Any, x: Any) -> Any:
    return 1 + x / 4


@family(FAMILIES, *SIZES, small=SMALL)
def rms_norm(rows: int, columns: int) -> Work:
    """bf16 rows, forward."""
    together, warps = _rows_at_once(columns)

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x = given["x_ptr"]
        rstd = (x.square().mean(-1) + EPSILON).rsqrt()
        return {"out_ptr": x * rstd[:, None] * given["w_ptr"], "rstd_ptr": rstd}

    kernel = Kernel(
        rms_norm_kernel,
        {"x_ptr": Tensor("bfloat16", (rows, columns)), "w_ptr": Drawn("bfloat16", (columns,), then=_near_one)},
        {"out_ptr": Tensor("bfloat16", (rows, columns)), "rstd_ptr": Tensor("float32", (rows,))},
        (-(-rows // together),),
        {"rows": rows, "columns": columns},
        {"EPSILON": EPSILON, "ROWS": together, "COLUMNS": triton.next_power_of_2(columns)},
        {"num_warps": warps},
    )
    return Work([kernel], reference, 1e-2)


def _centred(torch: Any, x: Any) -> Any:
    return x.abs() + 0.5


@family(FAMILIES, *SIZES, small=SMALL, also=(MORE_ROWS,))
def rms_norm_backward(rows: int, columns: int) -> Work:
    """bf16 rows; the gradient of the weights in shares."""
    together, warps = _rows_at_once(columns)
    programs = min(PROGRAMS, -(-rows // together))

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x, grad, rstd = given["x_ptr"], given["grad_ptr"], given["rstd_ptr"]
        normal, scaled = x * rstd[:, None], grad * given["w_ptr"]
        along = (normal * scaled).mean(-1, keepdim=True)
        shares = _shares(torch, grad * normal, together, programs)
        return {"grad_x_ptr": (scaled - normal * along) * rstd[:, None], "grad_w_ptr": shares}

    kernel = Kernel(
        rms_norm_backward_kernel,
        {
            "grad_ptr": Tensor("bfloat16", (rows, columns)),
            "x_ptr": Tensor("bfloat16", (rows, columns)),
            "w_ptr": Drawn("bfloat16", (columns,), then=_near_one),
            "rstd_ptr": Drawn("float32", (rows,), then=_centred),
        },
        {
            "grad_x_ptr": Tensor("bfloat16", (rows, columns)),
            "grad_w_ptr": Tensor("float32", (programs, columns)),
        },
        (programs,),
        {"rows": rows, "columns": columns},
        {"ROWS": together, "COLUMNS": triton.next_power_of_2(columns)},
        {"num_warps": warps},
    )
    return Work([kernel], reference, 1e-2)


def _shares(torch: Any, values: Any, together: int, programs: int) -> Any:
    """Sums of the rows that each program takes: `together` at a time, every so many-th."""
    rows, columns = values.shape
    step = together * programs
    padded = torch.zeros(-(-rows // step) * step, columns, dtype=values.dtype, device=values.device)
    padded[:rows] = values
    return padded.reshape(-1, programs, together, columns).sum((0, 2))


@family(FAMILIES, *SIZES, small=SMALL)
def layer_norm(rows: int, columns: int) -> Work:
    """f16 rows, forward."""
    together, warps = _rows_at_once(columns)

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x = given["x_ptr"]
        mean = x.mean(-1)
        rstd = (x.var(-1, correction=0) + EPSILON).rsqrt()
        normal = (x - mean[:, None]) * rstd[:, None]
        out = normal * given["weight_ptr"] + given["bias_ptr"]
        return {"out_ptr": out, "mean_ptr": mean, "rstd_ptr": rstd}

    kernel = Kernel(
        layer_norm_forward,
        {
            "x_ptr": Tensor("float16", (rows, columns)),
            "weight_ptr": Drawn("float16", (columns,), then=_near_one),
            "bias_ptr": Tensor("float16", (columns,)),
        },
        {"out_ptr": Tensor("float16", (rows, columns))}
        | {name: Tensor("float32", (rows,)) for name in ("mean_ptr", "rstd_ptr")},
        (-(-rows // together),),
        {"rows": rows, "columns": columns, "stride": columns, "epsilon": EPSILON},
        {"BLOCK_ROWS": together, "BLOCK_COLUMNS": triton.next_power_of_2(columns)},
        {"num_warps": warps},
    )
    return Work([kernel], reference, 2e-3)


@family(FAMILIES, *SIZES, small=SMALL, also=(MORE_ROWS,))
def layer_norm_backward(rows: int, columns: int) -> Work:
    """f16 rows; the gradients of weights and biases in shares."""
    together, warps = _rows_at_once(columns)
    programs = min(PROGRAMS, -(-rows // together))

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        x, grad, rstd = given["x_ptr"], given["grad_ptr"], given["rstd_ptr"]
        normal = (x - given["mean_ptr"][:, None]) * rstd[:, None]
        scaled = grad * given["weight_ptr"]
        along = (normal * scaled).mean(-1, keepdim=True)
        grad_x = (scaled - normal * along - scaled.mean(-1, keepdim=True)) * rstd[:, None]
        weights = _shares(torch, grad * normal, together, programs)
        biases = _shares(torch, grad, together, programs)
        return {"grad_x_ptr": grad_x, "grad_weight_ptr": weights, "grad_bias_ptr": biases}

    kernel = Kernel(
        layer_norm_backward_kernel,
        {name: Tensor("float16", (rows, columns)) for name in ("grad_ptr", "x_ptr")}
        | {
            "weight_ptr": Drawn("float16", (columns,), then=_near_one),
            "mean_ptr": Tensor("float32", (rows,)),
            "rstd_ptr": Drawn("float32", (rows,), then=_centred),
        },
        {"grad_x_ptr": Tensor("float16", (rows, columns))}
        | {name: Tensor("float32", (programs, columns)) for name in ("grad_weight_ptr", "grad_bias_ptr")},
        (programs,),
        {"rows": rows, "columns": columns, "stride": columns},
        {"BLOCK_ROWS": together, "BLOCK_COLUMNS": triton.next_power_of_2(columns)},
        {"num_warps": warps},
    )
    return Work([kernel], reference, 2e-3)


@family(
    FAMILIES,
    {"rows": 8192, "columns": 1024},
    {"rows": 65536, "columns": 1024},
    {"rows": 16384, "columns": 4096},
    {"rows": 8192, "columns": 5120},
    small={"rows": 8, "columns": 100, "blocks": (4, 64, 4)},
)
def welford(rows: int, columns: int, blocks: tuple[int, int, int] | None = None) -> Work:
    """Layer norm of bf16 rows by Welford's algorithm, in the manner of Inductor."""
    together, block, warps = blocks or ((8, 1024, 8) if columns <= 1024 else (1, 2048, 8))

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        normal = torch.nn.functional.layer_norm(given["x_ptr"], (columns,), eps=EPSILON)
        return {"out_ptr": normal * given["w_ptr"] + given["b_ptr"]}

    kernel = Kernel(
        welford_kernel,
        {
            "x_ptr": Tensor("bfloat16", (rows, columns)),
            "w_ptr": Drawn("bfloat16", (columns,), then=_near_one),
            "b_ptr": Tensor("bfloat16", (columns,)),
        },
        {"out_ptr": Tensor("bfloat16", (rows, columns))},
        (rows // together,),
        {"columns": columns},
        {"EPSILON": EPSILON, "ROWS": together, "BLOCK": block},
        {"num_warps": warps},
    )
    return Work([kernel], reference, 1e-2)


@family(
    FAMILIES,
    {"rows": 4096, "columns": 1024},
    {"rows": 4096, "columns": 4096},
    {"rows": 8192, "columns": 12672},
    small=SMALL,
)
def softmax(rows: int, columns: int) -> Work:
    """f16 rows, each held whole."""
    together, warps = _rows_at_once(columns)

    def reference(torch: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"out_ptr": given["x_ptr"].softmax(-1)}

    kernel = Kernel(
        softmax_kernel,
        {"x_ptr": Tensor("float16", (rows, columns))},
        {"out_ptr": Tensor("float16", (rows, columns))},
        (-(-rows // together),),
        {"rows": rows, "columns": columns},
        {"ROWS": together, "COLUMNS": triton.next_power_of_2(columns)},
        {"num_warps": warps},
    )
    return Work([kernel], reference, 2e-3)
