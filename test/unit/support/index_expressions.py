"""Random index expressions and comparisons: what is known of each, and its numbers for random scalars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import machine_operations
import numpy as np
import numpy.typing as npt
from hypothesis import assume
from hypothesis import strategies as st
from strategies import made_once

from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.addressing import Affine, Mask

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


@made_once
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


@made_once
@st.composite
def expressions(draw: st.DrawFn, shape: tuple[int, ...], depth: int) -> Expression:
    """An index expression; what is divided is not negative and nothing is large, as in kernels."""
    if depth == 0:
        return draw(leaves(shape))
    name = draw(st.sampled_from([*BINARY, "%", "/", "+", "broadcast", "trans", "join"]))
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


COMPARED: dict[str, Callable[[Any, Any], npt.NDArray[np.bool_]]] = {
    name if name in ("eq", "ne") else f"s{name}": compare
    for name, compare in machine_operations.COMPARED.items()
}


COMPARED |= {
    f"u{name[1:]}": lambda a, b, compare=compare: compare(a.astype(np.uint64), b.astype(np.uint64))
    for name, compare in COMPARED.items()
    if name.startswith("s")
}


@made_once
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


@made_once
@st.composite
def comparisons(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Mask, npt.NDArray[np.bool_], str]:
    """Of what runs in steps that are powers of two, or of anything."""
    predicate = draw(st.sampled_from(addressing.PREDICATES))
    a, b = (draw(st.one_of(runs(shape), runs(shape), runs(shape), expressions(shape, 1))) for _ in range(2))
    flags = COMPARED[predicate](a.numbers, b.numbers)
    return addressing.compare(predicate, a.known, b.known), flags, f"{a.text} {predicate} {b.text}"


def distances(value: Affine) -> Iterator[tuple[int, int, int | None]]:
    """(dimension, bit, delta) of each bit of a coordinate."""
    for dim, bits in enumerate(value.deltas):
        for bit, delta in enumerate(bits):
            yield dim, bit, delta
