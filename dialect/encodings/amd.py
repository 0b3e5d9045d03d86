"""``#ttg.amd_mfma`` (CDNA, 64 lanes) and ``#ttg.amd_wmma`` (RDNA and gfx1250, 32 lanes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..linear_layout import LANE, REGISTER, WARP, LinearLayout
from ..records import dataclass
from ..triton_versions import WMMA_OPERANDS_K_FIRST
from .encoding import DISTRIBUTED_DIMS, Build, DotParent, Space, fields_of
from .syntax import Attribute, Basis, Fields, MalformedEncoding
from .tile import Cga, EncodingTile, check_shape, matrix_order

__all__ = ["AmdMfma", "AmdWmma"]

MFMA_LANES = 64
WMMA_LANES = 32
# Lanes of a wmma that lie along the dimension other than K, whatever the instruction's shape.
WMMA_SIDE = 16


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
        _check_rank(cls.name, rank)
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
        _bands(tile, (m, n), self.tiles_per_warp, self.warps_per_cta, shape)
        return tile.layout(shape, self.cga, matrix_order(self.rank, row_major=True))

    def operand_layout(self, operand: int, k_width: int, shape: Sequence[int]) -> LinearLayout:
        check_shape("#ttg.dot_op", shape, self.rank)
        _check_k_width(k_width)
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


@dataclass(frozen=True)
class AmdWmma(DotParent):
    """The accumulator of wmma instructions.

    Version 1 (RDNA3) puts even and odd rows in the two halves of the warp, versions 2 and 3 (RDNA4, gfx1250)
    the upper and the lower eight. The tiles of a CTA are given by ``warpsPerCTA`` and ``tilesPerWarp``, or,
    since Triton 3.7, by the bases ``ctaLayout`` of registers and warps, which count tiles.
    """

    name: ClassVar[str] = "#ttg.amd_wmma"
    space: ClassVar[Space] = "distributed"

    version: int
    is_transposed: bool
    warps_per_cta: tuple[int, ...] | None
    tiles_per_warp: tuple[int, ...]
    register_tiles: tuple[Basis, ...]
    warp_tiles: tuple[Basis, ...]
    cga: Cga
    instr_shape: tuple[int, ...]
    matrix_rank: int | None
    operands_k_first: bool

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> AmdWmma:
        fields = fields_of(attribute)
        warps: tuple[int, ...] | None = None
        tiles: tuple[int, ...] = ()
        rank: int | None
        registers: tuple[Basis, ...] = ()
        warp_bases: tuple[Basis, ...] = ()
        if fields.has("warpsPerCTA"):
            warps = fields.powers_of_two("warpsPerCTA")
            rank = len(warps)
            tiles = fields.powers_of_two("tilesPerWarp", rank, default=(1,) * rank)
        else:
            registers, warp_bases, rank = _cta_layout(fields)
            if fields.has("rank"):
                stated = fields.integer("rank")
                if rank not in (None, stated):
                    raise MalformedEncoding(f"{cls.name}: 'rank' is {stated}, but its bases have {rank}")
                rank = stated
        if rank is not None:
            _check_rank(cls.name, rank)
        result = cls(
            fields.integer("version"),
            fields.boolean("isTranspose"),
            warps,
            tiles,
            registers,
            warp_bases,
            Cga.from_fields(fields, rank or 2),
            fields.powers_of_two("instrShape", 3) if fields.has("instrShape") else (16, 16, 16),
            rank,
            build.release in WMMA_OPERANDS_K_FIRST,
        )
        fields.finish()
        if not 1 <= result.version <= 3:
            raise MalformedEncoding(f"{cls.name}: 'version' must be 1 to 3, got {result.version}")
        if result.instr_shape[:2] not in ((16, 16), (32, 16)):
            raise MalformedEncoding(
                f"{cls.name}: 'instrShape' must begin with 16x16 or 32x16, got {list(result.instr_shape)}"
            )
        return result

    @property
    def rank(self) -> int | None:
        return self.matrix_rank

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        _check_rank(self.name, len(shape))
        m, n = self.instr_shape[:2]
        rank = len(shape)
        along, across = (rank - 1, rank - 2) if self.is_transposed else (rank - 2, rank - 1)
        tile = EncodingTile(rank, DISTRIBUTED_DIMS)
        if self.version == 1:
            tile.step(LANE, across, WMMA_SIDE)
            tile.step(LANE, along, 2)
            tile.step(REGISTER, along, 8)
        else:
            tile.step(REGISTER, along, 8)
            tile.step(LANE, across, WMMA_SIDE)
            tile.step(LANE, along, 2)
            tile.step(REGISTER, along, m // WMMA_SIDE)
        order = matrix_order(rank, row_major=True)
        if self.warps_per_cta is None:
            self._place_tiles(tile, None)
        else:
            _bands(tile, (m, n), self.tiles_per_warp, self.warps_per_cta, shape)
        return tile.layout(shape, self.cga, order)

    def operand_layout(self, operand: int, k_width: int, shape: Sequence[int]) -> LinearLayout:
        check_shape("#ttg.dot_op", shape, self.rank)
        _check_rank(self.name, len(shape))
        _check_k_width(k_width)
        rank = len(shape)
        k_axis, other = rank - 1 - operand, rank - 2 + operand
        k = self.instr_shape[2]
        # A transposed 32x16 result comes from exchanged operands.
        side = self.instr_shape[operand ^ self.is_transposed]
        halves = WMMA_LANES // WMMA_SIDE
        tile = EncodingTile(rank, DISTRIBUTED_DIMS)
        tile.step(REGISTER, k_axis, k_width)
        tile.step(LANE, other, WMMA_SIDE)
        if self.version == 1:
            tile.copies(LANE, halves)
        else:
            tile.step(LANE, k_axis, halves)
        tile.step(REGISTER, k_axis, k // (halves * k_width))
        # How often K repeats in the whole tensor; version 1 counts as if the halves of the warp lay along K.
        repetitions = shape[k_axis] // max(k, halves * k_width)
        cga = self.cga  # as Triton does, the CTAs of the result, also along K
        if self.warps_per_cta is not None:
            if self.tiles_per_warp[other] > 1:
                tile.step(REGISTER, k_axis, repetitions)
                tile.step(REGISTER, other, self.tiles_per_warp[other])
            tile.steps_or_copies(WARP, self.warps_per_cta, matrix_order(rank, row_major=True), k_axis)
        elif self.operands_k_first:
            tile.step(REGISTER, k_axis, repetitions)
            self._place_tiles(tile, k_axis)
        else:
            tile.step(REGISTER, other, side // WMMA_SIDE)
            self._place_tiles(tile, k_axis)
            cga = cga.without(k_axis)
        return tile.layout(shape, cga, matrix_order(rank, row_major=operand == 0))

    def _place_tiles(self, tile: EncodingTile, copied_axis: int | None) -> None:
        """Multiplies by ``ctaLayout``; warps along ``copied_axis`` hold copies, registers along it are
        dropped.
        """
        extent = tuple(tile.extent)
        for in_dim, vectors in ((REGISTER, self.register_tiles), (WARP, self.warp_tiles)):
            for vector in vectors:
                basis = [0 if a == copied_axis else v * extent[a] for a, v in enumerate(vector)]
                if in_dim == WARP or any(basis):
                    tile.push(in_dim, basis)


def _bands(
    tile: EncodingTile,
    instruction: tuple[int, int],
    tiles: Sequence[int],
    warps: Sequence[int],
    shape: Sequence[int],
) -> None:
    """Appends tiles and warps along N, then the rest of N, tiles and warps along M, and warps of the batch."""
    m_axis, n_axis = tile.rank - 2, tile.rank - 1
    tile.step(REGISTER, n_axis, tiles[n_axis])
    tile.step(WARP, n_axis, warps[n_axis])
    tile.step(REGISTER, n_axis, shape[n_axis] // (instruction[1] * warps[n_axis] * tiles[n_axis]))
    tile.step(REGISTER, m_axis, tiles[m_axis])
    tile.step(WARP, m_axis, warps[m_axis])
    if tile.rank == 3:
        tile.step(WARP, 0, warps[0])


def _cta_layout(fields: Fields) -> tuple[tuple[Basis, ...], tuple[Basis, ...], int | None]:
    nested = fields.nested("ctaLayout")
    registers = nested.bases(REGISTER, ())
    warps = nested.bases(WARP, ())
    nested.finish()
    vectors = (*registers, *warps)
    rank = len(vectors[0]) if vectors else None
    for vector in vectors:
        if len(vector) != rank:
            raise MalformedEncoding(
                f"{fields.name}: bases {list(vectors[0])} and {list(vector)} have different ranks"
            )
    if rank is None and fields.has("CGALayout"):
        rank = max(map(len, fields.bases("CGALayout")), default=None)
    return registers, warps, rank


def _check_rank(name: str, rank: int) -> None:
    if rank not in (2, 3):
        raise MalformedEncoding(f"{name}: the rank must be 2 or 3, got {rank}")


def _check_k_width(k_width: int) -> None:
    if k_width <= 0 or k_width & (k_width - 1):
        raise MalformedEncoding(f"#ttg.dot_op: 'kWidth' must be a power of two, got {k_width}")
