"""What is said of integers holds of numbers: random index expressions, evaluated for random scalars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import machine_operations
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from triton_linear.passes.assignment import addressing
from triton_linear.passes.assignment.addressing import Affine, Mask

Numbers = npt.NDArray[np.int64]

VALUATIONS = 4
"""How often each unknown scalar is drawn; every number below has these along its first axis."""
LARGEST = 1 << 45


@dataclass(frozen=True)
class Expression:
    """What is known of an expression, and the numbers it has: `numbers[v]` under the valuation v."""

    known: Affine
    numbers: Numbers
    text: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape[1:]

    def __repr__(self) -> str:
        return f"{self.text} : {self.known}"


def sides(numbers: npt.NDArray[Any], axis: int, bit: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The numbers where a bit of a coordinate is not set, and their neighbours where it is."""
    places = np.arange(numbers.shape[axis + 1])
    without = places[places >> bit & 1 == 0]
    return numbers.take(without, axis + 1), numbers.take(without | 1 << bit, axis + 1)


def check(expression: Expression) -> None:
    """Everything that is claimed of the expression is so."""
    known, numbers = expression.known, expression.numbers
    assert tuple(1 << len(bits) for bits in known.deltas) == expression.shape
    for (axis, bit), delta in addressing.distances(known).items():
        low, high = sides(numbers, axis, bit)
        assert delta is None or (high - low == delta).all(), (axis, bit, delta)
        assert ((high - low) % known.step(delta) == 0).all(), (axis, bit, known.unit)
    base = numbers.reshape(VALUATIONS, -1)[:, 0]
    assert known.divisor & (known.divisor - 1) == 0
    assert (base % known.divisor == 0).all()
    assert known.constant is None or (base == known.constant).all()


def scalars(draw: st.DrawFn, least: int = 0) -> tuple[Affine, Numbers, str]:
    """A scalar, `least` or more, of which a divisor is known."""
    divisor = 1 << draw(st.integers(0, 6))
    factors = draw(st.lists(st.integers(least, 9), min_size=VALUATIONS, max_size=VALUATIONS))
    return Affine((), divisor), np.array(factors, np.int64) * divisor, f"s{divisor}{factors}"


def spread(value: Numbers, shape: Sequence[int]) -> Numbers:
    """A scalar everywhere in a tensor."""
    return np.broadcast_to(value.reshape(-1, *(1 for _ in shape)), (VALUATIONS, *shape)).copy()


def plus_range(known: Affine, numbers: Numbers, axis: int, size: int, stride: int) -> tuple[Affine, Numbers]:
    """A tensor plus its coordinate along `axis`, times `stride`."""
    shape = numbers.shape[1:]
    term = addressing.make_range(0, size)
    for other in range(len(shape)):
        if other != axis:
            term = addressing.expand_dims(term, other)
    by = Affine.exactly(stride, tuple(1 << len(bits) for bits in term.deltas))
    places = np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    moved = addressing.broadcast(addressing.multiply(term, by), shape)
    return addressing.add(known, moved), numbers + places * stride


@st.composite
def leaves(draw: st.DrawFn, shape: tuple[int, ...]) -> Expression:
    """The same everywhere, or what kernels begin with: a sum of ranges with strides."""
    constant = draw(st.sampled_from([0, 0, 1, 3, 4, 8, 16, 24, 64, 96, -8]))
    if draw(st.integers(0, 3)):
        known, numbers, text = Affine.exactly(constant), np.full(VALUATIONS, constant, np.int64), str(constant)
    else:
        known, numbers, text = scalars(draw, least=draw(st.sampled_from([0, 0, 0, -6])))
    known, numbers = addressing.splat(known, shape), spread(numbers, shape)
    if draw(st.integers(0, 3)) == 0:
        return Expression(known, numbers, text)
    for axis, size in enumerate(shape):
        stride = draw(st.sampled_from([0, 1, 1, 1, 2, 3, 4, 8, 16, -1]))
        known, numbers = plus_range(known, numbers, axis, size, stride)
        text += f" + {stride} r{axis}"
    return Expression(known, numbers, f"({text})")


BINARY: dict[str, tuple[Callable[[Affine, Affine], Affine], Callable[[Numbers, Numbers], Numbers]]] = {
    "+": (addressing.add, np.add),
    "-": (lambda a, b: addressing.add(a, b, -1), np.subtract),
    "*": (addressing.multiply, np.multiply),
    "%": (addressing.remainder, np.remainder),
    "/": (addressing.quotient, np.floor_divide),
    "&": (addressing.bit_and, np.bitwise_and),
    "<<": (addressing.shift_left, np.left_shift),
    ">>": (addressing.shift_right, np.right_shift),
    "hash": (
        lambda a, b: addressing.function_of([a, b], addressing._shape(a)),
        lambda a, b: (a * 37 ^ b * 11) % 101,
    ),
}
NUMBERS_THAT_DIVIDE = [1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 64, 96]


@st.composite
def expressions(draw: st.DrawFn, shape: tuple[int, ...], depth: int) -> Expression:
    """An index expression; what is divided is not negative and nothing is large, as in kernels."""
    if depth == 0:
        return draw(leaves(shape))
    name = draw(st.sampled_from([*BINARY, "%", "/", "+", "broadcast", "trans", "reshape", "join"]))
    if name == "broadcast":
        axis = draw(st.integers(0, len(shape) - 1))
        inner = draw(expressions((*shape[:axis], 1, *shape[axis + 1 :]), depth - 1))
        numbers = np.broadcast_to(inner.numbers, (VALUATIONS, *shape)).copy()
        return Expression(addressing.broadcast(inner.known, shape), numbers, f"broadcast({inner.text})")
    if name == "trans":
        order = draw(st.permutations(range(len(shape))))
        before = [0] * len(shape)
        for place, axis in enumerate(order):
            before[axis] = shape[place]
        inner = draw(expressions(tuple(before), depth - 1))
        numbers = inner.numbers.transpose(0, *(axis + 1 for axis in order))
        return Expression(addressing.trans(inner.known, order), numbers, f"trans{order}({inner.text})")
    if name == "reshape":
        before = draw(
            st.sampled_from([(math.prod(shape),), (1, *shape), (math.prod(shape), 1), tuple(shape[::-1])])
        )
        inner = draw(expressions(before, depth - 1))
        numbers = inner.numbers.reshape(VALUATIONS, *shape)
        return Expression(addressing.reshape(inner.known, shape), numbers, f"reshape({inner.text})")
    a = draw(expressions(shape, depth - 1))
    b = draw(expressions(shape, draw(st.integers(0, depth - 1))))
    if name == "join":
        which = draw(st.lists(st.booleans(), min_size=VALUATIONS, max_size=VALUATIONS))
        chosen = np.where(spread(np.array(which), shape), a.numbers, b.numbers)
        return Expression(addressing.join(a.known, b.known), chosen, f"({a.text} or {b.text})")
    if name in ("%", "/", ">>", "<<", "&") and draw(st.integers(0, 4)):
        # By a constant nearly always, of the kind that kernels have.
        value = draw(st.sampled_from(NUMBERS_THAT_DIVIDE)) if name in "%/" else draw(st.integers(0, 6))
        value = (1 << value) - 1 if name == "&" else value
        constant = np.full(VALUATIONS, value, np.int64)
        b = Expression(Affine.exactly(value, shape), spread(constant, shape), str(value))
    if name in ("%", "/"):
        assume(bool((a.numbers >= 0).all() and (b.numbers > 0).all()))
    if name in ("<<", ">>"):
        assume(bool((b.numbers >= 0).all() and (b.numbers < 16).all()))
    known, compute = BINARY[name][0](a.known, b.known), BINARY[name][1]
    numbers = compute(a.numbers, b.numbers)
    assume(bool((abs(numbers) < LARGEST).all()))
    return Expression(known, numbers, f"({a.text} {name} {b.text})")


SHAPES = st.sampled_from([(1,), (8,), (32,), (4, 8), (16, 2), (2, 4, 4)])


@st.composite
def tensors(draw: st.DrawFn) -> Expression:
    return draw(expressions(draw(SHAPES), draw(st.integers(0, 2))))


@settings(max_examples=700, deadline=None)
@given(tensors())
def test_what_is_known_is_so(expression: Expression) -> None:
    deltas = [delta for bits in expression.known.deltas for delta in bits]
    event(
        "all known" if None not in deltas else "some unknown" if any(d is not None for d in deltas) else "none"
    )
    check(expression)


@settings(max_examples=150, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4, 8]))
def test_pointers_count_bytes(data: st.DataObject, shape: tuple[int, ...], size: int) -> None:
    known, base, text = scalars(data.draw)
    offset = data.draw(expressions(shape, 1))
    pointer = addressing.addptr(addressing.splat(known, shape), offset.known, size)
    check(Expression(pointer, spread(base, shape) + offset.numbers * size, f"{text} + {offset.text}"))


COMPARED: dict[str, Callable[[Any, Any], npt.NDArray[np.bool_]]] = {
    name if name in ("eq", "ne") else f"s{name}": compare
    for name, compare in machine_operations.COMPARED.items()
}
COMPARED |= {
    f"u{name[1:]}": lambda a, b, compare=compare: compare(a.astype(np.uint64), b.astype(np.uint64))
    for name, compare in COMPARED.items()
    if name.startswith("s")
}


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


@st.composite
def runs(draw: st.DrawFn, shape: tuple[int, ...]) -> Expression:
    """A multiple of 16, or nearly, plus ranges with strides that are powers of two."""
    factors = draw(st.lists(st.integers(-1, 1), min_size=VALUATIONS, max_size=VALUATIONS))
    divisor = draw(st.sampled_from([16, 16, 16, 4]))
    known = addressing.splat(Affine((), divisor), shape)
    numbers, text = spread(np.array(factors, np.int64) * divisor, shape), f"s{divisor}"
    for axis, size in enumerate(shape):
        stride = draw(st.sampled_from([0, 1, 4, 16]))
        known, numbers = plus_range(known, numbers, axis, size, stride)
        text += f" + {stride} r{axis}"
    return Expression(known, numbers, f"({text})")


@st.composite
def comparisons(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Mask, npt.NDArray[np.bool_], str]:
    """Of what runs in steps that are powers of two, or of anything."""
    predicate = draw(st.sampled_from(addressing.PREDICATES))
    a, b = (draw(st.one_of(runs(shape), runs(shape), runs(shape), expressions(shape, 1))) for _ in range(2))
    flags = COMPARED[predicate](a.numbers, b.numbers)
    return addressing.compare(predicate, a.known, b.known), flags, f"{a.text} {predicate} {b.text}"


@settings(max_examples=700, deadline=None)
@given(st.data(), SHAPES)
def test_masks_change_only_where_they_may(data: st.DataObject, shape: tuple[int, ...]) -> None:
    mask, flags, text = data.draw(comparisons(shape))
    event(f"some never change: {any(any(bits) for bits in mask)}; {text.count('(')}")
    check_mask(mask, flags)


@settings(max_examples=150, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([(32,), (2, 16), (4, 2, 4)]))
def test_masks_change_where_they_did_in_another_shape(
    data: st.DataObject, shape: tuple[int, ...], other: tuple[int, ...]
) -> None:
    size = math.prod(shape)
    other = other if math.prod(other) == size else (size,)
    mask, flags, _ = data.draw(comparisons(shape))
    check_mask(addressing.reshape_mask(mask, other), flags.reshape(VALUATIONS, *other))


@settings(max_examples=150, deadline=None)
@given(st.data(), SHAPES)
def test_masks_agree(data: st.DataObject, shape: tuple[int, ...]) -> None:
    first, second = data.draw(comparisons(shape)), data.draw(comparisons(shape))
    mask = addressing.agree(first[0], second[0])
    for flags in (first[1] & second[1], first[1] | second[1], first[1] ^ second[1]):
        check_mask(mask, flags)


# What kernels have must be known, or the tests above would pass for an analysis that knows nothing.


def row_major(stride: Affine, shape: tuple[int, int]) -> Affine:
    """rows[:, None] * stride + columns[None, :]"""
    rows = addressing.expand_dims(addressing.make_range(0, shape[0]), 1)
    columns = addressing.expand_dims(addressing.make_range(0, shape[1]), 0)
    by = addressing.splat(stride, (shape[0], 1))
    return addressing.add(
        addressing.broadcast(addressing.multiply(rows, by), shape), addressing.broadcast(columns, shape)
    )


def test_a_tile_of_a_matrix_is_known() -> None:
    offsets = row_major(Affine.exactly(4096), (4, 8))
    pointers = addressing.addptr(addressing.splat(Affine((), 16), (4, 8)), offsets, 2)
    assert pointers == Affine(((8192, 16384), (2, 4, 8)), 16)


def test_a_tile_of_a_matrix_of_any_width_is_known_along_its_rows() -> None:
    offsets = row_major(Affine((), 8), (4, 8))
    assert offsets == Affine(((None, None), (1, 2, 4)), addressing.MAX_DIVISOR, None, 8)
    assert addressing.scale(offsets, 4).unit == 32


@pytest.mark.parametrize("base", [0, 64])
def test_rows_and_columns_of_a_flat_index_are_known(base: int) -> None:
    flat = addressing.add(addressing.make_range(0, 64), Affine.exactly(base, (64,)))
    by = Affine.exactly(16, (64,))
    assert addressing.remainder(flat, by).deltas == ((1, 2, 4, 8, 0, 0),)
    assert addressing.quotient(flat, by).deltas == ((0, 0, 0, 0, 1, 2),)
    assert addressing.bit_and(flat, Affine.exactly(15, (64,))).deltas == ((1, 2, 4, 8, 0, 0),)
    assert addressing.shift_right(flat, Affine.exactly(4, (64,))).deltas == ((0, 0, 0, 0, 1, 2),)


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
