"""Turn a tensor into one row, with the bits of a vector first.

Changes of shape move no element between threads: the tensor is reshaped to a dimension for each run of bits
that stays together, transposed, and reshaped to one dimension. Then a conversion within threads puts the
registers of a vector first.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import InsertionPoint, Location, Operation, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.widths import Bit
from triton_linear.passes.framework.building import in_layout, made, shaped, transposed
from triton_linear.passes.framework.shape_changes import pieces, places
from triton_linear.passes.operations.names import CONVERT, RESHAPE


@dataclass(frozen=True)
class Flat:
    """The steps from a tensor to one row.

    split, order: the shape of the first reshape and the order of the transpose; empty if one reshape suffices.
    apart, moved, row: the layouts after each change of shape. sorted: the layout of the row with the registers
    of a vector first.
    """

    shape: tuple[int, ...]
    split: tuple[int, ...]
    order: tuple[int, ...]
    apart: LinearLayout
    moved: LinearLayout
    row: LinearLayout
    sorted: LinearLayout

    @property
    def is_sorted(self) -> bool:
        """True if the registers of a vector are first without a conversion."""
        return self.row == self.sorted

    @property
    def has_encodings(self) -> bool:
        """True if `#ttg.linear` can denote the layouts of the row: each basis must be one bit."""
        layouts = self.row, self.sorted
        return not any(
            basis & basis - 1 for layout in layouts for _, bases in layout.bases for (basis,) in bases
        )


@lru_cache(maxsize=512)
def flat(layout: LinearLayout, vector: tuple[Bit, ...]) -> Flat:
    """The steps to a row that has the bits of `vector` first, then all others in their old order.

    Requires: these bits lie in the span of the registers, and neither lanes nor warps move along them.
    """
    shape = tuple(size for _, size in layout.out_dims)
    bits = places(shape)
    ordered = [bits.index(bit) for bit in vector]
    ordered += [place for place in range(len(bits)) if place not in ordered]
    apart = moved = layout
    split, order = pieces(ordered)
    if len(split) > 1:
        apart = transfer.reshape(layout, split)
        moved = transfer.trans(apart, order)
    else:
        split = order = ()
    row = transfer.reshape(moved, (prod(shape),))
    held = dict(row.bases)[REGISTER]
    first = tuple((1 << place,) for place in range(len(vector)))
    inside = (1 << len(vector)) - 1
    left = tuple((basis & ~inside,) for (basis,) in held if basis & ~inside)
    sorted_ = row
    if tuple(basis for basis in held if any(basis)) != (*first, *left) or held[: len(first)] != first:
        bases = tuple((name, (*first, *left) if name == REGISTER else vectors) for name, vectors in row.bases)
        sorted_ = LinearLayout.fitted(bases, row.out_dims)
    return Flat(shape, split, order, apart, moved, row, sorted_)


def flattened(value: Value, way: Flat, ip: InsertionPoint, location: Location) -> Operation:
    """Turn a tensor into a row; returns the last operation."""
    given = value
    if way.split:
        value = shaped(RESHAPE, value, way.apart, ip, location)
        value = transposed(value, way.order, way.moved, ip, location)
    if len(way.shape) > 1 or way.split or way.is_sorted:
        value = shaped(RESHAPE, value, way.row, ip, location)
    if value == given or not way.is_sorted:
        value = shaped(CONVERT, value, way.sorted, ip, location)
    return value.owner.operation


def unflattened(value: Value, way: Flat, type_: Type, ip: InsertionPoint, location: Location) -> Value:
    """Turn a row back into a tensor of type `type_`."""
    if not way.is_sorted:
        if len(way.shape) == 1 and not way.split:
            return made(CONVERT, [value], type_, ip, location)
        value = shaped(CONVERT, value, way.row, ip, location)
    if way.split:
        value = shaped(RESHAPE, value, way.moved, ip, location)
        back = tuple(way.order.index(axis) for axis in range(len(way.order)))
        value = transposed(value, back, way.apart, ip, location)
    return made(RESHAPE, [value], type_, ip, location)


def row_type(type_: Type, way: Flat) -> Type:
    """The type of the row of a tensor of type `type_`."""
    return in_layout(type_, way.sorted)
