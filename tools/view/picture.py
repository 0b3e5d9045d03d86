"""Views of layouts as pictures: SVG and PNG by matplotlib, or TikZ."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from triton_linear.dialect.encodings.shared import PARTITION
from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.support.errors import fail
from triton_linear.tools.view.drawing import (
    MOST_ROWS,
    NARROWEST,
    ROOM,
    ROOM_BETWEEN,
    SIZE,
    WIDEST,
    Drawing,
    Panel,
    Panels,
    drawing,
    grid_width,
    panels_width,
    shortened,
    split_columns,
)
from triton_linear.tools.view.fold import Sizes, tile_of, tiles_of, words
from triton_linear.tools.view.latex import latex
from triton_linear.tools.view.memory import Memory, memory_words
from triton_linear.tools.view.places import Grid, hardware_grid, is_distributed, tensor_grids
from triton_linear.tools.view.subject import Subject
from triton_linear.tools.view.text import hardware_words

MOST_CELLS = 1500
"""The maximum number of cells of a picture; an SVG of as many is just below a megabyte."""
_DPI = 96
"""Pixels per inch, as in browsers, so that a PNG and an SVG have the same size there."""


def picture(
    subjects: Sequence[Subject],
    view: str,
    target: Target,
    kind: str,
    most_rows: int | None = None,
    tile: str | None = None,
) -> bytes:
    """A picture of one view of the layouts, as `svg`, `png` or `latex`. Fails if it is too large."""
    most = MOST_ROWS if most_rows is None else most_rows
    wide = (WIDEST - 70) / len(subjects)
    if view == "tensor":
        panels = _tensors(subjects, target, most, tile)
    elif view == "matrix":
        panels = [Panel(subject) for subject in subjects]
    elif view == "hardware":
        panels = [_hardware(subject, most, wide) for subject in subjects]
    else:
        panels = [panel for subject in subjects for panel in _memory(subject, target, most, wide)]
    cells = sum(len(panel.grid.cells) * len(panel.grid.columns) for panel in panels if panel.grid is not None)
    if cells > MOST_CELLS:
        fail(f"view: a picture of {cells} cells is too large, {MOST_CELLS} at most; --format html has no bound")
    return panels_drawn(panels, target, kind)


def _tensors(subjects: Sequence[Subject], target: Target, most: int, tile: str | None) -> list[Panel]:
    def fitting(layouts: Sequence[LinearLayout]) -> Sizes:
        return tile_of(layouts, partial(_fits, layouts, len(subjects), most))

    panels = []
    tiles = tiles_of([subject.layout for subject in subjects], fitting, tile)
    for subject, (size, at) in zip(subjects, tiles, strict=True):
        notes = tuple(words(subject.layout, size, at))
        panels += [
            Panel(subject, _by_bank(grid, subject, target), notes)
            for grid in tensor_grids(subject.layout, size, at)
        ]
    return panels


def _fits(layouts: Sequence[LinearLayout], count: int, most: int, tile: Sizes) -> bool:
    """Whether the tiles of all layouts fit one screen, two beside each other."""
    slices = prod(tile[:-2])
    # Tiles beyond these bounds never fit; so their grids are not made.
    if prod(tile[-2:-1]) * -(-count // 2) > most or slices > 2 or tile[-1] > WIDEST:
        return False
    grids = [grid for layout in layouts for grid in tensor_grids(layout, tile)]
    widths = [grid_width(grid) for grid in grids]
    if sum(len(grid.cells) * len(grid.columns) for grid in grids) > MOST_CELLS:
        return False
    beside = min(2, max(count, slices))
    if len(widths) == beside:
        return sum(max(NARROWEST, width) for width in widths) <= ROOM - (beside - 1) * ROOM_BETWEEN
    return max(widths) <= (ROOM - ROOM_BETWEEN) / beside


def _by_bank(grid: Grid, subject: Subject, target: Target) -> Grid:
    """The grid of a tensor in memory, coloured by the banks of its elements."""
    if not subject.is_shared or subject.layout.has_in_dim(PARTITION):
        return grid
    addresses = Memory(subject, target).addresses
    cells = tuple(
        tuple(
            run
            if run.colour is None
            else dataclasses.replace(run, colour=int(addresses[run.colour]) // target.bank_bytes)
            for run in row
        )
        for row in grid.cells
    )
    return dataclasses.replace(grid, cells=cells)


def _hardware(subject: Subject, most: int, wide: float) -> Panel:
    layout = subject.layout
    if not is_distributed(layout):
        fail("view: lanes hold nothing of a layout of memory; its views are tensor, memory and matrix")
    shown: Mapping[str, int] = {REGISTER: layout.in_dim_size(REGISTER), LANE: layout.in_dim_size(LANE)}
    while shown[LANE] > most:
        shown = {**shown, LANE: shown[LANE] // 2}
    while (grid := hardware_grid(layout, **shown)) and shown[REGISTER] > 1 and grid_width(grid) > wide:
        shown = {**shown, REGISTER: shown[REGISTER] // 2}
    return Panel(subject, grid, tuple(hardware_words(layout, shown)))


def _memory(subject: Subject, target: Target, most: int, wide: float) -> list[Panel]:
    if not subject.is_shared:
        fail("view: only layouts of shared memory have banks; this one's views are tensor, hardware and matrix")
    memory = Memory(subject, target)
    grid = memory.grid()
    parts = split_columns(grid, wide)
    rows = max(1, most // len(parts))
    left = len(grid.rows) - rows
    notes = (f"... {left} more rows", *memory_words(memory, rows)) if left > 0 else ()
    return [Panel(subject, shortened(part, rows), notes) for part in parts]


def panels_drawn(panels: Panels, target: Target, kind: str) -> bytes:
    """The panels as `svg`, `png` or `latex`, in rows that are as wide as a screen."""
    rows: list[list[Panel]] = []
    for panel in panels:
        if rows and panels_width([*rows[-1], panel]) <= WIDEST:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    drawn = drawing(rows, target)
    return latex(drawn) if kind == "latex" else _by_matplotlib(drawn, kind)


def _by_matplotlib(drawn: Drawing, kind: str) -> bytes:
    try:
        from matplotlib.figure import Figure  # type: ignore[import-untyped, unused-ignore]
        from matplotlib.patches import Rectangle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        fail("pictures need matplotlib: pip install 'triton-linear[view]'")
    import matplotlib  # type: ignore[import-untyped, unused-ignore]

    points = SIZE * 72 / _DPI
    # Without these settings, names of glyphs and identifiers would differ from run to run.
    with matplotlib.rc_context({"svg.hashsalt": "triton-linear", "svg.fonttype": "none"}):
        figure = Figure(figsize=(drawn.width / _DPI, drawn.height / _DPI), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, drawn.width)
        axes.set_ylim(drawn.height, 0)
        axes.axis("off")
        for box in drawn.boxes:
            corner = (box.x, box.y)
            axes.add_patch(
                Rectangle(
                    corner,
                    box.width,
                    box.height,
                    facecolor=box.fill,
                    edgecolor="white",
                    linewidth=0.6,
                    clip_on=False,
                )
            )
        for text in drawn.texts:
            axes.text(
                text.x,
                text.y,
                text.text,
                ha=text.align,
                va="center_baseline",
                fontsize=points,
                family="monospace",
                color=text.colour,
                weight="bold" if text.bold else "normal",
                parse_math=False,
            )
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=_DPI, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()
