"""Transfer functions of shape operations: by definition on all elements, and as Triton infers them."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import dealt_layouts

from triton_linear.dialect.encodings import layout_of, transfer
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.tools.doctor.encodings import Case, Cases, Oracle

Shape = tuple[int, ...]
Place = dict[str, int]

SEED = 7
CASES_A_FAMILY = 30
FAMILIES = (
    "blocked",
    "slice",
    "linear",
    "mma v2",
    "mma v3",
    "mfma",
    "dot of blocked",
    "dot of mma v2",
    "dot of mfma",
    "slice of dot",
)


def shape_of(layout: LinearLayout) -> Shape:
    return tuple(size for _, size in layout.out_dims)


def places(layout: LinearLayout) -> Iterator[tuple[Place, Shape]]:
    """Every place of the hardware with the element that lies there."""
    sizes = [(name, range(layout.in_dim_size(name))) for name in layout.in_dim_names]
    for values in itertools.product(*(size for _, size in sizes)):
        place = dict(zip(layout.in_dim_names, values, strict=True))
        yield place, tuple(layout.apply(place).values())


# By definition: no element changes its place.


@given(dealt_layouts(), st.randoms(use_true_random=False))
def test_trans_permutes_coordinates(layout: LinearLayout, generator: random.Random) -> None:
    order = generator.sample(range(len(layout.out_dims)), len(layout.out_dims))
    moved = dict_of(transfer.trans(layout, order))
    for place, element in places(layout):
        assert moved[key(place)] == tuple(element[axis] for axis in order)
    assert transfer.trans_backward(transfer.trans(layout, order), order) == layout


@given(dealt_layouts(), st.randoms(use_true_random=False))
def test_reshape_keeps_the_row_major_position(layout: LinearLayout, generator: random.Random) -> None:
    shape = [1] * generator.randint(1, 4)
    for _ in range(prod(shape_of(layout)).bit_length() - 1):
        shape[generator.randrange(len(shape))] *= 2
    reshaped = transfer.reshape(layout, shape)
    assert shape_of(reshaped) == tuple(shape)
    moved = dict_of(reshaped)
    for place, element in places(layout):
        assert position(moved[key(place)], shape) == position(element, shape_of(layout))
    assert transfer.reshape_backward(reshaped, shape_of(layout)) == layout


@given(dealt_layouts(), st.integers(0, 3))
def test_expand_dims_inserts_a_zero(layout: LinearLayout, axis: int) -> None:
    axis = min(axis, len(layout.out_dims))
    expanded = transfer.expand_dims(layout, axis)
    moved = dict_of(expanded)
    for place, element in places(layout):
        assert moved[key(place)] == (*element[:axis], 0, *element[axis:])


@given(dealt_layouts(), st.integers(0, 4))
def test_join_and_split(layout: LinearLayout, extra: int) -> None:
    """The halves of the joined tensor lie in even and odd registers of the same thread."""
    joined = transfer.join(layout)
    moved = dict_of(joined)
    for place, element in places(layout):
        for half in (0, 1):
            assert moved[key(place | {"register": 2 * place["register"] + half})] == (*element, half)
    assert transfer.split(joined) == layout
    assert transfer.join_backward(joined) == layout
    assert transfer.split_backward(layout) == joined


@given(dealt_layouts(last=2))
def test_split_is_free_or_refused(layout: LinearLayout) -> None:
    """Free just when every thread holds the other half of all that it holds, in another register."""
    half = transfer.split(layout)
    movers = [name for name, vectors in layout.bases for basis in vectors if basis[-1]]
    assert (half is not None) == (movers == ["register"])
    if half is not None:
        held = {key(place): element for place, element in places(layout) if element[-1] == 0}
        assert sorted(element[:-1] for element in held.values()) == sorted(e for _, e in places(half))


@given(dealt_layouts(), st.integers(0, 2))
def test_reduce_forgets_a_coordinate(layout: LinearLayout, axis: int) -> None:
    axis = min(axis, len(layout.out_dims) - 1)
    reduced = transfer.reduce(layout, axis)
    assert reduced.is_surjective()
    assert all(any(basis) for basis in dict(reduced.bases)["register"])
    expected = {
        (place["lane"], place["warp"], (*element[:axis], *element[axis + 1 :]))
        for place, element in places(layout)
    }
    assert {(p["lane"], p["warp"], e) for p, e in places(reduced)} == expected


def key(place: Place) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(place.items()))


def dict_of(layout: LinearLayout) -> dict[tuple[tuple[str, int], ...], Shape]:
    return {key(place): element for place, element in places(layout)}


def position(element: Shape, shape: Shape | list[int]) -> int:
    result = 0
    for value, size in zip(element, shape, strict=True):
        result = result * size + value
    return result


# Refusals


def test_refusals_name_the_rule() -> None:
    layout = LinearLayout.from_bases([("register", [(1, 0), (0, 1)])], ["dim0", "dim1"])
    wide = transfer.reshape(layout, (1, 4))
    offsets = LinearLayout.identity_1d(2, "offset", "dim0")
    for call, message in (
        (lambda: transfer.trans(layout, (0, 0)), r"trans: \[0, 0\] is not a permutation of 0..1"),
        (lambda: transfer.trans_backward(layout, (1, 2)), r"trans_backward: \[1, 2\] is not a permutation"),
        (lambda: transfer.reshape(layout, (8,)), r"reshape: \[8\] has 8 elements, \[2, 2\] has 4"),
        (lambda: transfer.expand_dims(layout, 3), r"expand_dims: axis 3 is not one of 0..2"),
        (lambda: transfer.split(wide), r"the last dimension of \[1, 4\] must have size 2"),
        (lambda: transfer.reduce(layout, 2), r"reduce: axis 2 is not one of 0..1"),
        (lambda: transfer.join(offsets), "the layout has no in-dim 'register'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# As Triton infers them


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture(scope="module")
def sources(oracle: Oracle) -> list[tuple[Case, str, LinearLayout]]:
    """Cases with their text and layout."""
    result = []
    cases = Cases(oracle, SEED)
    for family in FAMILIES:
        for _ in range(CASES_A_FAMILY):
            case = cases.families[family]()
            text = oracle.text(case.attribute, case.shape)
            # Triton prints a linear encoding without bases, but does not read it.
            if not text.startswith("#ttg.linear") or "[[" in text:
                result.append((case, text, layout_of(text, case.shape)))
    return result


def argument(oracle: Oracle, text: str, shape: Shape) -> Any:
    return oracle.value(f"tensor<{'x'.join(map(str, shape))}xf16, {text}>")


def inferred(value: Any) -> LinearLayout:
    """The layout of a result, from its type."""
    match = re.fullmatch(r"tensor<((?:\d+x)+)f16, (#.*)>", str(value.get_type()))
    assert match is not None
    return layout_of(match[2], tuple(map(int, match[1].rstrip("x").split("x"))))


def test_trans_as_triton_infers(oracle: Oracle, sources: list[tuple[Case, str, LinearLayout]]) -> None:
    generator = random.Random(SEED)
    for case, text, layout in sources:
        order = generator.sample(range(len(case.shape)), len(case.shape))
        result = oracle.builder.create_trans(argument(oracle, text, case.shape), order)
        assert inferred(result) == transfer.trans(layout, order), (text, case.shape, order)


def test_reshape_as_triton_infers(oracle: Oracle, sources: list[tuple[Case, str, LinearLayout]]) -> None:
    generator = random.Random(SEED)
    for case, text, layout in sources:
        shape = [1] * generator.randint(1, 4)
        for _ in range(prod(case.shape).bit_length() - 1):
            shape[generator.randrange(len(shape))] *= 2
        result = oracle.builder.create_reshape(argument(oracle, text, case.shape), shape, False)
        assert inferred(result) == transfer.reshape(layout, shape), (text, case.shape, shape)


def test_expand_dims_as_triton_infers(oracle: Oracle, sources: list[tuple[Case, str, LinearLayout]]) -> None:
    for case, text, layout in sources:
        if (match := re.match(r"#ttg\.slice<{dim = (\d+)", text)) is None:
            continue
        axis = int(match[1])
        result = oracle.builder.create_expand_dims(argument(oracle, text, case.shape), axis)
        expected = transfer.expand_dims(layout, axis)
        assert transfer.same_but_for_register_copies(inferred(result), expected), (text, case.shape, axis)


def test_join_and_split_as_triton_infers(
    oracle: Oracle, sources: list[tuple[Case, str, LinearLayout]], capfd: pytest.CaptureFixture[str]
) -> None:
    """Triton tries several encodings, so the new register need not be the lowest; it says so on stderr."""
    lowest = 0
    for case, text, layout in sources:
        if layout.in_dim_bits("block"):
            continue  # Triton's inference aborts on some encodings with several CTAs.
        value = argument(oracle, text, case.shape)
        joined = oracle.builder.create_join(value, value)
        halves = transfer.join_backward(inferred(joined))
        assert halves is not None, (text, case.shape)
        assert transfer.same_but_for_register_copies(halves, layout), (text, case.shape)
        lowest += inferred(joined) == transfer.join(layout)
    assert lowest > 0.5 * len(sources)
    capfd.readouterr()


def test_reduce_as_triton_infers(sources: list[tuple[Case, str, LinearLayout]]) -> None:
    for case, text, layout in sources:
        for axis in range(len(case.shape) if len(case.shape) > 1 else 0):
            rest = (*case.shape[:axis], *case.shape[axis + 1 :])
            sliced = layout_of(f"#ttg.slice<{{dim = {axis}, parent = {text}}}>", rest)
            whole = transfer.reduce(layout, axis)
            assert transfer.same_but_for_register_copies(sliced, whole), (text, case.shape)
