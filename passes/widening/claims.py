"""Hints about a row for Triton's axis analysis: no more than `analysis.addressing` can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Attribute, Operation, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.addressing import Affine, Mask, divisor_of
from triton_linear.passes.analysis.axis import AxisAnalysis, pointee_bytes, shape_of
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.analysis.widths import Bit
from triton_linear.passes.operations.table import named

MOST_DIVISOR = 1 << 10
"""Larger divisors are no use to Triton."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Hints about a row: the length of aligned runs of elements that count up by one, what divides the first
    element of each run, and the length of aligned runs of equal elements."""

    contiguity: int = 1
    divisibility: int = 1
    constancy: int = 1

    def put(self, op: Operation) -> None:
        """Write the hints on an operation whose result is a row."""
        for name, number in zip(HINTS, (self.contiguity, self.divisibility, self.constancy), strict=True):
            op.attributes[name] = Attribute.parse(f"dense<{number}> : tensor<1xi32>", op.context)


@dataclass(frozen=True)
class Widened:
    """A widened access, and the claims of the rewriting.

    before: the original tensors, by the number of the operand. type: the original type of its result, None for
    a store. result: the value that replaces its result. address: the number of the operand that is its pointers
    or offsets. known: the original addresses. size: the distance between neighbours: bytes for pointers, 1 for
    offsets. mask: the number of the operand that is its mask. constant: the original mask's constancy.
    """

    op: Operation
    before: Mapping[int, Value]
    type: Type | None
    result: Value | None
    address: int
    known: Affine
    size: int
    mask: int | None
    constant: Mask | None


def of_addresses(value: Affine, size: int, bits: Sequence[Bit]) -> Claim:
    """The hints on pointers to elements of `size` bytes, or on offsets (`size` is 1), in a row that begins with
    `bits`.

    >>> of_addresses(Affine(((2, 4), (1,)), divisor=16), 1, [(1, 0), (0, 0)])
    Claim(contiguity=4, divisibility=4, constancy=1)
    """
    run = 0
    while run < len(bits) and value.deltas[bits[run][0]][bits[run][1]] == size << run:
        run += 1
    divisor = value.divisor
    for axis, deltas in enumerate(value.deltas):
        for number, delta in enumerate(deltas):
            if (axis, number) not in bits[:run]:
                divisor = min(divisor, value.unit if delta is None else divisor_of(delta))
    return Claim(contiguity=1 << run, divisibility=min(MOST_DIVISOR, divisor))


def of_mask(mask: Mask, bits: Sequence[Bit]) -> Claim:
    """The hints on a mask in a row that begins with `bits`."""
    run = 0
    while run < len(bits) and mask[bits[run][0]][bits[run][1]]:
        run += 1
    return Claim(constancy=1 << run)


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
