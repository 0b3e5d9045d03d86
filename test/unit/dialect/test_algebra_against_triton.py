"""The algebra against the `LinearLayout` that the Triton wheel binds, operation by operation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from strategies import IN_DIMS, OUT_DIMS, dims, distributed_layouts, layouts, surjective_layouts

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.triton_versions import Span, installed_release

oracle = pytest.importorskip("triton._C.libtriton").linear_layout.LinearLayout

many = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Few names for both sides, so that products share dimensions and orders conflict.
SHARED = ("x", "y", "z")

CHOOSES_AS_WE_DO = Span((3, 6), (3, 8))
"""Of several solutions Triton takes the one that we take; later it takes others, or aborts the process."""

same_choices = pytest.mark.skipif(
    installed_release() not in CHOOSES_AS_WE_DO, reason="Triton chooses among solutions in another way"
)


def theirs(layout: LinearLayout) -> Any:
    """Return the same layout, as Triton's object."""
    return oracle.from_bases(
        [(name, [list(basis) for basis in vectors]) for name, vectors in layout.bases],
        [name for name, _ in layout.out_dims],
        [size for _, size in layout.out_dims],
        False,
    )


def same(ours: LinearLayout, triton: Any) -> None:
    """Compare dimensions, sizes, order, every basis and the text."""
    assert [(name, [list(basis) for basis in vectors]) for name, vectors in ours.bases] == triton.bases
    assert list(ours.out_dims) == triton.out_dims
    assert str(ours) == str(triton)


@many
@given(layouts())
def test_construction_and_queries(layout: LinearLayout) -> None:
    triton = theirs(layout)
    same(layout, triton)
    assert list(layout.in_dim_names) == triton.get_in_dim_names()
    assert list(layout.out_dim_names) == triton.get_out_dim_names()
    assert layout.num_out_dims == triton.num_out_dims
    assert layout.is_surjective() == triton.is_surjective()
    assert layout.is_injective() == triton.is_injective()
    assert layout.is_invertible() == triton.is_invertible()


@many
@given(layouts(min_dims=1))
def test_matrix(layout: LinearLayout) -> None:
    rows = [[column >> row & 1 for column in layout.matrix()] for row in range(layout.total_out_bits)]
    assert rows == theirs(layout).get_matrix_view()


@pytest.mark.parametrize("size", [1, 2, 8, 64])
@pytest.mark.parametrize("stride", [1, 2, 16])
def test_one_dimensional_layouts(size: int, stride: int) -> None:
    same(LinearLayout.identity_1d(size, "a", "b"), oracle.identity_1d(size, "a", "b"))
    same(LinearLayout.strided_1d(size, stride, "a", "b"), oracle.strided_1d(size, stride, "a", "b"))
    same(LinearLayout.zeros_1d(size, "a", "b"), oracle.zeros_1d(size, "a", "b"))
    same(LinearLayout.zeros_1d(size, "a", "b", stride), oracle.zeros_1d(size, "a", "b", stride))


def test_empty() -> None:
    same(LinearLayout.empty(), oracle())


@many
@given(surjective_layouts())
def test_from_bases_infers_sizes(layout: LinearLayout) -> None:
    bases = [(name, [list(basis) for basis in vectors]) for name, vectors in layout.bases]
    names = list(layout.out_dim_names)
    same(LinearLayout.from_bases(bases, names), oracle.from_bases(bases, names))


@many
@given(st.data())
def test_compose(data: st.DataObject) -> None:
    inner = data.draw(layouts())
    grown = [(name, size << data.draw(st.integers(0, 1))) for name, size in inner.out_dims]
    outer = data.draw(layouts(in_dims=data.draw(st.permutations(grown)), out_names=("p", "q")))
    same(inner.compose(outer), theirs(inner).compose(theirs(outer)))


@many
@given(
    layouts(in_names=SHARED, out_names=SHARED, max_bits=5),
    layouts(in_names=SHARED, out_names=SHARED, max_bits=5),
)
def test_product(a: LinearLayout, b: LinearLayout) -> None:
    same(a * b, theirs(a) * theirs(b))


@many
@given(surjective_layouts())
@example(LinearLayout.from_bases([("w", [[1], [2]]), ("o", [[0]])], ["o"]))
def test_pseudoinvert(layout: LinearLayout) -> None:
    same(layout.pseudoinvert(), theirs(layout).pseudoinvert())


@same_choices
@many
@given(surjective_layouts(in_names=("x", "y", "dim0"), out_names=("dim0", "dim1"), max_copies=2))
def test_pseudoinvert_with_shared_names(layout: LinearLayout) -> None:
    assume(_triton_can_solve(_identity(layout), layout))
    same(layout.pseudoinvert(), theirs(layout).pseudoinvert())


def _identity(layout: LinearLayout) -> LinearLayout:
    result = LinearLayout.empty()
    for name, size in layout.out_dims:
        result *= LinearLayout.identity_1d(size, name, name)
    return result


def _triton_can_solve(layout: LinearLayout, outer: LinearLayout) -> bool:
    """Triton sets equal in-dims aside and aborts when the others alone have no solution."""
    names = list(layout.out_dim_names)
    left = []
    for one in (layout, outer):
        other = outer if one is layout else layout
        left.append([n for n in one.in_dim_names if not _same_dim(one, other, n, names)])
    if bool(left[0]) != bool(left[1]):
        return False
    rest = outer.sublayout(left[1], names).transpose_outs(names)
    others = layout.sublayout(left[0], names)
    sizes = dict(rest.out_dims)
    others = LinearLayout(others.bases, tuple((name, sizes[name]) for name in others.out_dim_names))
    others = others.transpose_outs(names)
    return f2.rank((*rest.matrix(), *others.matrix())) == f2.rank(rest.matrix())


def _same_dim(a: LinearLayout, b: LinearLayout, name: str, outs: list[str]) -> bool:
    if not b.has_in_dim(name):
        return False
    first, second = (one.sublayout([name], outs).transpose_outs(outs) for one in (a, b))
    return first == second


@same_choices
@many
@given(st.data())
def test_invert_and_compose(data: st.DataObject) -> None:
    outer = data.draw(surjective_layouts(out_names=OUT_DIMS))
    outs = [(name, max(1, size >> data.draw(st.integers(0, 1)))) for name, size in outer.out_dims]
    layout = data.draw(layouts(in_names=IN_DIMS, out_dims=data.draw(st.permutations(outs))))
    assume(_triton_can_solve(layout, outer))
    same(layout.invert_and_compose(outer), theirs(layout).invert_and_compose(theirs(outer)))


@same_choices
@many
@given(st.data())
def test_conversion_between_distributed_layouts(data: st.DataObject) -> None:
    shape = data.draw(dims(("dim0", "dim1"), 6, min_dims=1))
    src = data.draw(distributed_layouts(out_dims=shape))
    dst = data.draw(distributed_layouts(out_dims=shape))
    if data.draw(st.booleans()):  # the common case: one in-dim is laid out alike on both sides
        name = data.draw(st.sampled_from([REGISTER, LANE, WARP]))
        bases = [(n, src.bases[i][1] if n == name else v) for i, (n, v) in enumerate(dst.bases)]
        dst = LinearLayout(tuple(bases), dst.out_dims)
        assume(dst.is_surjective())
    assume(_triton_can_solve(src, dst))
    same(src.invert_and_compose(dst), theirs(src).invert_and_compose(theirs(dst)))


@many
@given(st.data())
def test_equality_of_near_misses(data: st.DataObject) -> None:
    layout = data.draw(layouts(min_dims=1))
    name = data.draw(st.sampled_from(layout.out_dim_names))
    for other in (
        LinearLayout(layout.bases, tuple((n, size << (n == name)) for n, size in layout.out_dims)),
        layout.transpose_outs(data.draw(st.permutations(layout.out_dim_names))),
        layout.transpose_ins(data.draw(st.permutations(layout.in_dim_names))),
    ):
        assert (layout == other) == (theirs(layout) == theirs(other))
