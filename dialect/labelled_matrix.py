"""A matrix over F2 whose coordinates, on both sides, are grouped into named dimensions.

This is the bookkeeping below `LinearLayout`: storage, validation, questions about dimensions, and every
operation that renames, regroups, reorders, cuts or joins dimensions without multiplying matrices.

Both sides are flattened in the same way: the first dimension is the most minor one. With in-dims
`register=4, lane=8`, coordinate 0 and 1 are the bits of `register` and 2 to 4 those of `lane`. Column j of
the matrix is the image of input coordinate j, a Python int (see `f2`); the out-dims lie in it in the same
manner. Regrouping a side therefore leaves the columns alone.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Bases = tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
Dims = tuple[tuple[str, int], ...]
# One group of coordinates to move: (shift in the old vector, mask, shift in the new vector).
Move = tuple[int, int, int]

M = TypeVar("M", bound="LabelledMatrix")


@dataclass(frozen=True, slots=True, repr=False)
class LabelledMatrix:
    """A linear map between labelled F2 spaces, by the images of its input bits.

    `bases` gives, for each in-dim, the image of each of its bits as one coordinate per out-dim; `out_dims`
    gives each out-dim with its size. Equality is exact: order of dimensions and sizes count.
    """

    bases: Bases
    out_dims: Dims
    _columns: tuple[int, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        out_dims = _checked_dims(self.out_dims, "out-dim")
        bases = tuple(
            (_checked_name(name, "in-dim"), tuple(tuple(map(operator.index, basis)) for basis in vectors))
            for name, vectors in self.bases
        )
        _check_distinct([name for name, _ in bases], "in-dim")
        for name, vectors in bases:
            for index, basis in enumerate(vectors):
                _check_basis(f"{name}={1 << index}", basis, out_dims)
        shifts = _shifts(out_dims)
        columns = tuple(
            sum(value << shift for value, shift in zip(basis, shifts, strict=True))
            for _, vectors in bases
            for basis in vectors
        )
        object.__setattr__(self, "bases", bases)
        object.__setattr__(self, "out_dims", out_dims)
        object.__setattr__(self, "_columns", columns)

    @classmethod
    def _trusted(
        cls: type[M], in_bits: Iterable[tuple[str, int]], columns: tuple[int, ...], out_dims: Dims
    ) -> M:
        """Build from parts known to be consistent; `in_bits` gives the number of bits of each in-dim."""
        fields = [(shift, size - 1) for shift, (_, size) in zip(_shifts(out_dims), out_dims, strict=True)]
        vectors = [tuple([column >> shift & mask for shift, mask in fields]) for column in columns]
        bases: list[tuple[str, tuple[tuple[int, ...], ...]]] = []
        position = 0
        for name, bits in in_bits:
            bases.append((name, tuple(vectors[position : position + bits])))
            position += bits
        self = object.__new__(cls)
        object.__setattr__(self, "bases", tuple(bases))
        object.__setattr__(self, "out_dims", out_dims)
        object.__setattr__(self, "_columns", columns)
        return self

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
        ins = _checked_dims(in_dims, "in-dim")
        outs = _checked_dims(out_dims, "out-dim")
        in_bits, out_bits = _total_bits(ins), _total_bits(outs)
        if len(columns) != in_bits:
            raise ValueError(f"from_matrix: {len(columns)} columns for in-dims of {in_bits} bits")
        for index, column in enumerate(columns):
            if column >> out_bits:
                raise ValueError(f"from_matrix: column {index} = {column} does not fit in {out_bits} bits")
        return cls._trusted([(n, s.bit_length() - 1) for n, s in ins], tuple(columns), outs)

    # Questions

    def __hash__(self) -> int:
        return hash((self._columns, self.out_dims))

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
        """Each in-dim with its size, as `out_dims` has it for the outputs."""
        return tuple([(name, 1 << len(vectors)) for name, vectors in self.bases])

    @property
    def in_dim_names(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.bases])

    @property
    def out_dim_names(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.out_dims])

    @property
    def num_in_dims(self) -> int:
        return len(self.bases)

    @property
    def num_out_dims(self) -> int:
        return len(self.out_dims)

    @property
    def total_in_bits(self) -> int:
        return len(self._columns)

    @property
    def total_out_bits(self) -> int:
        return _total_bits(self.out_dims)

    def has_in_dim(self, name: str) -> bool:
        return any(name == other for other, _ in self.bases)

    def has_out_dim(self, name: str) -> bool:
        return any(name == other for other, _ in self.out_dims)

    def in_dim_bits(self, name: str) -> int:
        return len(self._vectors(name))

    def in_dim_size(self, name: str) -> int:
        return 1 << len(self._vectors(name))

    def out_dim_size(self, name: str) -> int:
        for other, size in self.out_dims:
            if name == other:
                return size
        raise ValueError(f"{name!r} is no out-dim; the out-dims are {_join(self.out_dim_names)}")

    def out_dim_bits(self, name: str) -> int:
        return self.out_dim_size(name).bit_length() - 1

    def basis(self, in_dim: str, index: int) -> tuple[int, ...]:
        """Image of bit `index` of `in_dim`, one coordinate per out-dim."""
        vectors = self._vectors(in_dim)
        if not 0 <= index < len(vectors):
            raise ValueError(f"basis: in-dim {in_dim!r} has {len(vectors)} bits, no bit {index}")
        return vectors[index]

    def matrix(self) -> tuple[int, ...]:
        """All columns, flattened on both sides with the first dimension most minor."""
        return self._columns

    def columns(self, in_dim: str) -> tuple[int, ...]:
        """Return the flattened columns of one in-dim."""
        position = 0
        for name, vectors in self.bases:
            if name == in_dim:
                return self._columns[position : position + len(vectors)]
            position += len(vectors)
        raise ValueError(f"{in_dim!r} is no in-dim; the in-dims are {_join(self.in_dim_names)}")

    def _vectors(self, in_dim: str) -> tuple[tuple[int, ...], ...]:
        for name, vectors in self.bases:
            if name == in_dim:
                return vectors
        raise ValueError(f"{in_dim!r} is no in-dim; the in-dims are {_join(self.in_dim_names)}")

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
        _check_permutation("transpose_ins", in_dims, self.in_dim_names)
        columns = tuple([column for name in in_dims for column in self.columns(name)])
        return self._trusted([(name, self.in_dim_bits(name)) for name in in_dims], columns, self.out_dims)

    def transpose_outs(self: M, out_dims: Sequence[str]) -> M:
        """Reorder the out-dims; the map by names stays the same.

        Requires: `out_dims` is a permutation of the out-dims.

        >>> m = LabelledMatrix.from_matrix((1, 2, 4), [("lane", 8)], [("dim0", 2), ("dim1", 4)])
        >>> m.transpose_outs(["dim1", "dim0"]).bases
        (('lane', ((0, 1), (1, 0), (2, 0))),)
        """
        _check_permutation("transpose_outs", out_dims, self.out_dim_names)
        new = tuple([(name, self.out_dim_size(name)) for name in out_dims])
        return self._trusted(self._in_bits(), _realign(self._columns, self.out_dims, new), new)

    def reshape_ins(self: M, in_dims: Iterable[tuple[str, int]]) -> M:
        """Regroup the input bits, first dimension most minor.

        Requires: the sizes multiply to the number of inputs.
        Ensures: reshape_ins(d).matrix() == matrix().

        >>> m = LabelledMatrix.from_matrix((1, 2, 4), [("lane", 8)], [("dim0", 8)])
        >>> m.reshape_ins([("register", 2), ("lane", 4)]).bases
        (('register', ((1,),)), ('lane', ((2,), (4,))))
        """
        new = _checked_dims(in_dims, "in-dim")
        if _total_bits(new) != len(self._columns):
            raise ValueError(f"reshape_ins: {_sizes(new)} do not multiply to {_sizes(self.in_dims)}")
        return self._trusted(
            [(name, size.bit_length() - 1) for name, size in new], self._columns, self.out_dims
        )

    def reshape_outs(self: M, out_dims: Iterable[tuple[str, int]]) -> M:
        """Regroup the output bits, first dimension most minor.

        Requires: the sizes multiply to the number of outputs.
        Ensures: reshape_outs(d).matrix() == matrix().

        >>> m = LabelledMatrix.from_matrix((1, 2, 4), [("lane", 8)], [("dim0", 8)])
        >>> m.reshape_outs([("dim0", 2), ("dim1", 4)]).bases
        (('lane', ((1, 0), (0, 1), (0, 2))),)
        """
        new = _checked_dims(out_dims, "out-dim")
        if _total_bits(new) != self.total_out_bits:
            raise ValueError(f"reshape_outs: {_sizes(new)} do not multiply to {_sizes(self.out_dims)}")
        return self._trusted(self._in_bits(), self._columns, new)

    def flatten_ins(self: M, name: str | None = None) -> M:
        """Join the in-dims into one, called like the first unless `name` is given."""
        if name is None:
            if not self.bases:
                return self
            name = self.bases[0][0]
        return self._trusted([(name, len(self._columns))], self._columns, self.out_dims)

    def flatten_outs(self: M, name: str | None = None) -> M:
        """Join the out-dims into one, called like the first unless `name` is given."""
        if name is None:
            if not self.out_dims:
                return self
            name = self.out_dims[0][0]
        return self._trusted(self._in_bits(), self._columns, ((name, 1 << self.total_out_bits),))

    # Dimensions: cutting and joining

    def sublayout(self: M, in_dims: str | Iterable[str], out_dims: str | Iterable[str]) -> M:
        """Restrict to these in-dims, all others zero, and project onto these out-dims.

        Requires: the names are dimensions. Their order here is irrelevant; the layout's order stays.

        >>> m = LabelledMatrix.from_matrix((1, 2), [("lane", 2), ("warp", 2)], [("dim0", 2), ("dim1", 2)])
        >>> m.sublayout("warp", ["dim1"]).bases
        (('warp', ((1,),)),)
        """
        ins = _known_names("sublayout", in_dims, self.in_dim_names, "in-dim")
        outs = _known_names("sublayout", out_dims, self.out_dim_names, "out-dim")
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
        return self._trusted(in_bits, _realign(tuple(columns), self.out_dims, new), new)

    def sublayout_is_zero(self, in_dims: str | Iterable[str], out_dims: str | Iterable[str]) -> bool:
        """Tell whether these in-dims never reach these out-dims."""
        ins = _known_names("sublayout_is_zero", in_dims, self.in_dim_names, "in-dim")
        outs = _known_names("sublayout_is_zero", out_dims, self.out_dim_names, "out-dim")
        mask = 0
        shift = 0
        for name, size in self.out_dims:
            if name in outs:
                mask |= (size - 1) << shift
            shift += size.bit_length() - 1
        return not any(column & mask for name in ins for column in self.columns(name))

    def concat_ins(self: M, other: M) -> M:
        """L(x, y) = self(x) + other(y), on the in-dims of both.

        Requires: equal out-dims, no common in-dim.
        """
        if self.out_dims != other.out_dims:
            raise ValueError(
                f"concat_ins: out-dims {_sizes(self.out_dims)} and {_sizes(other.out_dims)} differ"
            )
        _check_disjoint("concat_ins", self.in_dim_names, other.in_dim_names, "in-dim")
        return self._trusted(
            self._in_bits() + other._in_bits(), self._columns + other._columns, self.out_dims
        )

    def concat_outs(self: M, other: M) -> M:
        """L(x) = (self(x), other(x)), onto the out-dims of both.

        Requires: equal in-dims, no common out-dim.
        """
        if self.in_dims != other.in_dims:
            raise ValueError(
                f"concat_outs: in-dims {_sizes(self.in_dims)} and {_sizes(other.in_dims)} differ"
            )
        _check_disjoint("concat_outs", self.out_dim_names, other.out_dim_names, "out-dim")
        shift = self.total_out_bits
        columns = tuple([a | b << shift for a, b in zip(self._columns, other._columns, strict=True)])
        return self._trusted(self._in_bits(), columns, self.out_dims + other.out_dims)

    # Dimensions: names and sizes

    def rename_ins(self: M, names: Mapping[str, str]) -> M:
        """Rename the in-dims that `names` mentions.

        Requires: `names` mentions in-dims only, and the new names are distinct.
        """
        _known_names("rename_ins", names, self.in_dim_names, "in-dim")
        in_bits = [(names.get(name, name), bits) for name, bits in self._in_bits()]
        _check_distinct([name for name, _ in in_bits], "in-dim")
        return self._trusted(in_bits, self._columns, self.out_dims)

    def rename_outs(self: M, names: Mapping[str, str]) -> M:
        """Rename the out-dims that `names` mentions.

        Requires: `names` mentions out-dims only, and the new names are distinct.
        """
        _known_names("rename_outs", names, self.out_dim_names, "out-dim")
        out_dims = tuple([(names.get(name, name), size) for name, size in self.out_dims])
        _check_distinct([name for name, _ in out_dims], "out-dim")
        return self._trusted(self._in_bits(), self._columns, out_dims)

    def unsqueeze_ins(self: M, name: str) -> M:
        """Append an in-dim of size 1."""
        _check_disjoint("unsqueeze_ins", self.in_dim_names, (name,), "in-dim")
        return self._trusted([*self._in_bits(), (name, 0)], self._columns, self.out_dims)

    def unsqueeze_outs(self: M, name: str) -> M:
        """Append an out-dim of size 1."""
        _check_disjoint("unsqueeze_outs", self.out_dim_names, (name,), "out-dim")
        return self._trusted(self._in_bits(), self._columns, (*self.out_dims, (name, 1)))

    def squeeze_ins(self: M, name: str) -> M:
        """Drop an in-dim of size 1."""
        if self.in_dim_size(name) != 1:
            raise ValueError(f"squeeze_ins: in-dim {name!r} has size {self.in_dim_size(name)}, not 1")
        return self._trusted([dim for dim in self._in_bits() if dim[0] != name], self._columns, self.out_dims)

    def squeeze_outs(self: M, name: str) -> M:
        """Drop an out-dim of size 1."""
        if self.out_dim_size(name) != 1:
            raise ValueError(f"squeeze_outs: out-dim {name!r} has size {self.out_dim_size(name)}, not 1")
        return self._trusted(
            self._in_bits(), self._columns, tuple([dim for dim in self.out_dims if dim[0] != name])
        )

    def resize_in(self: M, name: str, size: int) -> M:
        """Give in-dim `name` this size: drop its top bits, or add bits that map to zero.

        >>> m = LabelledMatrix.from_matrix((1, 2), [("lane", 4)], [("dim0", 4)])
        >>> m.resize_in("lane", 8).matrix(), m.resize_in("lane", 2).matrix()
        ((1, 2, 0), (1,))
        """
        self._vectors(name)
        wanted = _bits(size, f"resize_in: in-dim {name!r}")
        in_bits = [(other, wanted if other == name else bits) for other, bits in self._in_bits()]
        columns: list[int] = []
        for other, bits in in_bits:
            old = self.columns(other)
            columns += old[:bits] + (0,) * (bits - len(old))
        return self._trusted(in_bits, tuple(columns), self.out_dims)

    def resize_out(self: M, name: str, size: int) -> M:
        """Give out-dim `name` this size: keep the coordinate modulo a smaller one, or leave room in a larger.

        >>> m = LabelledMatrix.from_matrix((1, 2), [("lane", 4)], [("dim0", 4)])
        >>> m.resize_out("dim0", 2).matrix()
        (1, 0)
        """
        self.out_dim_size(name)
        _bits(size, f"resize_out: out-dim {name!r}")
        new = tuple([(other, size if other == name else old) for other, old in self.out_dims])
        return self._trusted(self._in_bits(), _realign(self._columns, self.out_dims, new), new)

    def remove_zero_bases(self: M, in_dim: str) -> M:
        """Drop the bits of `in_dim` that map to zero.

        >>> LabelledMatrix.from_matrix((1, 0, 2), [("lane", 8)], [("dim0", 4)]).remove_zero_bases("lane").matrix()
        (1, 2)
        """
        kept = [column for column in self.columns(in_dim) if column]
        in_bits = [(name, len(kept) if name == in_dim else bits) for name, bits in self._in_bits()]
        columns = [
            column for name, _ in in_bits for column in (kept if name == in_dim else self.columns(name))
        ]
        return self._trusted(in_bits, tuple(columns), self.out_dims)


def _shifts(dims: Dims) -> list[int]:
    """Position of each dimension in a flattened vector."""
    shifts: list[int] = []
    shift = 0
    for _, size in dims:
        shifts.append(shift)
        shift += size.bit_length() - 1
    return shifts


def _total_bits(dims: Iterable[tuple[str, int]]) -> int:
    return sum([size.bit_length() - 1 for _, size in dims])


def _realign(columns: tuple[int, ...], old: Dims, new: Dims) -> tuple[int, ...]:
    """Move flattened columns from the dimensions `old` to `new`, matched by name.

    A dimension that `new` lacks is dropped, one that grows leaves zeros, one that shrinks is truncated.
    """
    if old == new:
        return columns
    target = {name: (shift, size - 1) for shift, (name, size) in zip(_shifts(new), new, strict=True)}
    moves: list[Move] = []
    for shift, (name, size) in zip(_shifts(old), old, strict=True):
        if name in target:
            to, mask = target[name]
            if mask and size > 1:
                moves.append((shift, mask & (size - 1), to))
    result: list[int] = []
    for column in columns:
        moved = 0
        for shift, mask, to in moves:
            moved |= (column >> shift & mask) << to
        result.append(moved)
    return tuple(result)


def _join(names: Iterable[str]) -> str:
    return "[" + ", ".join(names) + "]"


def _sizes(dims: Iterable[tuple[str, int]]) -> str:
    return "[" + ", ".join(f"{name}={size}" for name, size in dims) + "]"


def _bits(size: int, what: str) -> int:
    if size < 1 or size & (size - 1):
        raise ValueError(f"{what} has size {size}, which is not a power of two")
    return size.bit_length() - 1


def _checked_name(name: str, what: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the name of an {what} is a string, got {name!r}")
    return name


def _checked_dims(dims: Iterable[tuple[str, int]], what: str) -> Dims:
    result = tuple([(_checked_name(name, what), operator.index(size)) for name, size in dims])
    for name, size in result:
        _bits(size, f"{what} {name!r}")
    _check_distinct([name for name, _ in result], what)
    return result


def _check_basis(label: str, basis: tuple[int, ...], out_dims: Dims) -> None:
    if len(basis) != len(out_dims):
        raise ValueError(
            f"basis {label} -> {basis} has {len(basis)} coordinates for {len(out_dims)} out-dims"
        )
    for value, (name, size) in zip(basis, out_dims, strict=True):
        if not 0 <= value < size:
            raise ValueError(f"basis {label} -> {basis} leaves out-dim {name!r} of size {size}")


def _check_distinct(names: Sequence[str], what: str) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"{what} names must be distinct, got {_join(names)}")


def _check_permutation(operation: str, names: Sequence[str], known: tuple[str, ...]) -> None:
    if len(names) != len(known) or set(names) != set(known):
        raise ValueError(f"{operation}: {_join(names)} is no permutation of {_join(known)}")


def _check_disjoint(operation: str, a: Sequence[str], b: Sequence[str], what: str) -> None:
    for name in b:
        if name in a:
            raise ValueError(f"{operation}: {what} {name!r} is already there")


def _known_names(
    operation: str, names: str | Iterable[str], known: tuple[str, ...], what: str
) -> frozenset[str]:
    result = frozenset((names,) if isinstance(names, str) else names)
    for name in sorted(result):
        if name not in known:
            raise ValueError(f"{operation}: {name!r} is no {what}; the {what}s are {_join(known)}")
    return result
