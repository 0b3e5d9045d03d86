"""The optimal swizzle: where in shared memory each element of an exchange goes.

A memory layout is a basis of the exchanged space, cut into (V, sub, bank, segment): V indexes the elements
of one vector access, `sub` the accesses within one bank word when they are narrower than a bank, `bank` the
rest of one wavefront, `segment` the wavefronts. An access of a phase's lanes P is free of conflicts exactly
when no sum of P lies in span(segment) but for zero, modulo what shares a bank word. Two subspaces of equal
dimension always have a common complement: with I = span(S) ∩ span(L), S = I + E and L = I + F for the lanes S
of a store phase and L of a load phase, it is spanned by the sums e_i + f_i and a complement C of S + L. So
neither side ever conflicts while a phase has no more lanes than there are banks (arXiv 2505.23819, section on
optimal swizzling; its branch of unavoidable conflicts needs more lanes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_linear.dialect import f2

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A basis of the exchanged space, lowest address bits first, then the `rounds` part without address."""

    vector: Columns
    sub: Columns
    bank: Columns
    segment: Columns
    rounds: Columns

    @property
    def address_bits(self) -> int:
        """Bits of an element's offset within the scratch, in elements."""
        return len(self.vector) + len(self.sub) + len(self.bank) + len(self.segment)

    def basis(self) -> Columns:
        """All vectors: address bits in order, then the rounds."""
        return (*self.vector, *self.sub, *self.bank, *self.segment, *self.rounds)


def optimal_swizzle(
    vector: Columns,
    rounds: Columns,
    rest: Columns,
    store_phase: Columns,
    load_phase: Columns,
    sub_bits: int,
    bank_bits: int,
) -> Swizzle:
    """A swizzle without bank conflicts for these phases.

    Requires: `rest` is a basis of the space without `vector` and `rounds`; the lanes of a store phase and of
    a load phase lie in its span and number at most `bank_bits` independent vectors each.
    Ensures: span(segment) meets neither phase, modulo span(sub).
    """
    common = f2.intersection(store_phase, load_phase)
    sub = f2.extend((), (*common, *store_phase, *load_phase, *rest))[:sub_bits]
    stores = f2.extend(sub, store_phase)
    loads = f2.extend(sub, load_phase)
    shared = f2.extend(sub, f2.intersection((*sub, *stores), (*sub, *loads)))
    only_stores = f2.extend((*sub, *shared), stores)
    only_loads = f2.extend((*sub, *shared), loads)
    sums = tuple(e ^ f for e, f in zip(only_stores, only_loads, strict=False))
    outside = f2.extend((*sub, *shared, *only_stores, *only_loads), rest)
    segment = (*sums, *outside)[: max(0, len(rest) - len(sub) - bank_bits)]
    bank = f2.extend((*sub, *segment), (*stores, *loads, *rest))
    return Swizzle(vector, sub, _sorted_for_addresses(bank, stores), segment, rounds)


def _sorted_for_addresses(bank: Columns, stores: Sequence[int]) -> Columns:
    """Store lanes first and in lane order, so that a store's address is the lane number shifted."""
    order = {column: index for index, column in enumerate(stores)}
    return tuple(sorted(bank, key=lambda column: order.get(column, len(order))))
