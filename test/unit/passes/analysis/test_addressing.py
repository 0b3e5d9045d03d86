"""What is said of integers holds of numbers: random index expressions, evaluated for random scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from index_expressions import (
    COMPARED,
    VALUATIONS,
    Expression,
    comparisons,
    distances,
    expressions,
    scalars,
    spread,
)

from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.addressing import Affine, Mask


def sides(numbers: npt.NDArray[Any], axis: int, bit: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The numbers where a bit of a coordinate is not set, and their neighbours where it is."""
    places = np.arange(numbers.shape[axis + 1])
    without = places[places >> bit & 1 == 0]
    return numbers.take(without, axis + 1), numbers.take(without | 1 << bit, axis + 1)


def check(expression: Expression) -> None:
    """Everything that is claimed of the expression is so."""
    known, numbers = expression.known, expression.numbers
    assert tuple(1 << len(bits) for bits in known.deltas) == expression.shape
    for axis, bit, delta in distances(known):
        low, high = sides(numbers, axis, bit)
        assert delta is None or (high - low == delta).all(), (axis, bit, delta)
        assert ((high - low) % known.step(delta) == 0).all(), (axis, bit, known.unit)
    base = numbers.reshape(VALUATIONS, -1)[:, 0]
    assert known.divisor & (known.divisor - 1) == 0
    assert (base % known.divisor == 0).all()
    assert known.constant is None or (base == known.constant).all()


SHAPES = st.sampled_from([(1,), (8,), (32,), (4, 8), (16, 2), (2, 4, 4)])


@st.composite
def tensors(draw: st.DrawFn) -> Expression:
    return draw(expressions(draw(SHAPES), draw(st.integers(0, 2))))


@settings(max_examples=200, deadline=None)
@given(tensors())
def test_what_is_known_is_so(expression: Expression) -> None:
    deltas = [delta for bits in expression.known.deltas for delta in bits]
    event(
        "all known" if None not in deltas else "some unknown" if any(d is not None for d in deltas) else "none"
    )
    check(expression)


@settings(max_examples=60, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4, 8]))
def test_pointers_count_bytes(data: st.DataObject, shape: tuple[int, ...], size: int) -> None:
    known, base, text = scalars(data.draw)
    offset = data.draw(expressions(shape, 1))
    pointer = addressing.addptr(addressing.splat(known, shape), offset.known, size)
    check(Expression(pointer, spread(base, shape) + offset.numbers * size, f"{text} + {offset.text}"))


def check_mask(mask: Mask, flags: npt.NDArray[np.bool_]) -> None:
    assert tuple(1 << len(bits) for bits in mask) == flags.shape[1:]
    for axis, bits in enumerate(mask):
        for bit, never in enumerate(bits):
            if never:
                low, high = sides(flags, axis, bit)
                assert (low == high).all(), (axis, bit)


def test_every_predicate_of_mlir_has_its_number() -> None:
    """`arith.cmpi` has them in this order."""
    assert addressing.PREDICATES == ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    assert set(COMPARED) == set(addressing.PREDICATES)


@settings(max_examples=200, deadline=None)
@given(st.data(), SHAPES)
def test_masks_change_only_where_they_may(data: st.DataObject, shape: tuple[int, ...]) -> None:
    mask, flags, text = data.draw(comparisons(shape))
    event(f"some never change: {any(any(bits) for bits in mask)}; {text.count('(')}")
    check_mask(mask, flags)


@settings(max_examples=60, deadline=None)
@given(st.data(), SHAPES)
def test_masks_agree(data: st.DataObject, shape: tuple[int, ...]) -> None:
    first, second = data.draw(comparisons(shape)), data.draw(comparisons(shape))
    mask = addressing.agree(first[0], second[0])
    for flags in (first[1] & second[1], first[1] | second[1], first[1] ^ second[1]):
        check_mask(mask, flags)


# What kernels have must be known, or the tests above would pass for an analysis that knows nothing.


def test_the_low_bits_of_a_remainder_by_no_power_of_two_are_known() -> None:
    flat = addressing.add(addressing.make_range(0, 64), addressing.splat(Affine((), 64), (64,)))
    assert addressing.remainder(flat, Affine.exactly(48, (64,))) == Affine(
        ((1, 2, 4, 8, None, None),), 16, None, 16
    )
    assert addressing.quotient(flat, Affine.exactly(48, (64,))) == Affine(((0, 0, 0, 0, None, None),))


@pytest.mark.parametrize(
    ("predicate", "turned"), [("slt", False), ("sge", False), ("ult", False), ("sgt", True), ("ule", True)]
)
def test_the_mask_of_an_aligned_bound_is_known(predicate: str, turned: bool) -> None:
    index = addressing.add(addressing.make_range(0, 16), addressing.splat(Affine((), 16), (16,)))
    bound = addressing.splat(Affine((), 4), (16,))
    operands = (bound, index) if turned else (index, bound)
    assert addressing.compare(predicate, *operands) == ((True, True, False, False),)


@pytest.mark.parametrize("predicate", ["sle", "sgt", "eq", "ne"])
def test_the_mask_of_a_bound_that_is_the_last_element_changes_within_runs(predicate: str) -> None:
    index, bound = addressing.make_range(0, 8), Affine.exactly(4, (8,))
    assert addressing.compare(predicate, index, bound) == ((False, False, False),)
