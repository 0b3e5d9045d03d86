"""Orders of an axis: permutations of the bits of its coordinates.

An order is the tuple whose entry b is the bit that bit b goes to: order(i) is the sum of 2^order[b] over the
bits b that are set in i. Values along an axis are in this order if element i is what element order(i) was.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout

Order = tuple[int, ...]


def inverse(order: Order) -> Order:
    """The order that undoes this one."""
    return tuple(order.index(bit) for bit in range(len(order)))


def images(order: Order) -> list[int]:
    """Where each coordinate goes.

    >>> images((1, 0))
    [0, 2, 1, 3]
    """
    found = [0]
    for bit in order:
        found += [image | 1 << bit for image in found]
    return found


def shifts(order: Order) -> dict[int, int]:
    """The bits that move by the same distance, as a mask by that distance.

    >>> shifts((0, 2, 1))
    {0: 1, 1: 2, -1: 4}
    """
    found: dict[int, int] = {}
    for bit, place in enumerate(order):
        found[place - bit] = found.get(place - bit, 0) | 1 << bit
    return found


def runs(order: Order) -> Iterator[tuple[int, int, int]]:
    """Bits that stay next to each other, highest first: the lowest of them, where it goes, and how many.

    >>> list(runs((0, 2, 3, 1)))
    [(3, 1, 1), (1, 2, 2), (0, 0, 1)]
    """
    high = len(order)
    for bit in reversed(range(len(order))):
        if bit == 0 or order[bit] != order[bit - 1] + 1:
            yield bit, order[bit], high - bit
            high = bit


def aligning(source: LinearLayout, wanted: LinearLayout, axis: int) -> Order | None:
    """The order of `axis` that takes each lane and warp of `source` to what it has in `wanted`.

    Applied to the coordinates along the axis it leaves a conversion between the two nothing to do but to
    permute a thread's registers. None where there is none, or none is needed.

    >>> acc = LinearLayout.from_bases([("register", [(1,)]), ("lane", [(2,), (4,)])], ["dim0"])
    >>> operand = LinearLayout.from_bases([("register", [(4,)]), ("lane", [(1,), (2,)])], ["dim0"])
    >>> aligning(acc, operand, 0)
    (2, 0, 1)
    """
    ours, theirs = dict(source.bases), dict(wanted.bases)
    bits = source.out_dims[axis][1].bit_length() - 1
    goes: dict[int, int] = {}
    for name in {*ours, *theirs} - {REGISTER}:
        pairs = zip(ours.get(name, ()), theirs.get(name, ()), strict=False)
        if len(ours.get(name, ())) != len(theirs.get(name, ())):
            return None
        for old, new in pairs:
            if old[:axis] != new[:axis] or old[axis + 1 :] != new[axis + 1 :]:
                return None
            if not old[axis] and not new[axis]:
                continue
            if old[axis].bit_count() != 1 or new[axis].bit_count() != 1:
                return None
            bit, place = old[axis].bit_length() - 1, new[axis].bit_length() - 1
            if goes.setdefault(bit, place) != place:
                return None
    if len(set(goes.values())) < len(goes):
        return None
    left = [bit for bit in range(bits) if bit not in goes]
    open_ = [place for place in range(bits) if place not in goes.values()]
    for bit in [bit for bit in left if bit in open_]:
        goes[bit] = bit
        left.remove(bit)
        open_.remove(bit)
    goes.update(zip(left, open_, strict=True))
    order = tuple(goes[bit] for bit in range(bits))
    return None if order == tuple(range(bits)) else order


def reordered_layout(layout: LinearLayout, axis: int, order: Order) -> LinearLayout:
    """The layout of a tensor once element i along `axis` has become element order(i)."""

    def moved(basis: tuple[int, ...]) -> tuple[int, ...]:
        image = sum(1 << order[bit] for bit in range(len(order)) if basis[axis] >> bit & 1)
        return (*basis[:axis], image, *basis[axis + 1 :])

    bases = tuple((name, tuple(map(moved, vectors))) for name, vectors in layout.bases)
    return LinearLayout.fitted(bases, layout.out_dims)
