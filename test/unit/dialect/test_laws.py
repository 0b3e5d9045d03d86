"""The laws of the algebra of linear layouts as maps, each stated once.

Every law is checked on random layouts with size-1 dimensions, zero columns (copies) and empty sides.
`apply` and `==` speak of layouts by names; `matrix` speaks of the flattened map. The laws of what is done to
their dimensions are in `test_laws_dimensions.py`.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from laws_support import A, B, C, identity, laws
from strategies import dims, inputs_of, invertible_layouts, layouts, surjective_layouts

from triton_linear.dialect import f2
from triton_linear.dialect.dimensions import merge_names, multiply_dims
from triton_linear.dialect.linear_layout import LinearLayout


def chain(draw: st.DataObject, *names: tuple[str, ...]) -> list[LinearLayout]:
    """Layouts of which each takes the outputs of the one before."""
    spaces = [draw.draw(dims(side, 5)) for side in names]
    return [draw.draw(layouts(in_dims=ins, out_dims=outs)) for ins, outs in pairwise(spaces)]


# The map


@laws
@given(st.data())
def test_linearity(data: st.DataObject) -> None:
    """L(x xor y) = L(x) xor L(y), and L(0) = 0."""
    layout = data.draw(layouts())
    x, y = data.draw(inputs_of(layout)), data.draw(inputs_of(layout))
    both = layout.apply({name: x[name] ^ y[name] for name in x})
    lx, ly = layout.apply(x), layout.apply(y)
    assert both == {name: lx[name] ^ ly[name] for name in lx}
    assert not any(layout.apply(dict.fromkeys(x, 0)).values())


@laws
@given(layouts())
def test_bases_are_the_images_of_powers_of_two(layout: LinearLayout) -> None:
    """L(2^i of d) = basis(d, i)."""
    zero = dict.fromkeys(layout.in_dim_names, 0)
    for name in layout.in_dim_names:
        for i in range(layout.in_dim_bits(name)):
            assert tuple(layout.apply(zero | {name: 1 << i}).values()) == layout.basis(name, i)


@laws
@given(layouts())
def test_matrix_determines_the_layout(layout: LinearLayout) -> None:
    """from_matrix(matrix(), in_dims, out_dims) = L; the columns of the in-dims are those of the matrix."""
    assert LinearLayout.from_matrix(layout.matrix(), layout.in_dims, layout.out_dims) == layout
    assert sum((layout.columns(name) for name in layout.in_dim_names), ()) == layout.matrix()
    assert LinearLayout(layout.bases, layout.out_dims).matrix() == layout.matrix()


@laws
@given(layouts())
def test_repr_evaluates_back(layout: LinearLayout) -> None:
    """eval(repr(L)) = L, with an equal hash."""
    again = eval(repr(layout))
    assert again == layout
    assert hash(again) == hash(layout)
    assert again.matrix() == layout.matrix()


# Composition


@laws
@given(st.data())
def test_compose_applies_outer_last(data: st.DataObject) -> None:
    """(f.compose(g))(x) = g(f(x))."""
    f, g = chain(data, A, B, C)
    x = data.draw(inputs_of(f))
    assert f.compose(g).apply(x) == g.apply(f.apply(x))


@laws
@given(st.data())
def test_compose_goes_by_names(data: st.DataObject) -> None:
    """The order of the dimensions in between is irrelevant."""
    f, g = chain(data, A, B, C)
    between = data.draw(st.permutations(f.out_dim_names))
    assert f.transpose_outs(between).compose(g) == f.compose(g)


# Products


@laws
@given(st.data())
def test_product_stacks_its_factors(data: st.DataObject) -> None:
    """(A * B)(x + |A| y) = A(x) + |A| B(y) in every dimension."""
    a, b = data.draw(layouts(in_names=A, out_names=C)), data.draw(layouts(in_names=A, out_names=C))
    x, y = data.draw(inputs_of(a)), data.draw(inputs_of(b))
    ab = a * b
    size_in, size_out = dict(a.in_dims), dict(a.out_dims)
    joined = {name: x.get(name, 0) + size_in.get(name, 1) * y.get(name, 0) for name in ab.in_dim_names}
    ax, by = a.apply(x), b.apply(y)
    expected = {name: ax.get(name, 0) + size_out.get(name, 1) * by.get(name, 0) for name in ab.out_dim_names}
    assert ab.apply(joined) == expected
    assert ab.in_dims == multiply_dims(a.in_dims, b.in_dims)
    assert ab.out_dims == multiply_dims(a.out_dims, b.out_dims)


@laws
@given(
    st.permutations(("a", "b", "c", "d")),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_merged_names_keep_both_orders(names: list[str], in_first: list[bool], in_second: list[bool]) -> None:
    """Two parts of one order merge into an order of their union that restricts to each."""
    first = tuple(name for name, keep in zip(names, in_first, strict=True) if keep)
    second = tuple(name for name, keep in zip(names, in_second, strict=True) if keep)
    merged = merge_names(first, second)
    assert tuple(name for name in merged if name in first) == first
    assert tuple(name for name in merged if name in second) == second
    assert sorted(merged) == sorted({*first, *second})


# Division


def ordered_like(data: st.DataObject, other: LinearLayout) -> LinearLayout:
    """Return a layout whose dimensions are among those of `other`, in the same order."""
    ins = [d for d in other.in_dim_names if data.draw(st.booleans())]
    outs = [d for d in other.out_dim_names if data.draw(st.booleans())]
    sizes = st.integers(0, 2).map(lambda bits: 1 << bits)
    in_dims = [(name, data.draw(sizes)) for name in ins]
    out_dims = [(name, data.draw(sizes)) for name in outs]
    return data.draw(layouts(in_dims=in_dims, out_dims=out_dims))


@laws
@given(st.data())
def test_divide_left_undoes_product(data: st.DataObject) -> None:
    """(B * C).divide_left(B) = C."""
    c = data.draw(layouts(in_names=A, out_names=C))
    b = ordered_like(data, c)
    assert (b * c).divide_left(b) == c


@laws
@given(st.data())
def test_division_answers_exactly_when_there_is_a_quotient(data: st.DataObject) -> None:
    """L.divide_left(B) = C means B * C = L; None means that no candidate works."""
    layout = data.draw(layouts(in_names=A, out_names=C, max_bits=4))
    b = data.draw(st.one_of(st.just(layout), st.builds(lambda: ordered_like(data, layout))))
    if data.draw(st.booleans()) and layout.total_in_bits:  # a product with one bit flipped
        columns = list((b * layout).matrix())
        if columns and layout.total_out_bits:
            columns[data.draw(st.integers(0, len(columns) - 1))] ^= 1
        layout = LinearLayout.from_matrix(columns, (b * layout).in_dims, (b * layout).out_dims)
    rest = layout.divide_left(b)
    assert rest is None or b * rest == layout
    assert (rest is not None) == _is_in_corner(layout, b)


def _is_in_corner(layout: LinearLayout, b: LinearLayout) -> bool:
    """Test by bits whether `layout` has block b in its low corner and zeros beside it."""
    for big, small in ((layout.in_dims, b.in_dims), (layout.out_dims, b.out_dims)):
        sizes = dict(big)
        if any(sizes.get(name, 0) < size for name, size in small):
            return False
    in_size, out_size = dict(b.in_dims), dict(b.out_dims)
    for in_dim in layout.in_dim_names:
        own = in_size.get(in_dim, 1).bit_length() - 1
        for i in range(layout.in_dim_bits(in_dim)):
            for out_dim, value in zip(layout.out_dim_names, layout.basis(in_dim, i), strict=True):
                if i < own:
                    has = b.has_out_dim(out_dim)
                    if value != (b.basis(in_dim, i)[b.out_dim_names.index(out_dim)] if has else 0):
                        return False
                elif value & out_size.get(out_dim, 1) - 1:
                    return False
    return True


# Inverses


@laws
@given(invertible_layouts())
def test_inverse(layout: LinearLayout) -> None:
    """L.compose(L⁻¹) = 1 = L⁻¹.compose(L), and (L⁻¹)⁻¹ = L."""
    inverse = layout.invert()
    assert layout.compose(inverse) == identity(layout.in_dims)
    assert inverse.compose(layout) == identity(layout.out_dims)
    assert inverse.invert() == layout


@laws
@given(surjective_layouts())
def test_pseudoinverse(layout: LinearLayout) -> None:
    """L⁺.compose(L) = 1, and L⁺ does not use free variables, those whose images are sums of earlier ones."""
    right = layout.pseudoinvert()
    assert right.compose(layout) == identity(layout.out_dims)
    columns = layout.matrix()
    free = sum(1 << i for i, column in enumerate(columns) if f2.in_span(columns[:i], column))
    assert not any(column & free for column in right.matrix())


@laws
@given(st.data())
def test_invert_and_compose_solves(data: st.DataObject) -> None:
    """self.invert_and_compose(outer).compose(outer) = self."""
    outer = data.draw(surjective_layouts())
    layout = data.draw(layouts(out_dims=outer.out_dims))
    found = layout.invert_and_compose(outer)
    assert found.in_dims == layout.in_dims
    assert found.out_dims == outer.in_dims
    assert found.compose(outer) == layout


@laws
@given(st.data())
def test_invert_and_compose_needs_only_the_image(data: st.DataObject) -> None:
    """outer need not be surjective as long as it reaches what self reaches."""
    outer = data.draw(layouts())
    by = data.draw(layouts(in_names=C, out_dims=outer.in_dims))
    layout = by.compose(outer)
    assert layout.invert_and_compose(outer).compose(outer) == layout


@laws
@given(st.data())
def test_equal_dimensions_convert_to_themselves(data: st.DataObject) -> None:
    """L.invert_and_compose(L) = 1, for any L, copies included."""
    layout = data.draw(layouts())
    assert layout.invert_and_compose(layout) == identity(layout.in_dims)


# Rank


@laws
@given(layouts(max_bits=5))
def test_ranks_by_enumeration(layout: LinearLayout) -> None:
    """Surjective: every output has an input. Injective: no two inputs meet. Invertible: both."""
    columns = layout.matrix()
    images = {f2.multiply_vector(columns, x) for x in range(1 << len(columns))}
    assert layout.is_surjective() == (len(images) == 1 << layout.total_out_bits)
    assert layout.is_injective() == (len(images) == 1 << len(columns))
    assert layout.is_invertible() == (layout.is_surjective() and layout.is_injective())
