"""``#ttg.linear`` and ``#ttg.generic_linear``: layouts given by their bases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout, dim_names
from ..records import dataclass
from .encoding import DISTRIBUTED_DIMS, Build, Encoding, Space, fields_of
from .syntax import Attribute, Basis, Fields, MalformedEncoding
from .tile import EncodingTile, check_shape

__all__ = ["GenericLinear", "Linear", "linear_encoding_text"]

_ALL_DIMS = (*DISTRIBUTED_DIMS, BLOCK)


def linear_encoding_text(layout: LinearLayout) -> str:
    """The ``#ttg.linear`` attribute that denotes ``layout``.

    Requires: the in-dims are among register, lane, warp, block; every basis moves along one dimension at most,
    as Triton's verifier demands; the layout is surjective.
    Ensures: `layout_of(text, shape)` is the layout again, with an in-dim of size 1 for each that it lacks.

    >>> print(linear_encoding_text(LinearLayout.identity_1d(2, "register", "dim0")))
    #ttg.linear<{register = [[1]], lane = [], warp = [], block = []}>
    """
    for name in layout.in_dim_names:
        if name not in _ALL_DIMS:
            raise ValueError(f"linear_encoding_text: in-dim '{name}' is none of {', '.join(_ALL_DIMS)}")
    rank = len(layout.out_dims)
    if tuple(layout.out_dim_names) != dim_names(rank):
        raise ValueError(
            f"linear_encoding_text: out-dims must be {', '.join(dim_names(rank))} in this order, "
            f"got {', '.join(layout.out_dim_names)}"
        )
    given = dict(layout.bases)
    for name, vectors in given.items():
        for index, basis in enumerate(vectors):
            if sum(map(bool, basis)) > 1:
                raise ValueError(
                    f"linear_encoding_text: {name}={1 << index} -> {basis} moves in more than one dimension, "
                    f"which a #ttg.linear encoding cannot say"
                )
    if not layout.is_surjective():
        raise ValueError("linear_encoding_text: the layout is not surjective")
    parts = (f"{name} = {[list(basis) for basis in given.get(name, ())]}" for name in _ALL_DIMS)
    return "#ttg.linear<{" + ", ".join(parts) + "}>"


@dataclass(frozen=True)
class Linear(Encoding):
    """The bases of all four in-dims. A tensor larger than the shape they span repeats them, a smaller one
    cuts.
    """

    name: ClassVar[str] = "#ttg.linear"
    space: ClassVar[Space] = "distributed"

    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    warps: tuple[Basis, ...]
    blocks: tuple[Basis, ...]

    @classmethod
    def from_attribute(cls, attribute: Attribute, build: Build) -> Linear:
        fields = fields_of(attribute)
        bases = _read_bases(fields)
        fields.finish()
        result = cls(*bases)
        result._verify()
        return result

    def _vectors(self) -> tuple[Basis, ...]:
        return (*self.registers, *self.lanes, *self.warps, *self.blocks)

    def _verify(self) -> None:
        vectors = self._vectors()
        for basis in vectors:
            if len(basis) != len(vectors[0]):
                raise MalformedEncoding(
                    f"{self.name}: bases {list(vectors[0])} and {list(basis)} have different ranks"
                )
        for basis in self._single_axis_bases():
            if sum(map(bool, basis)) > 1:
                raise MalformedEncoding(f"{self.name}: basis {list(basis)} moves in more than one dimension")

    def _single_axis_bases(self) -> tuple[Basis, ...]:
        """The bases that must move along one dimension only."""
        return self._vectors()

    @property
    def rank(self) -> int | None:
        vectors = self._vectors()
        return len(vectors[0]) if vectors else None

    def to_linear_layout(self, shape: Sequence[int]) -> LinearLayout:
        check_shape(self.name, shape, self.rank)
        bases = tuple(zip(_ALL_DIMS, (self.registers, self.lanes, self.warps, self.blocks), strict=True))
        spanned = tuple(1 << max(values).bit_length() for values in zip(*self._vectors(), strict=True))
        if spanned == tuple(shape):
            return LinearLayout.fitted(bases, tuple(zip(dim_names(len(shape)), spanned, strict=True)))
        tile = EncodingTile(len(shape), _ALL_DIMS)
        for name, vectors in bases:
            for basis in vectors:
                tile.push(name, basis)
        tile.fit(shape, self._repetition_order(len(shape)), drop_copies=REGISTER)
        return tile.finished(shape)

    def _repetition_order(self, rank: int) -> tuple[int, ...]:
        """First the dimensions along which registers move, in their order; then the others, the last one
        first.
        """
        order = [axis for basis in self.registers for axis, value in enumerate(basis) if value]
        return tuple(dict.fromkeys([*order, *range(rank - 1, -1, -1)]))


@dataclass(frozen=True)
class GenericLinear(Linear):
    """As `Linear`, but the bases of the warps may move along several dimensions at once."""

    name: ClassVar[str] = "#ttg.generic_linear"

    def _single_axis_bases(self) -> tuple[Basis, ...]:
        return (*self.registers, *self.lanes, *self.blocks)


def _read_bases(fields: Fields) -> tuple[tuple[Basis, ...], ...]:
    return (fields.bases(REGISTER), fields.bases(LANE), fields.bases(WARP), fields.bases(BLOCK))
