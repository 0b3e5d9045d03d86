"""The value of a register in all threads at once: a polynomial over F2 in the bits of the thread number.

    element(t) = constant + sum of c_m over the monomials m whose bits are all set in t

Constants and coefficients are elements (flattened coordinates of the tensor), sums are xor. Every function of
the thread number is exactly one such polynomial, so that two values are equal exactly if their polynomials are.
Layouts are affine: their monomials have one bit. A select multiplies by a condition, which is a sum of bits. A
shuffle substitutes the bits of another thread, which are sums too.

Registers of a layout differ only in the constant. The rest, the *form*, is stored once and has a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Value = tuple[int, int]
"""A polynomial: its constant, and the number of its form."""

Form = tuple[tuple[int, int], ...]
"""(monomial, coefficient) by increasing monomial, no coefficient zero; a monomial is a mask of thread bits."""


class ThreadFunctions:
    """Operations on values; it numbers the forms that occur.

    >>> functions = ThreadFunctions()
    >>> own = functions.affine(0, (1, 2))             # the thread's own number
    >>> other = functions.moved(own, (2, 1), 0)       # the number of the thread with both bits exchanged
    >>> functions.select(0b11, own, other) == functions.affine(0, (2, 1)), functions.at(other, 1)
    (True, 2)
    """

    def __init__(self) -> None:
        self._forms: list[Form] = [()]
        self._numbers: dict[Form, int] = {(): 0}
        self._selected: dict[tuple[int, int, int, int], int] = {}
        self._moved: dict[tuple[int, tuple[int, ...], int], Value] = {}

    def affine(self, constant: int, columns: Sequence[int]) -> Value:
        """constant + the sum of columns[j] over the set bits j of the thread."""
        return constant, self._number({1 << bit: column for bit, column in enumerate(columns)})

    def columns(self, value: Value, bits: int) -> tuple[int, ...] | None:
        """The columns of an affine value, for thread numbers of `bits` bits; None if it is not affine."""
        found = [0] * bits
        for monomial, coefficient in self._forms[value[1]]:
            if monomial & (monomial - 1):
                return None
            found[monomial.bit_length() - 1] = coefficient
        return tuple(found)

    def select(self, mask: int, zero: Value, one: Value) -> Value:
        """`one` if parity(mask & thread) is 1, else `zero`: zero + parity * (zero + one)."""
        difference = zero[0] ^ one[0]
        if zero[1] == one[1] and not difference:
            return zero
        key = mask, zero[1], one[1], difference
        form = self._selected.get(key)
        if form is None:
            terms = dict(self._forms[zero[1]])
            changes = [(0, difference), *self._forms[zero[1]], *self._forms[one[1]]]
            for bit in _bits(mask):
                for monomial, coefficient in changes:
                    product = monomial | bit
                    terms[product] = terms.get(product, 0) ^ coefficient
            form = self._selected[key] = self._number(terms)
        return zero[0], form

    def moved(self, value: Value, columns: tuple[int, ...], flipped: int) -> Value:
        """The value in another thread: its number is the sum of `columns` over the own bits, xor `flipped`."""
        key = value[1], columns, flipped
        found = self._moved.get(key)
        if found is None:
            terms: dict[int, int] = {}
            for monomial, coefficient in self._forms[value[1]]:
                for product in _substituted(monomial, columns, flipped):
                    terms[product] = terms.get(product, 0) ^ coefficient
            found = self._moved[key] = terms.pop(0, 0), self._number(terms)
        return value[0] ^ found[0], found[1]

    def at(self, value: Value, thread: int) -> int:
        """The element in one thread."""
        element, form = value
        for monomial, coefficient in self._forms[form]:
            if monomial & thread == monomial:
                element ^= coefficient
        return element

    def difference(self, one: Value, other: Value) -> int | None:
        """A thread in which two values differ, or None."""
        if one[0] != other[0]:
            return 0
        unlike = set(self._forms[one[1]]) ^ set(self._forms[other[1]])
        # In the thread with just the bits of the smallest differing monomial, all other differing ones are
        # zero.
        return min((monomial for monomial, _ in unlike), key=lambda m: (m.bit_count(), m), default=None)

    def _number(self, terms: dict[int, int]) -> int:
        form = tuple(sorted([term for term in terms.items() if term[1]]))
        number = self._numbers.setdefault(form, len(self._forms))
        if number == len(self._forms):
            self._forms.append(form)
        return number


def _bits(mask: int) -> Iterable[int]:
    while mask:
        yield mask & -mask
        mask &= mask - 1


def _substituted(monomial: int, columns: Sequence[int], flipped: int) -> set[int]:
    """The monomials of a product of bits of another thread's number (see `ThreadFunctions.moved`)."""
    product = {0}
    for bit in _bits(monomial):
        factor = [1 << own for own, column in enumerate(columns) if column & bit]
        if flipped & bit:
            factor.append(0)
        following: set[int] = set()
        for other in product:
            for one in factor:
                following ^= {other | one}
        product = following
    return product
