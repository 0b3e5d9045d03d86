"""How wide an access to memory can be: the longest vectors that a layout and the addresses admit.

Triton vectorises along one dimension, the fastest, as far as the first registers of a thread run there. But
vectors may cross dimensions: a tensor of 512 rows of two bytes is 1024 contiguous bytes. So here a vector
follows the addresses. Its first bit is the bit of the coordinates that moves by one element, its second the one
that moves by two elements, and so on, of any dimension:

    address(i) = base + sum of delta[b] over the bits b that are set in i
    delta[b0] = size, delta[b1] = 2 size, delta[b2] = 4 size, ...

A thread has all elements of each vector if these bits lie in the span of its registers, and neither lanes nor
warps move along them. Vectors are aligned if all other deltas and the base of the addresses are multiples of
the vector's length. No vector is masked in part if the mask never changes along the vector's bits.

The order of the registers does not matter, as a thread can permute them for free. `linear-widen-accesses` does
so and gives Triton a tensor in which the bits of a vector are the first ones of one dimension.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.addressing import Affine, Mask

VECTOR = 16
"""The most bytes that one instruction moves for a thread."""

Bit = tuple[int, int]
"""A bit of a tensor's coordinates: the dimension and the bit's number."""
Basis = tuple[int, ...]


def are_rows_short(shape: Sequence[int], size: int) -> bool:
    """True if one of several dimensions is shorter than a vector of elements of `size` bytes.

    >>> are_rows_short((512, 8), 1), are_rows_short((512, 8), 2), are_rows_short((512, 1), 1)
    (True, False, False)
    """
    sizes = [length for length in shape if length > 1]
    return len(sizes) > 1 and min(sizes) * size < VECTOR


@dataclass(frozen=True, slots=True)
class Vector:
    """What one instruction moves for a thread.

    bits: the bits of the coordinates that number its elements, the lowest first. left: the register bases that
    number a thread's instructions; they move along none of these bits.
    """

    bits: tuple[Bit, ...]
    left: tuple[Basis, ...]


def widest(
    pointer: Affine,
    mask: Mask | None,
    size: int,
    registers: Sequence[Basis],
    others: Iterable[Basis] = (),
    most: int = VECTOR,
) -> Vector:
    """The longest vector, of at most `most` bytes, of a layout with the register bases `registers`; `others`
    are the bases of lanes and warps.

    Requires: `pointer` counts bytes; elements have `size` bytes.
    Ensures: for each thread, the elements that differ in `bits` alone are contiguous and aligned in memory, and
    `mask` is the same for all of them. If the register bases are not linearly independent, there is no vector.

    >>> from triton_linear.passes.analysis.addressing import Affine
    >>> rows_of_two = Affine(((2, 4, 8), (1,)), divisor=16)
    >>> widest(rows_of_two, None, 1, [(0, 1), (4, 0), (1, 0)], [(2, 0)])
    Vector(bits=((1, 0), (0, 0)), left=((4, 0),))
    """
    scalar = Vector((), tuple(registers))
    first = _bit_that_moves(pointer, size)
    if first is None or 2 * size > most:  # a quick answer for most accesses without vectors
        return scalar
    places = _places(pointer)
    held = [_flat(basis, places) for basis in registers]
    elsewhere = 0
    for basis in others:
        elsewhere |= _flat(basis, places)
    bits: list[Bit] = []
    bit: Bit | None = first
    while bit is not None and (size << len(bits) + 1) <= most:
        place = 1 << places[bit[0]] + bit[1]
        if elsewhere & place or (mask is not None and not mask[bit[0]][bit[1]]):
            break
        if place not in held and not f2.in_span(held, place):
            break
        if not are_aligned(pointer, size << len(bits) + 1, {*bits, bit}):
            break
        bits.append(bit)
        bit = _bit_that_moves(pointer, size << len(bits))
    if not bits:
        return scalar
    inside = sum(1 << places[axis] + number for axis, number in bits)
    pivots: dict[int, int] = {}
    left = [
        tuple([value & ~_along(axis, bits) for axis, value in enumerate(basis)])
        for basis, flat in zip(registers, held, strict=True)
        if flat & ~inside and f2.enlarges(pivots, flat & ~inside)
    ]
    if len(left) + len(bits) != len(registers):
        return scalar
    return Vector(tuple(bits), tuple(left))


def _bit_that_moves(pointer: Affine, by: int) -> Bit | None:
    """The first bit of the coordinates whose delta is `by` bytes, or None."""
    for axis, deltas in enumerate(pointer.deltas):
        if by in deltas:
            return axis, deltas.index(by)
    return None


def are_aligned(pointer: Affine, width: int, inside: set[Bit]) -> bool:
    """True if all vectors of `width` bytes along the bits `inside` are aligned."""
    if pointer.divisor % width:
        return False
    unit = pointer.unit
    for axis, deltas in enumerate(pointer.deltas):
        for number, delta in enumerate(deltas):
            if (unit if delta is None else delta) % width and (axis, number) not in inside:
                return False
    return True


def _places(pointer: Affine) -> list[int]:
    """For each dimension, the position of its lowest bit in a flat coordinate; the last dimension has the
    lowest bits."""
    places, at = [], 0
    for deltas in reversed(pointer.deltas):
        places.append(at)
        at += len(deltas)
    return places[::-1]


def _flat(basis: Basis, places: Sequence[int]) -> int:
    """The basis as one flat coordinate."""
    return sum(map(operator.lshift, basis, places))


def _along(axis: int, bits: Iterable[Bit]) -> int:
    """The sum of those of `bits` that belong to dimension `axis`."""
    return sum([1 << number for other, number in bits if other == axis])
