"""Gluon's layout objects as encodings and as linear layouts, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout

_ENCODING = re.compile(r"<(?:\d+x)+i32, (?P<rest>#.*)")


def encoding_text(layout: Any, shape: Sequence[int]) -> str:
    """The encoding attribute of a Gluon layout, as the IR of a tensor of this shape has it; the text of an
    attribute, as Triton prints it, is returned unchanged.

    Raises ValueError if Gluon or Triton rejects the layout.
    """
    if isinstance(layout, str):
        return layout.strip()
    from triton._C.libtriton import gluon_ir  # type: ignore[import-untyped, unused-ignore]
    from triton.experimental.gluon.language import _layouts  # type: ignore[import-untyped, unused-ignore]

    _check(layout)
    context = bridge.triton_context()  # outlives the builder
    builder = gluon_ir.GluonOpBuilder(context)
    element = builder.get_int32_ty()
    try:
        attribute = layout._to_ir(builder)
        # The bindings print types but not attributes, so a type that has the attribute is printed.
        if isinstance(layout, _layouts.SharedLayout):
            text = str(builder.get_shared_mem_desc_ty(element, list(shape), attribute, list(shape)))
        else:
            text = str(builder.get_distributed_ty(element, list(shape), attribute))
    except Exception as error:
        raise ValueError(
            f"{layout!r} is no layout of a tensor of shape {list(shape)}: {str(error).strip()}"
        ) from error
    match = _ENCODING.search(text)
    if match is None:
        raise ValueError(f"{layout!r} has no encoding: {text}")
    return attribute_at(match["rest"])


def _check(layout: Any) -> None:
    """Raise ValueError for bases that would make Triton's own check end the process."""
    groups = [getattr(layout, f"{name}_bases", None) for name in ("reg", "lane", "warp", "block")]
    if all(group is not None for group in groups):
        vectors = [tuple(vector) for group in groups if group for vector in group]
        for vector in vectors:
            nonzero = [value for value in vector if value]
            if len(nonzero) > 1 or any(value < 0 or value & (value - 1) for value in nonzero):
                raise ValueError(f"{list(vector)}: a basis of DistributedLinearLayout is one power of two")
        nonzero_vectors = [vector for vector in vectors if any(vector)]
        if len(set(nonzero_vectors)) < len(nonzero_vectors):
            raise ValueError("the bases of DistributedLinearLayout are different ones, or zero")
    parent = getattr(layout, "parent", None)
    if parent is not None:
        _check(parent)


def attribute_at(text: str) -> str:
    """The attribute that `text` begins with, to its closing bracket.

    >>> attribute_at("#ttg.slice<{dim = 0, parent = #ttg.blocked<{}>}>, #smem>")
    '#ttg.slice<{dim = 0, parent = #ttg.blocked<{}>}>'
    """
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "<{[(") - (letter in ">}])" and text[at - 1] != "-")
        if depth == 0 and letter in ">,":
            return text[: at + (letter == ">")]
    return text


def linear_layout(layout: Any, shape: Sequence[int]) -> LinearLayout:
    """The linear layout of a tensor that has this shape and Gluon layout, which may be the text of an
    encoding; a `LinearLayout` is returned unchanged.

    Raises ValueError for a layout that Triton rejects, and for padding, which is not linear.
    """
    if isinstance(layout, LinearLayout):
        return layout
    return encodings.layout_of(encoding_text(layout, shape), tuple(shape))


def distributed_layout(layout: LinearLayout) -> Any:
    """Gluon's `DistributedLinearLayout` for a layout whose in-dims are register, lane, warp and block.

    Requires: each basis is a power of two in one coordinate, or zero; Triton accepts no others.
    Ensures: `linear_layout(distributed_layout(layout), shape) == layout` for the layout's own shape.

    Raises ValueError for other bases.
    """
    from triton.experimental.gluon import language  # type: ignore[import-untyped, unused-ignore]

    bases = {name: [list(vector) for vector in vectors] for name, vectors in layout.bases}
    if set(bases) != {REGISTER, LANE, WARP, BLOCK}:
        raise ValueError(
            f"distributed_layout: the in-dims are {layout.in_dim_names}, not register, lane, warp, block"
        )
    shape = [size for _, size in layout.out_dims]
    result = language.DistributedLinearLayout(bases[REGISTER], bases[LANE], bases[WARP], bases[BLOCK], shape)
    _check(result)
    return result


def shared_layout(layout: LinearLayout, alignment: int = 16) -> Any:
    """Gluon's `SharedLinearLayout` for a layout whose in-dims are offset and block; `alignment` is in bytes."""
    from triton.experimental.gluon import language  # type: ignore[import-untyped, unused-ignore]

    if not layout.has_in_dim("offset"):
        raise ValueError(f"shared_layout: the in-dims are {layout.in_dim_names}, not offset and block")
    bases = {name: [list(vector) for vector in vectors] for name, vectors in layout.bases}
    return language.SharedLinearLayout(bases["offset"], bases.get(BLOCK, []), alignment)
