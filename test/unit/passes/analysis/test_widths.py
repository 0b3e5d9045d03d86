"""How wide accesses can be, against every address; and the rows that tensors become for that."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from coordinates import parts, threads
from hypothesis import event, given, settings
from hypothesis import strategies as st
from index_expressions import VALUATIONS, Expression, comparisons, expressions, runs, scalars, spread
from module_equivalence import upstream

from triton_linear.dialect.encodings import linear_encoding_text
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.mlir_adapter import InsertionPoint, operations
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.addressing import Affine, Mask
from triton_linear.passes.analysis.widths import VECTOR, Bit, are_rows_short, widest
from triton_linear.passes.framework.shape_changes import places
from triton_linear.passes.widening import flat

SHAPES = st.sampled_from([(8,), (32,), (4, 8), (16, 2), (2, 16), (2, 4, 4), (8, 2, 2)])


@st.composite
def mixed_layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> LinearLayout:
    """Every bit of a tensor is a register's, a lane's or a warp's, and some are added to others; there may be
    copies as well."""
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    places = draw(st.permutations(bits))
    bases = [tuple(1 << bit if axis == at else 0 for axis in range(len(shape))) for at, bit in places]
    for _ in range(draw(st.integers(0, 3))):
        into, what = draw(st.integers(0, len(bases) - 1)), draw(st.integers(0, len(bases) - 1))
        if into != what:
            bases[into] = tuple(a ^ b for a, b in zip(bases[into], bases[what], strict=True))
    registers = draw(st.integers(0, len(bases)))
    lanes = draw(st.integers(registers, len(bases)))
    zero = [(0,) * len(shape)]
    held = [*bases[:registers], *zero * draw(st.integers(0, 1))]
    return LinearLayout.fitted(
        (
            (REGISTER, tuple(draw(st.permutations(held)))),
            (LANE, (*bases[registers:lanes], *zero * draw(st.integers(0, 1)))),
            (WARP, tuple(bases[lanes:])),
            ("block", ()),
        ),
        tuple(zip(dim_names(len(shape)), shape, strict=True)),
    )


def by_force(layout: LinearLayout, addresses: np.ndarray, flags: np.ndarray, size: int) -> int:
    """The longest vectors, as a power of two of elements, that every thread's elements can be divided into:
    next to each other, aligned, and all masked or none; `addresses` and `flags` under several valuations."""
    longest = 0
    held = threads(layout)
    for log in range(1, (VECTOR // size).bit_length()):
        width = size << log
        for valuation, thread in itertools.product(range(len(addresses)), held):
            places: dict[int, set[bool]] = {}
            for coordinates in thread:
                address = int(addresses[(valuation, *coordinates)])
                places.setdefault(address // width, set()).add(bool(flags[(valuation, *coordinates)]))
            everything = {int(addresses[(valuation, *coordinates)]) for coordinates in thread}
            whole = {start * width + step * size for start in places for step in range(1 << log)}
            if everything != whole or any(len(masks) > 1 for masks in places.values()):
                return longest
        longest = log
    return longest


def check_vectors(
    layout: LinearLayout, addresses: np.ndarray, flags: np.ndarray, size: int, bits: tuple[Bit, ...]
) -> None:
    """Elements that differ in these bits alone are next to each other, aligned, masked together, and of one
    thread."""
    shape = addresses.shape[1:]
    indices = np.indices(shape)
    place = sum((indices[axis] >> bit & 1) << number for number, (axis, bit) in enumerate(bits))
    first = list(indices)
    for axis, bit in bits:
        first[axis] = first[axis] & ~(1 << bit)
    starts = addresses[(slice(None), *first)]
    assert (addresses == starts + place * size).all()
    assert not (starts % (size << len(bits))).any()
    assert (flags == flags[(slice(None), *first)]).all()
    for thread in map(set, threads(layout)):
        for coordinates, (axis, bit) in itertools.product(thread, bits):
            neighbour = tuple(v ^ (1 << bit if at == axis else 0) for at, v in enumerate(coordinates))
            assert neighbour in thread


@settings(max_examples=300, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4, 8]))
def test_vectors_are_next_to_each_other_aligned_and_masked_together(
    data: st.DataObject, shape: tuple[int, ...], size: int
) -> None:
    layout = data.draw(mixed_layouts(shape))
    base, start, _ = scalars(data.draw)
    offset = data.draw(st.one_of(expressions(shape, 1), runs(shape), dense(shape)))
    pointer = addressing.addptr(addressing.splat(base, shape), offset.known, size)
    addresses = spread(start, shape) + offset.numbers * size
    mask, flags = None, np.ones((VALUATIONS, *shape), bool)
    if data.draw(st.booleans()):
        mask, flags, _ = data.draw(comparisons(shape))
    registers, others = parts(layout)
    found = widest(pointer, mask, size, registers, others)
    event(f"{len(found.bits)} bits, in {len({axis for axis, _ in found.bits})} dimensions")
    assert len(found.left) + len(found.bits) == len(registers)
    assert size << len(found.bits) <= VECTOR or not found.bits
    if found.bits:
        check_vectors(layout, addresses, flags, size, found.bits)


@st.composite
def dense(draw: st.DrawFn, shape: tuple[int, ...]) -> Expression:
    """Elements one after another, the dimensions in any order, or with room between."""
    strides, at = {}, draw(st.sampled_from([1, 1, 1, 2]))
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = at
        at *= shape[axis] * draw(st.sampled_from([1, 1, 1, 2, 3, 16]))
    known = Affine(
        tuple(
            tuple(strides[axis] << bit for bit in range(size.bit_length() - 1))
            for axis, size in enumerate(shape)
        ),
        addressing.MAX_DIVISOR,
        0,
    )
    grid = sum(index * strides[axis] for axis, index in enumerate(np.indices(shape)))
    return Expression(known, spread(np.zeros(VALUATIONS, np.int64), shape) + grid, f"dense{strides}")


@settings(max_examples=300, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4, 8]), st.sampled_from([16, 16, 8, 4]))
def test_no_vectors_could_be_longer_where_addresses_are_known(
    data: st.DataObject, shape: tuple[int, ...], size: int, aligned: int
) -> None:
    """With one bit of the coordinates to each basis: sums of bits in lanes hold other vectors, which are not
    those of a row of the tensor."""
    layout = data.draw(mixed_layouts(shape).filter(_is_of_bits))
    offset = data.draw(dense(shape))
    pointer = addressing.scale(offset.known, size)
    pointer = replace(pointer, divisor=aligned, constant=None)
    addresses = offset.numbers * size + aligned
    mask: Mask | None = None
    flags = np.ones((VALUATIONS, *shape), bool)
    registers, others = parts(layout)
    if data.draw(st.booleans()):  # of whole rows
        axis, bit = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(0, 2))
        mask = tuple(
            tuple(at != axis or place < bit for place in range(size_.bit_length() - 1))
            for at, size_ in enumerate(shape)
        )
        along = np.arange(shape[axis]) >> bit
        shaped = (along * 37 % 5 % 2 == 0).reshape([-1 if at == axis else 1 for at in range(len(shape))])
        flags = np.broadcast_to(shaped, (VALUATIONS, *shape))
        different = [(shaped.take(i, axis) != shaped.take(i ^ 1 << place, axis)).any()
                     for place in range(bit, shape[axis].bit_length() - 1) for i in range(1)]  # fmt: skip
        if not all(different):
            mask, flags = None, np.ones((VALUATIONS, *shape), bool)
    found = widest(pointer, mask, size, registers, others)
    event(f"{len(found.bits)} bits, in {len({axis for axis, _ in found.bits})} dimensions")
    assert len(found.bits) == by_force(layout, addresses, flags, size)


def _is_of_bits(layout: LinearLayout) -> bool:
    return all(sum(value.bit_count() for value in basis) <= 1 for _, bases in layout.bases for basis in bases)


def test_short_rows_are_of_less_than_a_vector() -> None:
    assert are_rows_short((512, 2), 1) and are_rows_short((4, 512), 2) and are_rows_short((2, 64, 64), 4)
    assert not are_rows_short((512, 16), 1) and not are_rows_short((512,), 1) and not are_rows_short((1, 8), 1)


# Rows


@settings(max_examples=200, deadline=None)
@given(st.data(), SHAPES)
def test_a_row_begins_with_the_bits_of_a_vector_and_moves_nothing(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    layout = data.draw(mixed_layouts(shape))
    registers, others = parts(layout)
    pointer = addressing.scale(data.draw(dense(shape)).known, 1)
    bits = widest(pointer, None, 1, registers, others).bits
    way = flat.flat(layout, bits)
    event(f"{len(bits)} bits, split {bool(way.split)}, sorted {way.is_sorted}")
    held = [basis for (basis,) in dict(way.sorted.bases)[REGISTER]]
    assert held[: len(bits)] == [1 << place for place in range(len(bits))]
    for name in (LANE, WARP):
        assert dict(way.sorted.bases)[name] == dict(way.row.bases)[name]
        assert not any(basis & (1 << len(bits)) - 1 for (basis,) in dict(way.row.bases)[name])
    # A thread has the same places of the row before its registers are put in order, and after.
    assert set(map(frozenset, threads(way.sorted))) == set(map(frozenset, threads(way.row)))
    # What the coordinates of a place are, by the steps of the way.
    elements = np.arange(math.prod(shape)).reshape(way.split or shape)
    row = (elements.transpose(way.order) if way.order else elements).reshape(-1)
    for place, (axis, bit) in enumerate(bits):
        apart = np.array(np.unravel_index(row[1 << place], shape))
        assert apart.tolist() == [1 << bit if at == axis else 0 for at in range(len(shape))]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([(2, 4, 4), (4, 4, 4), (8, 8), (2, 2, 2, 4)]))
def test_a_row_is_the_tensor_that_it_was_again(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Whichever bits a vector has, in whichever order."""
    bits = data.draw(st.permutations(places(shape)))
    bases = [tuple(1 << bit if axis == at else 0 for axis in range(len(shape))) for at, bit in bits]
    held = ((REGISTER, tuple(bases[:3])), (LANE, tuple(bases[3:])), (WARP, ()), ("block", ()))
    layout = LinearLayout.fitted(held, tuple(zip(dim_names(len(shape)), shape, strict=True)))
    way = flat.flat(layout, tuple(bits[: data.draw(st.integers(1, 3))]))
    event(f"order {way.order}")
    type_ = f"tensor<{'x'.join(map(str, shape))}xi8, {linear_encoding_text(layout)}>"
    root = upstream(f"module {{ tt.func @f(%x: {type_}) {{ tt.return }} }}")
    last = operations(root.operation)[-1]
    given_ = last.block.arguments[0]
    ip = InsertionPoint(last)
    row = flat.flattened(given_, way, ip, last.location)
    back = flat.unflattened(row.results[0], way, given_.type, ip, last.location)
    assert back.type == given_.type
    made = {given_: np.arange(math.prod(shape)).reshape(shape)}
    for op in operations(root.operation):
        if op.name in ("tt.reshape", "tt.trans", "ttg.convert_layout"):
            value = made[op.operands[0]]
            if op.name == "tt.trans":
                value = value.transpose(list(op.attributes["order"]))
            made[op.results[0]] = value.reshape(tuple(op.results[0].type.shape))
    assert (made[back] == made[given_]).all()
