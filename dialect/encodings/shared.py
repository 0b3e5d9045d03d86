"""Encodings of shared memory: swizzled, rotating, padded, given by bases, and partitioned.

Offsets count elements, not bytes. A padded encoding is affine: its layout here is the linear part, and
`PaddedShared.padded_offset` adds the padding to an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from ..linear_layout import BLOCK, OFFSET, LinearLayout
from ..records import dataclass
from .encoding import Build, Encoding, Space, fields_of
from .syntax import Attribute, Basis, Fields, MalformedEncoding, PaddingInterval
from .tile import Cga, EncodingTile, check_shape

__all__ = ["AmdRotatingShared", "PaddedShared", "PartitionedShared", "SharedLinear", "SwizzledShared"]

PARTITION: Final = "partition"


@dataclass(frozen=True)
class SwizzledShared(Encoding):
    """Rows whose vectors are permuted: the index of a vector is XORed with the row's phase.

    Rows and columns are the two fastest dimensions. The phase of a row is ``row / perPhase mod maxPhase``; a
    vector has ``vec`` elements.
    """

    name: ClassVar[str] = "#ttg.swizzled_shared"
    space: ClassVar[Space] = "shared"

    vec: int
    per_phase: int
    max_phase: int
    order: tuple[int, ...]
    cga: Cga

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> SwizzledShared:
        fields = fields_of(attribute)
        order = fields.integers("order")
        rank = len(order)
        result = cls(
            fields.power_of_two("vec"),
            fields.power_of_two("perPhase"),
            fields.power_of_two("maxPhase"),
            fields.permutation("order", rank),
            Cga.from_fields(fields, rank),
        )
        fields.finish()
        return result

    @property
    def rank(self) -> int:
        return len(self.order)

    def _phase(self, row: int) -> int:
        return row // self.per_phase % self.max_phase

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        tile = EncodingTile(self.rank, (OFFSET,))
        if self.rank == 1:
            return tile.layout(shape, self.cga)
        extent = self.cga.shape_of_cta(shape)
        column_axis, row_axis = self.order[:2]
        columns = extent[column_axis]
        tile.step(OFFSET, column_axis, columns)
        row = 1
        while row < extent[row_axis]:
            basis = [0] * self.rank
            basis[row_axis] = row
            basis[column_axis] = self.vec * self._phase(row) % columns
            tile.push(OFFSET, basis)
            row *= 2
        tile.steps(OFFSET, extent, self.order[2:])
        return tile.layout(shape, self.cga)


@dataclass(frozen=True)
class AmdRotatingShared(SwizzledShared):
    """As swizzled, but the phase is also XORed with the number of the block of ``perPhase * maxPhase`` rows."""

    name: ClassVar[str] = "#ttg.amd_rotating_shared"

    def _phase(self, row: int) -> int:
        phase = row // self.per_phase % self.max_phase
        block = row // (self.max_phase * self.per_phase) % self.max_phase
        return phase ^ block


class _ExplicitBases(Encoding):
    """An encoding that lists the bases of offset and block; they must span the shape of the allocation."""

    offsets: tuple[Basis, ...]
    blocks: tuple[Basis, ...]

    @property
    def rank(self) -> int | None:
        vectors = (*self.offsets, *self.blocks)
        return len(vectors[0]) if vectors else None

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        tile = EncodingTile(len(shape), (OFFSET, BLOCK))
        for name, vectors in ((OFFSET, self.offsets), (BLOCK, self.blocks)):
            for basis in vectors:
                tile.push(name, basis)
        if tuple(tile.extent) != tuple(shape):
            raise ValueError(
                f"{self.name}: the bases span {tile.extent}, the shape of the allocation is {list(shape)}"
            )
        return tile.finished(shape)


@dataclass(frozen=True)
class PaddedShared(_ExplicitBases):
    """Offsets with holes: each padding puts ``amount`` unused elements after every ``interval`` elements."""

    name: ClassVar[str] = "#ttg.padded_shared"
    space: ClassVar[Space] = "shared"

    paddings: tuple[PaddingInterval, ...]
    offsets: tuple[Basis, ...]
    blocks: tuple[Basis, ...]

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> PaddedShared:
        fields = Fields(attribute.name, attribute.fields)
        if len(attribute.positional) != 1 or not isinstance(attribute.positional[0], tuple):
            raise MalformedEncoding(f"{cls.name}: the paddings '[interval:+amount, ...]' must come first")
        paddings: list[PaddingInterval] = []
        for item in attribute.positional[0]:
            if not isinstance(item, PaddingInterval):
                raise MalformedEncoding(f"{cls.name}: a padding is written 'interval:+amount'")
            if any(n <= 0 or n & (n - 1) for n in (item.interval, item.amount)):
                raise MalformedEncoding(
                    f"{cls.name}: padding {item.interval}:+{item.amount} is not of powers of two"
                )
            paddings.append(item)
        blocks: tuple[Basis, ...] = ()
        if fields.has("order"):
            shape = fields.powers_of_two("shape")
            tile = EncodingTile(len(shape), (OFFSET,))
            tile.steps(OFFSET, shape, fields.permutation("order", len(shape)))
            offsets = tile.bases(OFFSET)
        else:
            offsets, blocks = fields.bases(OFFSET), fields.bases(BLOCK, ())
        fields.finish()
        _check_one_rank(cls.name, (*offsets, *blocks))
        return cls(tuple(paddings), offsets, blocks)

    def padded_offset(self, offset: int) -> int:
        """The offset in memory of element ``offset`` of the linear part.

        >>> padded = PaddedShared((PaddingInterval(2, 1), PaddingInterval(4, 2)), ((1,), (2,), (4,)), ())
        >>> [padded.padded_offset(x) for x in range(8)]
        [0, 1, 3, 4, 8, 9, 11, 12]
        """
        return offset + sum(offset // p.interval * p.amount for p in self.paddings)


@dataclass(frozen=True)
class SharedLinear(_ExplicitBases):
    """The bases of offset and block."""

    name: ClassVar[str] = "#ttg.shared_linear"
    space: ClassVar[Space] = "shared"

    offsets: tuple[Basis, ...]
    blocks: tuple[Basis, ...]
    alignment: int

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> SharedLinear:
        fields = fields_of(attribute)
        result = cls(fields.bases(OFFSET), fields.bases(BLOCK, ()), fields.power_of_two("alignment", 16))
        fields.finish()
        _check_one_rank(cls.name, (*result.offsets, *result.blocks))
        return result


@dataclass(frozen=True)
class PartitionedShared(Encoding):
    """Pieces along one dimension, distributed to buffers in turn; the in-dim ``partition`` is the buffer."""

    name: ClassVar[str] = "#ttg.partitioned_shared"
    space: ClassVar[Space] = "shared"

    num_partitions: int
    num_groups: int
    partition_dim: int
    partition_layout: Encoding

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> PartitionedShared:
        fields = fields_of(attribute)
        result = cls(
            fields.power_of_two("numPartitions"),
            fields.power_of_two("numGroups"),
            fields.integer("partitionDim"),
            build(fields.attribute("partitionLayout")),
        )
        fields.finish()
        if result.partition_layout.space != "shared":
            raise MalformedEncoding(
                f"{cls.name}: 'partitionLayout' must be a shared encoding, got {result.partition_layout.name}"
            )
        return result

    @property
    def rank(self) -> int | None:
        return self.partition_layout.rank

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        pieces = self.num_partitions * self.num_groups
        if self.partition_dim >= len(shape) or shape[self.partition_dim] < pieces:
            raise ValueError(
                f"{self.name}: dimension {self.partition_dim} of the shape {list(shape)} has no {pieces} pieces"
            )
        piece = list(shape)
        piece[self.partition_dim] //= pieces
        axis = f"dim{self.partition_dim}"
        within = self.partition_layout.to_linear_layout(piece)
        partitions = LinearLayout.identity_1d(self.num_partitions, PARTITION, axis)
        return within * partitions * LinearLayout.identity_1d(self.num_groups, OFFSET, axis)


def _check_one_rank(name: str, vectors: Sequence[Basis]) -> None:
    for basis in vectors:
        if len(basis) != len(vectors[0]):
            raise MalformedEncoding(f"{name}: bases {list(vectors[0])} and {list(basis)} have different ranks")
