"""The part of a tensor that each CTA of a cluster has.

If each CTA has a box of the tensor, the bits of the CTA's rank are the highest bits of the coordinates. Then
the part of a CTA is a tensor of its own: the assignment chooses a layout for the part and adds the bases of the
CTAs again.
"""

from __future__ import annotations

from functools import lru_cache

from triton_linear.dialect.linear_layout import BLOCK, LinearLayout, dim_names

Bases = tuple[tuple[int, ...], ...]


def blocks_of(layout: LinearLayout) -> Bases:
    """The bases of the CTA's rank in the cluster; () if there is one CTA."""
    for name, bases in layout.bases:
        if name == BLOCK:
            return bases
    return ()


@lru_cache(maxsize=1024)
def part_of(layout: LinearLayout) -> tuple[int, ...] | None:
    """The shape of the part of a CTA, the same for all; None if the part is no box, or overlaps the part of
    another CTA without being equal to it.

    >>> bases = {"register": [(1, 0)], "lane": [(0, 1)], "warp": [], "block": [(2, 0), (0, 0)]}
    >>> part_of(LinearLayout.from_bases(bases, ["dim0", "dim1"]))
    (2, 2)
    """
    sizes = [size for _, size in layout.out_dims]
    for basis in sorted(blocks_of(layout), key=max, reverse=True):
        for axis, value in enumerate(basis):
            if value:
                sizes[axis] //= 2
                if value != sizes[axis]:
                    return None
    inside = (basis for name, bases in layout.bases if name != BLOCK for basis in bases)
    if any(value >= size for basis in inside for value, size in zip(basis, sizes, strict=True)):
        return None
    return tuple(sizes)


def pieces_of(layout: LinearLayout) -> Bases:
    """The bases of the CTA's rank, counted in parts, as in `CGALayout`. Requires: `part_of` is not None."""
    sizes = part_of(layout)
    assert sizes is not None
    return tuple(tuple(value // size for value, size in zip(b, sizes, strict=True)) for b in blocks_of(layout))


def around(part: LinearLayout, whole: LinearLayout) -> LinearLayout:
    """The layout of a tensor in which each CTA has the layout `part`, and the CTAs lie as in `whole`."""
    if not blocks_of(whole):
        return part
    bases = tuple((name, vectors) for name, vectors in part.bases if name != BLOCK)
    return LinearLayout.fitted((*bases, (BLOCK, blocks_of(whole))), whole.out_dims)


def within(layout: LinearLayout) -> LinearLayout:
    """The layout of the part of one CTA; `layout` itself if that is the whole tensor, or no box."""
    return _within(layout) if blocks_of(layout) else layout


@lru_cache(maxsize=1024)
def _within(layout: LinearLayout) -> LinearLayout:
    part = part_of(layout)
    if part is None:
        return layout
    bases = tuple((name, () if name == BLOCK else vectors) for name, vectors in layout.bases)
    return LinearLayout.fitted(bases, tuple(zip(dim_names(len(part)), part, strict=True)))
