"""Conversion from and to CuTe's notation: `((4,8),(2,2)):((32,1),(16,8))`, shapes and strides, colexicographic.

A CuTe layout adds the strides of the digits of its index; a linear layout XORs the images of its bits. They
are the same function if and only if no addition carries: the images of any two bits have no bit in common.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from triton_linear.dialect.linear_layout import LinearLayout

Nested = Any
"""An int, or a tuple of `Nested`."""


def to_cute(layout: LinearLayout, order: Sequence[int] | None = None) -> str:
    """`layout` in CuTe's notation, onto the flattened index of the tensor, with one mode for each in-dim.

    `order` lists the dimensions of the tensor, the fastest first; by default the tensor is row-major. For a
    distributed layout the modes are (register, lane, warp, block); CuTe calls the first two value and thread.

    >>> row = LinearLayout.from_bases([("lane", [(0, 1), (1, 0)])], ("dim0", "dim1"), (2, 2))
    >>> to_cute(row), to_cute(row, order=(0, 1))
    ('(4):(1)', '((2,2)):((2,1))')

    Raises ValueError if an addition would carry, as in swizzled memory, which CuTe expresses only by `Swizzle`.
    """
    sizes = [size for _, size in layout.out_dims]
    dims = list(order) if order is not None else list(reversed(range(len(sizes))))
    stride_of, step = {}, 1
    for dim in dims:
        stride_of[dim] = step
        step *= sizes[dim]
    shapes, strides, used = [], [], 0
    for name, vectors in layout.bases:
        modes: list[tuple[int, int]] = []
        for vector in vectors:
            stride = sum(value * stride_of[dim] for dim, value in enumerate(vector))
            if stride & used:
                raise ValueError(
                    f"to_cute: the images of two bits overlap, one of '{name}' in {vector}: no sum of strides"
                )
            used |= stride
            last = modes[-1] if modes else None
            if last is not None and stride == last[0] * last[1]:
                modes[-1] = last[0] * 2, last[1]
            else:
                modes.append((2, stride))
        shapes.append(_unwrapped([size for size, _ in modes]))
        strides.append(_unwrapped([stride for _, stride in modes], 0))
    return f"{_text(tuple(shapes))}:{_text(tuple(strides))}"


def _unwrapped(numbers: Sequence[int], empty: int = 1) -> Nested:
    """A mode of these numbers: the number itself if it is only one, `empty` if there is none."""
    return empty if not numbers else numbers[0] if len(numbers) == 1 else tuple(numbers)


def _text(value: Nested) -> str:
    return str(value) if isinstance(value, int) else f"({','.join(map(_text, value))})"


def from_cute(
    text: str, in_dims: Sequence[str], shape: Sequence[int], order: Sequence[int] | None = None
) -> LinearLayout:
    """The linear layout of `SHAPE:STRIDE`, with one mode for each of `in_dims`, onto a tensor of `shape`.

    `order` is as in `to_cute`.

    >>> from_cute("(4):(1)", ["lane"], (2, 2)).bases
    (('lane', ((0, 1), (1, 0))),)

    Raises ValueError for sizes that are no powers of two, strides that would carry, and text that cannot be
    parsed.
    """
    shapes, strides = _parsed(text)
    if len(shapes) != len(in_dims):
        raise ValueError(f"from_cute: {len(shapes)} modes for the in-dims {list(in_dims)}")
    dims = list(order) if order is not None else list(reversed(range(len(shape))))
    total = 1
    for size in shape:
        total *= size
    bases, used = [], 0
    for name, sizes, steps in zip(in_dims, shapes, strides, strict=True):
        vectors = []
        for size, step in zip(_flat(sizes), _flat(steps), strict=True):
            if size < 1 or size & (size - 1):
                raise ValueError(f"from_cute: the size {size} is not a power of two")
            for bit in range(size.bit_length() - 1):
                image = step << bit
                if image & used or image >= total:
                    raise ValueError(
                        f"from_cute: stride {step} of size {size} overlaps another or leaves the tensor"
                    )
                used |= image
                vectors.append(_vector(image, shape, dims))
        bases.append((name, vectors))
    return LinearLayout.from_bases(bases, [f"dim{i}" for i in range(len(shape))], list(shape))


def _vector(index: int, shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    vector = [0] * len(shape)
    for dim in dims:
        vector[dim] = index % shape[dim]
        index //= shape[dim]
    return tuple(vector)


def _parsed(text: str) -> tuple[tuple[Nested, ...], tuple[Nested, ...]]:
    parts = text.split(":")
    try:
        shapes, strides = (
            ast.literal_eval(part.strip().replace(")", ",)").replace("(,)", "()")) for part in parts
        )
    except (ValueError, SyntaxError):
        raise ValueError(f"from_cute: '{text}' is not SHAPE:STRIDE, as ((4,8),2):((32,1),16)") from None
    if isinstance(shapes, int):
        shapes, strides = (shapes,), (strides,)
    if not _congruent(shapes, strides):
        raise ValueError(f"from_cute: shape and stride of '{text}' are not congruent")
    return shapes, strides


def _congruent(a: Nested, b: Nested) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(_congruent, a, b))


def _flat(value: Nested) -> list[int]:
    return [value] if isinstance(value, int) else [number for part in value for number in _flat(part)]
