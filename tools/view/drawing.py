"""What is drawn, where: boxes and lines of text in pixels, from which pictures and TikZ are made alike.

Letters are those of a font of fixed width, so that how wide a text is follows from its length.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from triton_linear.dialect.linear_layout import LANE, LinearLayout
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.view.colours import NOBODY, bank_colour, thread_colour
from triton_linear.tools.view.places import Grid, LaneRun, heads, is_distributed, matrix_rows
from triton_linear.tools.view.subject import Subject

WIDEST = 1400
"""Pixels that a picture is wide at most: a window on a screen of 1440."""
MOST_ROWS = 32
"""Rows of cells below each other, as many as a screen of 900 pixels has room for with a title and words."""
LETTER = 6.05
"""Pixels that a letter of `SIZE` pixels is wide: 0.602 of its size in DejaVu Sans Mono."""
SIZE = 10
ROW = 20
_MARGIN, _GAP, _LINE = 14, 34, 15
NARROWEST = 460
"""Pixels of a panel, so that the name of an encoding is a few lines and no column of words."""
ROOM, ROOM_BETWEEN = WIDEST - 2 * _MARGIN, _GAP
"""Pixels for panels, and between two of them."""
INK, SOFT = "#1d2430", "#5b6472"
_ONE, _ZERO = "#4c86d9", "#eceff3"
Align = Literal["left", "center", "right"]


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle; y grows downwards."""

    x: float
    y: float
    width: float
    height: float
    fill: str


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text, in the middle of whose height is y."""

    x: float
    y: float
    text: str
    align: Align = "left"
    colour: str = INK
    bold: bool = False

    @property
    def left(self) -> float:
        """Where it begins."""
        wide = len(self.text) * LETTER
        return self.x - {"left": 0.0, "center": wide / 2, "right": wide}[self.align]


@dataclass(slots=True)
class Drawing:
    """All that is on a picture, and its size."""

    boxes: list[Box] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    width: float = 0
    height: float = 0


@dataclass(frozen=True, slots=True)
class Panel:
    """A layout with a grid of it, or with its matrix where there is none; `words` stand below."""

    subject: Subject
    grid: Grid | None = None
    words: tuple[str, ...] = ()


Panels: TypeAlias = Sequence[Panel]


def cell_width(grid: Grid) -> float:
    """Pixels of a column of a grid."""
    labels = [*heads(grid), *(run.label for row in grid.cells for run in row)]
    return max(22.0, max(map(len, labels), default=1) * LETTER + 8)


def _left(names: Iterable[str]) -> float:
    return max((len(name) for name in names), default=0) * LETTER + 8


def grid_width(grid: Grid) -> float:
    """Pixels of a grid with the names of its rows."""
    return _left((grid.corner, *grid.rows)) + cell_width(grid) * len(grid.columns)


def _width(panel: Panel) -> float:
    if panel.grid is not None:
        return grid_width(panel.grid)
    rows, columns, _ = matrix_rows(panel.subject.layout)
    return _left(rows) + ROW * len(columns)


def panels_width(panels: Panels) -> float:
    """Pixels of panels beside each other."""
    return 2 * _MARGIN + sum(max(NARROWEST, _width(panel)) for panel in panels) + _GAP * (len(panels) - 1)


def stacked(grid: Grid, wide: float) -> list[Grid]:
    """A grid in as many parts as it takes for each to be so wide at most: columns that go on below."""
    beside = max(1, int((wide - _left((grid.corner, *grid.rows))) / cell_width(grid)))
    return [
        dataclasses.replace(
            grid,
            columns=grid.columns[at : at + beside],
            cells=tuple(row[at : at + beside] for row in grid.cells),
        )
        for at in range(0, len(grid.columns), beside)
    ]


def shortened(grid: Grid, most: int) -> Grid:
    """A grid of the first rows."""
    return dataclasses.replace(grid, rows=grid.rows[:most], cells=grid.cells[:most])


def drawing(rows: Sequence[Panels], target: Target) -> Drawing:
    """Panels beside each other, and rows of them below each other."""
    drawn, top = Drawing(), float(_MARGIN)
    for panels in rows:
        bottom, left = top, float(_MARGIN)
        # Grids begin at one height, whatever stands above them.
        headings = [_heading(panel) for panel in panels]
        start = top + max(map(len, headings)) * _LINE + _LINE + 4
        for panel, heading in zip(panels, headings, strict=True):
            for at, line in enumerate(heading):
                drawn.texts.append(dataclasses.replace(line, x=left, y=top + (at + 0.5) * _LINE))
            bottom = max(bottom, _add(drawn, panel, left, start, target))
            left += max(NARROWEST, _width(panel)) + _GAP
        drawn.width = max(drawn.width, left - _GAP + _MARGIN)
        top = bottom + _MARGIN
    drawn.height = top
    return drawn


def _letters(panel: Panel) -> int:
    return int(max(NARROWEST, _width(panel)) / LETTER)


def _heading(panel: Panel) -> list[Text]:
    """The lines above a grid, not yet at their place: what the user called it, then what is known of it."""
    subject, grid = panel.subject, panel.grid
    known = [subject.encoding if subject.encoding != subject.text else "", subject.source]
    known.append(grid.title if grid is not None else "")
    lines = [Text(0, 0, line, bold=True) for line in textwrap.wrap(subject.text, _letters(panel))]
    for note in known:
        lines += [Text(0, 0, line, colour=SOFT) for line in textwrap.wrap(note, _letters(panel))]
    return lines


def _add(drawn: Drawing, panel: Panel, left: float, y: float, target: Target) -> float:
    """Put the cells and the words of a panel at a place; where it ends."""
    y = (
        _add_matrix(drawn, panel.subject.layout, left, y)
        if panel.grid is None
        else _add_grid(drawn, panel.subject, panel.grid, left, y, target)
    )
    y += 6
    for word in panel.words:
        for line in textwrap.wrap(word, _letters(panel), subsequent_indent=" " * 6):
            drawn.texts.append(Text(left, y + _LINE / 2, line, colour=SOFT))
            y += _LINE
    return y


def _add_grid(drawn: Drawing, subject: Subject, grid: Grid, left: float, y: float, target: Target) -> float:
    wide, start = cell_width(grid), left + _left((grid.corner, *grid.rows))
    drawn.texts.append(Text(start - 6, y - 8, grid.corner, "right", SOFT))
    for x, head in enumerate(heads(grid)):
        drawn.texts.append(Text(start + (x + 0.5) * wide, y - 8, head, "center", SOFT))
    for name, row in zip(grid.rows, grid.cells, strict=True):
        drawn.texts.append(Text(start - 6, y + ROW / 2, name, "right", SOFT))
        for x, run in enumerate(row):
            drawn.boxes.append(Box(start + x * wide, y, wide, ROW, _fill(subject.layout, run, target)))
            drawn.texts.append(Text(start + (x + 0.5) * wide, y + ROW / 2, run.label, "center"))
        y += ROW
    return y


def _fill(layout: LinearLayout, run: LaneRun, target: Target) -> str:
    if run.colour is None:
        return NOBODY
    if is_distributed(layout):
        _, warp, lane = run.owner
        return thread_colour(warp, lane, layout.in_dim_size(LANE))
    return bank_colour(run.colour, target.banks)


def _add_matrix(drawn: Drawing, layout: LinearLayout, left: float, y: float) -> float:
    rows, columns, entries = matrix_rows(layout)
    start = left + _left(rows)
    for x, name in enumerate(columns):
        dim, _, bit = name.partition(":")
        drawn.texts.append(Text(start + (x + 0.5) * ROW, y - 8, dim[0] + bit, "center", SOFT))
    for name, row in zip(rows, entries, strict=True):
        drawn.texts.append(Text(start - 6, y + ROW / 2, name, "right", SOFT))
        for x, entry in enumerate(row):
            drawn.boxes.append(Box(start + x * ROW, y, ROW, ROW, _ONE if entry else _ZERO))
            if entry:
                drawn.texts.append(Text(start + (x + 0.5) * ROW, y + ROW / 2, "1", "center", "#ffffff"))
        y += ROW
    return y
