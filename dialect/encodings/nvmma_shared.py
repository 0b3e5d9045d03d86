"""``#ttg.nvmma_shared``: the layout of shared memory that TMA writes and wgmma and tcgen05 read."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from ..linear_layout import OFFSET, LinearLayout
from ..records import dataclass
from ..triton_versions import CONTIGUOUS_FIRST
from .encoding import Build, Encoding, Space, fields_of
from .syntax import Attribute, MalformedEncoding
from .tile import Cga, EncodingTile, check_shape

__all__ = ["NvmmaShared"]

# A core matrix has 8 rows of at least 16 bytes.
CORE_ROWS = 8
CORE_ROW_BYTES = 16
# The longest side of a TMA box, in elements.
TMA_BOX = 256


@dataclass(frozen=True)
class NvmmaShared(Encoding):
    """TMA boxes, one after the other; inside, 8-row core matrices with 32, 64 or 128-byte swizzle.

    With ``fp4Padded`` the offsets count bytes of which every second group of eight is a hole: a hole's offset
    maps to the element eight before it.
    """

    name: ClassVar[str] = "#ttg.nvmma_shared"
    space: ClassVar[Space] = "shared"

    swizzle_bytes: int
    transposed: bool
    element_bits: int
    fp4_padded: bool
    matrix_rank: int
    cga: Cga
    contiguous_first: bool

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> NvmmaShared:
        fields = fields_of(attribute)
        default_rank = 2
        if fields.has("CGALayout"):
            bases = fields.bases("CGALayout")
            default_rank = len(bases[0]) if bases else 2
        elif fields.has("CTAOrder"):
            default_rank = len(fields.integers("CTAOrder"))
        rank = fields.integer("rank", default_rank)
        result = cls(
            fields.integer("swizzlingByteWidth"),
            fields.boolean("transposed"),
            fields.power_of_two("elementBitWidth"),
            fields.boolean("fp4Padded", False),
            rank,
            Cga.from_fields(fields, rank),
            build.release in CONTIGUOUS_FIRST,
        )
        fields.finish()
        if result.swizzle_bytes not in (0, 32, 64, 128):
            raise MalformedEncoding(
                f"{cls.name}: 'swizzlingByteWidth' must be 0, 32, 64 or 128, got {result.swizzle_bytes}"
            )
        if result.element_bits < 8:
            raise MalformedEncoding(
                f"{cls.name}: 'elementBitWidth' must be at least 8, got {result.element_bits}"
            )
        return result

    @property
    def rank(self) -> int:
        return self.matrix_rank

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        piece = self.cga.shape_of_cta(shape)
        box = self._tma_box(piece)
        tile = EncodingTile(self.rank, (OFFSET,))
        if self.swizzle_bytes:
            self._swizzled_box(tile, box)
            return tile.layout(shape, self.cga)
        last_first = range(self.rank - 1, -1, -1)
        if self.transposed and self.contiguous_first:
            # As in Triton, for rank 3 and more some dimensions get the size of another one.
            axes = (*range(self.rank - 2, -1, -1), self.rank - 1)
            for axis, size in zip(axes, (box[0], *box[:0:-1]), strict=True):
                tile.step(OFFSET, axis, size)
        else:
            tile.steps(OFFSET, box, last_first)
        return tile.layout(shape, self.cga, last_first)

    def _tma_box(self, piece: Sequence[int]) -> list[int]:
        """The part of a CTA's piece that one TMA message transfers; a pair of fp4 numbers is one element."""
        contiguous = 0 if self.transposed else self.rank - 1
        packing = 2 if self.fp4_padded else 1
        box = [min(size, TMA_BOX) for size in piece]
        box[contiguous] = min(piece[contiguous] * packing, TMA_BOX)
        if self.swizzle_bytes:
            row = 8 * self.swizzle_bytes // self.element_bits
            if box[contiguous] < row:
                raise ValueError(
                    f"{self.name}: dimension {contiguous} of the CTA's shape {list(piece)} is shorter than "
                    f"the swizzled row of {row // packing} elements"
                )
            box[contiguous] = row
        box[contiguous] //= packing
        return box

    def _swizzled_box(self, tile: EncodingTile, box: Sequence[int]) -> None:
        """Appends the core matrices of the box, flattened to one matrix: down its rows, then across."""
        sides = prod(box[:-1]), box[-1]
        rows, columns = sides[::-1] if self.transposed else sides
        packing = 2 if self.fp4_padded else 1
        row_elements = 8 * max(CORE_ROW_BYTES, self.swizzle_bytes) // self.element_bits
        if columns * packing < row_elements or rows < CORE_ROWS:
            raise ValueError(
                f"{self.name}: the box {list(box)} is smaller than a core matrix of "
                f"{CORE_ROWS} x {row_elements // packing} elements"
            )
        vec = 8 * CORE_ROW_BYTES // self.element_bits
        per_phase = 128 // self.swizzle_bytes
        max_phase = self.swizzle_bytes // CORE_ROW_BYTES
        places = [(0, self._packed(1 << bit)) for bit in range(row_elements.bit_length() - 1)]
        for row in (1, 2, 4):
            places.append((row, self._packed(vec * (row // per_phase % max_phase))))
        places += [(1 << bit, 0) for bit in range(3, rows.bit_length() - 1)]
        first_further = (row_elements // packing).bit_length() - 1
        places += [(0, 1 << bit) for bit in range(first_further, columns.bit_length() - 1)]
        for row, column in places:
            tile.push(OFFSET, self._coordinates(row * columns + column, box))

    def _packed(self, column: int) -> int:
        return column // 16 * 8 + column % 8 if self.fp4_padded else column

    def _coordinates(self, place: int, box: Sequence[int]) -> list[int]:
        """The coordinates of a place in the box, counted along its last dimension first.

        Transposed, the first dimension comes before the last one.
        """
        axes = list(range(len(box) - 1, -1, -1))
        if self.transposed:
            axes.insert(0, axes.pop())
        coordinates = [0] * len(box)
        for axis in axes:
            coordinates[axis] = place % box[axis]
            place //= box[axis]
        return coordinates
