"""Linear layouts: where each element of a tensor lives, as a linear map over F2.

A layout maps a place in the hardware to a place in the tensor. Both places are named coordinates, the sizes are
powers of two, and the map is linear for XOR: L(x xor y) = L(x) xor L(y). So the images of the powers of two
determine the map. They are the *bases* of the layout.

The running example is a 16x16 tensor held by two warps of 32 lanes. Each thread holds a patch of 2x2
elements, each warp has 4 rows of 8 threads, and the warps lie one below the other:

    register=1 -> (0, 1)        one step to the right
    register=2 -> (1, 0)        one row down
    lane=1     -> (0, 2)        the neighbouring thread starts two columns on
    lane=2     -> (0, 4)
    lane=4     -> (0, 8)
    lane=8     -> (2, 0)        the next row of threads starts two rows down
    lane=16    -> (4, 0)
    warp=1     -> (8, 0)

Register 1 of lane 9 of warp 0 is therefore element (0, 1) xor (0, 2) xor (2, 0) = (2, 3):

>>> patches = LinearLayout.from_bases(
...     [
...         (REGISTER, [(0, 1), (1, 0)]),
...         (LANE, [(0, 2), (0, 4), (0, 8), (2, 0), (4, 0)]),
...         (WARP, [(8, 0)]),
...     ],
...     dim_names(2),
... )
>>> patches.apply({REGISTER: 1, LANE: 9, WARP: 0})
{'dim0': 2, 'dim1': 3}

The same layout is a product of smaller ones. A product stacks its factors: in every dimension, on both sides,
the bits of the left factor are the minor ones.

>>> identity = LinearLayout.identity_1d
>>> registers = identity(2, REGISTER, "dim1") * identity(2, REGISTER, "dim0")
>>> lanes = identity(8, LANE, "dim1") * identity(4, LANE, "dim0")
>>> product = registers * lanes * identity(2, WARP, "dim0")
>>> product.transpose_outs(dim_names(2)) == patches
True

Read as a matrix over F2 the bases are its columns, and the algebra is matrix algebra with labels: `compose`
is the matrix product, `*` the block diagonal, `divide_left` splits a block off, `invert` inverts. For two
layouts A and B of one tensor, `A.invert_and_compose(B)` is the conversion from A to B: it maps a place of A
to the place of B that holds the same element. A layout may map several places to one element (zero columns:
copies of the data) or leave elements out (not surjective); every operation states what it requires.

One rule for flattening holds everywhere: the first dimension is the most minor one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final

from . import f2
from .dimensions import (
    check_fit,
    checked_bits,
    divide_dims,
    fields,
    join,
    move,
    moves,
    multiply_dims,
    realign,
    show,
    split,
)
from .labelled_matrix import LabelledMatrix
from .notebook import Pictured

REGISTER: Final = "register"
LANE: Final = "lane"
WARP: Final = "warp"
BLOCK: Final = "block"
OFFSET: Final = "offset"


@cache
def dim_names(rank: int) -> tuple[str, ...]:
    """Names of the dimensions of a tensor of this rank.

    >>> dim_names(2)
    ('dim0', 'dim1')
    """
    return tuple([f"dim{axis}" for axis in range(rank)])


@lru_cache(maxsize=4096)
def _rank(columns: tuple[int, ...]) -> int:
    return f2.rank(columns)


class LinearLayout(LabelledMatrix, Pictured):
    """An F2-linear map from named in-dims to named out-dims; see the head of this module.

    `repr` evaluates back to an equal layout; `str` lists the bases; a notebook shows a picture.

    >>> print(LinearLayout.strided_1d(4, 2, "lane", "dim0"))
    <BLANKLINE>
     - lane=1 -> (2)
       lane=2 -> (4)
    where out dims are: [dim0 (size 8)]
    """

    __slots__ = ()

    # Construction

    @classmethod
    def empty(cls) -> LinearLayout:
        """The map between spaces without dimensions: the neutral element of `*`."""
        return cls._trusted((), (), ())

    @classmethod
    def identity_1d(cls, size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """L(x) = x, for x < size.

        >>> LinearLayout.identity_1d(4, "lane", "dim0").matrix()
        (1, 2)
        """
        return cls.strided_1d(size, 1, in_dim, out_dim)

    @classmethod
    def strided_1d(cls, size: int, stride: int, in_dim: str, out_dim: str) -> LinearLayout:
        """L(x) = stride * x, for x < size; the out-dim has size * stride places.

        Requires: size and stride are powers of two.

        >>> LinearLayout.strided_1d(4, 2, "lane", "dim0").matrix()
        (2, 4)
        """
        bits = checked_bits(size, f"strided_1d: in-dim {in_dim!r}")
        shift = checked_bits(stride, "strided_1d: the stride")
        columns = tuple([1 << i + shift for i in range(bits)])
        return cls._trusted([(in_dim, bits)], columns, ((out_dim, size * stride),))

    @classmethod
    def zeros_1d(cls, size: int, in_dim: str, out_dim: str, out_size: int = 1) -> LinearLayout:
        """L(x) = 0, for x < size: that many copies of one element.

        >>> LinearLayout.zeros_1d(4, "warp", "dim0").matrix()
        (0, 0)
        """
        bits = checked_bits(size, f"zeros_1d: in-dim {in_dim!r}")
        checked_bits(out_size, f"zeros_1d: out-dim {out_dim!r}")
        return cls._trusted([(in_dim, bits)], (0,) * bits, ((out_dim, out_size),))

    @classmethod
    def from_bases(
        cls,
        bases: Mapping[str, Sequence[Sequence[int]]] | Iterable[tuple[str, Sequence[Sequence[int]]]],
        out_dim_names: Mapping[str, int] | Iterable[str] | Iterable[tuple[str, int]],
        out_dim_sizes: Sequence[int] | None = None,
        require_surjective: bool = True,
    ) -> LinearLayout:
        """L(2^i of in-dim d) = bases[d][i], one coordinate for each out-dim.

        Requires: coordinates fit the out-dims; the layout is surjective unless told otherwise.
        Choice: if neither `out_dim_names` nor `out_dim_sizes` gives sizes, they are the smallest powers of two
        that hold the coordinates.

        >>> LinearLayout.from_bases({"lane": [(0, 1), (1, 0)]}, ["dim0", "dim1"]).out_dims
        (('dim0', 2), ('dim1', 2))
        """
        pairs = bases.items() if isinstance(bases, Mapping) else bases
        vectors = tuple([(name, tuple([tuple(basis) for basis in images])) for name, images in pairs])
        given = list(out_dim_names.items() if isinstance(out_dim_names, Mapping) else out_dim_names)
        names = [dim if isinstance(dim, str) else dim[0] for dim in given]
        sizes = [dim[1] for dim in given if not isinstance(dim, str)]
        if out_dim_sizes is not None:
            sizes = list(out_dim_sizes)
        elif not sizes:
            sizes = [1] * len(names)
            for _, images in vectors:
                for basis in images:
                    sizes = [max(s, 1 << v.bit_length()) for s, v in zip(sizes, basis, strict=False)]
        if len(sizes) != len(names):
            raise ValueError(f"from_bases: {len(sizes)} sizes for the out-dims {join(names)}")
        layout = cls(vectors, tuple(zip(names, sizes, strict=True)))
        if require_surjective and not layout.is_surjective():
            raise ValueError(
                f"from_bases: the layout is not surjective: its bases have rank {_rank(layout._columns)}, "
                f"the out-dims {show(layout.out_dims)} have {layout.total_out_bits} bits"
            )
        return layout

    # Evaluation and composition

    def apply(self, inputs: Mapping[str, int]) -> dict[str, int]:
        """L(x), by names.

        Requires: a value for every in-dim and no other, each smaller than the in-dim.

        >>> LinearLayout.from_bases({"lane": [(0, 1), (1, 1)]}, ["dim0", "dim1"]).apply({"lane": 3})
        {'dim0': 1, 'dim1': 0}
        """
        x = 0
        position = 0
        for name, vectors in self.bases:
            value = inputs.get(name)
            bits = len(vectors)
            if value is None:
                raise ValueError(f"apply: no value for in-dim {name!r}; the inputs are {show(inputs.items())}")
            if value >> bits:
                raise ValueError(f"apply: {name}={value} is outside in-dim {name!r} of size {1 << bits}")
            x |= value << position
            position += bits
        if len(inputs) != len(self.bases):
            raise ValueError(f"apply: {show(inputs.items())} are not the in-dims {join(self.in_dim_names)}")
        y = f2.multiply_vector(self._columns, x)
        pairs = zip(self.out_dims, fields(self.out_dims), strict=True)
        return {name: y >> shift & mask for (name, _), (shift, mask) in pairs}

    @lru_cache(maxsize=4096)  # noqa: B019
    def compose(self, outer: LinearLayout) -> LinearLayout:
        """(self.compose(outer))(x) = outer(self(x)): outer after self.

        Requires: the out-dims of self are the in-dims of outer, in any order, and none is larger.

        >>> a = LinearLayout.strided_1d(2, 2, "lane", "offset")
        >>> b = LinearLayout.from_bases({"offset": [[1], [3]]}, ["dim0"])
        >>> a.compose(b).matrix() == (b.basis("offset", 1)[0],)
        True
        """
        ins = outer.in_dims
        check_fit("compose", self.out_dims, ins, "in-dims")
        columns = f2.multiply(outer._columns, realign(self._columns, self.out_dims, ins))
        return self._trusted(self._in_bits(), columns, outer.out_dims)

    @lru_cache(maxsize=4096)  # noqa: B019
    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """outer(C(x)) = self(x), for C = self.invert_and_compose(outer): outer⁻¹ after self.

        With two layouts of one tensor, C says which place of `outer` holds what a place of `self` holds.

        Requires: equal sets of out-dims, none larger in self; the image of outer contains the image of self.
        Ensures: C.compose(outer) == self, if the out-dims of self have the sizes and order of outer's.
        Choice: if the out-dims have equal sizes, an in-dim with equal bases in both layouts maps to itself, so
        that elements and copies that need not move do not move. All other in-dims use these in-dims of outer
        only if there is no other solution, and their free variables are zero.

        >>> a = LinearLayout.from_bases({"lane": [[1], [2]], "warp": [[0]]}, ["dim0"])
        >>> b = LinearLayout.from_bases({"lane": [[2], [1]], "warp": [[0]]}, ["dim0"])
        >>> a.invert_and_compose(b).bases
        (('lane', ((2, 0), (1, 0))), ('warp', ((0, 1),)))
        """
        check_fit("invert_and_compose", self.out_dims, outer.out_dims, "out-dims")
        targets = split(realign(self._columns, self.out_dims, outer.out_dims), self._in_bits())
        available = outer._columns_of
        same: set[str] = set()
        if dict(self.out_dims) == dict(outer.out_dims):
            same = {name for name, columns in available.items() if targets.get(name) == columns}
        # Columns of outer in elimination order, and the position of each in outer's flattened inputs.
        order: list[int] = []
        late: list[int] = []
        where: dict[str, int] = {}
        position = 0
        for name, columns in available.items():
            where[name] = position
            (late if name in same else order).extend(range(position, position + len(columns)))
            position += len(columns)
        order += late
        span = f2.Echelon([outer._columns[index] for index in order])
        place = tuple([1 << index for index in order])
        result: list[int] = []
        for name, vectors in self.bases:
            if name in same:
                result += [1 << where[name] + bit for bit in range(len(vectors))]
                continue
            for bit, target in enumerate(targets[name]):
                solution = span.solve(target)
                if solution is None:
                    raise ValueError(
                        f"invert_and_compose: outer does not reach {name}={1 << bit} -> {vectors[bit]}"
                    )
                result.append(f2.multiply_vector(place, solution) if late else solution)
        return self._trusted(self._in_bits(), tuple(result), outer.in_dims)

    def invert(self) -> LinearLayout:
        """L⁻¹(L(x)) = x and L(L⁻¹(y)) = y.

        Requires: `is_invertible()`.

        >>> LinearLayout.from_bases({"offset": [[1], [3]]}, ["dim0"]).invert().bases
        (('dim0', ((1,), (3,))),)
        """
        if not self.is_invertible():
            raise ValueError(f"invert: the layout is not invertible: {self._rank_text()}")
        return self.pseudoinvert()

    @lru_cache(maxsize=1024)  # noqa: B019
    def pseudoinvert(self) -> LinearLayout:
        """L(L⁺(y)) = y: a right inverse.

        Requires: `is_surjective()`.
        Choice: as for `invert_and_compose`, applied to the identity; free variables are zero.

        >>> LinearLayout.from_bases({"lane": [[1], [0], [2]]}, ["dim0"]).pseudoinvert().bases
        (('dim0', ((1,), (4,))),)
        """
        if not self.is_surjective():
            raise ValueError(f"pseudoinvert: the layout is not surjective: {self._rank_text()}")
        in_bits = [(name, size.bit_length() - 1) for name, size in self.out_dims]
        identity = self._trusted(in_bits, f2.identity(self.total_out_bits), self.out_dims)
        return identity.invert_and_compose(self)

    # Products and quotients

    @lru_cache(maxsize=4096)  # noqa: B019
    def __mul__(self, outer: LinearLayout) -> LinearLayout:
        """(A * B)(x_A + |A| x_B) = A(x_A) + |A| B(x_B), in every dimension: the block diagonal of A and B.

        |A| is the size of a dimension in A, 1 where A lacks it. A is the minor, inner factor.

        >>> a = LinearLayout.identity_1d(2, "lane", "dim1") * LinearLayout.identity_1d(2, "lane", "dim0")
        >>> (a * LinearLayout.identity_1d(4, "warp", "dim1")).bases
        (('lane', ((1, 0), (0, 1))), ('warp', ((2, 0), (4, 0))))
        """
        in_dims = multiply_dims(self.in_dims, outer.in_dims)
        out_dims = multiply_dims(self.out_dims, outer.out_dims)
        low = split(realign(self._columns, self.out_dims, out_dims), self._in_bits())
        high = split(
            move(outer._columns, moves(outer.out_dims, out_dims, minor=self.out_dims)), outer._in_bits()
        )
        columns: list[int] = []
        for name, _ in in_dims:
            columns += low.get(name, ())
            columns += high.get(name, ())
        return self._trusted([(n, s.bit_length() - 1) for n, s in in_dims], tuple(columns), out_dims)

    def divide_left(self, divisor: LinearLayout) -> LinearLayout | None:
        """divisor * C = self, for C = self.divide_left(divisor); None when there is no such C.

        Ensures: C has the in-dims and out-dims of self, in their order; a dimension that divisor covers has
        size 1 in C. The product equals self up to the order of dimensions, and exactly if divisor has the
        same order.

        >>> tile = LinearLayout.identity_1d(4, "register", "offset")
        >>> layout = tile * LinearLayout.identity_1d(8, "lane", "offset")
        >>> tile * layout.divide_left(tile) == layout
        True
        """
        in_dims = divide_dims(self.in_dims, divisor.in_dims)
        out_dims = divide_dims(self.out_dims, divisor.out_dims)
        if in_dims is None or out_dims is None:
            return None
        inner = split(realign(divisor._columns, divisor.out_dims, self.out_dims), divisor._in_bits())
        up = moves(out_dims, self.out_dims, minor=divisor.out_dims)
        down = tuple([(position, mask, source) for source, mask, position in up])
        quotient: list[int] = []
        for name, columns in self._columns_of.items():
            expected = inner.get(name, ())
            rest = columns[len(expected) :]
            lowered = move(rest, down)
            if columns[: len(expected)] != expected or move(lowered, up) != rest:
                return None
            quotient += lowered
        return self._trusted([(n, s.bit_length() - 1) for n, s in in_dims], tuple(quotient), out_dims)

    def is_trivial_over(self, dims: str | Iterable[str]) -> bool:
        """Tell whether L is the identity on `dims`, and no other in-dim maps into them.

        Each name must be an in-dim and an out-dim of equal size, and each of its bits must map to itself.

        >>> (LinearLayout.identity_1d(4, "warp", "warp") * LinearLayout.zeros_1d(2, "lane", "lane")
        ...  ).is_trivial_over(["warp"])
        True
        """
        names = {dims} if isinstance(dims, str) else set(dims)
        if any(not (self.has_in_dim(name) and self.has_out_dim(name)) for name in names):
            return False
        reached = dict(zip(self.out_dim_names, fields(self.out_dims), strict=True))
        forbidden = sum([reached[name][1] << reached[name][0] for name in names])
        for name, columns in self._columns_of.items():
            if name not in names:
                if any(column & forbidden for column in columns):
                    return False
                continue
            position, mask = reached[name]
            if columns != tuple([1 << position + bit for bit in range(mask.bit_length())]):
                return False
        return True

    def quotient(self, dims: str | Iterable[str]) -> LinearLayout | None:
        """Restrict L to the dimensions other than `dims`; None unless L is trivial over `dims`.

        >>> layout = LinearLayout.identity_1d(4, "lane", "lane") * LinearLayout.identity_1d(2, "warp", "warp")
        >>> layout.quotient(["warp"]) == LinearLayout.identity_1d(4, "lane", "lane")
        True
        """
        names = frozenset((dims,) if isinstance(dims, str) else dims)
        if not self.is_trivial_over(names):
            return None
        return self.sublayout(
            [name for name in self.in_dim_names if name not in names],
            [name for name in self.out_dim_names if name not in names],
        )

    # Rank

    def is_surjective(self) -> bool:
        """Tell whether every output is reached: the rank is the number of output bits."""
        return _rank(self._columns) == self.total_out_bits

    def is_injective(self) -> bool:
        """Tell whether no two inputs meet: the rank is the number of input bits."""
        return _rank(self._columns) == len(self._columns)

    def is_invertible(self) -> bool:
        """Tell whether L is a bijection."""
        return self.is_injective() and self.is_surjective()

    def _rank_text(self) -> str:
        return (
            f"rank {_rank(self._columns)}, {len(self._columns)} bits of in-dims {show(self.in_dims)}, "
            f"{self.total_out_bits} bits of out-dims {show(self.out_dims)}"
        )
