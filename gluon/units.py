"""Look up element types and targets by their common names."""

from __future__ import annotations

from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_by_name

_ALIASES = {
    "float16": "f16",
    "fp16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "fp32": "f32",
    "float64": "f64",
    "fp64": "f64",
    "int1": "i1",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "fp8e5": "f8E5M2",
    "fp8e4nv": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fn": "f8E4M3FN",
}


def element_of(dtype: object) -> ElementType:
    """The element type of a name such as `f16`, `float16` or `fp16`, or of Triton's or PyTorch's `float16`.

    Raises ValueError for an unknown name.
    """
    name = str(dtype).rpartition(".")[2]
    return element_type(_ALIASES.get(name, name))


def bytes_of(dtype: object) -> int:
    """Bytes of an element in memory; an element smaller than a byte takes one."""
    return max(1, element_of(dtype).bits // 8)


def target_of(target: str) -> Target:
    """The GPU of a name such as `cuda:90` or `hip:gfx942`. Raises ValueError for an unknown name."""
    return target_by_name(target)
