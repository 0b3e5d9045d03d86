"""Orders of an axis: permutations of the bits of its coordinates.

An order is a tuple whose entry b is the bit that bit b moves to: order(i) is the sum of 2^order[b] over the
bits b that are set in i. A value is in this order along an axis if its element i is the original element
order(i).
"""

from __future__ import annotations

from triton_linear.dialect.linear_layout import REGISTER, LinearLayout

Order = tuple[int, ...]


def inverse(order: Order) -> Order:
    """The order that undoes this one."""
    return tuple(order.index(bit) for bit in range(len(order)))


def images(order: Order) -> list[int]:
    """order(i) for each coordinate i.

    >>> images((1, 0))
    [0, 2, 1, 3]
    """
    result = [0]
    for bit in order:
        result += [image | 1 << bit for image in result]
    return result


def shifts(order: Order) -> dict[int, int]:
    """For each distance, the mask of the bits that move by it.

    >>> shifts((0, 2, 1))
    {0: 1, 1: 2, -1: 4}
    """
    masks: dict[int, int] = {}
    for bit, place in enumerate(order):
        masks[place - bit] = masks.get(place - bit, 0) | 1 << bit
    return masks


def aligning(source: LinearLayout, wanted: LinearLayout, axis: int) -> Order | None:
    """The order of `axis` in which each lane and warp has the same elements in `source` as in `wanted`.

    If the coordinates along the axis are put in this order, a conversion from `source` to `wanted` only
    permutes the registers of each thread. None if there is no such order, or if the present one is.

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
    free_bits = [bit for bit in range(bits) if bit not in goes]
    free_places = [place for place in range(bits) if place not in goes.values()]
    for bit in [bit for bit in free_bits if bit in free_places]:
        goes[bit] = bit
        free_bits.remove(bit)
        free_places.remove(bit)
    goes.update(zip(free_bits, free_places, strict=True))
    order = tuple(goes[bit] for bit in range(bits))
    return None if order == tuple(range(bits)) else order


def reordered_layout(layout: LinearLayout, axis: int, order: Order) -> LinearLayout:
    """The layout of a tensor after element i along `axis` has become element order(i)."""

    def moved(basis: tuple[int, ...]) -> tuple[int, ...]:
        image = sum(1 << order[bit] for bit in range(len(order)) if basis[axis] >> bit & 1)
        return (*basis[:axis], image, *basis[axis + 1 :])

    bases = tuple((name, tuple(map(moved, vectors))) for name, vectors in layout.bases)
    return LinearLayout.fitted(bases, layout.out_dims)
