"""Views of layouts as pictures."""

from __future__ import annotations

import dataclasses
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
    WIDEST,
    Panel,
    Panels,
    drawing,
    grid_width,
    panels_width,
    shortened,
    split_columns,
)
from triton_linear.tools.view.fold import Sizes, tile_of, tiles_of, words
from triton_linear.tools.view.memory import Memory, memory_words
from triton_linear.tools.view.places import Grid, hardware_grid, is_distributed, tensor_grids
from triton_linear.tools.view.subject import Subject
from triton_linear.tools.view.text import hardware_words

MOST_CELLS = 1500
"""The maximum number of cells of a picture: more are too small to read."""


def picture(subjects: Sequence[Subject], view: str, target: Target) -> bytes:
    """A picture of one view of the layouts, as SVG, that fits a screen."""
    wide = (WIDEST - 70) / len(subjects)
    if view == "tensor":
        panels = _tensors(subjects, target)
    elif view == "matrix":
        panels = [Panel(subject) for subject in subjects]
    elif view == "hardware":
        panels = [_hardware(subject, wide) for subject in subjects]
    else:
        panels = [panel for subject in subjects for panel in _memory(subject, target, wide)]
    return panels_drawn(panels, target)


def _tensors(subjects: Sequence[Subject], target: Target) -> list[Panel]:
    def fitting(layouts: Sequence[LinearLayout]) -> Sizes:
        return tile_of(layouts, partial(_fits, layouts, len(subjects)))

    panels = []
    tiles = tiles_of([subject.layout for subject in subjects], fitting)
    for subject, size in zip(subjects, tiles, strict=True):
        notes = tuple(words(subject.layout, size))
        panels += [
            Panel(subject, _by_bank(grid, subject, target), notes)
            for grid in tensor_grids(subject.layout, size)
        ]
    return panels


def _fits(layouts: Sequence[LinearLayout], count: int, tile: Sizes) -> bool:
    """Whether the tiles of all layouts fit one screen, two beside each other."""
    slices = prod(tile[:-2])
    # Tiles beyond these bounds never fit; so their grids are not made.
    if prod(tile[-2:-1]) * -(-count // 2) > MOST_ROWS or slices > 2 or tile[-1] > WIDEST:
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


def _hardware(subject: Subject, wide: float) -> Panel:
    layout = subject.layout
    if not is_distributed(layout):
        fail("view: lanes hold nothing of a layout of memory; its views are tensor, memory and matrix")
    shown: Mapping[str, int] = {REGISTER: layout.in_dim_size(REGISTER), LANE: layout.in_dim_size(LANE)}
    while shown[LANE] > MOST_ROWS:
        shown = {**shown, LANE: shown[LANE] // 2}
    while (grid := hardware_grid(layout, **shown)) and shown[REGISTER] > 1 and grid_width(grid) > wide:
        shown = {**shown, REGISTER: shown[REGISTER] // 2}
    return Panel(subject, grid, tuple(hardware_words(layout, shown)))


def _memory(subject: Subject, target: Target, wide: float) -> list[Panel]:
    if not subject.is_shared:
        fail("view: only layouts of shared memory have banks; this one's views are tensor, hardware and matrix")
    memory = Memory(subject, target)
    grid = memory.grid()
    parts = split_columns(grid, wide)
    rows = max(1, MOST_ROWS // len(parts))
    left = len(grid.rows) - rows
    notes = (f"... {left} more rows", *memory_words(memory, rows)) if left > 0 else ()
    return [Panel(subject, shortened(part, rows), notes) for part in parts]


def panels_drawn(panels: Panels, target: Target) -> bytes:
    """The panels as SVG, in rows that are as wide as a screen."""
    rows: list[list[Panel]] = []
    for panel in panels:
        if rows and panels_width([*rows[-1], panel]) <= WIDEST:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return drawing(rows, target)
