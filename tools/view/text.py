"""Layouts as coloured text of at most 100 columns; a picture is the same text as SVG."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod

from rich.text import Text

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.tools.view.fold import Sizes, tile_of
from triton_linear.tools.view.fold import words as fold_words
from triton_linear.tools.view.memory import Memory, memory_words
from triton_linear.tools.view.places import Grid, LaneRun, hardware_grid, heads, matrix_rows, tensor_grids

WIDTH = 100
MOST_ROWS = 32
"""The maximum number of rows of a single view."""
ROWS = ((32, 32), (16, 16), (16, 8), (8, 8), (8, 4), (4, 4))
"""Numbers of rows of the tensor and of lanes of each layout. The first pair is used for which the whole text
has less than `MOST_LINES` lines."""
MOST_LINES = 120
MOST_IN_CELL = 32
"""The maximum number of consecutive elements of one thread in a cell. It only limits which tiles are tried."""
HEADS, INK = "dim", "#1d2430"
_ONE = "bold white on #4c86d9"
Paint = Callable[[LaneRun], str]
"""The colour of a cell, as `#rrggbb`."""


def grid_lines(grid: Grid, paint: Paint, most_rows: int = MOST_ROWS) -> Iterator[Text]:
    """A grid as lines: as many columns side by side as fit, then the others below."""
    shown = grid.cells[:most_rows]
    names = grid.rows[:most_rows]
    left, wide, per_line = max(map(len, (grid.corner, *grid.rows))), _widest(grid), columns_per_line(grid)
    if grid.title:
        yield Text(grid.title)
    for start in range(0, len(grid.columns), per_line):
        block = slice(start, start + per_line)
        yield _row((grid.corner.ljust(left), HEADS), ((head.ljust(wide), HEADS) for head in heads(grid)[block]))
        for name, row in zip(names, shown, strict=True):
            cells = ((run.label.ljust(wide), f"{INK} on {paint(run)}") for run in row[block])
            yield _row((name.rjust(left), HEADS), cells)
    if len(grid.cells) > len(shown):
        yield Text(f"... {len(grid.cells) - len(shown)} more rows")


def _row(name: tuple[str, str], cells: Iterable[tuple[str, str]]) -> Text:
    """A line of cells, two blanks in front of each."""
    return Text.assemble(name, *(part for cell in cells for part in ("  ", cell)))


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


def tensor_text(layout: LinearLayout, paint: Paint, tile: Sequence[int]) -> Iterator[Text]:
    """The holders of each element of a tile, and how other tiles differ. `T5:2` is register 2 of thread 5,
    `T5:0-3` are its registers 0 to 3 for consecutive elements. `|` separates two holders of copies; ` x4`
    follows the first of four holders.
    """
    for grid in tensor_grids(layout, tile):
        yield from grid_lines(grid, paint, prod(tile))
    for line in fold_words(layout, tile):
        yield from wrapped(line)


def wrapped(line: str) -> list[Text]:
    """A line wrapped to lines of at most `WIDTH`, all but the first indented."""
    return [Text(part) for part in textwrap.wrap(line, WIDTH, subsequent_indent=" " * 6)] or [Text()]


def hardware_text(layout: LinearLayout, paint: Paint, most_rows: int) -> Iterator[Text]:
    """The elements that the lanes of the first warp hold, for as many lanes and registers as fit, and by how
    much the elements of the others differ.
    """
    most = 1 << (WIDTH * MOST_IN_CELL // 3).bit_length() - 1  # a column takes three letters at least
    shown = {REGISTER: min(most, layout.in_dim_size(REGISTER)), LANE: layout.in_dim_size(LANE)}
    while shown[LANE] > max(1, most_rows):
        shown[LANE] //= 2
    grid = hardware_grid(layout, **shown)
    while shown[REGISTER] > 1 and len(grid.columns) > columns_per_line(grid):
        shown[REGISTER] //= 2
        grid = hardware_grid(layout, **shown)
    yield from grid_lines(grid, paint, most_rows)
    for line in hardware_words(layout, shown):
        yield from wrapped(line)


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


def memory_text(memory: Memory, paint: Paint, most_rows: int) -> Iterator[Text]:
    """The rows of banks, see `Memory.grid`: at most `most_rows` lines, however wide the rows are, then a line
    about the other elements.
    """
    grid = memory.grid()
    parts = -(-len(grid.columns) // columns_per_line(grid))
    rows = max(1, most_rows // parts)
    yield from grid_lines(grid, paint, rows)
    for line in memory_words(memory, rows):
        yield from wrapped(line)


def matrix_text(layout: LinearLayout) -> Iterator[Text]:
    """The matrix over F2: a column for each bit of an input, a row for each bit of a coordinate; zeros are
    printed as dots.
    """
    rows, columns, entries = matrix_rows(layout)
    left = max(map(len, rows), default=0)
    groups = [
        (dim, len(list(bits)))
        for dim, bits in itertools.groupby(column.partition(":")[0] for column in columns)
    ]
    widths = [max(len(dim), 2 * count - 1) for dim, count in groups]
    yield _row((" " * left, ""), ((dim.ljust(w), HEADS) for (dim, _), w in zip(groups, widths, strict=True)))
    for name, row in zip(rows, entries, strict=True):
        line, bits = Text.assemble((name.ljust(left), HEADS)), iter(row)
        for (_, count), width in zip(groups, widths, strict=True):
            for place in range(count):
                line.append(" " if place else "  ").append(*(("1", _ONE) if next(bits) else (".", "")))
            line.append(" " * (width - 2 * count + 1))
        yield line
