"""How to split a reduction whose axis lies across warps. It plans with layouts, and reads no IR.

The coordinate along the axis is a row of bits. Each is a bit of the register, the lane or the warp, as the
layout's basis vectors state. Each bit that lies in warps becomes a dimension of size 2, and all other bits
become one dimension after these:

    axis of 64, registers 0-1, lanes 2-3, warps 4-5, one warp of four:   64  ->  2 x 2 x 16

No element moves. Each warp reduces its elements along the 16. The partial results are converted to a layout in
which one thread has the four that belong together, and the thread reduces them, the higher bit of the warp's
number first. This is the order in which Triton's own shuffles combine the partial results, so floats round
alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from triton_linear.dialect.encodings import linear_encoding_text, transfer
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import REDUCTIONS_CONVERT, Release


@dataclass(frozen=True, slots=True)
class Split:
    """The plan of a split reduction.

    pieces: the sizes into which the axis is cut, the slowest first. order: the order into which the pieces are
    transposed, those of warps first. sizes: the dimensions that the axis becomes: `crossing` of size 2 for the
    bits in warps, then the others. These are reduced from the last to the first, then those that cross from the
    first to the last. apart, moved, whole: the layouts after the cut, after the transposition, and with the
    final dimensions.
    """

    axis: int
    pieces: tuple[int, ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    crossing: int
    apart: LinearLayout
    moved: LinearLayout
    whole: LinearLayout

    @property
    def inside(self) -> int:
        """The number of dimensions that are reduced within warps."""
        return len(self.sizes) - self.crossing

    @property
    def copies(self) -> bool:
        """True if several lanes have copies of a warp's partial result, each combined in its own order."""
        along = slice(self.axis + self.crossing, self.axis + len(self.sizes))
        return any(any(basis[along]) for basis in dict(self.whole.bases).get(LANE, ()))


@lru_cache(maxsize=1024)
def split(layout: LinearLayout, axis: int, release: Release) -> Split | str:
    """Plan the split of a reduction along `axis` of a tensor with this layout, for this release of Triton; or
    why a split is not needed or not possible.

    Ensures: the product of the pieces is the size of the axis; in `partials`, neither lanes nor registers lie
    along the axis.
    """
    places = _places(layout, axis)
    if isinstance(places, str):
        return places
    if any(name == BLOCK for name, _ in places):
        return "CTAs have parts of the axis"
    groups = _groups(places, release)
    if not any(groups):
        return "no warp has only a part of the axis"
    runs: list[list[int]] = []  # neighbouring bits of one group, from the highest
    for bit in reversed(range(len(places))):
        if runs and groups[bit] == groups[runs[-1][-1]]:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    pieces = tuple(1 << len(run) for run in runs)
    order = sorted(range(len(runs)), key=lambda index: -groups[runs[index][0]])
    sizes: dict[int, int] = {}
    for index in order:
        group = groups[runs[index][0]]
        sizes[group] = sizes.get(group, 1) * pieces[index]
    shape = tuple(size for _, size in layout.out_dims)
    before, after = shape[:axis], shape[axis + 1 :]
    permuted = (
        *range(axis),
        *(axis + index for index in order),
        *range(axis + len(runs), len(shape) - 1 + len(runs)),
    )
    apart = transfer.reshape(layout, (*before, *pieces, *after))
    moved = transfer.trans(apart, permuted)
    whole = transfer.reshape(moved, (*before, *sizes.values(), *after))
    crossing = sum(name == WARP for name, _ in places)
    found = Split(axis, pieces, tuple(order), tuple(sizes.values()), crossing, apart, moved, whole)
    try:
        for step in (apart, moved, whole):
            linear_encoding_text(step)
    except ValueError as error:
        return str(error)
    return found


def _places(layout: LinearLayout, axis: int) -> list[tuple[str, int]] | str:
    """For each bit of the coordinate along the axis: the in-dim and the number of the in-dim's bit that it lies
    in; or why there is none."""
    size = layout.out_dims[axis][1]
    places: list[tuple[str, int] | None] = [None] * (size.bit_length() - 1)
    for name, vectors in layout.bases:
        for index, basis in enumerate(vectors):
            if not (value := basis[axis]):
                continue
            if value & (value - 1) or sum(map(bool, basis)) > 1:
                return f"{name}={1 << index} -> {basis} is more than one bit of a coordinate"
            if places[value.bit_length() - 1] is not None:
                return f"{name}={1 << index} -> {basis} repeats another basis vector"
            places[value.bit_length() - 1] = name, index
    known = [place for place in places if place is not None]
    return known if len(known) == len(places) else "the layout does not hold the whole axis"


def _groups(places: list[tuple[str, int]], release: Release) -> list[int]:
    """The group of each bit; bits of one group are reduced together. Group 0 has the bits in registers and
    lanes; then each bit in warps is a group.

    Before 3.8 Triton's lowering expects the lanes along an axis to be one run of bits, so each further run of
    lane bits is a group of its own; and it combines warps by the bits of the coordinate, not of their number.
    """
    if release in REDUCTIONS_CONVERT:
        groups, order = [0] * len(places), [index for _, index in places]
    else:
        lanes = sorted(index for name, index in places if name == LANE)
        run = {lane: sum(b - a > 1 for a, b in pairwise(lanes[: at + 1])) for at, lane in enumerate(lanes)}
        groups = [run[index] if name == LANE else 0 for name, index in places]
        order = list(range(len(places)))
    last = max(groups, default=0)
    bits = (bit for bit, (name, _) in enumerate(places) if name == WARP)
    for bit in sorted(bits, key=order.__getitem__):
        groups[bit] = last = last + 1
    return groups


def gathered(
    result: LinearLayout, found: Split, lanes_first: bool = False
) -> Iterator[tuple[LinearLayout, int]]:
    """Layouts of the partial results that reduce, within warps, to the layout `result`; and how many of the
    split's dimensions each has in lanes.

    The dimensions are in registers, or some of them in lanes that hold copies in `result`: then a thread has
    fewer partial results to load, and combines them by shuffles. The last dimensions go to lanes, which takes
    the fewest shuffles. With `lanes_first` the first dimensions go to lanes, and a scalar keeps at least one
    dimension in registers for after the shuffles.
    """
    rank = len(result.out_dims)
    count = found.crossing
    sizes = [size for _, size in result.out_dims]
    shape = (*sizes[: found.axis], *(2,) * count, *sizes[found.axis :])
    widened = {
        name: [(*basis[: found.axis], *(0,) * count, *basis[found.axis :]) for basis in vectors]
        for name, vectors in result.bases
    }
    added = [tuple(int(i == found.axis + place) for i in range(rank + count)) for place in range(count)]
    free = [lane for lane, basis in enumerate(widened[LANE]) if not any(basis)]
    most = count - 1 if lanes_first and not rank else count
    for taken in range(min(most, len(free)) + 1):
        lanes = list(widened[LANE])
        moved, kept = (added[count - taken :], added[: count - taken])
        if lanes_first:
            moved, kept = added[:taken], added[taken:]
        for lane, basis in zip(free, reversed(moved), strict=False):
            lanes[lane] = basis
        bases = {**widened, LANE: lanes}
        bases[REGISTER] = [*reversed(kept), *widened.get(REGISTER, [])]
        partials = LinearLayout.fitted(
            tuple((name, tuple(vectors)) for name, vectors in bases.items()),
            tuple(zip(dim_names(rank + count), shape, strict=True)),
        )
        yield partials, taken


def spread(layout: LinearLayout) -> Iterator[LinearLayout]:
    """Layouts in which lanes that hold copies, or lanes and warps, hold the last registers instead.

    If other threads have copies of a thread's results, each can combine a share of the partial results.
    """
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    for names in ((LANE,), (LANE, WARP)):
        bases = {name: list(vectors) for name, vectors in layout.bases}
        left = list(registers)
        for name in names:
            for index, basis in enumerate(bases.get(name, ())):
                if left and not any(basis):
                    bases[name][index] = left.pop()
        bases[REGISTER] = left
        if len(left) < len(registers):
            yield LinearLayout(
                tuple((name, tuple(vectors)) for name, vectors in bases.items()), layout.out_dims
            )
