"""Layouts as coloured text of at most 100 columns; a picture is the same text as SVG."""

from __future__ import annotations

import colorsys
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import prod
from xml.sax.saxutils import escape

from rich.style import Style
from rich.text import Span, Text

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.target.phases import BANK_BYTES
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.view.fold import Sizes, tile_of
from triton_linear.tools.view.fold import words as fold_words
from triton_linear.tools.view.memory import Memory, is_drawn, memory_words
from triton_linear.tools.view.places import (
    Grid,
    LaneRun,
    hardware_grid,
    heads,
    is_distributed,
    matrix_rows,
    tensor_grids,
)
from triton_linear.tools.view.subject import Subject

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
    follows the first of four holders."""
    for grid in tensor_grids(layout, tile):
        yield from grid_lines(grid, paint, prod(tile))
    for line in fold_words(layout, tile):
        yield from wrapped(line)


def wrapped(line: str) -> list[Text]:
    """A line wrapped to lines of at most `WIDTH`, all but the first indented."""
    return [Text(part) for part in textwrap.wrap(line, WIDTH, subsequent_indent=" " * 6)] or [Text()]


def hardware_text(layout: LinearLayout, paint: Paint, most_rows: int) -> Iterator[Text]:
    """The elements that the lanes of the first warp hold, for as many lanes and registers as fit, and by how
    much the elements of the others differ."""
    most = 1 << (WIDTH * MOST_IN_CELL // 3).bit_length() - 1  # a column takes three letters at least
    shown = {REGISTER: min(most, layout.in_dim_size(REGISTER)), LANE: layout.in_dim_size(LANE)}
    while shown[LANE] > max(1, most_rows):
        shown[LANE] //= 2
    grid = hardware_grid(layout, **shown)
    while shown[REGISTER] > 1 and len(grid.columns) > columns_per_line(grid):
        shown[REGISTER] //= 2
        grid = hardware_grid(layout, **shown)
    yield from grid_lines(grid, paint, most_rows)
    for line in _hardware_words(layout, shown):
        yield from wrapped(line)


def _hardware_words(layout: LinearLayout, shown: Mapping[str, int]) -> Iterator[str]:
    """By how much the elements of other inputs differ: a line for each in-dim, and another one for copies."""
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
    """The rows of banks, in at most `most_rows` lines, then a line about the other elements."""
    grid = memory.grid()
    parts = -(-len(grid.columns) // columns_per_line(grid))
    rows = max(1, most_rows // parts)
    yield from grid_lines(grid, paint, rows)
    for line in memory_words(memory, rows):
        yield from wrapped(line)


def matrix_text(layout: LinearLayout) -> Iterator[Text]:
    """The matrix over F2: a column for each bit of an input, a row for each bit of a coordinate."""
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


NO_OWNER = "#dedede"
_HUE_STEP = 13
"""The number of hues from one lane to the next. With 32 or 64 hues, lanes whose numbers differ by a power of
two, as neighbours in a tile do, are at least 0.18 of the colour circle apart."""
_LIGHTEST, _DARKEST = 0.98, 0.70
"""The range of the colours' values; black text is readable on all of them."""


def painter(subject: Subject, target: Target) -> Callable[[LaneRun], str]:
    """A function that gives cells of a subject the colour of their thread or, in memory, of their bank."""
    layout = subject.layout
    if is_distributed(layout):
        lanes = layout.in_dim_size(LANE)
        return lambda run: thread_colour(run.owner[1], run.owner[2], lanes) if run.owner else NO_OWNER
    if not is_drawn(subject):
        return lambda run: NO_OWNER if run.number is None else bank_colour(run.number, target.banks)
    banks = (Memory(subject, target).addresses // BANK_BYTES).tolist()
    return lambda run: NO_OWNER if run.number is None else bank_colour(banks[run.number], target.banks)


def thread_colour(warp: int, lane: int, lanes: int) -> str:
    """The colour of a thread as `#rrggbb`: the hue depends on the lane, saturation and value on the warp.

    Ensures: the colours of 32 warps of up to 64 lanes are all different.
    """
    level = int(f"{warp % 32:05b}"[::-1], 2) / 32  # reversed bits: warps 0 and 1 are far apart
    value = _LIGHTEST - (_LIGHTEST - _DARKEST) * level
    return _hex(lane * _HUE_STEP % lanes / lanes, 0.34 + 0.12 * level, value)


def bank_colour(bank: int, banks: int) -> str:
    """The colour of a bank: its hue follows the bank's number, and every second bank is paler."""
    return _hex(bank % banks / banks, 0.3 + 0.14 * (bank % 2), 0.97 - 0.06 * (bank // 2 % 2))


def _hex(hue: float, saturation: float, value: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hsv_to_rgb(hue, saturation, value))


_LETTER, _LINE, _SIZE, _MARGIN = 6.05, 16, 10, 14
"""In pixels; the width of a letter is 0.602 of its size in DejaVu Sans Mono."""
_GAP = 4
"""The columns between two texts beside each other."""
_SOFT = "#5b6472"
_PHRASE = re.compile(r"\S+(?: \S+)*")
_FONT = f'font-family="DejaVu Sans Mono, monospace" font-size="{_SIZE}" xml:space="preserve"'


def beside(texts: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """The lines of texts beside each other."""
    width = max((line.cell_len for text in texts[:-1] for line in text), default=0)
    for lines in zip_longest(*texts, fillvalue=Text()):
        joined = Text()
        for number, line in enumerate(lines):
            joined.pad_right(number * (width + _GAP) - joined.cell_len)
            joined.append_text(line)
        yield joined


def picture(lines: Iterable[Text]) -> bytes:
    """Lines as SVG: a box for each cell, with its text in the middle."""
    boxes, texts, width, height = [], [], 0, 0
    for line in lines:
        width, height = max(width, line.cell_len), height + 1
        y = _MARGIN + (height - 1) * _LINE
        for start, part, style in _parts(line):
            x, wide = _MARGIN + start * _LETTER, len(part) * _LETTER
            align, weight = "", ' font-weight="bold"' if style.bold else ""
            fill = f' fill="{_SOFT}"' if style.dim else ""
            if style.bgcolor is not None:
                x, align = x + wide / 2, ' text-anchor="middle"'
                box = f'x="{x - wide / 2 - _LETTER / 2:g}" y="{y}" width="{wide + _LETTER:g}" height="{_LINE}"'
                boxes.append(f'<rect {box} fill="{style.bgcolor.name}"/>')
                fill = ' fill="#ffffff"' if style.color is not None and style.color.name == "white" else ""
            place = f'x="{x:g}" y="{y + 0.72 * _LINE:g}"'
            texts.append(f"<text {place}{align}{fill}{weight}>{escape(part.strip())}</text>")
    size = f"{2 * _MARGIN + width * _LETTER:g}", f"{2 * _MARGIN + height * _LINE}"
    document = (
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<g stroke="#ffffff" stroke-width="0.8">',
        *boxes,
        f'</g>\n<g {_FONT} fill="{INK}">',
        *texts,
        "</g>\n</svg>\n",
    )
    return "\n".join(document).encode()


def _parts(line: Text) -> Iterator[tuple[int, str, Style]]:
    """The cells of a line, and the texts between that have two blanks around them, with their places."""
    at = 0
    for span in [*sorted(line.spans), Span(len(line), len(line), "")]:
        style = Style.parse(str(span.style))
        parts = [(at, span.start, Style.null()), (span.start, span.end, style)]
        for start, end, own in parts:
            if own.bgcolor is not None:
                yield start, line.plain[start:end], own
            else:
                found = _PHRASE.finditer(line.plain, start, end)
                yield from ((phrase.start(), phrase[0], own) for phrase in found)
        at = span.end
