"""Hypothesis strategies for F2 matrices and linear layouts.

Layouts include in-dims and out-dims of size 1, zero columns (copies), no in-dims or out-dims at all, and
dimensions in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from hypothesis import strategies as st

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout, dim_names

IN_DIMS = (REGISTER, LANE, WARP, BLOCK)
OUT_DIMS = dim_names(3)
P = ParamSpec("P")
Value = TypeVar("Value")


def made_once(function: Callable[P, st.SearchStrategy[Value]]) -> Callable[P, st.SearchStrategy[Value]]:
    """The same strategy for the same arguments: Hypothesis validates each new one, which takes long."""
    made = lru_cache(maxsize=1024)(function)

    @wraps(function)
    def strategy(*args: P.args, **kwargs: P.kwargs) -> st.SearchStrategy[Value]:
        try:
            return made(*args, **kwargs)
        except TypeError:  # an argument is a list
            return function(*args, **kwargs)

    return strategy


@made_once
def vectors(bits: int) -> st.SearchStrategy[int]:
    """Vectors of `bits` coordinates; zero and unit vectors come up often."""
    anything = st.integers(0, (1 << bits) - 1)
    if bits == 0:
        return anything
    return st.one_of(anything, st.just(0), st.integers(0, bits - 1).map(lambda i: 1 << i))


@made_once
def matrices(columns: int, rows: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Any matrix of this size."""
    return st.lists(vectors(rows), min_size=columns, max_size=columns).map(tuple)


@made_once
def pairs(size: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Pairs of different places, up to twice as many as there are places."""
    places = st.integers(0, size - 1)
    return st.lists(st.tuples(places, places).filter(lambda p: p[0] != p[1]), max_size=2 * size)


@made_once
@st.composite
def invertible_matrices(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """Invertible matrices, from a permutation by adding columns to each other."""
    columns = list(draw(st.permutations([1 << i for i in range(size)])))
    if size > 1:
        for a, b in draw(pairs(size)):
            columns[a] ^= columns[b]
    return tuple(columns)


@made_once
@st.composite
def surjective_matrices(draw: st.DrawFn, columns: int, rows: int) -> tuple[int, ...]:
    """Matrices of full row rank, with `columns` >= `rows`."""
    extra = draw(matrices(columns - rows, rows))
    core = draw(invertible_matrices(rows))
    return tuple(draw(st.permutations(core + extra)))


@made_once
@st.composite
def dims(
    draw: st.DrawFn, names: Sequence[str], max_bits: int = 6, *, min_dims: int = 0
) -> tuple[tuple[str, int], ...]:
    """Some of `names` in some order, with sizes whose product has at most `max_bits` bits."""
    chosen = draw(st.lists(st.sampled_from(names), unique=True, min_size=min_dims, max_size=len(names)))
    result = []
    left = max_bits
    for name in chosen:
        bits = draw(st.integers(0, min(3, left)))
        left -= bits
        result.append((name, 1 << bits))
    return tuple(result)


def bits_of(sizes: Sequence[tuple[str, int]]) -> int:
    """Return the number of bits of all dimensions together."""
    return sum(size.bit_length() - 1 for _, size in sizes)


@made_once
@st.composite
def layouts(
    draw: st.DrawFn,
    *,
    in_names: Sequence[str] = IN_DIMS,
    out_names: Sequence[str] = OUT_DIMS,
    in_dims: Sequence[tuple[str, int]] | None = None,
    out_dims: Sequence[tuple[str, int]] | None = None,
    max_bits: int = 6,
    min_dims: int = 0,
) -> LinearLayout:
    """Any layout, injective or surjective or neither."""
    ins = draw(dims(in_names, max_bits, min_dims=min_dims)) if in_dims is None else in_dims
    outs = draw(dims(out_names, max_bits, min_dims=min_dims)) if out_dims is None else out_dims
    return LinearLayout.from_matrix(draw(matrices(bits_of(ins), bits_of(outs))), ins, outs)


@made_once
@st.composite
def surjective_layouts(
    draw: st.DrawFn,
    *,
    in_names: Sequence[str] = IN_DIMS,
    out_names: Sequence[str] = OUT_DIMS,
    out_dims: Sequence[tuple[str, int]] | None = None,
    max_bits: int = 5,
    max_copies: int = 3,
    min_dims: int = 1,
) -> LinearLayout:
    """Layouts onto all of their out-dims, with up to `max_copies` input bits more than needed."""
    outs = draw(dims(out_names, max_bits, min_dims=min_dims)) if out_dims is None else tuple(out_dims)
    rows = bits_of(outs)
    columns = rows + draw(st.integers(0, max_copies))
    names = draw(st.lists(st.sampled_from(in_names), unique=True, min_size=1, max_size=len(in_names)))
    cuts = sorted(draw(st.lists(st.integers(0, columns), min_size=len(names) - 1, max_size=len(names) - 1)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, columns], strict=True)]
    ins = [(name, 1 << bits) for name, bits in zip(names, sizes, strict=True)]
    return LinearLayout.from_matrix(draw(surjective_matrices(columns, rows)), ins, outs)


@made_once
@st.composite
def invertible_layouts(
    draw: st.DrawFn, *, in_names: Sequence[str] = IN_DIMS, out_names: Sequence[str] = OUT_DIMS
) -> LinearLayout:
    """Bijections."""
    return draw(surjective_layouts(in_names=in_names, out_names=out_names, max_copies=0))


@made_once
@st.composite
def distributed_layouts(
    draw: st.DrawFn, *, out_dims: Sequence[tuple[str, int]], lane_bits: int = 3, warp_bits: int = 1
) -> LinearLayout:
    """Layouts of registers, lanes and warps onto one tensor; each column is zero or a unit vector.

    Every element is held at least once; zero columns anywhere make copies.
    """
    units = list(f2.identity(bits_of(out_dims)))
    copies = max(0, lane_bits + warp_bits - len(units)) + draw(st.integers(0, 3))
    columns = draw(st.permutations(units + [0] * copies))
    registers = len(columns) - lane_bits - warp_bits
    ins = [(REGISTER, 1 << registers), (LANE, 1 << lane_bits), (WARP, 1 << warp_bits)]
    return LinearLayout.from_matrix(tuple(columns), ins, out_dims)


@st.composite
def dealt_layouts(
    draw: st.DrawFn, *, max_rank: int = 3, max_bits: int = 2, last: int | None = None
) -> LinearLayout:
    """Layouts whose unit vectors, each once, and zeros are dealt out to all in-dims; `last`: the last size."""
    rank = draw(st.integers(1, max_rank))
    bits = [draw(st.integers(0, max_bits)) for _ in range(rank)]
    if last is not None:
        bits[-1] = last.bit_length() - 1
    vectors = [
        tuple(1 << bit if place == axis else 0 for place in range(rank))
        for axis in range(rank)
        for bit in range(bits[axis])
    ]
    vectors = draw(st.permutations(vectors + [(0,) * rank] * draw(st.integers(0, 3))))
    owners = [draw(st.sampled_from(IN_DIMS)) for _ in vectors]
    groups = (
        (name, tuple(v for v, owner in zip(vectors, owners, strict=True) if owner == name)) for name in IN_DIMS
    )
    return LinearLayout(tuple(groups), tuple(zip(dim_names(rank), (1 << b for b in bits), strict=True)))


@st.composite
def inputs_of(draw: st.DrawFn, layout: LinearLayout) -> dict[str, int]:
    """Return one input of this layout, by names."""
    return {name: draw(st.integers(0, size - 1)) for name, size in layout.in_dims}
