"""Accesses to global memory: which operands lead there, and what is known of them."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.axis import AxisAnalysis, pointee_bytes, shape_of
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.operations.table import named

_SEGMENTS = "operandSegmentSizes"
VECTORS = "contiguity"
"""The attribute that states the vector length of an access, whatever the axis analysis knows."""


def operands_of(op: Operation) -> tuple[int, int | None]:
    """The numbers of the operands of an access that are its pointers or offsets, and its mask or None."""
    known = named(op.name)
    place, mask_place = known.at("offset") or known.at("pointer"), known.at("mask")
    assert place is not None and mask_place is not None
    if _SEGMENTS not in op.attributes:
        return place, mask_place if mask_place < len(op.operands) else None
    sizes = list(op.attributes[_SEGMENTS])
    before = sum(sizes[:place])
    return before, sum(sizes[:mask_place]) if sum(sizes[mask_place : mask_place + 1]) else None


def access_of(op: Operation, axis: AxisAnalysis) -> GlobalAccess:
    """The access of an operation to global memory. The operand before offsets is their base pointer."""
    place, mask = operands_of(op)
    base, pointers = op.operands[max(place - 1, 0)], op.operands[place]
    size, pointer = pointee_bytes(base.type), axis.of(pointers)
    if place:
        pointer = addressing.addptr(addressing.splat(axis.of(base), shape_of(pointers.type)), pointer, size)
    stores = named(op.name).at("data") is not None
    return GlobalAccess(pointer, None if mask is None else axis.mask(op.operands[mask]), size, stores)
