"""The run as a picture: what the plugin gains beside what free conversions would, kernel by kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import modes
from .report import by_headroom, measured_modes, ratio

STYLES = {
    modes.FREE: ("|", "0.5"),
    modes.ASSIGN: ("^", "C2"),
    modes.LOWER: ("v", "C1"),
    modes.LAYOUTS: ("s", "C4"),
    modes.OURS: ("o", "C0"),
}
TICKS = (0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 2, 3, 4, 6, 8)


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Write the picture; the suffix of `path` says in what format.

    Requires: matplotlib.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    records = by_headroom([r for r in report["cases"] if ratio(r, modes.OURS) or ratio(r, modes.FREE)])
    if not records:
        raise ValueError("plot: the report has no case that was timed")
    places = range(len(records))
    figure, axis = pyplot.subplots(figsize=(9, 1.5 + 0.19 * len(records)))
    shown = measured_modes(report)
    for mode, (marker, colour) in STYLES.items():
        if mode not in shown:
            continue
        points = [(place, found) for place, r in zip(places, records, strict=True) if (found := ratio(r, mode))]
        axis.errorbar(
            [found[1] for _, found in points],
            [place for place, _ in points],
            xerr=[[f[1] - f[0] for _, f in points], [f[2] - f[1] for _, f in points]],
            fmt=marker,
            color=colour,
            markersize=5,
            elinewidth=0.8,
            label=f"stock / {mode}",
        )
    axis.axvline(1, color="0.3", linewidth=0.8)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(list(places), [record["name"] for record in records], fontsize=7)
    axis.set_ylim(len(records) - 0.5, -0.5)
    axis.grid(axis="x", linewidth=0.3)
    axis.legend(loc="lower right")
    axis.set_title(f"{report['device']}, Triton {report['triton']}, {report['date']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
