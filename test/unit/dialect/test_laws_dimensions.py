"""The laws of what is done to the dimensions of a layout: order, cutting, trivial ones.

Each is stated once, as those of `test_laws.py`, on random layouts as there.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from laws_support import A, C, identity, laws
from strategies import dims, inputs_of, layouts, matrices

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LinearLayout


def permuted(data: st.DataObject, layout: LinearLayout) -> LinearLayout:
    """Return the layout with both sides in another order."""
    ins = data.draw(st.permutations(layout.in_dim_names))
    outs = data.draw(st.permutations(layout.out_dim_names))
    return layout.transpose_ins(ins).transpose_outs(outs)


# Order


@laws
@given(st.data())
def test_transpose_keeps_the_map(data: st.DataObject) -> None:
    """Reordering dimensions changes no value by names, and reordering back restores the layout."""
    layout = data.draw(layouts())
    other = permuted(data, layout)
    x = data.draw(inputs_of(layout))
    assert other.apply(x) == layout.apply(x)
    assert other.transpose_ins(layout.in_dim_names).transpose_outs(layout.out_dim_names) == layout


# Cutting


@laws
@given(st.data())
def test_sublayout_restricts_and_projects(data: st.DataObject) -> None:
    """sublayout(d, e)(x) is the e part of L(x), for x in d."""
    layout = data.draw(layouts())
    ins = [name for name in layout.in_dim_names if data.draw(st.booleans())]
    outs = [name for name in layout.out_dim_names if data.draw(st.booleans())]
    part = layout.sublayout(ins, outs)
    assert part == layout.sublayout(ins[::-1], outs[::-1])
    x = data.draw(inputs_of(part))
    full = layout.apply(dict.fromkeys(layout.in_dim_names, 0) | x)
    assert part.apply(x) == {name: full[name] for name in outs}
    assert part.out_dims == tuple(dim for dim in layout.out_dims if dim[0] in outs)


@laws
@given(st.data())
def test_remove_zero_bases(data: st.DataObject) -> None:
    """What is left maps onto the same outputs and has no zero column in that dimension."""
    layout = data.draw(layouts(min_dims=1))
    name = data.draw(st.sampled_from(layout.in_dim_names))
    short = layout.remove_zero_bases(name)
    assert 0 not in short.columns(name)
    assert f2.reduce(short.matrix()) == f2.reduce(layout.matrix())
    assert layout.total_in_bits - short.total_in_bits == layout.columns(name).count(0)


# Trivial dimensions


@laws
@given(st.data())
def test_quotient_drops_an_identity_factor(data: st.DataObject) -> None:
    """(L * 1_d).quotient(d) = L, and L * 1_d is trivial over d."""
    layout = data.draw(layouts(in_names=A, out_names=C))
    one = identity(data.draw(dims(("d", "e"), 3)))
    product = permuted(data, layout * one)
    names = one.in_dim_names
    assert product.is_trivial_over(names)
    rest = product.quotient(names)
    assert rest is not None
    assert rest.transpose_ins(layout.in_dim_names).transpose_outs(layout.out_dim_names) == layout


@laws
@given(st.data())
def test_trivial_means_identity_by_enumeration(data: st.DataObject) -> None:
    """Trivial over d: the d part of L(x) is the d part of x, and the rest of L(x) ignores it."""
    d = ("d", 1 << data.draw(st.integers(0, 2)))
    ins = (d, *data.draw(dims(A, 2)))
    outs = (*data.draw(dims(C, 2)), d)
    layout = data.draw(layouts(in_dims=ins, out_dims=outs))
    if data.draw(st.booleans()):
        rest = layout.sublayout([n for n, _ in ins[1:]], [n for n, _ in outs[:-1]])
        layout = (rest * identity((d,))).transpose_ins([n for n, _ in ins])
        if layout.total_in_bits and layout.total_out_bits and data.draw(st.booleans()):
            flipped = data.draw(matrices(layout.total_in_bits, layout.total_out_bits))
            columns = [a ^ b for a, b in zip(layout.matrix(), flipped, strict=True)]
            layout = LinearLayout.from_matrix(columns, layout.in_dims, layout.out_dims)
    expected = True
    for x in range(1 << layout.total_in_bits):
        values, rest = dict[str, int](), x
        for name, size in layout.in_dims:
            values[name], rest = rest % size, rest // size
        image = layout.apply(values)
        without = layout.apply(values | {"d": 0})
        expected &= image["d"] == values["d"]
        expected &= all(image[name] == without[name] for name in image if name != "d")
    assert layout.is_trivial_over("d") == expected
    assert (layout.quotient(["d"]) is not None) == expected


@laws
@given(layouts(in_names=A, out_names=C))
def test_trivial_over_nothing(layout: LinearLayout) -> None:
    """Every layout is trivial over no dimension, and over no dimension that it lacks on a side."""
    assert layout.quotient([]) == layout
    assume(layout.in_dim_names)
    assert not layout.is_trivial_over(layout.in_dim_names[:1])
    assert layout.quotient(["nowhere"]) is None
