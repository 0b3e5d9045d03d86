"""The laws of what is done to the dimensions of a layout: regrouping, cutting and joining, trivial ones.

Each is stated once, as those of `test_laws.py`, on random layouts as there.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from laws_support import A, B, C, identity, laws
from strategies import dims, inputs_of, layouts, matrices

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LinearLayout


def permuted(data: st.DataObject, layout: LinearLayout) -> LinearLayout:
    """Return the layout with both sides in another order."""
    ins = data.draw(st.permutations(layout.in_dim_names))
    outs = data.draw(st.permutations(layout.out_dim_names))
    return layout.transpose_ins(ins).transpose_outs(outs)


# Regrouping


@laws
@given(st.data())
def test_reshape_keeps_the_matrix(data: st.DataObject) -> None:
    """reshape, flatten, squeeze and unsqueeze change labels only."""
    layout = data.draw(layouts())
    ins, outs = data.draw(split_of(layout.total_in_bits, A)), data.draw(split_of(layout.total_out_bits, B))
    shaped = layout.reshape_ins(ins).reshape_outs(outs)
    assert (shaped.in_dims, shaped.out_dims, shaped.matrix()) == (ins, outs, layout.matrix())
    assert shaped.reshape_ins(layout.in_dims).reshape_outs(layout.out_dims) == layout
    assert layout.unsqueeze_ins("new").unsqueeze_outs("new").squeeze_ins("new").squeeze_outs("new") == layout
    flat = layout.flatten_ins().flatten_outs()
    assert flat.matrix() == layout.matrix()
    assert flat.in_dim_names == layout.in_dim_names[:1]
    assert flat.out_dim_names == layout.out_dim_names[:1]


@st.composite
def split_of(draw: st.DrawFn, bits: int, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Split `bits` bits over these names."""
    cuts = sorted(draw(st.lists(st.integers(0, bits), min_size=len(names) - 1, max_size=len(names) - 1)))
    ends = zip([0, *cuts], [*cuts, bits], strict=True)
    return tuple((name, 1 << b - a) for name, (a, b) in zip(names, ends, strict=True))


@laws
@given(st.data())
def test_transpose_keeps_the_map(data: st.DataObject) -> None:
    """Reordering dimensions changes no value by names, and reordering back restores the layout."""
    layout = data.draw(layouts())
    other = permuted(data, layout)
    x = data.draw(inputs_of(layout))
    assert other.apply(x) == layout.apply(x)
    assert other.transpose_ins(layout.in_dim_names).transpose_outs(layout.out_dim_names) == layout


@laws
@given(st.data())
def test_rename_keeps_the_bases(data: st.DataObject) -> None:
    """Renaming changes names only, and renaming back restores the layout."""
    layout = data.draw(layouts())
    ins = {name: name + "'" for name in layout.in_dim_names if data.draw(st.booleans())}
    outs = {name: name + "'" for name in layout.out_dim_names if data.draw(st.booleans())}
    other = layout.rename_ins(ins).rename_outs(outs)
    assert other.matrix() == layout.matrix()
    assert other.in_dim_names == tuple(ins.get(name, name) for name in layout.in_dim_names)
    back_in, back_out = ({v: k for k, v in names.items()} for names in (ins, outs))
    assert other.rename_ins(back_in).rename_outs(back_out) == layout


# Cutting and joining


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
    assert layout.sublayout_is_zero(ins, outs) == (not any(part.matrix()))


@laws
@given(st.data())
def test_concat_splits_into_sublayouts(data: st.DataObject) -> None:
    """concat_ins and concat_outs join what sublayout takes apart."""
    layout = data.draw(layouts())
    cut = data.draw(st.integers(0, layout.num_in_dims))
    names, all_outs = layout.in_dim_names, layout.out_dim_names
    left, right = layout.sublayout(names[:cut], all_outs), layout.sublayout(names[cut:], all_outs)
    assert left.concat_ins(right) == layout
    cut = data.draw(st.integers(0, layout.num_out_dims))
    left, right = layout.sublayout(names, all_outs[:cut]), layout.sublayout(names, all_outs[cut:])
    assert left.concat_outs(right) == layout


@laws
@given(st.data())
def test_resizing_grows_by_zeros_and_shrinks_by_dropping(data: st.DataObject) -> None:
    """A grown in-dim maps its new bits to zero; shrinking back restores the layout; so with out-dims."""
    layout = data.draw(layouts(min_dims=1))
    name = data.draw(st.sampled_from(layout.in_dim_names))
    size = layout.in_dim_size(name)
    grown = layout.resize_in_dim(name, 4 * size)
    x = data.draw(inputs_of(grown))
    assert grown.apply(x) == layout.apply(x | {name: x[name] % size})
    assert grown.resize_in_dim(name, size) == layout
    out = data.draw(st.sampled_from(layout.out_dim_names))
    roomy = layout.resize_out_dim(out, 4 * layout.out_dim_size(out))
    assert roomy.bases == layout.bases
    assert roomy.resize_out_dim(out, layout.out_dim_size(out)) == layout
    small = layout.resize_out_dim(out, 1)
    position = layout.out_dim_names.index(out)
    for (_, old), (_, new) in zip(layout.bases, small.bases, strict=True):
        assert tuple((*b[:position], 0, *b[position + 1 :]) for b in old) == new


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
        values = identity(layout.in_dims).flatten_ins("x").apply({"x": x}) if layout.in_dims else {}
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
