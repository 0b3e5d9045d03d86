"""Grids and matrices as pictures, SVG or PNG, by matplotlib."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any, TypeAlias

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.support.errors import fail
from triton_linear.tools.view.memory import Memory
from triton_linear.tools.view.places import Grid, hardware_grid, is_distributed, matrix_rows, tensor_grids
from triton_linear.tools.view.subject import Subject

_INCH = 0.42
"""Height of a row; a column is as wide as its label."""
_MOST_CELLS = 8192
_LETTERS = 5.5
"""Letters of a title for each unit of width."""
Panel: TypeAlias = "tuple[Subject, Grid | None]"
"""A layout, and what is drawn of it: a grid, or where there is none the matrix."""


def _colour(number: int | None, of: int) -> tuple[float, float, float]:
    from matplotlib.colors import hsv_to_rgb  # type: ignore[import-untyped, unused-ignore]

    if number is None:
        return 0.87, 0.87, 0.87
    red, green, blue = hsv_to_rgb(
        (number % of / of, 0.28 + 0.14 * (number % 2), 0.97 - 0.06 * (number // 2 % 2))
    )
    return float(red), float(green), float(blue)


def _draw_grid(axes: Any, grid: Grid, colours: int) -> None:
    from matplotlib.patches import Rectangle  # type: ignore[import-untyped, unused-ignore]

    labels = [run.label for row in grid.cells for run in row]
    wide = max(1.0, max(map(len, labels), default=1) * 0.24)
    for y, row in enumerate(grid.cells):
        for x, run in enumerate(row):
            face = _colour(run.colour, colours)
            axes.add_patch(Rectangle((x * wide, y), wide, 1, facecolor=face, edgecolor="white"))
            axes.text((x + 0.5) * wide, y + 0.5, run.label, ha="center", va="center", fontsize=8)
        axes.text(-0.15, y + 0.5, grid.rows[y], ha="right", va="center", fontsize=8, color="#555")
    for x, (at, count) in enumerate(grid.columns):
        head = str(at) if count == 1 else f"{at}-{at + count - 1}"
        axes.text((x + 0.5) * wide, -0.2, head, ha="center", va="bottom", fontsize=8, color="#555")
    axes.text(-0.15, -0.2, grid.corner, ha="right", va="bottom", fontsize=8, color="#555")
    axes.set_xlim(0, wide * len(grid.columns))
    axes.set_ylim(len(grid.cells), 0)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_matrix(axes: Any, layout: LinearLayout) -> None:
    from matplotlib.patches import Rectangle  # type: ignore[import-untyped, unused-ignore]

    rows, columns, entries = matrix_rows(layout)
    for y, row in enumerate(entries):
        for x, entry in enumerate(row):
            face = "#4c86d9" if entry else "#eef0f3"
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor="white"))
            if entry:
                axes.text(x + 0.5, y + 0.5, "1", ha="center", va="center", fontsize=8, color="white")
        axes.text(-0.15, y + 0.5, rows[y], ha="right", va="center", fontsize=8, color="#555")
    for x, name in enumerate(columns):
        dim, _, bit = name.partition(":")
        axes.text(x + 0.5, -0.15, dim[0] + bit, ha="center", va="bottom", fontsize=8, color="#555")
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_aspect("equal")
    axes.axis("off")


def grids_of(subject: Subject, view: str, target: Target) -> list[Grid]:
    """The grids of a view of a layout. Fails where the layout has no such view."""
    if view == "tensor":
        return list(tensor_grids(subject.layout))
    if view == "hardware":
        if not is_distributed(subject.layout):
            fail("view: lanes hold nothing of a layout of memory; its views are tensor, memory and matrix")
        return [hardware_grid(subject.layout)]
    if not subject.is_shared:
        fail("view: only layouts of shared memory have banks; this one's views are tensor, hardware and matrix")
    return [Memory(subject, target).grid()]


def picture(subjects: Sequence[Subject], view: str, target: Target, kind: str) -> bytes:
    """The layouts beside each other, in one view, as `svg` or `png`. Raises ToolError for one too large."""
    if view == "matrix":
        drawn: list[Panel] = [(subject, None) for subject in subjects]
    else:
        drawn = [(subject, grid) for subject in subjects for grid in grids_of(subject, view, target)]
    cells = sum(len(grid.cells) * len(grid.columns) for _, grid in drawn if grid is not None)
    if cells > _MOST_CELLS:
        fail(
            f"view: a picture of {cells} cells is too large, {_MOST_CELLS} at most; --format html has no bound"
        )
    return panels_drawn(drawn, target, kind)


def panels_drawn(panels: Sequence[Panel], target: Target, kind: str) -> bytes:
    """The panels beside each other, as `svg` or `png`; cells of memory have the colours of banks."""
    try:
        from matplotlib.figure import Figure  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        fail("pictures need matplotlib: pip install 'triton-linear[view]'")
    import matplotlib  # type: ignore[import-untyped, unused-ignore]

    sizes = [_size(subject, grid) for subject, grid in panels]
    # Names of glyphs and identifiers would differ from run to run.
    with matplotlib.rc_context({"svg.hashsalt": "triton-linear", "svg.fonttype": "none"}):
        figure = Figure(figsize=(sum(w for w, _ in sizes) * _INCH, max(h for _, h in sizes) * _INCH))
        axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=[w for w, _ in sizes])[0]
        for one, (width, _), (subject, grid) in zip(axes, sizes, panels, strict=True):
            if grid is None:
                _draw_matrix(one, subject.layout)
            else:
                colours = target.banks if subject.is_shared else 32
                _draw_grid(one, grid, colours)
            title = subject.text + (f", {grid.title}" if grid is not None and grid.title else "")
            one.set_title(textwrap.fill(title, max(12, int(width * _LETTERS))), fontsize=9, pad=18)
            one.set_anchor("N")
        figure.tight_layout()
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def _size(subject: Subject, grid: Grid | None) -> tuple[float, float]:
    if grid is None:
        layout = subject.layout
        return layout.total_in_bits + 4.0, layout.total_out_bits + 5.0
    labels = [run.label for row in grid.cells for run in row]
    wide = max(1.0, max(map(len, labels), default=1) * 0.24)
    return wide * len(grid.columns) + 3.0, len(grid.cells) + 3.0
