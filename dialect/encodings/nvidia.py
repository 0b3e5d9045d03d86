"""``#ttg.nvidia_mma``: results and operands of mma.sync (version 2) and wgmma (version 3).

The results of tcgen05 (version 5) live in tensor memory; in registers they have blocked or linear encodings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..linear_layout import LANE, REGISTER, WARP, LinearLayout
from ..records import dataclass
from ..triton_versions import SMALL_OPERANDS
from .encoding import DISTRIBUTED_DIMS, Build, DotParent, Space, fields_of
from .syntax import Attribute, MalformedEncoding, UnknownEncoding
from .tile import Cga, EncodingTile, check_shape, matrix_order

__all__ = ["NvidiaMma"]

AMPERE, HOPPER = 2, 3


@dataclass(frozen=True)
class NvidiaMma(DotParent):
    """The accumulator of a warp's mma, or of a warp group's wgmma.

    One warp holds an m x n tile; a quad of lanes holds a row, two neighbouring columns a lane (PTX ISA,
    "Matrix Fragments for mma.m16n8k16" and "Register Fragments for wgmma.m64nNk16").
    """

    name: ClassVar[str] = "#ttg.nvidia_mma"
    space: ClassVar[Space] = "distributed"

    version_major: int
    version_minor: int
    warps_per_cta: tuple[int, ...]
    instr_shape: tuple[int, ...]
    cga: Cga
    small_operands: bool

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> NvidiaMma:
        fields = fields_of(attribute)
        major = fields.integer("versionMajor")
        warps = fields.powers_of_two("warpsPerCTA")
        rank = len(warps)
        result = cls(
            major,
            fields.integer("versionMinor", 0),
            warps,
            fields.integers("instrShape"),
            Cga.from_fields(fields, rank),
            build.release in SMALL_OPERANDS,
        )
        fields.finish()
        if major not in (AMPERE, HOPPER):
            raise UnknownEncoding(
                f"{cls.name}: version {major} has no register layout of its own (versions 2 and 3 have)"
            )
        if rank not in (2, 3) or (major == HOPPER and rank != 2):
            raise MalformedEncoding(f"{cls.name}: version {major} does not come in rank {rank}")
        expected = rank if major == AMPERE else 3
        if len(result.instr_shape) != expected:
            raise MalformedEncoding(
                f"{cls.name}: 'instrShape' must have {expected} numbers, got {list(result.instr_shape)}"
            )
        if result._tile_m % 8 or result._tile_n % 8 or not result._tile_n:
            raise MalformedEncoding(
                f"{cls.name}: 'instrShape' {list(result.instr_shape)} is not made of 8x8 tiles"
            )
        return result

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)

    @property
    def _tile_m(self) -> int:
        return self.instr_shape[-2] if self.version_major == AMPERE else self.instr_shape[0]

    @property
    def _tile_n(self) -> int:
        return self.instr_shape[-1] if self.version_major == AMPERE else self.instr_shape[1]

    @property
    def _warp_order(self) -> tuple[int, ...]:
        return matrix_order(self.rank, row_major=self.version_major != HOPPER)

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        order = matrix_order(self.rank, row_major=True)
        tile = self._fragment(order, outer=self._tile_m, inner=self._tile_n, k_width=2)
        tile.steps(WARP, self.warps_per_cta, self._warp_order)
        return tile.layout(shape, self.cga, order)

    def operand_layout(self, operand: int, k_width: int, shape: Sequence[int]) -> LinearLayout:
        check_shape("#ttg.dot_op", shape, self.rank)
        if operand == 1 and self.version_major == HOPPER:
            raise UnknownEncoding("#ttg.dot_op: wgmma takes its right operand from shared memory")
        if k_width <= 0 or k_width & (k_width - 1):
            raise MalformedEncoding(f"#ttg.dot_op: 'kWidth' must be a power of two, got {k_width}")
        k_axis = self.rank - 1 - operand
        # K is the fastest dimension of both operands.
        order = matrix_order(self.rank, row_major=operand == 0)
        # Operand A of m8n8k4 (f64) is a quarter of that of other instructions, operand B is half.
        small = self.small_operands and self._tile_m == 8
        tile = self._fragment(
            order, outer=8 if operand or small else 16, inner=(4 if small else 8) * k_width, k_width=k_width
        )
        tile.steps_or_copies(WARP, self.warps_per_cta, self._warp_order, k_axis)
        return tile.layout(shape, self.cga.without(k_axis), order)

    def _fragment(self, order: Sequence[int], *, outer: int, inner: int, k_width: int) -> EncodingTile:
        """8 rows of 4 lanes with ``k_width`` neighbours each, repeated in registers up to ``outer`` x
        ``inner``.
        """
        fast, slow = order[0], order[1]
        tile = EncodingTile(self.rank, DISTRIBUTED_DIMS)
        tile.step(REGISTER, fast, k_width)
        tile.step(LANE, fast, 4)
        tile.step(LANE, slow, 8)
        tile.step(REGISTER, slow, outer // 8)
        tile.step(REGISTER, fast, inner // (4 * k_width))
        return tile
