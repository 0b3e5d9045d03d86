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
from triton_linear.passes.operations.names import BUFFER_LOAD, BUFFER_STORE, COPY, LOAD, STORE

ACCESSES: Mapping[str, tuple[int, int, bool]] = {
    LOAD: (0, 1, False),
    STORE: (0, 2, True),
    COPY: (0, 2, False),
    BUFFER_LOAD: (1, 3, False),
    BUFFER_STORE: (2, 4, True),
}
"""For each access: the number of the operand that is its pointers or offsets, the number of its mask, and
whether it stores. Optional operands count. The operand before offsets is their base pointer."""
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
        if op.name not in ACCESSES:
            continue
        pointers = op.operands[ACCESSES[op.name][0]]
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
    place, mask_place, _ = ACCESSES[op.name]
    if _SEGMENTS not in op.attributes:
        return place, mask_place if mask_place < len(op.operands) else None
    sizes = list(op.attributes[_SEGMENTS])
    before = sum(sizes[:place])
    return before, sum(sizes[:mask_place]) if sum(sizes[mask_place : mask_place + 1]) else None


def access_of(op: Operation, axis: AxisAnalysis) -> GlobalAccess:
    """The access of an operation, one of `ACCESSES`, to global memory."""
    place, mask_place, stores = ACCESSES[op.name]
    operands: list[Value | None] = list(op.operands)
    if _SEGMENTS in op.attributes:
        given = iter(op.operands)
        operands = [next(given) if size else None for size in op.attributes[_SEGMENTS]]
    mask = operands[mask_place] if mask_place < len(operands) else None
    base, pointers = operands[max(place - 1, 0)], operands[place]
    assert base is not None and pointers is not None
    size, pointer = pointee_bytes(base.type), axis.of(pointers)
    if place:
        pointer = addressing.addptr(addressing.splat(axis.of(base), extents(pointers.type)), pointer, size)
    return GlobalAccess(pointer, None if mask is None else axis.mask(mask), size, stores)


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
