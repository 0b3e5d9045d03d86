"""Pictures of ratios: a row for each case or kernel, on a logarithmic axis with 1 marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TICKS = (0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 2, 3, 4, 6, 8)


def available() -> bool:
    """Whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def picture(
    path: Path, size: tuple[float, float], rows: int = 1, columns: int = 1, **how: Any
) -> Iterator[Any]:
    """A figure and its axes, written when the block ends; the suffix of `path` says in what format.

    Requires: matplotlib; raises ImportError where there is none.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    saved = how.pop("saved", {})
    room = how.pop("room", {})
    figure, axes = pyplot.subplots(rows, columns, figsize=size, **how)
    try:
        yield figure, axes
        figure.tight_layout(**room)
        figure.savefig(path, **saved)
    finally:
        pyplot.close(figure)


def ticks(axis: Any, limits: Sequence[float], side: str = "x") -> None:
    """Ticks of a logarithmic axis that are ratios people know."""
    low, high = limits
    shown = [tick for tick in TICKS if low <= tick <= high]
    (axis.set_xticks if side == "x" else axis.set_yticks)(shown, [f"{tick:g}" for tick in shown])


def errorbars(
    axis: Any, points: Sequence[tuple[float, Sequence[float]]], marker: str, colour: str, label: str
) -> None:
    """(place, (low, middle, high)) as a mark with a bar."""
    axis.errorbar(
        [middle for _, (_, middle, _) in points],
        [place for place, _ in points],
        xerr=[[m - low for _, (low, m, _) in points], [high - m for _, (_, m, high) in points]],
        fmt=marker,
        color=colour,
        markersize=5,
        elinewidth=0.8,
        label=label,
    )


def by_name(axis: Any, names: Sequence[str], **legend: Any) -> None:
    """Ratios from left to right, a row for each name, the first one on top."""
    axis.axvline(1, color="0.3", linewidth=0.8)
    axis.set_xscale("log")
    ticks(axis, axis.get_xlim())
    axis.minorticks_off()
    axis.set_yticks(range(len(names)), list(names), fontsize=7)
    axis.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axis.grid(axis="x", linewidth=0.3)
    axis.legend(loc="lower right", **legend)
