"""Where everything is: the points that a layout maps, listed, and the views of them that are drawn.

A view is a `Grid`, rows of cells with a label each; `text`, `picture` and `page` show grids and decide nothing.
Coordinates of a tensor are written as Triton's dimensions are ordered, dim0 first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout

Table = npt.NDArray[np.int64]
MOST_POINTS = 1 << 20


@dataclass(frozen=True, slots=True)
class LaneRun:
    """Neighbouring cells of one owner: `label` for all, `colour` a number that owners share, or None."""

    label: str
    owner: tuple[int, ...] = ()
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """A picture of cells: names of rows, of columns (each the first one and how many it spans), and cells."""

    title: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[tuple[int, int], ...]
    cells: tuple[tuple[LaneRun, ...], ...]


def coordinates(layout: LinearLayout) -> Table:
    """The image of every input: shape (size of each in-dim, first dim first, then one per out-dim).

    >>> coordinates(LinearLayout.identity_1d(4, "lane", "dim0")).tolist()
    [[0], [1], [2], [3]]

    Raises ValueError for a layout of more than 2^20 points.
    """
    if layout.total_in_bits > MOST_POINTS.bit_length() - 1:
        raise ValueError(f"view: a layout of 2^{layout.total_in_bits} points is too large to draw")
    sizes = [size for _, size in layout.in_dims]
    found = np.zeros((*sizes, layout.num_out_dims), np.int64)
    for axis, (_, vectors) in enumerate(layout.bases):
        shape = [1] * len(sizes) + [layout.num_out_dims]
        shape[axis] = sizes[axis]
        part = np.zeros((sizes[axis], layout.num_out_dims), np.int64)
        for bit, vector in enumerate(vectors):
            part[np.arange(sizes[axis]) >> bit & 1 == 1] ^= np.array(vector, np.int64)
        found ^= part.reshape(shape)
    return found


def holders(layout: LinearLayout) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Who holds each element: its coordinates to the inputs that map there, in order of the inputs, last dim
    slowest."""
    table = coordinates(layout)
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    axes = [range(size) for size in table.shape[:-1]]
    for reversed_index in itertools.product(*reversed(axes)):
        index = reversed_index[::-1]
        found.setdefault(tuple(table[index].tolist()), []).append(index)
    return found


def is_distributed(layout: LinearLayout) -> bool:
    """Whether the in-dims are those of registers."""
    return layout.in_dim_names == (REGISTER, LANE, WARP, BLOCK)


def owner_of(layout: LinearLayout, index: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """An input as its owner, in the order block, warp, lane, and the number of the element with that owner."""
    return tuple(index[:0:-1]), index[0]


def name_of(layout: LinearLayout, owner: Sequence[int]) -> str:
    """An owner's name: `T` and the number of the thread in its CTA, or nothing where memory is the owner."""
    if not is_distributed(layout):
        block = owner[0] if owner else 0
        return f"B{block} " if block else ""
    block, warp, lane = owner
    thread = f"T{warp * layout.in_dim_size(LANE) + lane}:"
    return thread if layout.in_dim_size(BLOCK) == 1 else f"B{block}{thread}"


@dataclass(frozen=True, slots=True)
class _Cell:
    owners: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]

    def follows(self, other: _Cell) -> bool:
        """Whether it is the next element of the same owners."""
        return self.owners == other.owners and all(
            b == a + 1 for a, b in zip(other.numbers, self.numbers, strict=True)
        )


def _label(layout: LinearLayout, first: _Cell, count: int) -> str:
    if not first.owners:
        return "-"
    number = str(first.numbers[0]) if count == 1 else f"{first.numbers[0]}-{first.numbers[0] + count - 1}"
    copies = len(first.owners)
    label = name_of(layout, first.owners[0]) + number
    if copies == 2:
        other = str(first.numbers[1]) if count == 1 else f"{first.numbers[1]}-{first.numbers[1] + count - 1}"
        return f"{label}|{name_of(layout, first.owners[1])}{other}"
    return f"{label} x{copies}" if copies > 2 else label


def _grid(
    layout: LinearLayout, title: str, corner: str, names: Sequence[str], rows: Sequence[Sequence[_Cell]]
) -> Grid:
    """Merge columns wherever every row goes on with the next element of the same owner."""
    width = len(rows[0])
    starts = [at for at in range(width) if at == 0 or not all(row[at].follows(row[at - 1]) for row in rows)]
    spans = [(at, following - at) for at, following in itertools.pairwise([*starts, width])]
    cells = tuple(
        tuple(
            LaneRun(
                _label(layout, row[at], count), row[at].owners[0] if row[at].owners else (), _colour(row[at])
            )
            for at, count in spans
        )
        for row in rows
    )
    return Grid(title, corner, tuple(names), tuple(spans), cells)


def _colour(cell: _Cell) -> int | None:
    return cell.owners[0][-1] if cell.owners and cell.owners[0] else None


def tensor_grids(layout: LinearLayout) -> Iterator[Grid]:
    """Who holds element i, j: a row for each index of the last dimension but one; a grid for each slice of
    the dimensions before."""
    held = holders(layout)
    sizes = [size for _, size in layout.out_dims]
    *leading, rows, columns = (1, 1, *sizes)[-max(2, len(sizes)) :]
    for slice_ in itertools.product(*map(range, leading)):
        cells = []
        for row in range(rows):
            line = []
            for column in range(columns):
                point = (*slice_, row, column)[-len(sizes) :]
                found = [owner_of(layout, index) for index in held.get(point, ())]
                line.append(_Cell(tuple(o for o, _ in found), tuple(n for _, n in found)))
            cells.append(line)
        title = f"slice [{', '.join(map(str, slice_))}]" if slice_ else ""
        dims = layout.out_dim_names
        corner = f"{dims[-2]} \\ {dims[-1]}" if len(dims) > 1 else dims[-1]
        names = [str(row) for row in range(rows)] if len(dims) > 1 else [""]
        yield _grid(layout, title, corner, names, cells)


def hardware_grid(layout: LinearLayout, warp: int = 0, block: int = 0) -> Grid:
    """What each lane of a warp holds: a row for each lane, a column for each register.

    Requires: the layout is distributed.
    """
    table = coordinates(layout)[:, :, warp, block]
    registers, lanes, _ = table.shape
    starts = [0]
    for register in range(1, registers):
        step = table[register] - table[register - 1]
        if not ((step[:, -1] == 1).all() and (step[:, :-1] == 0).all()):
            starts.append(register)
    spans = [(at, following - at) for at, following in itertools.pairwise([*starts, registers])]
    rows = []
    for lane in range(lanes):
        row = []
        for at, count in spans:
            *front, last = table[at, lane].tolist()
            whole = [*map(str, front), str(last) if count == 1 else f"{last}-{last + count - 1}"]
            row.append(LaneRun(",".join(whole), (block, warp, lane), lane))
        rows.append(tuple(row))
    names = tuple(f"lane {lane}" for lane in range(lanes))
    return Grid(
        f"warp {warp}" + (f" of block {block}" if block else ""), "register", names, tuple(spans), tuple(rows)
    )


def matrix_rows(layout: LinearLayout) -> tuple[list[str], list[str], list[list[int]]]:
    """The matrix over F2: names of rows, bits of coordinates, and of columns, bits of inputs; the entries.

    >>> matrix_rows(LinearLayout.identity_1d(4, "lane", "dim0"))
    (['dim0:0', 'dim0:1'], ['lane:0', 'lane:1'], [[1, 0], [0, 1]])
    """
    names = [f"{dim}:{bit}" for dim, size in layout.out_dims for bit in range(size.bit_length() - 1)]
    columns = [f"{dim}:{bit}" for dim, vectors in layout.bases for bit in range(len(vectors))]
    entries = [[column >> row & 1 for column in layout.matrix()] for row in range(len(names))]
    return names, columns, entries
