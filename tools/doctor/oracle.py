"""Triton's own layouts: make an encoding by Gluon's builder, and query its text and its bases.

The wheel is built with assertions, so an encoding that Triton rejects ends the process. The generators that
use this module must make only encodings that Triton accepts.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from triton._C.libtriton import gluon_ir, ir

from triton_linear.dialect.encodings import installed_release
from triton_linear.dialect.linear_layout import LinearLayout, dim_names

_MODULE = """module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func private @f(%arg0: {type})
}}
"""


class Oracle:
    """A context with a builder: `builder` makes attributes, `text` prints them, the other methods give
    layouts.
    """

    def __init__(self) -> None:
        self.context = ir.context()
        ir.load_dialects(self.context)
        self.builder = gluon_ir.GluonOpBuilder(self.context)
        self._modules: list[Any] = []
        # Since Triton 3.7 the tiles of a wmma are given by bases.
        self.wmma_has_bases = installed_release() >= (3, 7)

    def text(self, attribute: Any, shape: Sequence[int]) -> str:
        """The text of an attribute as Triton prints it, with aliases expanded."""
        tensor = str(self.builder.get_distributed_ty(self.builder.get_half_ty(), list(shape), attribute))
        match = re.fullmatch(r"tensor<(?:\d+x)+f16, (#.*)>", tensor)
        assert match is not None, tensor
        return match[1]

    def distributed(self, attribute: Any, shape: Sequence[int]) -> LinearLayout:
        """The result of Triton's `toLinearLayout` for a distributed encoding."""
        answer = self.builder.to_linear_layout(attribute, list(shape))
        bases = {
            "register": answer.reg_bases,
            "lane": answer.lane_bases,
            "warp": answer.warp_bases,
            "block": answer.block_bases,
        }
        return _layout(bases, shape)

    def value(self, type_: str) -> Any:
        """A value of this type: the argument of a new function, into which the builder inserts from now on."""
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(_MODULE.format(type=type_))
            file.flush()
            module = ir.parse_mlir_module(file.name, self.context)
        self._modules.append(module)
        block = module.get_function("f").add_entry_block()
        self.builder.set_insertion_point_to_start(block)
        return block.arg(0)

    def shared(self, text: str, shape: Sequence[int], element_bits: int = 16) -> LinearLayout:
        """The result of Triton's `toLinearLayout` for a shared encoding, given as text.

        Triton 3.6 has no direct query, but reshaping a descriptor makes its layout explicit. An nvmma
        encoding remains an nvmma encoding under most reshapes, so it is reshaped to one dimension, in which
        the last dimension of the tensor is the fastest. If it remains one even then, its layout is the
        identity.
        """
        sizes = "x".join(map(str, shape))
        source = self.value(f"!ttg.memdesc<{sizes}xi{element_bits}, {text}, #ttg.shared_memory>")
        flat = text.startswith("#ttg.nvmma_shared")
        target = [math.prod(shape)] if flat else list(shape)
        reshaped = self.builder.create_memdesc_reshape(source, target)
        answer = self.builder.get_gluon_layout_from_memdesc(reshaped)
        if hasattr(answer, "swizzle_byte_width"):
            bases = {"offset": [[1 << bit] for bit in range(target[0].bit_length() - 1)], "block": []}
        else:
            bases = {"offset": answer.offset_bases, "block": answer.block_bases}
        if flat:
            bases = {name: [_coordinates(b[0], shape) for b in vectors] for name, vectors in bases.items()}
        return _layout(bases, shape)


def _coordinates(place: int, shape: Sequence[int]) -> list[int]:
    result = []
    for size in reversed(shape):
        result.append(place % size)
        place //= size
    return result[::-1]


def _layout(bases: Mapping[str, Sequence[Sequence[int]]], shape: Sequence[int]) -> LinearLayout:
    return LinearLayout(
        tuple((name, tuple(tuple(basis) for basis in vectors)) for name, vectors in bases.items()),
        tuple(zip(dim_names(len(shape)), shape, strict=True)),
    )
