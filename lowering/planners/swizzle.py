"""The optimal swizzle: the place in shared memory of each element of an exchange.

A memory layout is a basis of the exchanged space, lowest address bits first: `low`, the elements of one vector
access; `filler`, the other elements of a bank word if accesses are narrower than one; `bank`, the other words
of one wavefront; `segment`, the wavefronts. Stores and loads may use vectors of different width: the narrower
is a prefix of `low`, and the wider side's threads never split it.

Let P be the lanes of one phase of an access and Q the span of P, the access's vector and `filler`. The access
is free of bank conflicts exactly if span(segment) meets Q in zero alone. Both sides' Q have at
most as many dimensions as a wavefront has address bits, and two subspaces of equal dimension always have a
common complement: with I = Q_store ∩ Q_load, Q_store = I + E and Q_load = I + F it is spanned by the sums
e_i + f_i and a complement C of Q_store + Q_load. So vectors of equal width never conflict. Vectors of different
width can, if the elements of the wider one are neither in the narrower one nor among its lanes (arXiv
2505.23819, section on optimal swizzling, where both sides share one vector).

One side may have more banks than the other (CDNA4's loads and stores). The segments are then those of the side
with more banks, and its last bank bits are segments of the other side too. These bits are chosen outside the
span of the other side's Q and the segments: together with the segments they then meet Q in zero if the segments
do.
"""

from __future__ import annotations

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """The elements that one store or load instruction accesses: the vector of a thread, the lanes of a
    phase."""

    vector: Columns
    phase: Columns
    bank_bits: int
    """Address bits of a wavefront, in elements, above the bits within a bank's word."""


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A basis of the exchanged space, lowest address bits first, then the `rounds` part without address.

    `conflicts`: the factor on the wavefronts of the side with the most bank conflicts; 1 without conflicts.
    """

    low: Columns
    filler: Columns
    bank: Columns
    segment: Columns
    rounds: Columns
    conflicts: int

    @property
    def address_bits(self) -> int:
        """Bits of an element's offset within the scratch, in elements."""
        return len(self.low) + len(self.filler) + len(self.bank) + len(self.segment)

    def basis(self) -> Columns:
        """All vectors: address bits in order, then the rounds."""
        return (*self.low, *self.filler, *self.bank, *self.segment, *self.rounds)


def optimal_swizzle(
    rounds: Columns, rest: Columns, store: Side, load: Side, word_bits: int, order: Columns = ()
) -> Swizzle:
    """A swizzle for these sides with the fewest conflicts of all whose banks and segments are sums of `rest`.

    `word_bits`: address bits within a bank word, in elements. The bits of a bank have any order; here the
    columns of the store's phase come first, then those of `order`.

    Requires: one vector is a prefix of the other; `rest` completes the wider and `rounds` to a basis.
    Ensures: no conflicts if the vectors are equal.
    """
    low = max(store.vector, load.vector, key=len)
    filler: Columns = ()
    if word_bits > len(low):
        shared_lanes = f2.intersection(store.phase, load.phase)
        lanes_first = (*shared_lanes, *store.phase, *load.phase, *rest)
        filler = _within(rest, low, lanes_first)[: word_bits - len(low)]
    inside, words = (*low[:word_bits], *filler), low[word_bits:]
    free = f2.extend(filler, rest)
    store_span = f2.intersection((*store.phase, *store.vector, *inside), free)
    load_span = f2.intersection((*load.phase, *load.vector, *inside), free)
    both = f2.intersection(store_span, load_span)
    only_store, only_load = f2.extend(both, store_span), f2.extend(both, load_span)
    pairs = min(len(only_store), len(only_load))
    sums = tuple(e ^ f for e, f in zip(only_store, only_load, strict=False))
    outside = f2.extend((*both, *only_store, *only_load), free)
    conflicting = (*only_store[pairs:], *only_load[pairs:], *both)
    bank_bits = max(store.bank_bits, load.bank_bits)
    count = max(0, len(free) - max(0, bank_bits - len(words)))
    segment = (*sums, *outside, *conflicting)[:count]
    spans = (store_span, load_span) if store.bank_bits <= load.bank_bits else (load_span, store_span)
    bank = f2.extend((*inside, *words, *segment), (*spans[0], *spans[1], *free))
    if store.bank_bits == load.bank_bits:
        bank = _in_order(bank, (*store.phase, *order))
    conflicts = [
        _conflicts(side, inside, (*segment, *bank[max(0, side.bank_bits - len(words)) :]))
        for side in (store, load)
    ]
    return Swizzle(low, filler, bank, segment, rounds, max(conflicts))


def _within(space: Columns, modulo: Columns, candidates: Columns) -> Columns:
    """The candidates in span(space), without those that depend on `modulo` and the candidates before them."""
    span = f2.Echelon(space)
    return f2.extend(modulo, (column for column in candidates if column in span))


def _conflicts(side: Side, inside: Columns, segment: Columns) -> int:
    """Wavefronts of one phase: 2^dim(span(segment) ∩ Q), modulo the access itself."""
    access = (*inside, *side.vector)
    lanes, segments = f2.rank((*side.phase, *access)), f2.rank((*segment, *access))
    meet = lanes + segments - f2.rank((*side.phase, *segment, *access)) - f2.rank(access)
    return 1 << meet


def _in_order(bank: Columns, columns: Columns) -> Columns:
    """`bank` with the members of `columns` first, in the order of `columns`.

    Successive bits of a thread's number are then successive bits of the address, which takes one shift for all.
    """
    order = {column: index for index, column in reversed(list(enumerate(columns)))}
    return tuple(sorted(bank, key=lambda column: order.get(column, len(columns))))
