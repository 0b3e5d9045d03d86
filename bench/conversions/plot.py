"""The run as a picture: stock and legacy over ours, and ours over the bound, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..harness.plot import picture
from .report import MODES, over_bound, ratio, worst_first


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Write the picture; the suffix of `path` says in what format.

    Requires: matplotlib.
    """
    results = worst_first(report["cases"])
    if not results:
        raise ValueError("plot: the report has no cases")
    size = (15, 2 + 0.19 * len(results))
    with picture(path, size, 1, 3, sharey=True, room={"rect": (0, 0, 1, 0.99)}) as (figure, axes):
        for axis, mode in zip(axes, MODES, strict=False):
            for method, marker, colour in (("legacy", "x", "0.6"), ("stock", "o", "C0")):
                ratios = [ratio(result, method, "ours", mode) for result in results]
                _points(axis, ratios, marker, colour, f"{method} / ours")
            axis.set_title(mode)
        for method, marker, colour in (("stock", "o", "C0"), ("ours", "D", "C1")):
            over = [over_bound(result, method) for result in results]
            _points(axes[2], over, marker, colour, f"{method} / bound")
        axes[2].set_title("throughput over the physical bound")
        for axis in axes:
            axis.axvline(1, color="0.3", linewidth=0.8)
            axis.set_xscale("log", base=2)
            axis.legend(loc="upper right")
            axis.grid(axis="x", linewidth=0.3)
        axes[0].set_yticks(range(len(results)), [result["name"] for result in results], fontsize=7)
        axes[0].set_ylim(len(results) - 0.5, -0.5)
        figure.suptitle(f"Layout conversions, {report['device']}, Triton {report['triton']}, {report['date']}")


def _points(axis: Any, values: Sequence[float | None], marker: str, colour: str, label: str) -> None:
    """A mark for each case, and one in the legend."""
    known = [float("nan") if value is None else value for value in values]
    axis.scatter(known, range(len(values)), marker=marker, c=colour, s=18)
    axis.plot([], [], marker=marker, c=colour, linestyle="", label=label)
