"""``#ttg.blocked``: boxes of registers, threads and warps, as in ordinary loads and elementwise code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..linear_layout import LANE, REGISTER, WARP, LinearLayout
from ..records import dataclass
from ..triton_versions import COPIES_DROPPED
from .encoding import DISTRIBUTED_DIMS, Build, DotParent, Space, fields_of
from .syntax import Attribute
from .tile import Cga, EncodingTile, check_shape

__all__ = ["Blocked"]


@dataclass(frozen=True)
class Blocked(DotParent):
    """Registers, then threads, then warps, each a box whose sides are powers of two, in one common order."""

    name: ClassVar[str] = "#ttg.blocked"
    space: ClassVar[Space] = "distributed"

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps_per_cta: tuple[int, ...]
    order: tuple[int, ...]
    cga: Cga
    drops_copies: bool

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> Blocked:
        fields = fields_of(attribute)
        size_per_thread = fields.powers_of_two("sizePerThread")
        rank = len(size_per_thread)
        result = cls(
            size_per_thread,
            fields.powers_of_two("threadsPerWarp", rank),
            fields.powers_of_two("warpsPerCTA", rank),
            fields.permutation("order", rank),
            Cga.from_fields(fields, rank),
            build.release in COPIES_DROPPED,
        )
        fields.finish()
        return result

    @property
    def rank(self) -> int:
        return len(self.order)

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        tile = EncodingTile(self.rank, DISTRIBUTED_DIMS)
        tile.steps(REGISTER, self.size_per_thread, self.order)
        tile.steps(LANE, self.threads_per_warp, self.order)
        tile.steps(WARP, self.warps_per_cta, self.order)
        return tile.layout(shape, self.cga, self.order, REGISTER if self.drops_copies else None)

    def operand_layout(self, operand: int, k_width: int, shape: Sequence[int]) -> LinearLayout:
        """A thread holds all of K for its rows or columns; the threads and warps along K hold copies."""
        check_shape("#ttg.dot_op", shape, self.rank)
        k_axis = self.rank - 1 - operand
        registers = list(self.size_per_thread)
        registers[k_axis] = shape[k_axis]
        tile = EncodingTile(self.rank, DISTRIBUTED_DIMS)
        tile.steps(REGISTER, registers, self.order)
        for in_dim, sizes in ((LANE, self.threads_per_warp), (WARP, self.warps_per_cta)):
            tile.steps_or_copies(in_dim, sizes, self.order, k_axis)
        return tile.layout(shape, self.cga.without(k_axis), self.order)
