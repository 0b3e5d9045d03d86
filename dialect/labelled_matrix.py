"""A matrix over F2 whose coordinates, on both sides, are grouped into named dimensions.

`LinearLayout` is built on this class. It has the storage, the validation, the queries about dimensions, and
every operation that renames, regroups, reorders, cuts or joins dimensions without multiplying matrices.

Both sides are flattened in the same way: the first dimension is the most minor one. With in-dims
`register=4, lane=8`, coordinates 0 and 1 are the bits of `register`, and 2 to 4 are the bits of `lane`. Column
j of the matrix is the image of input coordinate j, as a Python int (see `f2`) whose bits are the out-dims,
flattened likewise. Regrouping a side therefore does not change the columns.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from .dimensions import (
    Dims,
    check_distinct,
    check_permutation,
    checked_dims,
    checked_name,
    fields,
    flattened,
    join,
    known_names,
    realign,
    total_bits,
)
from .records import dataclass

Bases = tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]

M = TypeVar("M", bound="LabelledMatrix")


class _Derived:
    """What follows from the fields of a map."""

    __slots__ = ("_columns", "_columns_of")

    _columns: tuple[int, ...]
    _columns_of: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LabelledMatrix(_Derived):
    """A linear map between labelled F2 spaces, given by the images of its input bits.

    `bases` gives, for each in-dim, the image of each of its bits as one coordinate per out-dim; `out_dims`
    gives each out-dim with its size. Equality is exact: order of dimensions and sizes count.
    """

    bases: Bases
    out_dims: Dims

    def __new__(cls: type[M], bases: Bases, out_dims: Dims) -> M:
        dims = checked_dims(out_dims, "out-dim")
        checked = tuple(
            [
                (checked_name(name, "in-dim"), tuple([tuple(map(operator.index, basis)) for basis in vectors]))
                for name, vectors in bases
            ]
        )
        check_distinct([name for name, _ in checked], "in-dim")
        return cls.fitted(checked, dims)

    def __init__(self, bases: Bases, out_dims: Dims) -> None:
        """All is done where the object is made."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.bases, self.out_dims)

    @classmethod
    def _made(cls: type[M], bases: Bases, out_dims: Dims, columns: tuple[int, ...]) -> M:
        """The map with these fields, unchecked."""
        made = object.__new__(cls)
        by_name: dict[str, tuple[int, ...]] = {}
        position = 0
        for name, vectors in bases:
            by_name[name] = columns[position : (position := position + len(vectors))]
        put_bases, put_out_dims, put_columns, put_by_name = _PUT
        put_bases(made, bases)
        put_out_dims(made, out_dims)
        put_columns(made, columns)
        put_by_name(made, by_name)
        return made

    @classmethod
    def _trusted(
        cls: type[M], in_bits: Iterable[tuple[str, int]], columns: tuple[int, ...], out_dims: Dims
    ) -> M:
        """Build from parts known to be consistent; `in_bits` gives the number of bits of each in-dim."""
        coordinates = fields(out_dims)
        vectors = [tuple([column >> shift & mask for shift, mask in coordinates]) for column in columns]
        bases: list[tuple[str, tuple[tuple[int, ...], ...]]] = []
        position = 0
        for name, bits in in_bits:
            bases.append((name, tuple(vectors[position : position + bits])))
            position += bits
        return cls._made(tuple(bases), out_dims, columns)

    @classmethod
    def fitted(cls: type[M], bases: Bases, out_dims: Dims) -> M:
        """A faster constructor.

        Requires: names are distinct strings, sizes are powers of two, and coordinates are `int` in nested
        tuples.
        """
        known = _columns_onto(out_dims)
        columns: list[int] = []
        for name, vectors in bases:
            for index, basis in enumerate(vectors):
                column = known.get(basis)
                if column is None:
                    column = known[basis] = flattened(name, index, basis, out_dims)
                columns.append(column)
        return cls._made(bases, out_dims, tuple(columns))

    @classmethod
    def from_matrix(
        cls: type[M],
        columns: Sequence[int],
        in_dims: Iterable[tuple[str, int]],
        out_dims: Iterable[tuple[str, int]],
    ) -> M:
        """Return the map with these flattened columns: the inverse of `matrix`, given the dimensions.

        Requires: as many columns as the in-dims have bits, each within the bits of the out-dims.

        >>> m = LabelledMatrix.from_matrix((1, 2, 4), [("lane", 8)], [("dim0", 4), ("dim1", 2)])
        >>> m.bases
        (('lane', ((1, 0), (2, 0), (0, 1))),)
        """
        ins = checked_dims(in_dims, "in-dim")
        outs = checked_dims(out_dims, "out-dim")
        in_bits, out_bits = total_bits(ins), total_bits(outs)
        if len(columns) != in_bits:
            raise ValueError(f"from_matrix: {len(columns)} columns for in-dims of {in_bits} bits")
        for index, column in enumerate(columns):
            if column >> out_bits:
                raise ValueError(f"from_matrix: column {index} = {column} does not fit in {out_bits} bits")
        return cls._trusted([(n, s.bit_length() - 1) for n, s in ins], tuple(columns), outs)

    # Queries

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, LabelledMatrix) or type(other) is not type(self):
            return NotImplemented
        return self._columns == other._columns and self.out_dims == other.out_dims and self.bases == other.bases

    def __hash__(self) -> int:
        return hash(self._columns)  # layouts that differ elsewhere alone are few

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bases!r}, {self.out_dims!r})"

    def __str__(self) -> str:
        outs = ", ".join(f"{name} (size {size})" for name, size in self.out_dims)
        if not self.bases:
            return f"\n(empty layout with out-dims [{outs}])" if outs else "\n(empty layout)"
        lines = [""]
        for name, vectors in self.bases:
            if not vectors:
                lines.append(f" - {name} is a size 1 dimension")
            for index, basis in enumerate(vectors):
                bullet = "  " if index else " -"
                lines.append(f"{bullet} {name}={1 << index} -> ({', '.join(map(str, basis))})")
        return "\n".join([*lines, f"where out dims are: [{outs}]"])

    @property
    def in_dims(self) -> Dims:
        """Each in-dim with its size, in order."""
        return tuple([(name, 1 << len(vectors)) for name, vectors in self.bases])

    @property
    def in_dim_names(self) -> tuple[str, ...]:
        """Names of the in-dims, most minor first."""
        return tuple([name for name, _ in self.bases])

    @property
    def out_dim_names(self) -> tuple[str, ...]:
        """Names of the out-dims, most minor first."""
        return tuple([name for name, _ in self.out_dims])

    @property
    def num_out_dims(self) -> int:
        """Number of out-dims."""
        return len(self.out_dims)

    @property
    def total_in_bits(self) -> int:
        """Number of input bits, the columns of the matrix."""
        return len(self._columns)

    @property
    def total_out_bits(self) -> int:
        """Number of output bits, the rows of the matrix."""
        return total_bits(self.out_dims)

    def has_in_dim(self, name: str) -> bool:
        """Tell whether `name` is an in-dim."""
        return name in self._columns_of

    def has_out_dim(self, name: str) -> bool:
        """Tell whether `name` is an out-dim."""
        return any(name == other for other, _ in self.out_dims)

    def in_dim_bits(self, name: str) -> int:
        """log2 of the size of an in-dim."""
        return len(self.columns(name))

    def in_dim_size(self, name: str) -> int:
        """Size of an in-dim."""
        return 1 << len(self.columns(name))

    def out_dim_size(self, name: str) -> int:
        """Size of an out-dim."""
        for other, size in self.out_dims:
            if name == other:
                return size
        raise ValueError(f"{name!r} is no out-dim; the out-dims are {join(self.out_dim_names)}")

    def basis(self, in_dim: str, index: int) -> tuple[int, ...]:
        """Image of bit `index` of `in_dim`, one coordinate per out-dim."""
        bits = self.in_dim_bits(in_dim)
        if not 0 <= index < bits:
            raise ValueError(f"basis: in-dim {in_dim!r} has {bits} bits, no bit {index}")
        return dict(self.bases)[in_dim][index]

    def matrix(self) -> tuple[int, ...]:
        """All columns, flattened on both sides with the first dimension most minor."""
        return self._columns

    def columns(self, in_dim: str) -> tuple[int, ...]:
        """Return the flattened columns of one in-dim."""
        found = self._columns_of.get(in_dim)
        if found is None:
            raise ValueError(f"{in_dim!r} is no in-dim; the in-dims are {join(self.in_dim_names)}")
        return found

    def _in_bits(self) -> list[tuple[str, int]]:
        return [(name, len(vectors)) for name, vectors in self.bases]

    # Dimensions: order and grouping

    def transpose_ins(self: M, in_dims: Sequence[str]) -> M:
        """Reorder the in-dims; the map by names stays the same.

        Requires: `in_dims` is a permutation of the in-dims.

        >>> m = LabelledMatrix.from_matrix((1, 2, 4), [("lane", 4), ("warp", 2)], [("dim0", 8)])
        >>> m.transpose_ins(["warp", "lane"]).matrix()
        (4, 1, 2)
        """
        check_permutation("transpose_ins", in_dims, self.in_dim_names)
        columns = tuple([column for name in in_dims for column in self.columns(name)])
        return self._trusted([(name, self.in_dim_bits(name)) for name in in_dims], columns, self.out_dims)

    def transpose_outs(self: M, out_dims: Sequence[str]) -> M:
        """Reorder the out-dims; the map by names stays the same.

        Requires: `out_dims` is a permutation of the out-dims.

        >>> m = LabelledMatrix.from_matrix((1, 2, 4), [("lane", 8)], [("dim0", 2), ("dim1", 4)])
        >>> m.transpose_outs(["dim1", "dim0"]).bases
        (('lane', ((0, 1), (1, 0), (2, 0))),)
        """
        check_permutation("transpose_outs", out_dims, self.out_dim_names)
        new = tuple([(name, self.out_dim_size(name)) for name in out_dims])
        return self._trusted(self._in_bits(), realign(self._columns, self.out_dims, new), new)

    # Dimensions: cutting and joining

    def sublayout(self: M, in_dims: str | Iterable[str], out_dims: str | Iterable[str]) -> M:
        """Restrict to these in-dims, all others zero, and project onto these out-dims.

        Requires: the names are dimensions. Their order here is irrelevant; the layout's order stays.

        >>> m = LabelledMatrix.from_matrix((1, 2), [("lane", 2), ("warp", 2)], [("dim0", 2), ("dim1", 2)])
        >>> m.sublayout("warp", ["dim1"]).bases
        (('warp', ((1,),)),)
        """
        ins = known_names("sublayout", in_dims, self.in_dim_names, "in-dim")
        outs = known_names("sublayout", out_dims, self.out_dim_names, "out-dim")
        columns: list[int] = []
        in_bits: list[tuple[str, int]] = []
        position = 0
        for name, vectors in self.bases:
            bits = len(vectors)
            if name in ins:
                columns.extend(self._columns[position : position + bits])
                in_bits.append((name, bits))
            position += bits
        new = tuple([dim for dim in self.out_dims if dim[0] in outs])
        return self._trusted(in_bits, realign(tuple(columns), self.out_dims, new), new)

    # Dimensions: names and sizes

    def remove_zero_bases(self: M, in_dim: str) -> M:
        """Drop the bits of `in_dim` that map to zero.

        >>> m = LabelledMatrix.from_matrix((1, 0, 2), [("lane", 8)], [("dim0", 4)])
        >>> m.remove_zero_bases("lane").matrix()
        (1, 2)
        """
        columns_of = self.columns(in_dim)
        if 0 not in columns_of:
            return self
        kept = [column for column in columns_of if column]
        in_bits = [(name, len(kept) if name == in_dim else bits) for name, bits in self._in_bits()]
        columns = [column for name, _ in in_bits for column in (kept if name == in_dim else self.columns(name))]
        return self._trusted(in_bits, tuple(columns), self.out_dims)


_PUT = [getattr(LabelledMatrix, name).__set__ for name in ("bases", "out_dims", "_columns", "_columns_of")]
"""What fills each slot of a new map."""


@lru_cache(maxsize=1024)
def _columns_onto(out_dims: Dims) -> dict[tuple[int, ...], int]:
    """The cache of `LabelledMatrix.fitted`: the column of each basis that was seen with these out-dims.

    Layouts share most of their bases.
    """
    return {}
