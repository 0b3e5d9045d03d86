"""Turn a tensor into one row, with the bits of a vector first.

Changes of shape move no element between threads: the tensor is reshaped to a dimension for each run of bits
that stays together, transposed, and reshaped to one dimension. Then a conversion within threads puts the
registers of a vector first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from triton_linear.dialect.encodings import linear_encoding_text, transfer
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    InsertionPoint,
    Location,
    Operation,
    RankedTensorType,
    Type,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.widths import Bit
from triton_linear.passes.framework.verifiers import CONVERT


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


def natural(shape: Sequence[int]) -> list[Bit]:
    """The bits of a tensor's coordinates in the order of an element's number: the last dimension has the
    lowest."""
    rank = len(shape)
    return [(axis, bit) for axis in range(rank - 1, -1, -1) for bit in range(shape[axis].bit_length() - 1)]


@lru_cache(maxsize=512)
def flat(layout: LinearLayout, vector: tuple[Bit, ...]) -> Flat:
    """The steps to a row that has the bits of `vector` first, then all others in their old order.

    Requires: these bits lie in the span of the registers, and neither lanes nor warps move along them.
    """
    shape = tuple(size for _, size in layout.out_dims)
    bits = natural(shape)
    places = [bits.index(bit) for bit in vector]
    places += [place for place in range(len(bits)) if place not in places]
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] + 1 == place:
            runs[-1].append(place)
        else:
            runs.append([place])
    split: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    apart = moved = layout
    if len(runs) > 1:
        highest_first = sorted(runs, reverse=True)
        split = tuple(1 << len(run) for run in highest_first)
        order = tuple(highest_first.index(run) for run in reversed(runs))
        apart = transfer.reshape(layout, split)
        moved = transfer.trans(apart, order)
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
    made = None
    if way.split:
        made = _create("tt.reshape", value, way.split, way.apart, ip, location)
        value = made.results[0]
        moved = tuple(way.split[axis] for axis in way.order)
        made = _create("tt.trans", value, moved, way.moved, ip, location, way.order)
        value = made.results[0]
    if len(way.shape) > 1 or way.split or way.is_sorted:
        made = _create("tt.reshape", value, (prod(way.shape),), way.row, ip, location)
        value = made.results[0]
    if made is None or not way.is_sorted:
        made = _create(CONVERT, value, (prod(way.shape),), way.sorted, ip, location)
    return made


def unflattened(value: Value, way: Flat, type_: Type, ip: InsertionPoint, location: Location) -> Value:
    """Turn a row back into a tensor of type `type_`."""
    row = (prod(way.shape),)
    if not way.is_sorted:
        if len(way.shape) == 1 and not way.split:
            return _made(CONVERT, value, type_, ip, location)
        value = _create(CONVERT, value, row, way.row, ip, location).results[0]
    if way.split:
        moved = tuple(way.split[axis] for axis in way.order)
        value = _create("tt.reshape", value, moved, way.moved, ip, location).results[0]
        back = tuple(way.order.index(axis) for axis in range(len(way.order)))
        value = _create("tt.trans", value, way.split, way.apart, ip, location, back).results[0]
    return _made("tt.reshape", value, type_, ip, location)


def row_type(type_: Type, way: Flat) -> Type:
    """The type of the row of a tensor of type `type_`."""
    return _type(type_, (prod(way.shape),), way.sorted)


def _type(like: Type, shape: Sequence[int], layout: LinearLayout) -> Type:
    encoding = Attribute.parse(linear_encoding_text(layout), like.context)
    return RankedTensorType.get(shape, like.element_type, encoding, Location.unknown(like.context))


def _create(
    name: str,
    value: Value,
    shape: Sequence[int],
    layout: LinearLayout,
    ip: InsertionPoint,
    location: Location,
    order: Sequence[int] = (),
) -> Operation:
    attributes = {}
    if order:
        attributes["order"] = Attribute.parse(f"array<i32: {str(list(order))[1:-1]}>", value.type.context)
    return Operation.create(
        name,
        results=[_type(value.type, shape, layout)],
        operands=[value],
        attributes=attributes,
        loc=location,
        ip=ip,
    )


def _made(name: str, value: Value, type_: Type, ip: InsertionPoint, location: Location) -> Value:
    result: Value = Operation.create(name, results=[type_], operands=[value], loc=location, ip=ip).results[0]
    return result
