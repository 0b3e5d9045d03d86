"""The order in which a matrix should lie in memory, so that each thread finds side by side what it needs.

A layout says which elements of a tile each thread holds. Where its basis vectors are single bits, those of
registers first, then lanes, then warps, name the bits of an address: a tile that lies in that order is read in
whole vectors, without an exchange between threads. The order is a permutation of bits, so arrays are brought
into it by reshaping and permuting dimensions, once, and a kernel undoes that by a reshape and a permute that
move nothing.

Elements of less than a byte are brought into such an order as well. Which of them share a word of 32 bits then
decides what it costs to widen them: elements of 16 bits are made two at a time where a word has both halves'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass


@dataclass(frozen=True)
class Packing:
    """An order of tiles of `rows` x `columns` elements in memory.

    `bits` are the bits of a place in the tile, lowest first: (0, n) is bit n of the row, (1, n) that of the
    column. Raises ValueError where they are not each bit of the tile once.
    """

    rows: int
    columns: int
    bits: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        wanted = {(axis, n) for axis, size in enumerate(self.tile) for n in range(size.bit_length() - 1)}
        if len(self.bits) != len(wanted) or set(self.bits) != wanted:
            raise ValueError(f"packing: {self.bits} are not the bits of {self.rows}x{self.columns}")

    @classmethod
    def of(cls, layout: LinearLayout, vector: int, narrow: int = 1, wide: int = 1) -> Packing:
        """The order for what threads hold, `vector` elements of a thread side by side where it has as many.

        Elements of `narrow` bits in memory that threads make `wide` of: those that then share a register come
        as far apart as they will be in it, so that a shift and a mask of a word widen all of them at once.

        Requires: two out-dims; `narrow` and `wide` are powers of two. Raises ValueError where several CTAs hold
        the tile, or where the layout is no permutation of bits.
        """
        (_, rows), (_, columns) = layout.out_dims
        bases = {name: [basis for basis in vectors if any(basis)] for name, vectors in layout.bases}
        if bases.get(BLOCK):
            raise ValueError("packing: several CTAs hold a tile")
        held = _apart(bases.get(REGISTER, []), narrow, wide)
        first = min(len(held), vector.bit_length() - 1)
        order = (*held[:first], *bases.get(LANE, []), *bases.get(WARP, []), *held[first:])
        bits = []
        for basis in order:
            if sum(value.bit_count() for value in basis) != 1:
                raise ValueError(f"packing: the basis vector {tuple(basis)} has several bits")
            axis = 0 if basis[0] else 1
            bits.append((axis, basis[axis].bit_length() - 1))
        return cls(rows, columns, tuple(bits))

    @property
    def tile(self) -> tuple[int, int]:
        """The shape of a tile."""
        return self.rows, self.columns

    @property
    def is_trivial(self) -> bool:
        """Whether a tile lies in rows, as unpacked ones do."""
        columns = self.columns.bit_length() - 1
        rows = len(self.bits) - columns
        return self.bits == (*((1, n) for n in range(columns)), *((0, n) for n in range(rows)))

    @property
    def _pieces(self) -> list[tuple[int, int, int]]:
        """Axis, lowest bit and number of bits that stay neighbours, the highest of the address first."""
        found: list[tuple[int, int, int]] = []
        for axis, bit in self.bits:
            if found and found[-1][0] == axis and sum(found[-1][1:]) == bit:
                found[-1] = (axis, found[-1][1], found[-1][2] + 1)
            else:
                found.append((axis, bit, 1))
        return found[::-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """What a kernel reshapes a packed tile to.

        >>> Packing(4, 4, ((1, 0), (0, 0), (1, 1), (0, 1))).shape
        (2, 2, 2, 2)
        """
        return tuple(1 << count for _, _, count in self._pieces)

    @property
    def order(self) -> tuple[int, ...]:
        """How a kernel permutes the dimensions of that, before it reshapes it to a tile.

        >>> Packing(4, 4, ((1, 0), (0, 0), (1, 1), (0, 1))).order
        (0, 2, 1, 3)
        """
        pieces = self._pieces
        return tuple(sorted(range(len(pieces)), key=lambda n: (pieces[n][0], -pieces[n][1])))

    def pack(self, matrix: Any) -> Any:
        """A matrix, of NumPy or PyTorch, as [tiles down, tiles across, elements of a tile].

        Requires: its sizes are multiples of the tile's; else raises ValueError.

        >>> import numpy as np
        >>> packing = Packing(2, 2, ((0, 0), (1, 0)))
        >>> packing.pack(np.arange(8).reshape(2, 4)).tolist()
        [[[0, 4, 1, 5], [2, 6, 3, 7]]]
        """
        sizes = self._tiles(tuple(matrix.shape))
        pieces = [self._pieces[n] for n in self.order]
        down, across = ([1 << count for axis, _, count in pieces if axis == wanted] for wanted in (0, 1))
        split = matrix.reshape(sizes[0], *down, sizes[1], *across)
        # Where each piece of the tile now is among the dimensions.
        places = [*range(1, 1 + len(down)), *range(2 + len(down), 2 + len(pieces))]
        moved = [0] * len(pieces)
        for place, piece in zip(places, self.order, strict=True):
            moved[piece] = place
        return _permuted(split, (0, 1 + len(down), *moved)).reshape(*sizes, self.rows * self.columns)

    def unpack(self, packed: Any) -> Any:
        """The matrix again."""
        down, across = packed.shape[:2]
        split = packed.reshape(down, across, *self.shape)
        rows = sum(axis == 0 for axis, _, _ in self._pieces)
        order = [2 + n for n in self.order]
        moved = _permuted(split, (0, *order[:rows], 1, *order[rows:]))
        return moved.reshape(down * self.rows, across * self.columns)

    def pack_nibbles(self, matrix: Any) -> Any:
        """As `pack`, of bytes that hold two elements each, neighbours in a row, the first in the low bits.

        Requires: the type of bytes is one of integers of 8 bits. Ensures: bytes again, with the elements of a
        tile in the order of their places, [tiles down, tiles across, bytes of a tile].

        >>> import numpy as np
        >>> packing = Packing(2, 2, ((0, 0), (1, 0)))
        >>> [hex(byte) for byte in packing.pack_nibbles(np.array([[0x21], [0x43]], np.uint8)).ravel()]
        ['0x31', '0x42']
        """
        return _in_bytes(self.pack(_nibbles(matrix)))

    def unpack_nibbles(self, packed: Any) -> Any:
        """The bytes in rows again."""
        down, across, count = packed.shape
        return _in_bytes(self.unpack(_nibbles(packed.reshape(down * across, count)).reshape(down, across, -1)))

    def _tiles(self, shape: Sequence[int]) -> tuple[int, int]:
        if len(shape) != 2 or shape[0] % self.rows or shape[1] % self.columns:
            sizes = "x".join(map(str, shape))
            raise ValueError(f"pack: {sizes} is not made of tiles of {self.rows}x{self.columns}")
        return shape[0] // self.rows, shape[1] // self.columns


_REGISTER_BITS = 32
"""Bits of a register of a thread, on every GPU."""


def _apart(held: list[Any], narrow: int, wide: int) -> list[Any]:
    """Vectors of registers, those of elements that share one behind as many as make elements `wide`.

    >>> _apart(["pair", "b", "c", "d"], 4, 16), _apart(["pair", "b"], 16, 16), _apart(["pair", "b"], 4, 16)
    (['b', 'c', 'pair', 'd'], ['pair', 'b'], ['b', 'pair'])
    >>> _apart(["a", "b"], 32, 64)
    ['a', 'b']
    """
    share = max(1, _REGISTER_BITS // wide).bit_length() - 1
    times = (wide // narrow).bit_length() - 1
    return held[share : share + times] + held[:share] + held[share + times :]


def _nibbles(array: Any) -> Any:
    """The elements of rows of bytes that hold two each."""
    twice = array.repeat_interleave(2, 1) if hasattr(array, "permute") else array.repeat(2, 1)
    twice[:, 1::2] >>= 4
    return twice & 15


def _in_bytes(elements: Any) -> Any:
    return elements[..., ::2] | elements[..., 1::2] << 4


def _permuted(array: Any, order: Sequence[int]) -> Any:
    return array.permute(*order) if hasattr(array, "permute") else array.transpose(order)
