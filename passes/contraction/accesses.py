"""How much more accesses to global memory cost with their elements in another order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation, Value
from triton_linear.lowering.target.memory import MemoryCosts
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.axis import AxisAnalysis, pointee_bytes
from triton_linear.passes.analysis.frequencies import Frequencies
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.contraction.order import Order
from triton_linear.passes.contraction.region import Stuck
from triton_linear.passes.contraction.ties import extents
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.operations.names import COPY, GLOBAL_ACCESSES
from triton_linear.passes.operations.table import named

_SEGMENTS = "operandSegmentSizes"
VECTORS = "contiguity"
"""The attribute that states the vector length of an access, whatever the axis analysis knows."""


def dearer(
    ops: Iterable[Operation],
    places: Mapping[Value, int],
    order: Order,
    axis: AxisAnalysis,
    frequencies: Frequencies,
    costs: MemoryCosts,
) -> float:
    """Clocks of one warp that the accesses among `ops` take longer if the pointers in `places` are in `order`,
    each along its axis.

    Raises Stuck if a vector would be narrower, or would break the `contiguity` that an operation states.
    """
    table = LayoutTable()
    added = 0.0
    for op in ops:
        if op.name not in GLOBAL_ACCESSES and op.name != COPY:
            continue
        pointers = op.operands[operands_of(op)[0]]
        if pointers not in places:
            continue
        layout = table.of(pointers.type)
        if not isinstance(layout, LinearLayout):
            raise Stuck(f"'{op.name}' has a layout that is not known")
        before = access_of(op, axis)
        after = permuted(before, places[pointers], order)
        registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
        if not _keeps_promise(op, registers, places[pointers], order):
            raise Stuck(f"the vectors that '{op.name}' says it has would be others")
        if after.vector_bits(registers) < before.vector_bits(registers):
            raise Stuck(f"the vectors of '{op.name}' would be narrower")
        more = sum(after.clocks(layout, costs)) - sum(before.clocks(layout, costs))
        added += more * frequencies.of(op.block)
    return added


def _keeps_promise(op: Operation, registers: Sequence[tuple[int, ...]], along: int, order: Order) -> bool:
    """True if the order keeps the vectors whose length the operation states: Triton trusts the attribute."""
    if VECTORS not in op.attributes:
        return True
    inside = registers[: op.attributes[VECTORS].value.bit_length() - 1]
    bits = [basis[along].bit_length() - 1 for basis in inside if basis[along]]
    return all(order[bit] == bit for bit in bits)


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
        pointer = addressing.addptr(addressing.splat(axis.of(base), extents(pointers.type)), pointer, size)
    stores = named(op.name).at("data") is not None
    return GlobalAccess(pointer, None if mask is None else axis.mask(op.operands[mask]), size, stores)


def permuted(access: GlobalAccess, along: int, order: Order) -> GlobalAccess:
    """The access with the elements along an axis permuted: element i is the original element order(i)."""
    deltas = list(access.pointer.deltas)
    deltas[along] = tuple(deltas[along][place] for place in order)
    mask = access.mask
    if mask is not None:
        flags = list(mask)
        flags[along] = tuple(flags[along][place] for place in order)
        mask = tuple(flags)
    return replace(access, pointer=replace(access.pointer, deltas=tuple(deltas)), mask=mask)
