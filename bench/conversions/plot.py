"""The run as a picture: stock and legacy over ours, and ours over the bound, case by case."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .report import MODES, over_bound, ratio, worst_first


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Write the picture; the suffix of `path` says in what format.

    Requires: matplotlib.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    results = worst_first(report["cases"])
    if not results:
        raise ValueError("plot: the report has no cases")
    names = [result["name"] for result in results]
    places = range(len(results))
    figure, axes = pyplot.subplots(1, 3, sharey=True, figsize=(15, 2 + 0.19 * len(results)))
    for axis, mode in zip(axes, MODES, strict=False):
        for method, marker, colour in (("legacy", "x", "0.6"), ("stock", "o", "C0")):
            ratios = [ratio(result, method, "ours", mode) for result in results]
            axis.scatter(
                [float("nan") if r is None else r for r in ratios], places, marker=marker, c=colour, s=18
            )
            axis.plot([], [], marker=marker, c=colour, linestyle="", label=f"{method} / ours")
        axis.axvline(1, color="0.3", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_title(mode)
        axis.legend(loc="upper right")
    for method, marker, colour in (("stock", "o", "C0"), ("ours", "D", "C1")):
        over = [over_bound(result, method) for result in results]
        axes[2].scatter([float("nan") if r is None else r for r in over], places, marker=marker, c=colour, s=18)
        axes[2].plot([], [], marker=marker, c=colour, linestyle="", label=f"{method} / bound")
    axes[2].axvline(1, color="0.3", linewidth=0.8)
    axes[2].set_xscale("log", base=2)
    axes[2].set_title("throughput over the physical bound")
    axes[2].legend(loc="upper right")
    axes[0].set_yticks(list(places), names, fontsize=7)
    axes[0].set_ylim(len(results) - 0.5, -0.5)
    for axis in axes:
        axis.grid(axis="x", linewidth=0.3)
    figure.suptitle(f"Layout conversions, {report['device']}, Triton {report['triton']}, {report['date']}")
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    figure.savefig(path)
    pyplot.close(figure)
