"""Encodings of Blackwell's tensor memory: in-dims row and col, and in Triton 3.9 also block.

A column is an element of the tensor, not 32 bits of memory. ``colStride`` leaves unused columns between
elements, and ``fp4Padded`` one beside each: two 4-bit numbers take two bytes. A zero basis of row bit 32 or
64 is a copy; any other zero basis is a place that holds no element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from ..linear_layout import LinearLayout
from ..records import dataclass
from .encoding import Build, Encoding, Space, fields_of
from .syntax import Attribute, Fields, MalformedEncoding
from .tile import Cga, EncodingTile, check_shape

__all__ = ["TensorMemory", "TensorMemoryScales"]

ROW: Final = "row"
COL: Final = "col"


@dataclass(frozen=True)
class _Split:
    """How the tensor is split over CTAs: into pieces along M and N, stored as columns (3.6), or by bases
    (3.9).
    """

    pieces: tuple[int, int]
    cga: Cga | None

    @staticmethod
    def from_fields(fields: Fields) -> _Split:
        if fields.has("CGALayout"):
            return _Split((1, 1), Cga.from_fields(fields, 2))
        return _Split((fields.power_of_two("CTASplitM", 1), fields.power_of_two("CTASplitN", 1)), None)

    def piece(self, shape: Sequence[int]) -> tuple[int, ...]:
        if self.cga is not None:
            return self.cga.shape_of_cta(shape)
        return tuple(size // n for size, n in zip(shape, self.pieces, strict=True))

    def layout(self, tile: EncodingTile, shape: Sequence[int]) -> LinearLayout:
        """The layout of the whole tensor: the pieces joined, along M first."""
        if self.cga is not None:
            return tile.layout(shape, self.cga)
        tile.steps(COL, self.pieces, (0, 1))
        return tile.finished(shape)


@dataclass(frozen=True)
class TensorMemory(Encoding):
    """Blocks of 64 or 128 rows for accumulators and left operands of tcgen05.mma.

    A block of 64 rows uses lanes 0-15 of each quarter of tensor memory; the next block uses lanes 16-31. If two
    CTAs have 64 rows each, the rows are stored as 128 rows of half the width (PTX ISA, "Data Path Layout B").
    """

    name: ClassVar[str] = "#ttng.tensor_memory_encoding"
    space: ClassVar[Space] = "tensor memory"

    block_m: int
    block_n: int
    col_stride: int
    split: _Split
    two_ctas: bool
    fp4_padded: bool

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> TensorMemory:
        fields = fields_of(attribute)
        result = cls(
            fields.integer("blockM"),
            fields.power_of_two("blockN"),
            fields.power_of_two("colStride"),
            _Split.from_fields(fields),
            fields.boolean("twoCTAs", False),
            fields.boolean("fp4Padded", False),
        )
        fields.finish()
        if result.block_m not in (64, 128):
            raise MalformedEncoding(f"{cls.name}: 'blockM' must be 64 or 128, got {result.block_m}")
        return result

    @property
    def rank(self) -> int:
        return 2

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        paired = self.block_m == 64 and self.two_ctas
        if paired and self.split.cga is None:
            return self._paired(shape)
        piece = self.split.piece(shape)
        tile = self._block(piece, self.block_m, paired)
        return self.split.layout(tile, shape)

    def _block(self, piece: Sequence[int], block_m: int, paired: bool) -> EncodingTile:
        """The blocks of one CTA, repeated in columns, along M first."""
        columns = min(self.block_n, piece[1])
        if piece[0] < block_m:
            raise ValueError(f"{self.name}: {piece[0]} rows of a CTA are fewer than the block's {block_m}")
        if paired and columns < 2:
            raise ValueError(f"{self.name}: two CTAs of 64 rows need 2 columns of a block, not {columns}")
        tile = EncodingTile(2, (ROW, COL))
        if self.fp4_padded:
            tile.copies(COL, 2)
        tile.copies(COL, self.col_stride)
        if block_m == 64 and not paired:
            tile.step(ROW, 0, 16)
            tile.step(COL, 1, columns)
            tile.push(ROW, self._second_half(piece, columns))
            tile.push(ROW, (16, 0))
            tile.push(ROW, (32, 0))
        elif paired:
            # The upper half of the columns lies in the upper half of the rows.
            tile.step(ROW, 0, 64)
            tile.step(COL, 1, columns // 2)
            tile.step(ROW, 1, 2)
        else:
            tile.step(ROW, 0, block_m)
            tile.step(COL, 1, columns)
        tile.step(COL, 0, piece[0] // tile.extent[0])
        tile.step(COL, 1, piece[1] // tile.extent[1])
        return tile

    def _second_half(self, piece: Sequence[int], columns: int) -> tuple[int, int]:
        """The basis of lanes 16-31 of each quarter: the next rows, else the next columns, else zero."""
        if piece[0] > 64:
            return (64, 0)
        if piece[1] > columns:
            return (0, columns)
        return (0, 0)

    def _paired(self, shape: Sequence[int]) -> LinearLayout:
        """Two CTAs as one block of 128 rows, with the last row bit and the last column bit exchanged."""
        split_m = self.split.pieces[0] // 2
        piece = (shape[0] // max(split_m, 1), shape[1] // self.split.pieces[1])
        tile = self._block(piece, 128, paired=False)
        tile.step(COL, 0, split_m)
        tile.swap_last(ROW, COL)
        tile.step(COL, 1, self.split.pieces[1])
        return tile.finished(shape)


@dataclass(frozen=True)
class TensorMemoryScales(Encoding):
    """Scale factors of tcgen05.mma: 32 rows, copied to all four quarters; 4 columns of scales for 2 row groups.

    Blocks of 64 x 4 repeat along M and then K, or the other way round with ``blockRepOrder = kThenMn``.
    """

    name: ClassVar[str] = "#ttng.tensor_memory_scales_encoding"
    space: ClassVar[Space] = "tensor memory"

    split: _Split
    k_first: bool

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> TensorMemoryScales:
        fields = fields_of(attribute)
        order = fields.word("blockRepOrder", "mnThenK")
        if order not in ("mnThenK", "kThenMn"):
            raise MalformedEncoding(f"{cls.name}: 'blockRepOrder' must be mnThenK or kThenMn, got {order}")
        result = cls(_Split.from_fields(fields), order == "kThenMn")
        fields.finish()
        return result

    @property
    def rank(self) -> int:
        return 2

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        piece = self.split.piece(shape)
        tile = EncodingTile(2, (ROW, COL))
        tile.step(ROW, 0, 32)
        tile.copies(ROW, 4)
        tile.step(COL, 1, 4)
        tile.step(COL, 0, 2)
        for axis in (1, 0) if self.k_first else (0, 1):
            tile.step(COL, axis, piece[axis] // tile.extent[axis])
        tile.cut(piece)
        return self.split.layout(tile, shape)
