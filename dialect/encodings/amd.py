"""``#ttg.amd_mfma`` of CDNA, with 64 lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..linear_layout import LANE, REGISTER, WARP, LinearLayout
from ..records import dataclass
from .encoding import DISTRIBUTED_DIMS, Build, DotParent, Space, fields_of
from .syntax import Attribute, MalformedEncoding
from .tile import Cga, EncodingTile, check_shape, matrix_order

__all__ = ["AmdMfma"]

MFMA_LANES = 64


@dataclass(frozen=True)
class AmdMfma(DotParent):
    """The accumulator of mfma instructions of 32x32, 16x16, 64x4 and 4x64 results.

    A lane holds four neighbours of a column (of a row if transposed; one neighbour if the result has 64 bits);
    the lanes run along the other dimension. Registers and warps cover all of N in one band of M before the next
    band begins, so ``tilesPerWarp`` of M counts bands.
    """

    name: ClassVar[str] = "#ttg.amd_mfma"
    space: ClassVar[Space] = "distributed"

    version: int
    warps_per_cta: tuple[int, ...]
    instr_shape: tuple[int, ...]
    is_transposed: bool
    cga: Cga
    tiles_per_warp: tuple[int, ...]
    element_bits: int

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> AmdMfma:
        fields = fields_of(attribute)
        warps = fields.powers_of_two("warpsPerCTA")
        rank = len(warps)
        if rank not in (2, 3):
            raise MalformedEncoding(f"{cls.name}: the rank must be 2 or 3, got {rank}")
        result = cls(
            fields.integer("version"),
            warps,
            fields.powers_of_two("instrShape"),
            fields.boolean("isTransposed"),
            Cga.from_fields(fields, rank),
            fields.powers_of_two("tilesPerWarp", rank, default=(1,) * rank),
            fields.integer("elementBitWidth", 32),
        )
        fields.finish()
        if not 1 <= result.version <= 4:
            raise MalformedEncoding(f"{cls.name}: 'version' must be 1 to 4, got {result.version}")
        if result.instr_shape[:2] not in ((32, 32), (16, 16), (64, 4), (4, 64)):
            raise MalformedEncoding(
                f"{cls.name}: 'instrShape' must begin with 32x32, 16x16, 64x4 or 4x64, "
                f"got {list(result.instr_shape)}"
            )
        if result.element_bits not in (32, 64):
            raise MalformedEncoding(
                f"{cls.name}: 'elementBitWidth' must be 32 or 64, got {result.element_bits}"
            )
        return result

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        m, n = self.instr_shape[:2]
        if (m, n) == (64, 4) and not self.is_transposed:
            # Triton accepts the attribute and its operand layouts, but asserts this for results.
            raise MalformedEncoding(f"{self.name}: results of 64x4 are laid out transposed only")
        m_axis, n_axis = self.rank - 2, self.rank - 1
        neighbours = 1 if self.element_bits == 64 else 4
        along, across, side = (n_axis, m_axis, m) if self.is_transposed else (m_axis, n_axis, n)
        tile = EncodingTile(self.rank, DISTRIBUTED_DIMS)
        tile.step(REGISTER, along, neighbours)
        tile.step(LANE, across, side)
        tile.step(LANE, along, MFMA_LANES // side)
        tile.step(REGISTER, along, m * n // (MFMA_LANES * neighbours))
        tiles, warps = self.tiles_per_warp, self.warps_per_cta
        tile.step(REGISTER, n_axis, tiles[n_axis])
        tile.step(WARP, n_axis, warps[n_axis])
        tile.step(REGISTER, n_axis, shape[n_axis] // (n * warps[n_axis] * tiles[n_axis]))
        tile.step(REGISTER, m_axis, tiles[m_axis])
        tile.step(WARP, m_axis, warps[m_axis])
        if self.rank == 3:
            tile.step(WARP, 0, warps[0])
        return tile.layout(shape, self.cga, matrix_order(self.rank, row_major=True))

    def operand_layout(self, operand: int, k_width: int, shape: Sequence[int]) -> LinearLayout:
        check_shape("#ttg.dot_op", shape, self.rank)
        if k_width <= 0 or k_width & (k_width - 1):
            raise MalformedEncoding(f"#ttg.dot_op: 'kWidth' must be a power of two, got {k_width}")
        k_axis, other = self.rank - 1 - operand, self.rank - 2 + operand
        side = self.instr_shape[operand]
        tile = EncodingTile(self.rank, DISTRIBUTED_DIMS)
        tile.step(REGISTER, k_axis, k_width)
        tile.step(LANE, other, side)
        tile.step(LANE, k_axis, MFMA_LANES // side)
        if side == 64:
            # The wide operand of 64x4 and 4x64 is 64x64: K repeats 16 times inside the instruction.
            tile.step(REGISTER, k_axis, 16)
        tile.step(REGISTER, k_axis, shape[k_axis] // tile.extent[k_axis])
        tile.step(REGISTER, other, self.tiles_per_warp[other])
        tile.steps_or_copies(WARP, self.warps_per_cta, matrix_order(self.rank, row_major=True), k_axis)
        # As Triton does, take the CTAs of the result, also along K.
        return tile.layout(shape, self.cga, matrix_order(self.rank, row_major=operand == 0))
