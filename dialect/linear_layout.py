"""Linear layouts: linear maps over F2 between named dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from triton_linear.dialect import f2
from triton_linear.dialect.labelled_matrix import (
    Dims,
    LabelledMatrix,
    _bits,
    _checked_dims,
    _join,
    _realign,
    _sizes,
)

REGISTER = "register"
LANE = "lane"
WARP = "warp"
BLOCK = "block"
OFFSET = "offset"


@lru_cache(maxsize=None)
def dim_names(rank: int) -> tuple[str, ...]:
    """Names of the tensor dimensions, ("dim0", ..., "dim<rank-1>")."""
    return tuple([f"dim{i}" for i in range(rank)])


@lru_cache(maxsize=4096)
def _rank(columns: tuple[int, ...]) -> int:
    return f2.rank(columns)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LinearLayout(LabelledMatrix):
    @classmethod
    def empty(cls) -> LinearLayout:
        return cls._trusted((), (), ())

    @classmethod
    def identity_1d(cls, size: int, in_dim: str, out_dim: str) -> LinearLayout:
        return cls.strided_1d(size, 1, in_dim, out_dim)

    @classmethod
    def strided_1d(cls, size: int, stride: int, in_dim: str, out_dim: str) -> LinearLayout:
        bits = _bits(size, f"strided_1d: in-dim {in_dim!r}")
        shift = _bits(stride, "strided_1d: stride")
        columns = tuple([1 << i + shift for i in range(bits)])
        return cls._trusted([(in_dim, bits)], columns, ((out_dim, size * stride),))

    @classmethod
    def zeros_1d(cls, size: int, in_dim: str, out_dim: str, out_size: int = 1) -> LinearLayout:
        bits = _bits(size, f"zeros_1d: in-dim {in_dim!r}")
        _bits(out_size, f"zeros_1d: out-dim {out_dim!r}")
        return cls._trusted([(in_dim, bits)], (0,) * bits, ((out_dim, out_size),))

    @classmethod
    def from_bases(
        cls,
        bases: Mapping[str, Sequence[Sequence[int]]] | Iterable[tuple[str, Sequence[Sequence[int]]]],
        out_dim_names: Mapping[str, int] | Iterable[str] | Iterable[tuple[str, int]],
        out_dim_sizes: Sequence[int] | None = None,
        require_surjective: bool = True,
    ) -> LinearLayout:
        pairs = bases.items() if isinstance(bases, Mapping) else bases
        frozen = tuple([(name, tuple([tuple(basis) for basis in vectors])) for name, vectors in pairs])
        outs = list(out_dim_names.items() if isinstance(out_dim_names, Mapping) else out_dim_names)
        out_dims: Dims
        names = [dim if isinstance(dim, str) else dim[0] for dim in outs]
        sizes: list[int] = [dim[1] for dim in outs if not isinstance(dim, str)]
        if out_dim_sizes is not None:
            sizes = list(out_dim_sizes)
        elif not sizes:
            sizes = [1] * len(names)
            for _, vectors in frozen:
                for basis in vectors:
                    for i, value in enumerate(basis[: len(sizes)]):
                        sizes[i] = max(sizes[i], 1 << value.bit_length())
        if len(sizes) != len(names):
            raise ValueError(f"from_bases: {len(sizes)} sizes for {len(names)} out-dims")
        out_dims = _checked_dims(zip(names, sizes, strict=True), "out-dim")
        layout = cls(frozen, out_dims)
        if require_surjective and not layout.is_surjective():
            raise ValueError(
                f"from_bases: not surjective: rank {_rank(layout._columns)} of {layout.total_out_bits} bits"
            )
        return layout

    def apply(self, inputs: Mapping[str, int]) -> dict[str, int]:
        x = 0
        shift = 0
        if len(inputs) != len(self.bases):
            raise ValueError(f"apply: inputs {_join(inputs)} are not the in-dims {_join(self.in_dim_names)}")
        for name, vectors in self.bases:
            bits = len(vectors)
            if name not in inputs:
                raise ValueError(
                    f"apply: inputs {_join(inputs)} are not the in-dims {_join(self.in_dim_names)}"
                )
            value = inputs[name]
            if value >> bits:
                raise ValueError(f"apply: {name}={value} is outside in-dim {name!r} of size {1 << bits}")
            x |= value << shift
            shift += bits
        flat = f2.multiply_vector(self._columns, x)
        result: dict[str, int] = {}
        for name, size in self.out_dims:
            result[name] = flat & (size - 1)
            flat >>= size.bit_length() - 1
        return result

    def compose(self, outer: LinearLayout) -> LinearLayout:
        ins = outer.in_dims
        sizes = dict(ins)
        for name, size in self.out_dims:
            if sizes.get(name, 0) < size:
                raise ValueError(
                    f"compose: out-dim {name}={size} does not fit in outer's in-dims {_sizes(ins)}"
                )
        if len(sizes) != len(self.out_dims):
            raise ValueError(
                f"compose: out-dims {_sizes(self.out_dims)} are not outer's in-dims {_sizes(ins)}"
            )
        columns = f2.multiply(outer._columns, _realign(self._columns, self.out_dims, ins))
        return self._trusted(self._in_bits(), columns, outer.out_dims)

    def __mul__(self, outer: LinearLayout) -> LinearLayout:
        out_dims = _product_dims(self.out_dims, outer.out_dims, "out-dim")
        in_dims = _product_dims(self.in_dims, outer.in_dims, "in-dim")
        inner_columns = _realign(self._columns, self.out_dims, out_dims)
        minor = dict(self.out_dims)
        # The outer coordinates go above the inner ones of the same name.
        grown = tuple([(name, size * minor.get(name, 1)) for name, size in outer.out_dims])
        shifted = LinearLayout._trusted(
            outer._in_bits(), _raise(outer._columns, outer.out_dims, minor), grown
        )
        outer_columns = _realign(shifted._columns, grown, out_dims)
        inner_by_name = _split(inner_columns, self._in_bits())
        outer_by_name = _split(outer_columns, outer._in_bits())
        columns = tuple(
            [c for name, _ in in_dims for c in inner_by_name.get(name, ()) + outer_by_name.get(name, ())]
        )
        return self._trusted([(name, size.bit_length() - 1) for name, size in in_dims], columns, out_dims)

    def is_surjective(self) -> bool:
        return _rank(self._columns) == self.total_out_bits

    def is_injective(self) -> bool:
        return _rank(self._columns) == len(self._columns)

    def is_invertible(self) -> bool:
        return len(self._columns) == self.total_out_bits and self.is_surjective()


def _split(columns: tuple[int, ...], in_bits: list[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    result: dict[str, tuple[int, ...]] = {}
    position = 0
    for name, bits in in_bits:
        result[name] = columns[position : position + bits]
        position += bits
    return result


def _raise(columns: tuple[int, ...], dims: Dims, minor: Mapping[str, int]) -> tuple[int, ...]:
    result: list[int] = []
    for column in columns:
        moved = 0
        shift = 0
        for name, size in dims:
            below = minor.get(name, 1).bit_length() - 1
            moved |= ((column & (size - 1)) << below) << shift
            column >>= size.bit_length() - 1
            shift += below + size.bit_length() - 1
        result.append(moved)
    return tuple(result)


def _product_dims(inner: Dims, outer: Dims, what: str) -> Dims:
    sizes = dict(inner)
    for name, size in outer:
        sizes[name] = sizes.get(name, 1) * size
    return tuple(sizes.items())
