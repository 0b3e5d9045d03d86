"""Pictures of layouts as SVG: panels of coloured cells with their labels, beside and below each other.

The font has a fixed width, so the width of a text follows from its length.
"""

from __future__ import annotations

import colorsys
import dataclasses
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from xml.sax.saxutils import escape

from triton_linear.dialect.linear_layout import LANE, LinearLayout
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.view.places import Grid, LaneRun, heads, is_distributed, matrix_rows
from triton_linear.tools.view.subject import Subject

WIDEST = 1400
"""The maximum width of a picture in pixels: a window on a screen of 1440 pixels."""
MOST_ROWS = 32
"""The number of rows of cells that fit a screen of 900 pixels, with a title and notes."""
LETTER = 6.05
"""The width of a letter of `SIZE` pixels: 0.602 of its size in DejaVu Sans Mono."""
SIZE = 10
ROW = 20
_MARGIN, _GAP, _LINE = 14, 34, 15
NARROWEST = 460
"""The minimum width of a panel, so that the name of an encoding needs only a few lines."""
ROOM, ROOM_BETWEEN = WIDEST - 2 * _MARGIN, _GAP
"""The width for all panels, and the space between two of them."""
INK, SOFT = "#1d2430", "#5b6472"
_ONE, _ZERO = "#4c86d9", "#eceff3"
_BASELINE = 0.35
"""How far the baseline is below the middle of a letter, as a part of its size."""
_ANCHORS = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
_FONT = f'font-family="DejaVu Sans Mono, monospace" font-size="{SIZE}" xml:space="preserve"'


class Svg:
    """A document of boxes and lines of text; its unit is a pixel, and y grows downwards."""

    def __init__(self) -> None:
        self._boxes: list[str] = []
        self._texts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """Add a filled rectangle."""
        place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
        self._boxes.append(f'<rect {place} fill="{fill}"/>')

    def text(
        self, x: float, y: float, text: str, align: str = "left", colour: str = INK, bold: bool = False
    ) -> None:
        """Add a line of text, unless it is empty; y is the middle of its height."""
        if not text:
            return
        style = _ANCHORS[align]
        style += f' fill="{colour}"' if colour != INK else ""
        style += ' font-weight="bold"' if bold else ""
        place = f'x="{_number(x)}" y="{_number(y + _BASELINE * SIZE)}"'
        self._texts.append(f"<text {place}{style}>{escape(text)}</text>")

    def document(self, width: float, height: float) -> bytes:
        """The document of this size."""
        size = f'width="{_number(width)}" height="{_number(height)}"'
        lines = [
            '<?xml version="1.0" encoding="utf-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_number(width)} {_number(height)}">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            '<g stroke="#ffffff" stroke-width="0.8">',
            *self._boxes,
            f'</g>\n<g {_FONT} fill="{INK}">',
            *self._texts,
            "</g>\n</svg>\n",
        ]
        return "\n".join(lines).encode()


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Panel:
    """A layout with a grid, or, without a grid, with its matrix; `notes` are drawn below it."""

    subject: Subject
    grid: Grid | None = None
    notes: tuple[str, ...] = ()


Panels: TypeAlias = Sequence[Panel]


def cell_width(grid: Grid) -> float:
    """The width of a column of a grid in pixels."""
    labels = [*heads(grid), *(run.label for row in grid.cells for run in row)]
    return max(22.0, max(map(len, labels), default=1) * LETTER + 8)


def _names_width(names: Iterable[str]) -> float:
    return max((len(name) for name in names), default=0) * LETTER + 8


def grid_width(grid: Grid) -> float:
    """The width of a grid with the names of its rows in pixels."""
    return _names_width((grid.corner, *grid.rows)) + cell_width(grid) * len(grid.columns)


def _width(panel: Panel) -> float:
    if panel.grid is not None:
        return grid_width(panel.grid)
    rows, columns, _ = matrix_rows(panel.subject.layout)
    return _names_width(rows) + ROW * len(columns)


def panels_width(panels: Panels) -> float:
    """The width of panels beside each other in pixels."""
    return 2 * _MARGIN + sum(max(NARROWEST, _width(panel)) for panel in panels) + _GAP * (len(panels) - 1)


def split_columns(grid: Grid, width: float) -> list[Grid]:
    """A grid split by columns into parts of at most `width` pixels, to draw below each other."""
    beside = max(1, int((width - _names_width((grid.corner, *grid.rows))) / cell_width(grid)))
    return [
        dataclasses.replace(
            grid,
            columns=grid.columns[at : at + beside],
            cells=tuple(row[at : at + beside] for row in grid.cells),
        )
        for at in range(0, len(grid.columns), beside)
    ]


def shortened(grid: Grid, most: int) -> Grid:
    """The first `most` rows of a grid."""
    return dataclasses.replace(grid, rows=grid.rows[:most], cells=grid.cells[:most])


def drawing(rows: Sequence[Panels], target: Target) -> bytes:
    """The picture of rows of panels: the panels of a row beside each other, the rows below each other."""
    drawn, top, width = Svg(), float(_MARGIN), 0.0
    for panels in rows:
        bottom, left = top, float(_MARGIN)
        # The grids of a row begin at the same height, whatever the heights of their headings.
        headings = [_heading(panel) for panel in panels]
        start = top + max(map(len, headings)) * _LINE + _LINE + 4
        for panel, heading in zip(panels, headings, strict=True):
            for at, (line, bold) in enumerate(heading):
                drawn.text(left, top + (at + 0.5) * _LINE, line, colour=INK if bold else SOFT, bold=bold)
            bottom = max(bottom, _add(drawn, panel, left, start, target))
            left += max(NARROWEST, _width(panel)) + _GAP
        width = max(width, left - _GAP + _MARGIN)
        top = bottom + _MARGIN
    return drawn.document(width, top)


def _letters(panel: Panel) -> int:
    return int(max(NARROWEST, _width(panel)) / LETTER)


def _heading(panel: Panel) -> list[tuple[str, bool]]:
    """The lines above a grid, and whether they are bold: the user's name for the layout, then what is known
    about it.
    """
    subject, grid = panel.subject, panel.grid
    known = [subject.encoding if subject.encoding != subject.text else "", subject.source]
    known.append(grid.title if grid is not None else "")
    lines = [(line, True) for line in textwrap.wrap(subject.text, _letters(panel))]
    return lines + [(line, False) for note in known for line in textwrap.wrap(note, _letters(panel))]


def _add(drawn: Svg, panel: Panel, left: float, y: float, target: Target) -> float:
    """Draw the cells and the notes of a panel at a position; return the y coordinate of its end."""
    subject = panel.subject
    if panel.grid is None:
        names, heads_, entries = matrix_rows(subject.layout)
        short = [name[0] + name.partition(":")[2] for name in heads_]
        rows = [[("1" if entry else "", _ONE if entry else _ZERO) for entry in row] for row in entries]
        y = _add_cells(drawn, "", short, names, rows, ROW, left, y, "#ffffff")
    else:
        grid = panel.grid
        rows = [[(run.label, _fill(subject.layout, run, target)) for run in row] for row in grid.cells]
        y = _add_cells(drawn, grid.corner, heads(grid), grid.rows, rows, cell_width(grid), left, y, INK)
    y += 6
    for note in panel.notes:
        for line in textwrap.wrap(note, _letters(panel), subsequent_indent=" " * 6):
            drawn.text(left, y + _LINE / 2, line, colour=SOFT)
            y += _LINE
    return y


def _add_cells(
    drawn: Svg,
    corner: str,
    columns: Sequence[str],
    names: Sequence[str],
    rows: Sequence[Sequence[tuple[str, str]]],
    wide: float,
    left: float,
    y: float,
    ink: str,
) -> float:
    """Draw rows of cells, each a label and a colour, with the names of rows and columns."""
    start = left + _names_width((corner, *names))
    drawn.text(start - 6, y - 8, corner, "right", SOFT)
    for x, head in enumerate(columns):
        drawn.text(start + (x + 0.5) * wide, y - 8, head, "center", SOFT)
    for name, row in zip(names, rows, strict=True):
        drawn.text(start - 6, y + ROW / 2, name, "right", SOFT)
        for x, (label, fill) in enumerate(row):
            drawn.box(start + x * wide, y, wide, ROW, fill)
            drawn.text(start + (x + 0.5) * wide, y + ROW / 2, label, "center", ink)
        y += ROW
    return y


def _fill(layout: LinearLayout, run: LaneRun, target: Target) -> str:
    if run.colour is None:
        return NO_OWNER
    if is_distributed(layout):
        _, warp, lane = run.owner
        return thread_colour(warp, lane, layout.in_dim_size(LANE))
    return bank_colour(run.colour, target.banks)


NO_OWNER = "#dedede"
_HUE_STEP = 13
"""The number of hues from one lane to the next. With 32 or 64 hues, lanes whose numbers differ by a power of
two, as neighbours in a tile do, are at least 0.18 of the colour circle apart."""
_LIGHTEST, _DARKEST = 0.98, 0.70
"""The range of the colours' values; black text is readable on all of them."""


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
