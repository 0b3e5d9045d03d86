"""Layouts as text of at most 100 columns."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.tools.view.fold import Sizes, tile_of
from triton_linear.tools.view.fold import words as fold_words
from triton_linear.tools.view.places import Grid, hardware_grid, heads, matrix_rows, tensor_grids

WIDTH = 100
MOST_ROWS = 32
"""The maximum number of rows of a single view."""
ROWS = ((32, 32), (16, 16), (16, 8), (8, 8), (8, 4), (4, 4))
"""Numbers of rows of the tensor and of lanes of each layout. The first pair is used for which the whole text
has less than `MOST_LINES` lines."""
MOST_LINES = 120
MOST_IN_CELL = 32
"""The maximum number of consecutive elements of one thread in a cell. It only limits which tiles are tried."""


def grid_lines(grid: Grid, most_rows: int = MOST_ROWS) -> Iterator[str]:
    """A grid as lines: as many columns side by side as fit, then the others below."""
    shown = grid.cells[:most_rows]
    names = grid.rows[:most_rows]
    left, wide, per_line = max(map(len, (grid.corner, *grid.rows))), _widest(grid), columns_per_line(grid)
    if grid.title:
        yield grid.title
    for start in range(0, len(grid.columns), per_line):
        block = slice(start, start + per_line)
        line = grid.corner.ljust(left) + "".join("  " + head.ljust(wide) for head in heads(grid)[block])
        yield line.rstrip()
        for name, row in zip(names, shown, strict=True):
            yield (name.rjust(left) + "".join("  " + run.label.ljust(wide) for run in row[block])).rstrip()
    if len(grid.cells) > len(shown):
        yield f"... {len(grid.cells) - len(shown)} more rows"


def columns_per_line(grid: Grid) -> int:
    """The number of columns of a grid that fit a line."""
    left = max(map(len, (grid.corner, *grid.rows)))
    return max(1, (WIDTH - left) // (_widest(grid) + 2))


def _widest(grid: Grid) -> int:
    return max(len(label) for label in (*heads(grid), *(run.label for row in grid.cells for run in row)))


def text_tile(layouts: Sequence[LinearLayout], most_rows: int = MOST_ROWS) -> Sizes:
    """The tile of a tensor that has at most `most_rows` rows in all slices, none longer than a line."""

    def fits(tile: Sizes) -> bool:
        if prod(tile[:-1]) > most_rows or tile[-1] > WIDTH * MOST_IN_CELL:
            return False
        grids = [grid for layout in layouts for grid in tensor_grids(layout, tile)]
        return all(len(grid.columns) <= columns_per_line(grid) for grid in grids)

    return tile_of(layouts, fits)


def tensor_text(layout: LinearLayout, most_rows: int = MOST_ROWS, tile: Sequence[int] | None = None) -> str:
    """The holders of each element. `T5:2` is register 2 of thread 5 of the CTA, `T5:0-3` are registers 0 to 3
    for consecutive elements. `|` separates two holders of copies; ` x4` follows the first of four holders.

    If the tensor is too large, only one tile is shown (of size `tile` if given), and how the others differ.
    """
    tile = tile or text_tile([layout], most_rows)
    lines = [line for grid in tensor_grids(layout, tile) for line in grid_lines(grid, prod(tile))]
    return "\n".join((*lines, *(part for line in fold_words(layout, tile) for part in wrapped(line))))


def wrapped(line: str) -> list[str]:
    """A line wrapped to lines of at most `WIDTH`, all but the first indented."""
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * 6) or [""]


def hardware_text(layout: LinearLayout, most_rows: int = MOST_ROWS) -> str:
    """The elements that the lanes of the first warp hold, for as many lanes and registers as fit, and by how
    much the elements of the others differ.
    """
    shown = {REGISTER: layout.in_dim_size(REGISTER), LANE: layout.in_dim_size(LANE)}
    while shown[LANE] > max(1, most_rows):
        shown[LANE] //= 2
    grid = hardware_grid(layout, **shown)
    while shown[REGISTER] > 1 and len(grid.columns) > columns_per_line(grid):
        shown[REGISTER] //= 2
        grid = hardware_grid(layout, **shown)
    lines = list(grid_lines(grid, most_rows))
    for line in hardware_words(layout, shown):
        lines += wrapped(line)
    return "\n".join(lines)


def hardware_words(layout: LinearLayout, shown: Mapping[str, int]) -> Iterator[str]:
    """By how much the elements of the other inputs differ: a line for each in-dim, and a separate one for
    copies.
    """
    for dim in (REGISTER, LANE, WARP, BLOCK):
        first = shown.get(dim, 1).bit_length() - 1
        moved = [(1 << bit, layout.basis(dim, bit)) for bit in range(first, layout.in_dim_bits(dim))]
        for copies, group in itertools.groupby(moved, lambda entry: not any(entry[1])):
            same = list(group)
            numbers = ", ".join(str(number) for number, _ in same)
            by = ", ".join(f"({', '.join(map(str, vector))})" for _, vector in same)
            change = ("a copy" if len(same) == 1 else "copies") if copies else f"coordinates xor {by}"
            yield f"{dim} {numbers}: {change}"


def matrix_text(layout: LinearLayout) -> str:
    """The matrix over F2: a column for each bit of an input, a row for each bit of a coordinate; zeros are
    printed as dots.
    """
    rows, columns, entries = matrix_rows(layout)
    left = max(map(len, rows), default=0)
    lines = []
    groups: list[tuple[str, int]] = []
    for column in columns:
        dim = column.partition(":")[0]
        if groups and groups[-1][0] == dim:
            groups[-1] = dim, groups[-1][1] + 1
        else:
            groups.append((dim, 1))
    widths = [max(len(dim), 2 * count - 1) for dim, count in groups]
    lines.append(
        " " * left + "".join(f"  {dim.ljust(w)}" for (dim, _), w in zip(groups, widths, strict=True)).rstrip()
    )
    for name, row in zip(rows, entries, strict=True):
        line, at = name.ljust(left), 0
        for (_, count), width in zip(groups, widths, strict=True):
            part: Sequence[str] = ["1" if entry else "." for entry in row[at : at + count]]
            line += "  " + " ".join(part).ljust(width)
            at += count
        lines.append(line.rstrip())
    return "\n".join(lines)
