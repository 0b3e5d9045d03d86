"""Named dimensions: ordered (name, size) pairs, and how a flattened vector moves from one list to another.

The coordinates of a list of dimensions are the bits of one integer, the first dimension most minor: of
`register=4, lane=8` bits 0 and 1 are the register and bits 2 to 4 the lane.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache

Dims = tuple[tuple[str, int], ...]
# One group of bits to move: (position in the old vector, mask at that position, position in the new one).
Move = tuple[int, int, int]


@lru_cache(maxsize=4096)
def fields(dims: Dims) -> tuple[tuple[int, int], ...]:
    """Position and mask of each dimension in a flattened vector.

    >>> fields((("register", 4), ("lane", 8)))
    ((0, 3), (2, 7))
    """
    result: list[tuple[int, int]] = []
    position = 0
    for _, size in dims:
        result.append((position, size - 1))
        position += size.bit_length() - 1
    return tuple(result)


@lru_cache(maxsize=4096)
def total_bits(dims: Dims) -> int:
    """Number of bits of a flattened vector."""
    return sum([size.bit_length() - 1 for _, size in dims])


@lru_cache(maxsize=4096)
def moves(old: Dims, new: Dims, minor: Dims = ()) -> tuple[Move, ...]:
    """The moves that rewrite a vector over `old` as a vector over `new`, matching dimensions by name.

    In each dimension the bits of `old` are placed above the bits of `minor`. A dimension that `new` lacks is
    dropped; one that grows is padded with zeros; one that shrinks is truncated.

    >>> moves((("dim0", 4),), (("dim1", 2), ("dim0", 8)), minor=(("dim0", 2),))
    ((0, 3, 2),)
    """
    below = {name: size.bit_length() - 1 for name, size in minor}
    target = {name: field for (name, _), field in zip(new, fields(new), strict=True)}
    result: list[Move] = []
    for (name, _), (source, mask) in zip(old, fields(old), strict=True):
        if name in target:
            position, room = target[name]
            raised = below.get(name, 0)
            kept = mask & room >> raised
            if kept:
                result.append((source, kept, position + raised))
    return tuple(result)


def move(vectors: Iterable[int], by: Iterable[Move]) -> tuple[int, ...]:
    """Move the bits of every vector."""
    result: list[int] = []
    for vector in vectors:
        moved = 0
        if vector:
            for source, mask, position in by:
                moved |= (vector >> source & mask) << position
        result.append(moved)
    return tuple(result)


def realign(vectors: tuple[int, ...], old: Dims, new: Dims) -> tuple[int, ...]:
    """Rewrite vectors over the dimensions `old` as vectors over `new`, by names."""
    return vectors if old == new else move(vectors, moves(old, new))


def flattened(in_dim: str, index: int, basis: tuple[int, ...], out_dims: Dims) -> int:
    """The basis as one integer over the out-dims. Raises ValueError if a coordinate does not fit."""
    coordinates = fields(out_dims)
    column, outside = 0, len(basis) != len(coordinates)
    for value, (position, mask) in zip(basis, coordinates, strict=False):
        outside |= value & mask != value
        column |= value << position
    if outside:
        raise _misfit(in_dim, index, basis, out_dims)
    return column


def _misfit(in_dim: str, index: int, basis: tuple[int, ...], out_dims: Dims) -> ValueError:
    """The error for a basis with the wrong number of coordinates, or with a coordinate outside its out-dim."""
    what = f"basis {in_dim}={1 << index} -> {basis}"
    if len(basis) != len(out_dims):
        return ValueError(f"{what} needs one coordinate per out-dim, {len(out_dims)}")
    pairs = zip(basis, out_dims, strict=True)
    name, size = next(dim for value, dim in pairs if not 0 <= value < dim[1])
    return ValueError(f"{what} leaves out-dim {name!r} of size {size}")


def split(columns: tuple[int, ...], in_bits: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Split the columns by in-dim; `in_bits` gives the name and the number of columns of each.

    >>> split((1, 2, 4), [("register", 1), ("lane", 2)])
    {'register': (1,), 'lane': (2, 4)}
    """
    result: dict[str, tuple[int, ...]] = {}
    position = 0
    for name, bits in in_bits:
        result[name] = columns[position : position + bits]
        position += bits
    return result


@lru_cache(maxsize=4096)
def merge_names(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Order the union of both lists so that each list keeps its own order.

    Choice: a name comes as early as the other list permits, those of `first` before those of `second`.
    If the two orders contradict each other, the name with the smaller index in the other list goes first.

    >>> merge_names(("lane", "block"), ("warp", "block"))
    ('lane', 'warp', 'block')
    """
    place_in_first = {name: place for place, name in enumerate(first)}
    place_in_second = {name: place for place, name in enumerate(second)}
    result: dict[str, None] = {}
    i = j = 0
    while True:
        while i < len(first) and first[i] in result:
            i += 1
        while j < len(second) and second[j] in result:
            j += 1
        if i == len(first) or j == len(second):
            return tuple(dict.fromkeys([*result, *first[i:], *second[j:]]))
        a, b = first[i], second[j]
        if a not in place_in_second:
            result[a] = None
        elif b not in place_in_first:
            result[b] = None
        else:
            result[a if place_in_second[a] <= place_in_first[b] else b] = None


@lru_cache(maxsize=4096)
def multiply_dims(inner: Dims, outer: Dims) -> Dims:
    """Dimensions of a product: the union by `merge_names`, sizes of common names multiplied.

    >>> multiply_dims((("dim0", 2), ("dim1", 4)), (("dim1", 8),))
    (('dim0', 2), ('dim1', 32))
    """
    inner_size, outer_size = dict(inner), dict(outer)
    names = merge_names(tuple(inner_size), tuple(outer_size))
    return tuple([(name, inner_size.get(name, 1) * outer_size.get(name, 1)) for name in names])


def divide_dims(dividend: Dims, divisor: Dims) -> Dims | None:
    """Divide sizes by name; None if a name of `divisor` is missing in `dividend` or is larger there."""
    sizes = dict(dividend)
    for name, size in divisor:
        if sizes.get(name, 0) < size:
            return None
        sizes[name] //= size
    return tuple(sizes.items())


def join(names: Iterable[str]) -> str:
    """Names as messages show them.

    >>> join(("lane", "warp"))
    '[lane, warp]'
    """
    return "[" + ", ".join(names) + "]"


def show(dims: Iterable[tuple[str, int]]) -> str:
    """Dimensions as messages show them.

    >>> show((("lane", 32), ("warp", 4)))
    '[lane=32, warp=4]'
    """
    return join(f"{name}={size}" for name, size in dims)


def checked_bits(size: int, what: str) -> int:
    """log2 of `size`, which must be a power of two."""
    if size < 1 or size & (size - 1):
        raise ValueError(f"{what} has size {size}, which is not a power of two")
    return size.bit_length() - 1


def checked_name(name: str, what: str) -> str:
    """Return `name`. Raises ValueError unless it is a string."""
    if not isinstance(name, str):
        raise ValueError(f"the name of an {what} must be a string, got {name!r}")
    return name


def checked_dims(dims: Iterable[tuple[str, int]], what: str) -> Dims:
    """`dims` as nested tuples; names must be distinct strings and sizes powers of two."""
    result = tuple([(checked_name(name, what), operator.index(size)) for name, size in dims])
    for name, size in result:
        checked_bits(size, f"{what} {name!r}")
    check_distinct([name for name, _ in result], what)
    return result


def check_distinct(names: Sequence[str], what: str) -> None:
    """Raise ValueError if a name is repeated."""
    if len(set(names)) != len(names):
        raise ValueError(f"{what} names must be distinct, got {join(names)}")


def check_permutation(operation: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise ValueError unless `names` is a permutation of `known`."""
    if len(names) != len(known) or set(names) != set(known):
        raise ValueError(f"{operation}: {join(names)} is no permutation of {join(known)}")


def known_names(operation: str, names: str | Iterable[str], known: Sequence[str], what: str) -> frozenset[str]:
    """`names` as a set; a bare string is one name. Raises ValueError if a name is not in `known`."""
    result = frozenset((names,) if isinstance(names, str) else names)
    for name in sorted(result):
        if name not in known:
            raise ValueError(f"{operation}: {name!r} is no {what}; the {what}s are {join(known)}")
    return result


def check_fit(operation: str, small: Dims, large: Dims, what: str) -> None:
    """Raise ValueError unless both have the same names and no size in `small` exceeds its size in `large`."""
    if small == large:
        return
    sizes = dict(large)
    if len(small) != len(large) or any(name not in sizes for name, _ in small):
        raise ValueError(f"{operation}: the out-dims {show(small)} are not the {what} {show(large)} of outer")
    for name, size in small:
        if size > sizes[name]:
            raise ValueError(
                f"{operation}: out-dim {name}={size} does not fit in {name}={sizes[name]} of outer"
            )
