"""The run as a picture: what the plugin gains, kernel by kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..harness.plot import by_name, errorbars, picture
from . import modes
from .report import in_order, measured_modes, ratio

STYLES = {
    modes.ASSIGN: ("^", "C2"),
    modes.LOWER: ("v", "C1"),
    modes.LAYOUTS: ("s", "C4"),
    modes.OURS: ("o", "C0"),
}


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Write the picture; the suffix of `path` says in what format.

    Requires: matplotlib.
    """
    records = in_order([r for r in report["cases"] if ratio(r, modes.OURS)])
    if not records:
        raise ValueError("plot: the report has no case that was timed")
    shown = measured_modes(report)
    with picture(path, (9, 1.5 + 0.19 * len(records))) as (_, axis):
        for mode, (marker, colour) in STYLES.items():
            if mode in shown:
                points = [(place, found) for place, r in enumerate(records) if (found := ratio(r, mode))]
                errorbars(axis, points, marker, colour, f"stock / {mode}")
        by_name(axis, [record["name"] for record in records])
        axis.set_title(f"{report['device']}, Triton {report['triton']}, {report['date']}", fontsize=9)
