"""Packed orders of a matrix in memory, in which the elements that a thread needs are contiguous.

A layout says which elements of a tile each thread holds. If each of its basis vectors has a single bit, those
bits, registers first, then lanes, then warps, are an order of the address bits: a tile stored in that order
is loaded in whole vectors, without an exchange between threads. The order is a permutation of bits. So a
matrix is packed once, by reshaping and permuting dimensions, and a kernel unpacks it by a reshape and a
permute that move no data.

Elements smaller than a byte can be packed too. Which of them share a 32-bit word decides what widening them
costs: two 16-bit elements are made at once if one word has the elements for both halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass


@dataclass(frozen=True)
class Packing:
    """An order in memory of the elements of tiles of `rows` x `columns`.

    `bits` are the bits of an element's address in the tile, lowest first: (0, n) is bit n of the row, (1, n)
    bit n of the column. Raises ValueError unless each bit of row and column occurs exactly once.
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
        """The order in which `vector` elements of a thread are contiguous, or all of them if it has fewer.

        `narrow` is the width of an element in memory, and `wide` its width after the thread has widened it, in
        bits. Elements that will share a register after widening are placed in a word at the distance that they
        will have in the register, so that one shift and one mask of the word widen all of them at once.

        Requires: two out-dims; `narrow` and `wide` are powers of two. Raises ValueError if the tile is split
        over several CTAs, or if the layout is no permutation of bits.
        """
        (_, rows), (_, columns) = layout.out_dims
        bases = {name: [basis for basis in vectors if any(basis)] for name, vectors in layout.bases}
        if bases.get(BLOCK):
            raise ValueError("packing: several CTAs hold a tile")
        registers = _order_for_widening(bases.get(REGISTER, []), narrow, wide)
        first = min(len(registers), vector.bit_length() - 1)
        order = (*registers[:first], *bases.get(LANE, []), *bases.get(WARP, []), *registers[first:])
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
        """Whether the order is row-major, as in an unpacked tile."""
        columns = self.columns.bit_length() - 1
        rows = len(self.bits) - columns
        return self.bits == (*((1, n) for n in range(columns)), *((0, n) for n in range(rows)))

    @property
    def _runs(self) -> list[tuple[int, int, int]]:
        """Runs of consecutive bits of an axis: (axis, lowest bit, number of bits), highest address first."""
        runs: list[tuple[int, int, int]] = []
        for axis, bit in self.bits:
            if runs and runs[-1][0] == axis and sum(runs[-1][1:]) == bit:
                runs[-1] = (axis, runs[-1][1], runs[-1][2] + 1)
            else:
                runs.append((axis, bit, 1))
        return runs[::-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape to which a kernel reshapes a packed tile.

        >>> Packing(4, 4, ((1, 0), (0, 0), (1, 1), (0, 1))).shape
        (2, 2, 2, 2)
        """
        return tuple(1 << count for _, _, count in self._runs)

    @property
    def order(self) -> tuple[int, ...]:
        """The permutation by which a kernel brings a tile of `shape` into rows and columns.

        >>> Packing(4, 4, ((1, 0), (0, 0), (1, 1), (0, 1))).order
        (0, 2, 1, 3)
        """
        runs = self._runs
        return tuple(sorted(range(len(runs)), key=lambda n: (runs[n][0], -runs[n][1])))

    def pack(self, matrix: Any) -> Any:
        """Pack a matrix of NumPy or PyTorch to the shape [tiles down, tiles across, elements of a tile].

        Requires: its sizes are multiples of the tile's. Raises ValueError otherwise.

        >>> import numpy as np
        >>> packing = Packing(2, 2, ((0, 0), (1, 0)))
        >>> packing.pack(np.arange(8).reshape(2, 4)).tolist()
        [[[0, 4, 1, 5], [2, 6, 3, 7]]]
        """
        sizes = self._tiles(tuple(matrix.shape))
        runs = [self._runs[n] for n in self.order]
        down, across = ([1 << count for axis, _, count in runs if axis == wanted] for wanted in (0, 1))
        split = matrix.reshape(sizes[0], *down, sizes[1], *across)
        # The dimension of `split` that each run of the packed order is.
        dimensions = [*range(1, 1 + len(down)), *range(2 + len(down), 2 + len(runs))]
        permutation = [0] * len(runs)
        for dimension, run in zip(dimensions, self.order, strict=True):
            permutation[run] = dimension
        return _permuted(split, (0, 1 + len(down), *permutation)).reshape(*sizes, self.rows * self.columns)

    def unpack(self, packed: Any) -> Any:
        """The matrix of which `packed` is the result of `pack`."""
        down, across = packed.shape[:2]
        split = packed.reshape(down, across, *self.shape)
        rows = sum(axis == 0 for axis, _, _ in self._runs)
        order = [2 + n for n in self.order]
        moved = _permuted(split, (0, *order[:rows], 1, *order[rows:]))
        return moved.reshape(down * self.rows, across * self.columns)

    def pack_nibbles(self, matrix: Any) -> Any:
        """Pack a matrix of 4-bit elements, two neighbours of a row in a byte, the first in the low bits.

        Requires: the array has an 8-bit integer type. Ensures: bytes in the shape [tiles down, tiles across,
        bytes of a tile], with two elements that are neighbours in the packed order in each.

        >>> import numpy as np
        >>> packing = Packing(2, 2, ((0, 0), (1, 0)))
        >>> [hex(byte) for byte in packing.pack_nibbles(np.array([[0x21], [0x43]], np.uint8)).ravel()]
        ['0x31', '0x42']
        """
        return _in_bytes(self.pack(_nibbles(matrix)))

    def _tiles(self, shape: Sequence[int]) -> tuple[int, int]:
        if len(shape) != 2 or shape[0] % self.rows or shape[1] % self.columns:
            sizes = "x".join(map(str, shape))
            raise ValueError(f"pack: {sizes} is not made of tiles of {self.rows}x{self.columns}")
        return shape[0] // self.rows, shape[1] // self.columns


_REGISTER_BITS = 32
"""Bits of a thread's register, on every GPU."""


def _order_for_widening(bases: list[Any], narrow: int, wide: int) -> list[Any]:
    """Reorder bases of registers: those whose elements share a register after widening move up.

    They come after as many others as there are doublings from `narrow` to `wide`.

    >>> _order_for_widening(["pair", "b", "c", "d"], 4, 16)
    ['b', 'c', 'pair', 'd']
    >>> _order_for_widening(["pair", "b"], 16, 16), _order_for_widening(["pair", "b"], 4, 16)
    (['pair', 'b'], ['b', 'pair'])
    >>> _order_for_widening(["a", "b"], 32, 64)
    ['a', 'b']
    """
    shared = max(1, _REGISTER_BITS // wide).bit_length() - 1
    doublings = (wide // narrow).bit_length() - 1
    return bases[shared : shared + doublings] + bases[:shared] + bases[shared + doublings :]


def _nibbles(array: Any) -> Any:
    """The 4-bit elements of a matrix of bytes, one in each byte of the result."""
    twice = array.repeat_interleave(2, 1) if hasattr(array, "permute") else array.repeat(2, 1)
    twice[:, 1::2] >>= 4
    return twice & 15


def _in_bytes(elements: Any) -> Any:
    return elements[..., ::2] | elements[..., 1::2] << 4


def _permuted(array: Any, order: Sequence[int]) -> Any:
    return array.permute(*order) if hasattr(array, "permute") else array.transpose(order)
