"""Layouts as text of at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_linear.dialect.linear_layout import BLOCK, WARP, LinearLayout
from triton_linear.tools.view.options import MOST_ROWS
from triton_linear.tools.view.places import Grid, hardware_grid, is_distributed, matrix_rows, tensor_grids

WIDTH = 100


def grid_lines(grid: Grid, most_rows: int = MOST_ROWS) -> Iterator[str]:
    """A grid as lines: as many columns side by side as there is room for, then the others below."""
    heads = [str(at) if count == 1 else f"{at}-{at + count - 1}" for at, count in grid.columns]
    shown = grid.cells[:most_rows]
    names = grid.rows[:most_rows]
    left = max(map(len, (grid.corner, *names)))
    wide = max(len(label) for label in (*heads, *(run.label for row in shown for run in row)))
    at_once = max(1, (WIDTH - left) // (wide + 2))
    if grid.title:
        yield grid.title
    for start in range(0, len(heads), at_once):
        block = slice(start, start + at_once)
        yield grid.corner.ljust(left) + "".join("  " + head.ljust(wide) for head in heads[block]).rstrip()
        for name, row in zip(names, shown, strict=True):
            yield (name.rjust(left) + "".join("  " + run.label.ljust(wide) for run in row[block])).rstrip()
    if len(grid.cells) > len(shown):
        yield f"... {len(grid.cells) - len(shown)} more rows"


def tensor_text(layout: LinearLayout, most_rows: int = MOST_ROWS) -> str:
    """Who holds each element: `T5:2` is register 2 of thread 5 of the CTA, `T5:0-3` registers 0 to 3 for the
    elements beside each other; `|` stands between two holders of copies, ` x4` after one of four."""
    return "\n".join(line for grid in tensor_grids(layout) for line in grid_lines(grid, most_rows))


def hardware_text(layout: LinearLayout, most_rows: int = MOST_ROWS) -> str:
    """What each lane of the first warp holds, and by how much the elements of other warps differ."""
    lines = list(grid_lines(hardware_grid(layout), most_rows))
    for dim in (WARP, BLOCK):
        for bit in range(layout.in_dim_bits(dim)):
            vector = layout.basis(dim, bit)
            moved = ", ".join(map(str, vector))
            copy = "a copy" if not any(vector) else f"coordinates xor ({moved})"
            lines.append(f"{dim} {1 << bit}: {copy}")
    return "\n".join(lines)


def matrix_text(layout: LinearLayout) -> str:
    """The matrix over F2: a column for each bit of an input, a row for each bit of a coordinate; zeros are
    dots."""
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


def layout_text(layout: LinearLayout, most_rows: int = MOST_ROWS) -> str:
    """All views that a layout has, with their headings."""
    parts = [("tensor: who holds each element", tensor_text(layout, most_rows))]
    if is_distributed(layout):
        parts.append(("hardware: what each lane holds", hardware_text(layout, most_rows)))
    parts.append(("matrix over F2", matrix_text(layout)))
    return "\n\n".join(f"{heading}\n{body}" for heading, body in parts)
