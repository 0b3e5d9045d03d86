"""What every encoding is made of: a tile of bases, fitted to the tensor's shape, and the CTAs around it.

An encoding describes a tile: which register, lane and warp bits step along which dimension of the tensor. A
tensor larger than the tile repeats it in the registers (or in the offset, in shared memory), a smaller one
is held several times: the bases that step outside become zero. A :class:`EncodingTile` is the mutable list of
bases that the encodings write, dimension by dimension, and :meth:`EncodingTile.layout` the one place where
shapes are met.
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
    """Where the CTAs of a cluster lie in the tensor: one basis a bit of the block id.

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
        """The same CTAs with nothing split along ``axis``: there, they hold copies."""
        return Cga(tuple((*basis[:axis], 0, *basis[axis + 1 :]) for basis in self.bases))

    def split(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many pieces each dimension of a tensor of this shape is cut into."""
        pieces = [1] * len(shape)
        for basis in self.bases:
            pieces = [max(n, 2 * value) for n, value in zip(pieces, basis, strict=True)]
        return tuple(min(n, size) for n, size in zip(pieces, shape, strict=True))

    def shape_of_cta(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one CTA's piece."""
        return tuple(size // n for size, n in zip(shape, self.split(shape), strict=True))


class EncodingTile:
    """Bases under construction.

    Each `step` puts its bits beyond everything that the dimension has so far, so a sequence of steps is a
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
        """Bits of ``in_dim`` that step through the next ``size`` positions of dimension ``axis``."""
        into = self._bases[in_dim]
        while size > 1:
            basis = [0] * self.rank
            basis[axis] = self.extent[axis]
            into.append(basis)
            self.extent[axis] *= 2
            size //= 2

    def steps(self, in_dim: str, sizes: Sequence[int], order: Sequence[int]) -> None:
        """A step along every dimension, in this order, fastest first."""
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
        """Bits of ``in_dim`` that do not move: ``size`` places hold the same element."""
        self._bases[in_dim].extend([0] * self.rank for _ in range(size.bit_length() - 1))

    def push(self, in_dim: str, basis: Sequence[int]) -> None:
        """One bit with an arbitrary basis, within or beyond what is there."""
        self._bases[in_dim].append(list(basis))
        self.extent = [max(n, 1 << v.bit_length()) for n, v in zip(self.extent, basis, strict=True)]

    def swap_last(self, first: str, second: str) -> None:
        """Exchanges the last bit of two in-dims."""
        a, b = self._bases[first], self._bases[second]
        a[-1], b[-1] = b[-1], a[-1]

    def grow(self, shape: Sequence[int], order: Iterable[int]) -> None:
        """Repeats the tile in the first in-dim until no dimension is smaller than ``shape``."""
        for axis in order:
            self.step(self._filler, axis, shape[axis] // self.extent[axis])

    def cut(self, shape: Sequence[int], drop: str | None = None) -> None:
        """Zeroes the coordinates that lead outside ``shape``, the largest first.

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
        """The first of the bases that go furthest along a dimension."""
        furthest, found = -1, None
        for name, bases in self._bases.items():
            for basis in bases:
                if basis[axis] > furthest:
                    furthest, found = basis[axis], (name, basis)
        assert found is not None  # something reaches beyond the shape
        return found

    def layout(
        self,
        shape: Sequence[int],
        cga: Cga,
        order: Iterable[int] | None = None,
        drop_copies: str | None = None,
    ) -> LinearLayout:
        """The layout of a tensor of this shape: the tile fitted to one CTA's piece, times the CTAs.

        ``order`` says along which dimension the tile repeats first; rising order if it is not given. The
        in-dim ``drop_copies`` loses the bases that the shape cuts; in others they become zero.
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
        """Grows and cuts the tile to ``shape``; for ``drop_copies`` see `layout`."""
        self.grow(shape, range(self.rank) if order is None else order)
        self.cut(shape, drop_copies)

    def finished(self, shape: Sequence[int]) -> LinearLayout:
        """The bases as they are, onto ``shape``."""
        bases = tuple([(name, tuple(map(tuple, vectors))) for name, vectors in self._bases.items()])
        return LinearLayout.fitted(bases, tuple(zip(dim_names(self.rank), shape, strict=True)))
