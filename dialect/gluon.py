"""Gluon's layout objects as encodings and as linear layouts, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout

_ENCODING = re.compile(r"<(?:\d+x)+i32, (?P<rest>#.*)")


def encoding_text(layout: Any, shape: Sequence[int]) -> str:
    """The attribute that a Gluon layout becomes in the IR of a tensor of this shape.

    Raises ValueError where Gluon or Triton refuses it.
    """
    from triton._C.libtriton import gluon_ir  # type: ignore[import-untyped, unused-ignore]
    from triton.experimental.gluon.language import _layouts  # type: ignore[import-untyped, unused-ignore]

    _check(layout)
    context = bridge.triton_context()  # outlives the builder
    builder = gluon_ir.GluonOpBuilder(context)
    element = builder.get_int32_ty()
    try:
        attribute = layout._to_ir(builder)
        # An attribute does not print itself, a type with it does.
        if isinstance(layout, _layouts.SharedLayout):
            text = str(builder.get_shared_mem_desc_ty(element, list(shape), attribute, list(shape)))
        else:
            text = str(builder.get_distributed_ty(element, list(shape), attribute))
    except Exception as error:
        raise ValueError(
            f"{layout!r} is no layout of a tensor of shape {list(shape)}: {str(error).strip()}"
        ) from error
    found = _ENCODING.search(text)
    if found is None:
        raise ValueError(f"{layout!r} has no encoding: {text}")
    return attribute_at(found["rest"])


def _check(layout: Any) -> None:
    """Refuse bases on which Triton's own check ends the process."""
    groups = [getattr(layout, f"{name}_bases", None) for name in ("reg", "lane", "warp", "block")]
    if all(group is not None for group in groups):
        vectors = [tuple(vector) for group in groups if group for vector in group]
        for vector in vectors:
            moved = [value for value in vector if value]
            if len(moved) > 1 or any(value < 0 or value & (value - 1) for value in moved):
                raise ValueError(f"{list(vector)}: a basis of DistributedLinearLayout is one power of two")
        held = [vector for vector in vectors if any(vector)]
        if len(set(held)) < len(held):
            raise ValueError("the bases of DistributedLinearLayout are different ones, or zero")
    nested = getattr(layout, "parent", None)
    if nested is not None:
        _check(nested)


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
    """The linear layout of a tensor of this shape in a Gluon layout; a linear layout is its own.

    Raises ValueError for a layout that Triton refuses, or padding, which is not linear.
    """
    if isinstance(layout, LinearLayout):
        return layout
    return encodings.layout_of(encoding_text(layout, shape), tuple(shape))


def distributed_layout(layout: LinearLayout) -> Any:
    """Gluon's `DistributedLinearLayout` of a layout from register, lane, warp and block.

    Requires: each basis is a power of two in one coordinate, or zero: Triton takes no others.
    Ensures: `linear_layout` of it, for its shape, is `layout` again.

    Raises ValueError for other bases.
    """
    from triton.experimental.gluon import language  # type: ignore[import-untyped, unused-ignore]

    bases = {name: [list(vector) for vector in vectors] for name, vectors in layout.bases}
    if set(bases) != {REGISTER, LANE, WARP, BLOCK}:
        raise ValueError(
            f"distributed_layout: the in-dims are {layout.in_dim_names}, not register, lane, warp, block"
        )
    shape = [size for _, size in layout.out_dims]
    made = language.DistributedLinearLayout(bases[REGISTER], bases[LANE], bases[WARP], bases[BLOCK], shape)
    _check(made)
    return made


def shared_layout(layout: LinearLayout, alignment: int = 16) -> Any:
    """Gluon's `SharedLinearLayout` of a layout from offset and block."""
    from triton.experimental.gluon import language  # type: ignore[import-untyped, unused-ignore]

    if not layout.has_in_dim("offset"):
        raise ValueError(f"shared_layout: the in-dims are {layout.in_dim_names}, not offset and block")
    bases = {name: [list(vector) for vector in vectors] for name, vectors in layout.bases}
    return language.SharedLinearLayout(bases["offset"], bases.get(BLOCK, []), alignment)
