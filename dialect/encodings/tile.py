"""The tile of bases from which every encoding builds its layout, and the CTAs of a cluster.

An encoding describes a tile: which register, lane and warp bits step along which dimension of the tensor. If
the tensor is larger, registers (in shared memory, offsets) repeat the tile. If it is smaller, several places
hold the same element: the bases that step outside become zero. An :class:`EncodingTile` is the mutable list
of bases to which encodings append; :meth:`EncodingTile.layout` fits it to the tensor's shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..linear_layout import BLOCK, LinearLayout, dim_names
from ..records import dataclass
from .syntax import Basis, Fields, MalformedEncoding

__all__ = ["Cga", "EncodingTile", "check_shape", "matrix_order"]


def check_shape(name: str, shape: Sequence[int], rank: int | None) -> None:
    """Raises unless ``shape`` has this rank and powers of two for sizes."""
    if rank is not None and len(shape) != rank:
        raise ValueError(f"{name}: the encoding has rank {rank}, the shape {list(shape)} has rank {len(shape)}")
    for size in shape:
        if size <= 0 or size & (size - 1):
            raise ValueError(f"{name}: size {size} of the shape {list(shape)} is not a power of two")


def matrix_order(rank: int, row_major: bool) -> tuple[int, ...]:
    """The dimensions of a batch of matrices, fastest first.

    >>> matrix_order(3, True), matrix_order(3, False)
    ((2, 1, 0), (1, 2, 0))
    """
    order = list(range(rank - 1, -1, -1))
    if not row_major and rank >= 2:
        order[0], order[1] = order[1], order[0]
    return tuple(order)


@dataclass(frozen=True)
class Cga:
    """Where the CTAs of a cluster lie in the tensor: one basis for each bit of the CTA's number.

    Coordinates count pieces, not elements: a tensor of 64 rows split over two CTAs has the basis (1, 0).
    """

    bases: tuple[Basis, ...] = ()

    @staticmethod
    def from_fields(fields: Fields, rank: int) -> Cga:
        """Reads ``CGALayout = [[..]]``, or the ``CTAsPerCGA, CTASplitNum, CTAOrder`` of older texts.

        No field at all means one CTA.
        """
        if fields.has("CGALayout"):
            bases = fields.bases("CGALayout")
            for basis in bases:
                if len(basis) != rank:
                    raise MalformedEncoding(
                        f"{fields.name}: basis {list(basis)} of 'CGALayout' has {len(basis)} coordinates, "
                        f"the encoding has rank {rank}"
                    )
                if sum(map(bool, basis)) > 1 or any(n & (n - 1) for n in basis):
                    raise MalformedEncoding(
                        f"{fields.name}: basis {list(basis)} of 'CGALayout' is not one power of two or zero"
                    )
            return Cga(bases)
        if not fields.has("CTAsPerCGA"):
            return Cga()
        ctas = fields.powers_of_two("CTAsPerCGA", rank)
        split = fields.powers_of_two("CTASplitNum", rank)
        tile = EncodingTile(rank, (BLOCK,))
        for axis in fields.permutation("CTAOrder", rank):
            if ctas[axis] < split[axis]:
                raise MalformedEncoding(
                    f"{fields.name}: 'CTASplitNum' {split[axis]} of dimension {axis} is larger than "
                    f"'CTAsPerCGA' {ctas[axis]}"
                )
            tile.step(BLOCK, axis, split[axis])
            tile.copies(BLOCK, ctas[axis] // split[axis])
        return Cga(tile.bases(BLOCK))

    def without(self, axis: int) -> Cga:
        """The CTAs without the split along ``axis``: CTAs that differ only along it hold copies."""
        return Cga(tuple((*basis[:axis], 0, *basis[axis + 1 :]) for basis in self.bases))

    def split(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many pieces each dimension of a tensor of this shape is cut into."""
        if not self.bases:
            return (1,) * len(shape)
        pieces = [1] * len(shape)
        for basis in self.bases:
            pieces = [max(n, 2 * value) for n, value in zip(pieces, basis, strict=True)]
        return tuple(min(n, size) for n, size in zip(pieces, shape, strict=True))

    def shape_of_cta(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one CTA's piece."""
        return tuple([size // n for size, n in zip(shape, self.split(shape), strict=True)])


class EncodingTile:
    """Bases under construction.

    Each `step` places its bits above all bits that the dimension has so far. So a sequence of steps is a
    product of one-dimensional identities, minor factors first.

    >>> tile = EncodingTile(1, ("register", "lane"))
    >>> tile.step("register", 0, 2), tile.step("lane", 0, 4)
    (None, None)
    >>> print(tile.layout((8,), Cga()).apply({"register": 1, "lane": 3, "block": 0}))
    {'dim0': 7}
    """

    def __init__(self, rank: int, in_dims: Iterable[str]) -> None:
        self.rank = rank
        self.extent = [1] * rank
        self._bases: dict[str, list[list[int]]] = {name: [] for name in in_dims}
        self._filler = next(iter(self._bases))

    def bases(self, in_dim: str) -> tuple[Basis, ...]:
        """The bases of one in-dim so far."""
        return tuple(tuple(basis) for basis in self._bases[in_dim])

    def step(self, in_dim: str, axis: int, size: int) -> None:
        """Appends bits of ``in_dim`` that step through the next ``size`` positions of dimension ``axis``."""
        into = self._bases[in_dim]
        while size > 1:
            basis = [0] * self.rank
            basis[axis] = self.extent[axis]
            into.append(basis)
            self.extent[axis] *= 2
            size //= 2

    def steps(self, in_dim: str, sizes: Sequence[int], order: Sequence[int]) -> None:
        """Steps along every dimension, in this order, fastest first."""
        for axis in order:
            self.step(in_dim, axis, sizes[axis])

    def steps_or_copies(
        self, in_dim: str, sizes: Sequence[int], order: Sequence[int], copied_axis: int
    ) -> None:
        """As `steps`, but the bits along ``copied_axis`` hold copies instead of stepping."""
        for axis in order:
            if axis == copied_axis:
                self.copies(in_dim, sizes[axis])
            else:
                self.step(in_dim, axis, sizes[axis])

    def copies(self, in_dim: str, size: int) -> None:
        """Appends zero bases to ``in_dim``: ``size`` places hold the same element."""
        self._bases[in_dim].extend([0] * self.rank for _ in range(size.bit_length() - 1))

    def push(self, in_dim: str, basis: Sequence[int]) -> None:
        """Appends a bit with an arbitrary basis, which may lie inside the present extent."""
        self._bases[in_dim].append(list(basis))
        self.extent = [max(n, 1 << v.bit_length()) for n, v in zip(self.extent, basis, strict=True)]

    def grow(self, shape: Sequence[int], order: Iterable[int]) -> None:
        """Repeats the tile in the first in-dim until no dimension is smaller than ``shape``."""
        for axis in order:
            self.step(self._filler, axis, shape[axis] // self.extent[axis])

    def cut(self, shape: Sequence[int], drop: str | None = None) -> None:
        """Sets coordinates that lead outside ``shape`` to zero, the largest first.

        Bases of the in-dim ``drop`` are removed instead.
        """
        dropped: list[list[int]] = []
        for axis, size in enumerate(shape):
            while self.extent[axis] > size:
                self.extent[axis] //= 2
                name, basis = self._furthest(axis)
                if basis[axis] != self.extent[axis]:
                    raise ValueError(
                        f"{name} -> {tuple(basis)} cannot be cut to size {size} of dimension {axis}: "
                        f"it also moves within"
                    )
                if name == drop:
                    dropped.append(basis)
                basis[axis] = 0
        if drop is not None:
            removed = {id(basis) for basis in dropped}
            self._bases[drop] = [basis for basis in self._bases[drop] if id(basis) not in removed]

    def _furthest(self, axis: int) -> tuple[str, list[int]]:
        """The basis with the largest coordinate along a dimension, the first if there are several."""
        largest, result = -1, None
        for name, bases in self._bases.items():
            for basis in bases:
                if basis[axis] > largest:
                    largest, result = basis[axis], (name, basis)
        assert result is not None  # the extent exceeds the shape, so there is a basis
        return result

    def layout(
        self,
        shape: Sequence[int],
        cga: Cga,
        order: Iterable[int] | None = None,
        drop_copies: str | None = None,
    ) -> LinearLayout:
        """The layout of a tensor of this shape: the tile fitted to one CTA's piece, times the CTAs.

        ``order`` is the order of dimensions in which the tile repeats, by default ascending. Bases that the
        shape cuts are removed from the in-dim ``drop_copies``, and become zero in the others.
        """
        self.fit(cga.shape_of_cta(shape), order, drop_copies)
        around = EncodingTile(self.rank, (BLOCK,))
        for basis in cga.bases:
            around.push(BLOCK, basis)
        around.cut(shape)
        for vector in around._bases[BLOCK]:
            for axis in range(self.rank):
                vector[axis] *= self.extent[axis]
        self._bases[BLOCK] = around._bases[BLOCK]
        return self.finished(shape)

    def fit(
        self, shape: Sequence[int], order: Iterable[int] | None = None, drop_copies: str | None = None
    ) -> None:
        """Repeats or cuts the tile to ``shape``; for ``order`` and ``drop_copies`` see `layout`."""
        self.grow(shape, range(self.rank) if order is None else order)
        self.cut(shape, drop_copies)

    def finished(self, shape: Sequence[int]) -> LinearLayout:
        """The layout of the present bases, onto ``shape``."""
        bases = tuple([(name, tuple(map(tuple, vectors))) for name, vectors in self._bases.items()])
        return LinearLayout.fitted(bases, tuple(zip(dim_names(self.rank), shape, strict=True)))
