"""Operations that access shared or tensor memory, and the names of their anchors in remarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import REGISTER
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.analysis.widths import VECTOR
from triton_linear.passes.assignment.nodes import Kind, OpNode
from triton_linear.passes.operations import names

PADDED: Final = "#ttg.padded_shared"
_VECTORS: Final = "contiguity"
LOCAL: Final[Mapping[str, str]] = {
    names.LOCAL_ALLOC: "local store",
    names.LOCAL_STORE: "local store",
    names.LOCAL_LOAD: "local load",
    names.COPY: "copy",
}
TENSOR_MEMORY: Final[Mapping[str, str]] = {
    names.TENSOR_LOAD: "tensor memory load",
    **dict.fromkeys((names.TENSOR_STORE, names.TENSOR_ALLOC), "tensor memory store"),
}
ON_CHIP: Final = frozenset({*LOCAL, *TENSOR_MEMORY})


def sees_vectors(op: OpNode, kind: Kind, copied: GlobalAccess) -> bool:
    """True if the axis analysis confirms the vector length that the copy's `contiguity` states and Triton
    trusts."""
    attributes = op.attributes
    if _VECTORS not in attributes:
        return True
    layout = layout_of(kind.encoding, kind.shape)
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    stated = min(attributes[_VECTORS].value, VECTOR // copied.element_bytes)
    return bool(1 << copied.vector_bits(registers) >= stated)
