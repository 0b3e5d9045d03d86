"""Layer normalisation over the last axis, forward and backward, several rows a program."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from triton_linear.examples.spec import KernelSpec, Problem


@triton.jit
def layer_norm_forward(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    mean_ptr,
    rstd_ptr,
    rows,
    columns,
    stride,
    epsilon,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """out = (x - mean) rstd weight + bias for BLOCK_ROWS rows; keeps mean and rstd for the backward pass."""
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.arange(0, BLOCK_COLUMNS)
    row_ok = row < rows
    column_ok = column < columns
    inside = row_ok[:, None] & column_ok[None, :]
    offsets = row[:, None] * stride + column[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, 1) / columns
    centred = tl.where(inside, x - mean[:, None], 0.0)
    variance = tl.sum(centred * centred, 1) / columns
    rstd = tl.rsqrt(variance + epsilon)
    weight = tl.load(weight_ptr + column, mask=column_ok, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + column, mask=column_ok, other=0.0).to(tl.float32)
    out = centred * rstd[:, None] * weight[None, :] + bias[None, :]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + row, mean, mask=row_ok)
    tl.store(rstd_ptr + row, rstd, mask=row_ok)


@triton.jit
def layer_norm_backward(
    grad_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    grad_x_ptr,
    grad_weight_ptr,
    grad_bias_ptr,
    rows,
    columns,
    stride,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """The gradient of x, and this program's share of those of weight and bias: row `program` of each."""
    program = tl.program_id(0)
    column = tl.arange(0, BLOCK_COLUMNS)
    column_ok = column < columns
    weight = tl.load(weight_ptr + column, mask=column_ok, other=0.0).to(tl.float32)
    grad_weight = tl.zeros((BLOCK_COLUMNS,), tl.float32)
    grad_bias = tl.zeros((BLOCK_COLUMNS,), tl.float32)
    for start in range(program * BLOCK_ROWS, rows, tl.num_programs(0) * BLOCK_ROWS):
        row = start + tl.arange(0, BLOCK_ROWS)
        row_ok = row < rows
        inside = row_ok[:, None] & column_ok[None, :]
        offsets = row[:, None] * stride + column[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row_ok, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row_ok, other=0.0)
        normal = tl.where(inside, (x - mean[:, None]) * rstd[:, None], 0.0)
        scaled = grad * weight[None, :]
        along_normal = tl.sum(normal * scaled, 1) / columns
        along_ones = tl.sum(scaled, 1) / columns
        grad_x = (scaled - normal * along_normal[:, None] - along_ones[:, None]) * rstd[:, None]
        tl.store(grad_x_ptr + offsets, grad_x.to(grad_x_ptr.dtype.element_ty), mask=inside)
        grad_weight += tl.sum(grad * normal, 0)
        grad_bias += tl.sum(grad, 0)
    tl.store(grad_weight_ptr + program * columns + column, grad_weight, mask=column_ok)
    tl.store(grad_bias_ptr + program * columns + column, grad_bias, mask=column_ok)


def blocks() -> tuple[dict[str, int], dict[str, int]]:
    """Tile sizes and launch options for rows of up to 1024 elements."""
    return {"BLOCK_ROWS": 4, "BLOCK_COLUMNS": 1024}, {"num_warps": 4, "num_stages": 2}


def compile_specs(target: GPUTarget) -> tuple[KernelSpec, ...]:
    """Forward and backward for f16 rows; all targets use the same sizes."""
    constants, options = blocks()
    half = dict.fromkeys(("x_ptr", "weight_ptr", "bias_ptr", "out_ptr", "grad_ptr", "grad_x_ptr"), "*fp16")
    single = dict.fromkeys(("mean_ptr", "rstd_ptr", "grad_weight_ptr", "grad_bias_ptr"), "*fp32")
    scalars = {"rows": "i32", "columns": "i32", "stride": "i32", "epsilon": "fp32"}
    types = half | single | scalars
    specs = []
    for name, kernel in (
        ("layer_norm_forward", layer_norm_forward),
        ("layer_norm_backward", layer_norm_backward),
    ):
        signature = {argument: types[argument] for argument in kernel.arg_names if argument in types}
        aligned = tuple(argument for argument in signature if argument not in ("rows", "epsilon"))
        specs.append(KernelSpec(name, kernel, signature, constants, aligned, options))
    return tuple(specs)


def forward(x: Any, weight: Any, bias: Any, epsilon: float = 1e-5) -> tuple[Any, Any, Any]:
    """The normalised rows of `x` [rows, columns], and the mean and the reciprocal deviation of each row."""
    import torch

    rows, columns = x.shape
    constants, options = blocks()
    if columns > constants["BLOCK_COLUMNS"]:
        raise ValueError(f"layer_norm: {columns} columns exceed {constants['BLOCK_COLUMNS']}")
    out = torch.empty_like(x)
    mean = torch.empty(rows, device=x.device, dtype=torch.float32)
    rstd = torch.empty_like(mean)
    grid = (triton.cdiv(rows, constants["BLOCK_ROWS"]),)
    layer_norm_forward[grid](
        x, weight, bias, out, mean, rstd, rows, columns, x.stride(0), epsilon, **constants, **options
    )
    return out, mean, rstd


def backward(grad: Any, x: Any, weight: Any, mean: Any, rstd: Any) -> tuple[Any, Any, Any]:
    """The gradients of `x`, `weight` and `bias`, given the gradient of the result."""
    grad_x, grad_weight, grad_bias = backward_shares(grad, x, weight, mean, rstd)
    return grad_x, grad_weight.sum(0).to(weight.dtype), grad_bias.sum(0).to(weight.dtype)


def backward_shares(
    grad: Any, x: Any, weight: Any, mean: Any, rstd: Any, programs: int = 128
) -> tuple[Any, Any, Any]:
    """The gradient of `x`, and each program's share of the gradients of `weight` and `bias`."""
    import torch

    rows, columns = x.shape
    constants, options = blocks()
    programs = min(programs, triton.cdiv(rows, constants["BLOCK_ROWS"]))
    grad_x = torch.empty_like(x)
    grad_weight = torch.empty(programs, columns, device=x.device, dtype=torch.float32)
    grad_bias = torch.empty_like(grad_weight)
    layer_norm_backward[(programs,)](
        grad,
        x,
        weight,
        mean,
        rstd,
        grad_x,
        grad_weight,
        grad_bias,
        rows,
        columns,
        x.stride(0),
        **constants,
        **options,
    )
    return grad_x, grad_weight, grad_bias


def problem(device: str, target: GPUTarget, rows: int = 8192, columns: int = 1024) -> Problem:
    """Forward and backward over random rows."""
    import torch

    generator = torch.Generator(device).manual_seed(0)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device=device, dtype=torch.float16, generator=generator)

    x, grad, weight, bias = random(rows, columns), random(rows, columns), random(columns), random(columns)

    def launch() -> dict[str, Any]:
        out, mean, rstd = forward(x, weight, bias)
        grad_x, grad_weight, grad_bias = backward(grad, x, weight, mean, rstd)
        return {"out": out, "grad_x": grad_x, "grad_weight": grad_weight, "grad_bias": grad_bias}

    def reference() -> dict[str, Any]:
        inputs = [tensor.float().requires_grad_() for tensor in (x, weight, bias)]
        out = torch.nn.functional.layer_norm(inputs[0], (columns,), inputs[1], inputs[2], 1e-5)
        gradients = torch.autograd.grad(out, inputs, grad.float())
        return {"out": out.detach()} | dict(zip(("grad_x", "grad_weight", "grad_bias"), gradients, strict=True))

    return Problem("layer_norm", launch, reference)
