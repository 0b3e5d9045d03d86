"""What is known about integers and pointers: how a value changes if one bit of its coordinates is set.

Triton's own axis analysis keeps three numbers for each dimension (contiguity, divisibility, constancy).
Counting the sectors that an access touches takes the distance between any two elements. So this analysis
describes a value as

    value(i) = base + sum of delta[d][b] over the bits b that are set in coordinate i[d]

where `base` is the same for all elements and a multiple of `divisor`. An unknown delta is None; a power of two
that divides it may still be known (`unit`). Ranges, products with constants, sums, and remainders and quotients
by powers of two have this form. All other values have unknown deltas. As in Triton, integers do not wrap
around, and dividends are not negative.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd

from triton_linear.dialect.records import dataclass

MAX_DIVISOR = 1 << 40
"""Zero is a multiple of everything; its divisor is bounded so that products stay small."""

Deltas = tuple[tuple[int | None, ...], ...]


def divisor_of(value: int) -> int:
    """The largest power of two, up to `MAX_DIVISOR`, that divides `value`.

    >>> divisor_of(24), divisor_of(0) == MAX_DIVISOR
    (8, True)
    """
    return MAX_DIVISOR if value == 0 else min(MAX_DIVISOR, value & -value)


@dataclass(frozen=True, slots=True)
class Affine:
    """A tensor of integers or pointers, or a scalar (no dimensions).

    deltas: for each dimension and bit, what setting the bit adds; None if that is unknown.
    divisor: a power of two that divides the base.
    constant: the base, if it is known.
    unit: a power of two that divides the unknown deltas: 16, for example, for rows whose length is only known
    to be a multiple of 16.
    """

    deltas: Deltas
    divisor: int = 1
    constant: int | None = None
    unit: int = 1

    @classmethod
    def unknown(cls, shape: Sequence[int]) -> Affine:
        return cls(tuple([(None,) * (size.bit_length() - 1) for size in shape]))

    @classmethod
    def uniform(cls, shape: Sequence[int], divisor: int = 1, constant: int | None = None) -> Affine:
        """The same value everywhere."""
        return cls(tuple([(0,) * (size.bit_length() - 1) for size in shape]), divisor, constant)

    @classmethod
    def exactly(cls, constant: int, shape: Sequence[int] = ()) -> Affine:
        return cls.uniform(shape, divisor_of(constant), constant)

    def with_deltas(self, deltas: Deltas) -> Affine:
        """The same base with other deltas, which the unit still divides."""
        return Affine(deltas, self.divisor, self.constant, self.unit)

    def step(self, delta: int | None) -> int:
        """The largest power of two that is known to divide `delta`, one of the deltas."""
        return self.unit if delta is None else divisor_of(delta)

    @property
    def is_uniform(self) -> bool:
        return not any(any(bits) or None in bits for bits in self.deltas)


def make_range(start: int, size: int) -> Affine:
    """start, start + 1, ...

    >>> make_range(0, 8).deltas
    ((1, 2, 4),)
    """
    return Affine((tuple(1 << bit for bit in range(size.bit_length() - 1)),), divisor_of(start), start)


def splat(scalar: Affine, shape: Sequence[int]) -> Affine:
    return Affine.uniform(shape, scalar.divisor, scalar.constant)


def expand_dims(value: Affine, axis: int) -> Affine:
    return value.with_deltas((*value.deltas[:axis], (), *value.deltas[axis:]))


def broadcast(value: Affine, shape: Sequence[int]) -> Affine:
    deltas = [
        bits if len(bits) == size.bit_length() - 1 else (0,) * (size.bit_length() - 1)
        for bits, size in zip(value.deltas, shape, strict=True)
    ]
    return value.with_deltas(tuple(deltas))


def trans(value: Affine, order: Sequence[int]) -> Affine:
    return value.with_deltas(tuple([value.deltas[axis] for axis in order]))


def _combined(a: Affine, b: Affine, rule: Callable[[int | None, int | None], int | None]) -> tuple[Deltas, int]:
    """Combine each pair of deltas by `rule`. Also returns a power of two that divides the deltas that become
    unknown. Requires: the rule gives a multiple of whatever divides both of its arguments."""
    units = []

    def delta(x: int | None, y: int | None) -> int | None:
        combined = rule(x, y)
        if combined is None:
            units.append(min(a.step(x), b.step(y)))
        return combined

    deltas = tuple(
        [
            tuple([delta(x, y) for x, y in zip(p, q, strict=True)])
            for p, q in zip(a.deltas, b.deltas, strict=True)
        ]
    )
    return deltas, min(units, default=1)


def add(a: Affine, b: Affine, sign: int = 1) -> Affine:
    if any(None in bits for bits in (*a.deltas, *b.deltas)):
        deltas, unit = _combined(a, b, lambda x, y: None if x is None or y is None else x + sign * y)
    else:
        rule = operator.add if sign == 1 else operator.sub
        deltas, unit = tuple([tuple(map(rule, p, q)) for p, q in zip(a.deltas, b.deltas, strict=True)]), 1
    constant = None if a.constant is None or b.constant is None else a.constant + sign * b.constant
    divisor = min(a.divisor, b.divisor) if constant is None else divisor_of(constant)
    return Affine(deltas, divisor, constant, unit)


def addptr(pointer: Affine, offset: Affine, size: int) -> Affine:
    """A pointer to elements of `size` bytes, moved by `offset` elements; pointers count bytes."""
    return add(pointer, scale(offset, size))


def scale(value: Affine, factor: int) -> Affine:
    deltas = tuple([tuple([None if d is None else d * factor for d in bits]) for bits in value.deltas])
    constant = None if value.constant is None else value.constant * factor
    step = divisor_of(factor)
    divisor, unit = min(MAX_DIVISOR, value.divisor * step), min(MAX_DIVISOR, value.unit * step)
    return Affine(deltas, divisor, constant, unit)


def multiply(a: Affine, b: Affine) -> Affine:
    for value, factor in ((a, b), (b, a)):
        if factor.is_uniform and factor.constant is not None:
            return scale(value, factor.constant)
    divisor = min(MAX_DIVISOR, a.divisor * b.divisor)
    for value, factor in ((a, b), (b, a)):
        if factor.is_uniform:  # the factor is unknown, but deltas of 0 stay 0
            deltas = tuple(tuple(None if d is None or d else 0 for d in bits) for bits in value.deltas)
            unit = min((value.step(d) for bits in value.deltas for d in bits if d != 0), default=1)
            return Affine(deltas, divisor, None, min(MAX_DIVISOR, unit * factor.divisor))
    return Affine(only_common_zeros(a, b))


def only_common_zeros(*values: Affine) -> Deltas:
    """The deltas of an arbitrary function of the values: 0 for each bit with which no value changes, else
    None."""
    return _common_zeros(*(value.deltas for value in values))


@lru_cache(maxsize=1024)
def _common_zeros(*several: Deltas) -> Deltas:
    return tuple(
        tuple([None if any(delta != 0 for delta in deltas) else 0 for deltas in zip(*bits, strict=True)])
        for bits in zip(*several, strict=True)
    )


@lru_cache(maxsize=1024)
def constancy(deltas: Deltas) -> Mask:
    """For each dimension and bit, True if a value with these deltas is known not to change with the bit."""
    return tuple(tuple([delta == 0 for delta in bits]) for bits in deltas)


def flags(mask: Mask) -> Affine:
    """A mask as the affine form that is constant along the same bits.

    >>> constancy(flags(((True, False),)).deltas)
    ((True, False),)
    """
    return Affine(tuple(tuple(0 if same else None for same in bits) for bits in mask))


def function_of(values: Sequence[Affine], shape: Sequence[int]) -> Affine:
    """The result of any elementwise operation on tensors of this shape."""
    if not values:
        return Affine.unknown(shape)
    return Affine(only_common_zeros(*values))


def _low_part(value: Affine, modulus: int) -> int | None:
    """The sum of the deltas below `modulus`; None unless all other deltas are multiples of `modulus`."""
    low = 0
    for bits in value.deltas:
        for delta in bits:
            if delta is None or delta < 0:
                return None
            if delta % modulus:
                if delta >= modulus:
                    return None
                low += delta
    return low


def remainder(value: Affine, by: Affine) -> Affine:
    """value % by. Exact if the deltas below the modulus add up to less than a power of two that divides the
    base: then no sum carries into the higher bits.

    >>> remainder(make_range(0, 8), Affine.exactly(4, (8,))).deltas
    ((1, 2, 0),)
    """
    modulus = by.constant
    if modulus is None or modulus <= 0 or not by.is_uniform:
        return Affine(only_common_zeros(value, by))
    if modulus & (modulus - 1) == 0:
        low = _low_part(value, modulus)
        if low is not None and low < min(value.divisor, modulus):
            deltas = tuple(tuple(d if d is not None and d % modulus else 0 for d in b) for b in value.deltas)
            constant = None if value.constant is None else value.constant % modulus
            return Affine(deltas, min(value.divisor, modulus), constant)
    return _low_bits_known(value, modulus, is_remainder=True)


def quotient(value: Affine, by: Affine) -> Affine:
    """value / by, exact under the same condition as `remainder`.

    >>> quotient(make_range(0, 8), Affine.exactly(4, (8,))).deltas
    ((0, 0, 1),)
    """
    divisor = by.constant
    if divisor is None or divisor <= 0 or not by.is_uniform:
        return Affine(only_common_zeros(value, by))
    if divisor == 1:
        return value
    if divisor & (divisor - 1) == 0:
        low = _low_part(value, divisor)
        if low is not None and low < min(value.divisor, divisor):
            deltas = tuple(
                tuple(d // divisor if d is not None and d % divisor == 0 else 0 for d in bits)
                for bits in value.deltas
            )
            constant = None if value.constant is None else value.constant // divisor
            return Affine(deltas, max(1, value.divisor // divisor), constant)
    return _low_bits_known(value, divisor, is_remainder=False)


def _low_bits_known(value: Affine, modulus: int, is_remainder: bool) -> Affine:
    """A remainder or quotient of which only the small deltas are known: those whose sum stays below 2^k, where
    2^k divides the base and the modulus."""
    most = min(value.divisor, divisor_of(modulus))
    run = _run(value, most)
    if run == 0:
        return Affine(only_common_zeros(value))
    deltas = tuple(
        tuple(None if d is None or not 0 <= d < run else (d if is_remainder else 0) for d in bits)
        for bits in value.deltas
    )
    return Affine(deltas, most, None, run) if is_remainder else Affine(deltas)


def bit_and(value: Affine, by: Affine) -> Affine:
    if by.is_uniform and by.constant is not None and by.constant >= 0 and not by.constant & (by.constant + 1):
        return remainder(value, Affine.exactly(by.constant + 1, _shape(by)))
    return Affine(only_common_zeros(value, by))


def shift_left(value: Affine, by: Affine) -> Affine:
    if by.is_uniform and by.constant is not None and 0 <= by.constant < 64:
        return scale(value, 1 << by.constant)
    return Affine(only_common_zeros(value, by))


def shift_right(value: Affine, by: Affine) -> Affine:
    if by.is_uniform and by.constant is not None and 0 <= by.constant < 63:
        return quotient(value, Affine.exactly(1 << by.constant, _shape(by)))
    return Affine(only_common_zeros(value, by))


def _shape(value: Affine) -> tuple[int, ...]:
    return tuple(1 << len(bits) for bits in value.deltas)


def promised(
    value: Affine,
    contiguity: Sequence[int] | None,
    constancy: Sequence[int] | None,
    divisibility: Sequence[int] | None,
) -> Affine:
    """The value, with what hints promise for each dimension.

    contiguity: length of aligned runs of elements that count up by one. constancy: length of aligned runs of
    equal elements. divisibility: what divides the first element of each run.

    >>> promised(Affine.unknown((8,)), [4], None, [16])
    Affine(deltas=((1, 2, None),), divisor=16, constant=None, unit=16)
    """
    deltas = [list(bits) for bits in value.deltas]
    for runs, step in ((contiguity, 1), (constancy, 0)):
        for bits, length in zip(deltas, runs or (), strict=False):
            for bit in range(min(len(bits), length.bit_length() - 1)):
                if bits[bit] is None:
                    bits[bit] = step << bit
    divisor = divisor_of(min(divisibility)) if divisibility else 1
    return replace(
        value,
        deltas=tuple(map(tuple, deltas)),
        divisor=max(value.divisor, divisor),
        unit=max(value.unit, divisor),
    )


def join(a: Affine, b: Affine) -> Affine:
    """What is known about a value that is either `a` or `b`."""
    deltas, unit = _combined(a, b, lambda x, y: x if x == y else None)
    return Affine(deltas, gcd(a.divisor, b.divisor), a.constant if a.constant == b.constant else None, unit)


Mask = tuple[tuple[bool, ...], ...]
"""For each dimension and bit, True if the mask never changes with that bit."""


_RUN_ON_THE_LEFT = frozenset({"slt", "sge", "ult", "uge"})
_RUN_ON_THE_RIGHT = frozenset({"sle", "sgt", "ule", "ugt"})
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def compare(predicate: str, a: Affine, b: Affine) -> Mask:
    """The mask that a comparison of integers gives.

    Let one side count through an aligned run of 2^k values, and let all other deltas and both bases be
    multiples of 2^k. Then `run < other` and `run >= other` are the same for the whole run, and so are `other <=
    run` and `other > run`.

    >>> compare("slt", make_range(0, 8), Affine.exactly(12, (8,)))
    ((True, True, False),)
    """
    runs = [side for side, known in ((a, _RUN_ON_THE_LEFT), (b, _RUN_ON_THE_RIGHT)) if predicate in known]
    longest = 0
    if runs:
        other = b if runs[0] is a else a
        longest = _run(runs[0], min(a.divisor, b.divisor), other)
    return tuple(
        tuple(
            (x == 0 and y == 0)
            or (longest > 0 and runs[0] is a and y == 0 and x is not None and 0 < x < longest)
            or (longest > 0 and runs[0] is b and x == 0 and y is not None and 0 < y < longest)
            for x, y in zip(p, q, strict=True)
        )
        for p, q in zip(a.deltas, b.deltas, strict=True)
    )


def _run(value: Affine, most: int, *others: Affine) -> int:
    """The largest power of two, up to `most`, that exceeds the sum of the smaller deltas of `value` and divides
    all other deltas of `value` and `others`; 0 if there is none."""
    while most > 1:
        together = 0
        for side in (value, *others):
            for delta in (delta for bits in side.deltas for delta in bits):
                if side is value and delta is not None and 0 < delta < most:
                    together += delta
                elif side.step(delta) < most:
                    together = most
        if together < most:
            return most
        most //= 2
    return 0


def agree(*masks: Mask) -> Mask:
    """The mask of any function of several masks: it never changes with a bit if none of them does."""
    return tuple(tuple(all(flags) for flags in zip(*bits, strict=True)) for bits in zip(*masks, strict=True))


def is_constant(basis: Sequence[int], mask: Mask) -> bool:
    """True if a mask never changes with any of the bits that `basis` sets.

    >>> mask = ((True, False), (True,))
    >>> is_constant((1, 1), mask), is_constant((3, 0), mask)
    (True, False)
    """
    for same, value in zip(mask, basis, strict=True):
        rest = value
        while rest:  # most often one bit or none
            if not same[rest.bit_length() - 1]:
                return False
            rest ^= 1 << rest.bit_length() - 1
    return True
