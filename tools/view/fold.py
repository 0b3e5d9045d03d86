"""Folded tensors: only one tile is drawn, and words describe by which inputs the other tiles differ.

A layout is a matrix over F2. So the holders of an element 2^b further along a dimension are those of the
first element plus a fixed vector of inputs, which is the same for all elements. If that vector is a single
bit of the registers, the warps or the blocks, the rest of the tensor repeats the tile with larger numbers,
and drawing it would show nothing new.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LANE, LinearLayout

LEAST_ELEMENTS = 8
"""A tile has at least as many elements of each dimension, if the dimension has: fewer show no pattern."""
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of `size` elements along `dim`: the inputs that change, each with the number that is xored; None
    if no inputs do that. `adds`: the bits are zero in the whole tile and in all other steps, so xor is
    addition."""

    dim: str
    size: int
    inputs: tuple[tuple[str, int], ...] | None
    adds: bool


def _row(layout: LinearLayout, dim: int) -> int:
    """The number of the matrix's first row of an out-dim."""
    return sum(size.bit_length() - 1 for _, size in layout.out_dims[:dim])


def _inputs(layout: LinearLayout, vector: int) -> tuple[tuple[str, int], ...]:
    """The nonzero parts of a flattened vector of inputs, with the names of their in-dims."""
    found = []
    for name, vectors in layout.bases:
        part, vector = vector & (1 << len(vectors)) - 1, vector >> len(vectors)
        if part:
            found.append((name, part))
    return tuple(found)


def _only_translates(layout: LinearLayout, dim: int, bit: int) -> bool:
    """Whether a bit of an index is given by one bit of registers, warps, blocks or memory, and that alone."""
    row = 1 << _row(layout, dim) + bit
    touching = [at for at, column in enumerate(layout.matrix()) if column & row]
    if len(touching) != 1 or layout.matrix()[touching[0]] != row:
        return False
    return _inputs(layout, 1 << touching[0])[0][0] != LANE


def steps(layout: LinearLayout, tile: Sequence[int]) -> tuple[Step, ...]:
    """The steps to other tiles, those of the first dimension first, small steps first."""
    inside = sum(
        (size - 1) << _row(layout, dim) for dim, size in enumerate(tile)
    )  # the rows of the matrix that distinguish the elements of a tile
    used = 0
    for unseen in f2.null_space([column & ~inside for column in layout.matrix()]):
        used |= unseen
    wanted: list[tuple[str, int, int | None]] = []
    for dim, (name, size) in enumerate(layout.out_dims):
        for bit in range(tile[dim].bit_length() - 1, size.bit_length() - 1):
            wanted.append((name, 1 << bit, f2.solve(layout.matrix(), 1 << _row(layout, dim) + bit)))
    found = []
    for at, (name, size, vector) in enumerate(wanted):
        if vector is None:
            found.append(Step(name, size, None, False))
            continue
        others = used
        for other, (_, _, changed) in enumerate(wanted):
            if other != at and changed is not None:
                others |= changed
        found.append(Step(name, size, _inputs(layout, vector), not vector & others))
    return tuple(found)


def words(layout: LinearLayout, tile: Sequence[int]) -> Iterator[str]:
    """Lines that describe how the tensor continues beyond a tile; none if the tile is the whole tensor.

    Steps of one dimension that change the same in-dims share a line: `dim0 += 16, 32: warp += 1, 2`.
    """
    sizes = [size for _, size in layout.out_dims]
    if list(tile) == sizes:
        return
    times = "x".join(str(size // part) for size, part in zip(sizes, tile, strict=True))
    yield f"a tile of {'x'.join(map(str, tile))}, repeats {times} times:"

    def kind(step: Step) -> tuple[object, ...]:
        return step.dim, step.inputs and [name for name, _ in step.inputs], step.adds

    for _, group in itertools.groupby(steps(layout, tile), kind):
        same = list(group)
        moved = f"{same[0].dim} += {', '.join(str(step.size) for step in same)}"
        if same[0].inputs is None:
            yield f"  {moved}: no inputs do that"
            continue
        sign = "+=" if same[0].adds else "^="
        changed = [
            f"{name} {sign} {', '.join(str((step.inputs or ())[which][1]) for step in same)}"
            for which, (name, _) in enumerate(same[0].inputs)
        ]
        yield f"  {moved}: {' and '.join(changed)}"


def tile_of(layouts: Sequence[LinearLayout], fits: Callable[[Sizes], bool]) -> Sizes:
    """The tile that is drawn of all layouts of one tensor: the whole tensor if it fits, else the smallest
    part that repeats itself in all layouts, or as much of that as fits.

    Requires: a single element fits.
    """
    sizes = [size for _, size in layouts[0].out_dims]
    if fits(tuple(sizes)):
        return tuple(sizes)
    tile = list(sizes)
    for dim, size in enumerate(sizes):
        while tile[dim] > min(LEAST_ELEMENTS, size) and all(
            _only_translates(layout, dim, tile[dim].bit_length() - 2) for layout in layouts
        ):
            tile[dim] //= 2
    while not fits(tuple(tile)) and prod(tile) > 1:
        halves = [dim for dim, size in enumerate(tile) if size > 1]
        # If halving one dimension is enough, do that; else halve slices first, then the longer of rows and
        # columns.
        enough = [dim for dim in halves if fits(tuple(size >> (at == dim) for at, size in enumerate(tile)))]
        leading = [dim for dim in halves if dim < len(tile) - 2]
        tile[(enough or leading or [max(halves, key=lambda dim: (tile[dim], -dim))])[0]] //= 2
    return tuple(tile)


def tiles_of(
    layouts: Sequence[LinearLayout], fitting: Callable[[Sequence[LinearLayout]], Sizes]
) -> list[Sizes]:
    """The sizes of the tile that is drawn of each layout: the same for layouts of one tensor."""
    return [fitting([other for other in layouts if other.out_dims == layout.out_dims]) for layout in layouts]
