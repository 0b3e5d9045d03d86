"""Triton's own answers: builds an encoding through Gluon's builder, and asks for its text and its bases.

The wheel is built with assertions, so an encoding that Triton refuses ends the process: the generators that
use this module make only what Triton accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from triton._C.libtriton import gluon_ir, ir
from triton_linear.dialect.linear_layout import LinearLayout, dim_names

Bases = list[list[int]]


class Oracle:
    """One context and builder; `builder` makes attributes, `text` prints one, `layout` gives its bases."""

    def __init__(self) -> None:
        self.context = ir.context()
        ir.load_dialects(self.context)
        self.builder = gluon_ir.GluonOpBuilder(self.context)

    def text(self, attribute: Any, shape: Sequence[int]) -> str:
        """The attribute as Triton prints it, aliases expanded."""
        tensor = str(self.builder.get_distributed_ty(self.builder.get_half_ty(), list(shape), attribute))
        match = re.fullmatch(r"tensor<(?:\d+x)+f16, (#.*)>", tensor)
        assert match is not None, tensor
        return match[1]

    def layout(self, attribute: Any, shape: Sequence[int]) -> LinearLayout:
        """What Triton's toLinearLayout says."""
        answer = self.builder.to_linear_layout(attribute, list(shape))
        return gluon_layout(answer, shape)


def gluon_layout(answer: Any, shape: Sequence[int]) -> LinearLayout:
    """A Gluon layout object with explicit bases, as a `LinearLayout`."""
    if hasattr(answer, "reg_bases"):
        bases = [
            ("register", answer.reg_bases),
            ("lane", answer.lane_bases),
            ("warp", answer.warp_bases),
            ("block", answer.block_bases),
        ]
    else:
        bases = [("offset", answer.offset_bases), ("block", answer.block_bases)]
    return LinearLayout(
        tuple((name, tuple(tuple(basis) for basis in vectors)) for name, vectors in bases),
        tuple(zip(dim_names(len(shape)), shape, strict=True)),
    )


Make = Callable[[Oracle], tuple[Any, tuple[int, ...]]]
