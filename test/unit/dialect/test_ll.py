"""The `ll` dialect: loading into contexts, and attributes that read back as what was written."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import LinearLayout, dim_names
from triton_linear.dialect.mlir_adapter import Attribute, MLIRError, OpaqueAttr, new_context

FAMILIES = (("register", "lane", "warp", "block"), ("offset", "block"))


@st.composite
def layouts(draw: st.DrawFn) -> LinearLayout:
    family = draw(st.sampled_from(FAMILIES))
    names = [name for name in family if draw(st.booleans())]
    sizes = [1 << draw(st.integers(0, 4)) for _ in range(draw(st.integers(0, 3)))]
    vector = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    bases = [(name, draw(st.lists(vector, max_size=4))) for name in names]
    return LinearLayout.from_bases(bases, dim_names(len(sizes)), sizes, require_surjective=False)


@pytest.fixture(scope="module")
def context():
    context = new_context()
    ll.load(context)
    return context


@given(layouts())
@settings(deadline=None)
def test_a_layout_reads_back_from_its_text_and_its_attribute(layout: LinearLayout) -> None:
    assert ll.layout_from_text(ll.layout_text(layout)) == layout
    context = new_context()
    ll.load(context)
    attribute = Attribute.parse(ll.layout_text(layout), context)
    assert str(attribute) == ll.layout_text(layout)
    assert ll.layout_from_attribute(attribute) == layout


def test_reading_a_layout_twice_gives_the_same_object(context) -> None:
    attribute = Attribute.parse(ll.layout_text(LinearLayout.identity_1d(8, "warp", "dim0")), context)
    assert ll.layout_from_attribute(attribute) is ll.layout_from_attribute(attribute)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (LinearLayout.identity_1d(2, "thread", "dim0"), "in-dims thread are not of one of"),
        (LinearLayout.identity_1d(2, "lane", "dim1"), "out-dims dim1 are not dim0, dim1, ..."),
        (
            LinearLayout.identity_1d(2, "lane", "dim0") * LinearLayout.identity_1d(2, "register", "dim0"),
            "in-dims lane, register are in none of the orders",
        ),
    ],
)
def test_layouts_that_values_cannot_have_are_refused(layout: LinearLayout, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ll.layout_text(layout)


@given(
    st.text(max_size=20), st.lists(st.text(max_size=40), max_size=3), st.floats(0, 1e9), st.integers(0, 1 << 40)
)
@settings(deadline=None)
def test_a_plan_reads_back_from_its_attribute(
    kind: str, rejected: list[str], clocks: float, scratch: int
) -> None:
    context = new_context()
    ll.load(context)
    kind = "".join(c for c in kind if c.isascii() and c.isalpha())
    figures = {"scratch_bytes": scratch, "clocks": clocks}
    plan = ll.plan_from_attribute(ll.plan_attribute(kind, figures, rejected, context))
    assert plan == ll.PlanRecord(kind, tuple(sorted(figures.items())), tuple(rejected))


def test_plans_are_readable(context) -> None:
    plan = ll.plan_attribute("shuffle", {"shuffles": 4}, ["registers: lane=1 -> (0, 1)"], context)
    assert str(plan) == '#ll.plan<"shuffle", {shuffles = 4 : i64}, ["registers: lane=1 -> (0, 1)"]>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#ll.layout<{lane = [[1]]}>", "expected 2 type arguments, but had 1"),
        ("#ll.layout<3, [2]>", "expected base attribute 'builtin.dictionary' but got 'builtin.integer'"),
        ('#ll.plan<"noop", {}, 3>', "expected base attribute 'builtin.array' but got 'builtin.integer'"),
        ("#ll.unheard<>", "unheard"),
    ],
)
def test_the_dialect_verifies_its_attributes(context, text: str, message: str) -> None:
    with pytest.raises(MLIRError, match=message):
        Attribute.parse(text, context)


@pytest.mark.parametrize("text", ["#ll.layout<{}>", "#ll.layout<{lane = [[1]}, [2]>", "layout"])
def test_text_that_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected #ll\.layout"):
        ll.layout_from_text(text)


@pytest.mark.parametrize(("bases", "sizes"), [("[[1.5]]", "[2]"), ("[1]", "[2]")])
def test_layouts_of_other_than_integers_are_refused(bases: str, sizes: str) -> None:
    with pytest.raises(ValueError, match="expected lists of integers, got '#ll"):
        ll.layout_from_text(f"#ll.layout<{{lane = {bases}}}, {sizes}>")


def test_a_fresh_context_lacks_the_dialect() -> None:
    context = new_context()
    assert not ll.is_loaded(context)
    assert isinstance(Attribute.parse("#ll.layout<{}, []>", context), OpaqueAttr)


def test_a_context_that_refuses_unknown_dialects_can_be_asked() -> None:
    context = new_context()
    context.allow_unregistered_dialects = False
    assert not ll.is_loaded(context)
    ll.load(context)
    assert ll.is_loaded(context)


def test_contexts_that_take_the_place_of_collected_ones_are_loaded_too() -> None:
    for _ in range(5):
        context = new_context()
        assert not ll.is_loaded(context)
        ll.load(context)
        assert ll.is_loaded(context)
        del context
        gc.collect()
