"""The points that a layout maps, and the views of them that are drawn.

A view is a `Grid`: rows of cells, each with a label. `text` draws grids; a picture is that text, in colours.
Coordinates of a tensor are written in the order of Triton's dimensions, dim0 first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.gluon.memory import points_of

Table = npt.NDArray[np.int64]
MOST_POINTS = 1 << 20


@dataclass(frozen=True, slots=True)
class LaneRun:
    """Neighbouring cells of one owner, with one label. `number`: that of the first within its owner, a register
    or an offset in memory; None if nobody owns it."""

    label: str
    owner: tuple[int, ...] = ()
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells with names. A column is given by its first index, and how many indices it spans."""

    title: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[tuple[int, int], ...]
    cells: tuple[tuple[LaneRun, ...], ...]


def coordinates(layout: LinearLayout) -> Table:
    """The coordinates of every input. The axes are the in-dims, first dim first; the last axis is the out-dims.

    >>> coordinates(LinearLayout.identity_1d(4, "lane", "dim0")).tolist()
    [[0], [1], [2], [3]]

    Raises ValueError for a layout of more than 2^20 points.
    """
    if layout.total_in_bits > MOST_POINTS.bit_length() - 1:
        raise ValueError(f"view: a layout of 2^{layout.total_in_bits} points is too large to draw")
    return cast(Table, points_of(layout, *layout.in_dim_names))


def holders(
    layout: LinearLayout, sizes: Sequence[int] | None = None
) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """The inputs that map to each element (of the first `sizes` along each dimension), the last dim slowest."""
    table = coordinates(layout)
    inside = np.ones(table.shape[:-1], bool)
    if sizes is not None:
        inside &= (table < np.array(sizes, np.int64)).all(axis=-1)
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    # In the transposed array the last dim of the layout is the slowest.
    for reversed_index in np.argwhere(inside.T).tolist():
        index = tuple(reversed_index[::-1])
        found.setdefault(tuple(table[index].tolist()), []).append(index)
    return found


def is_distributed(layout: LinearLayout) -> bool:
    """Whether the in-dims are those of a register layout."""
    return layout.in_dim_names == (REGISTER, LANE, WARP, BLOCK)


def _name_of(layout: LinearLayout, owner: Sequence[int]) -> str:
    """An owner's name: `T` and the number of the thread in its CTA; empty if memory is the owner."""
    if not is_distributed(layout):
        block = owner[0] if owner else 0
        return f"B{block} " if block else ""
    block, warp, lane = owner
    thread = f"T{warp * layout.in_dim_size(LANE) + lane}:"
    return thread if layout.in_dim_size(BLOCK) == 1 else f"B{block}{thread}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a grid: the names of those who hold an element, or of the row that it lies in, each with a
    number that counts on from cell to cell; `owner` and `number` as of a `LaneRun`."""

    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    owner: tuple[int, ...] = ()
    number: int | None = None

    @classmethod
    def at(cls, point: Sequence[int], owner: tuple[int, ...], number: int) -> Cell:
        """The cell of an element that an owner holds."""
        *front, last = point
        return cls(("".join(f"{coordinate}," for coordinate in front),), (last,), owner, number)

    def follows(self, other: Cell) -> bool:
        """Whether it counts on from another."""
        return self.names == other.names and all(
            b == a + 1 for a, b in zip(other.numbers, self.numbers, strict=True)
        )

    def label(self, count: int) -> str:
        """What is written for it and the cells that count on from it, `count` in all."""
        parts = [name + numbers(first, count) for name, first in zip(self.names, self.numbers, strict=True)]
        return f"{parts[0]} x{len(parts)}" if len(parts) > 2 else "|".join(parts) or "-"


def spans(width: int, follows: Callable[[int], bool]) -> tuple[tuple[int, int], ...]:
    """Runs of columns, each the first and their number; a column joins the one before if it `follows`."""
    starts = [at for at in range(width) if not at or not follows(at)]
    return tuple((at, following - at) for at, following in itertools.pairwise([*starts, width]))


def numbers(first: int, count: int) -> str:
    """Consecutive numbers, as `4-7`; a single one by itself."""
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def grid_of(title: str, corner: str, names: Iterable[str], rows: Sequence[Sequence[Cell]]) -> Grid:
    """A grid in which neighbouring columns are merged if they count on in every row."""
    columns = spans(len(rows[0]), lambda at: all(row[at].follows(row[at - 1]) for row in rows))
    cells = (
        tuple(LaneRun(row[at].label(count), row[at].owner, row[at].number) for at, count in columns)
        for row in rows
    )
    return Grid(title, corner, tuple(names), columns, tuple(cells))


def tensor_grids(layout: LinearLayout, tile: Sequence[int] | None = None) -> Iterator[Grid]:
    """The holders of each element of a tensor or of its first tile: a grid for each slice of the leading
    dimensions, with a row for each index of the last dimension but one."""
    sizes = tuple(tile) if tile is not None else tuple(size for _, size in layout.out_dims)
    held = holders(layout, sizes)
    ranges = [range(size) for size in sizes]
    *leading, rows, columns = (range(1), range(1), *ranges)[-max(2, len(sizes)) :]
    for slice_ in itertools.product(*leading):
        points = [
            [(*slice_, row, column)[-len(sizes) :] if sizes else () for column in columns] for row in rows
        ]
        cells = [[_held(layout, held.get(point, ())) for point in line] for line in points]
        title = f"slice [{', '.join(map(str, slice_))}]" if slice_ else ""
        dims = layout.out_dim_names
        corner = f"{dims[-2]} \\ {dims[-1]}" if len(dims) > 1 else dims[-1]
        names = [str(row) for row in rows] if len(dims) > 1 else [""]
        yield grid_of(title, corner, names, cells)


def _held(layout: LinearLayout, indices: Sequence[tuple[int, ...]]) -> Cell:
    """The cell of an element that these inputs hold. Their owners are block, warp and lane."""
    found = [(tuple(index[:0:-1]), index[0]) for index in indices]
    names = tuple(_name_of(layout, owner) for owner, _ in found)
    numbers = tuple(number for _, number in found)
    return Cell(names, numbers, found[0][0], numbers[0]) if found else Cell()


def heads(grid: Grid) -> list[str]:
    """The names of the columns of a grid."""
    return [numbers(*column) for column in grid.columns]


def hardware_grid(layout: LinearLayout, register: int, lane: int) -> Grid:
    """The elements that each lane of the first warp holds: a row for each of the first lanes, a column for each
    of the first registers. Requires: the layout is distributed."""
    table = coordinates(layout)[:register, :lane, 0, 0]
    rows = [
        [Cell.at(point, (0, 0, which), at) for at, point in enumerate(points)]
        for which, points in enumerate(table.swapaxes(0, 1).tolist())
    ]
    return grid_of("warp 0", "register", (f"lane {which}" for which in range(len(rows))), rows)


def matrix_rows(layout: LinearLayout) -> tuple[list[str], list[str], list[list[int]]]:
    """The matrix over F2: the names of its rows (bits of coordinates) and columns (bits of inputs), and its
    entries.

    >>> matrix_rows(LinearLayout.identity_1d(4, "lane", "dim0"))
    (['dim0:0', 'dim0:1'], ['lane:0', 'lane:1'], [[1, 0], [0, 1]])
    """
    names = [f"{dim}:{bit}" for dim, size in layout.out_dims for bit in range(size.bit_length() - 1)]
    columns = [f"{dim}:{bit}" for dim, vectors in layout.bases for bit in range(len(vectors))]
    entries = [[column >> row & 1 for column in layout.matrix()] for row in range(len(names))]
    return names, columns, entries
