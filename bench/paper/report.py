"""The report: a section for each table, what falls short of the paper, and a page of figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.harness.plot import available, picture

from . import tables
from .table import Part, Record

SOURCE = "arXiv 2505.23819"


def write(
    header: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Record]],
    totals: Mapping[str, int],
    versions: int,
    folder: Path,
) -> None:
    """Write `paper.md`, and `paper.svg` where matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {name: tables.table(name).report(found) for name, found in records.items() if found}
    (folder / "paper.md").write_text(markdown(header, parts, records, totals, versions))
    if available():
        draw([part for part in parts.values() if part.figure is not None], folder / "paper.svg")
    else:
        print("paper: no figures: matplotlib is not installed")


def markdown(
    header: Mapping[str, Any],
    parts: Mapping[str, Part],
    records: Mapping[str, Mapping[str, Record]],
    totals: Mapping[str, int],
    versions: int = 1,
) -> str:
    """The whole report; the records are of so many `versions` of the sources."""
    where = header["device"] or "no GPU"
    lines = [
        "# The paper's tables, measured",
        "",
        f"{where}, Triton {header['triton']}, PyTorch {header['torch'] or 'none'}, Python {header['python']}, "
        f"triton-linear {header['triton_linear']}, {header['date']}; {header['seconds']:.0f} s in all on "
        f'{header["cores"]} cores. `python -m bench.paper` measures it; "paper" is {SOURCE}, on a GH200 unless '
        'it says otherwise, and "legacy" is Triton before it had linear layouts.',
        "",
    ]
    if versions > 1:
        lines += [f"Cases were measured with {versions} states of the sources.", ""]
    short = [f"- {part.title}: {line}" for part in parts.values() for line in part.shortfalls]
    if short:
        lines += ["What falls short of the paper, or is slower than stock Triton:", "", *short, ""]
    for name, total in totals.items():
        found = records.get(name, {})
        failed = sum("error" in record for record in found.values())
        if name not in parts:
            lines += [f"## {name}", "", "Not run.", ""]
            continue
        lines += [f"## {parts[name].title}", ""]
        if len(found) < total or failed:
            lines += [f"{len(found)} of {total} cases have run, {failed} of them ended with an error.", ""]
        lines += [parts[name].markdown.strip("\n"), ""]
    if any(part.figure for part in parts.values()):
        lines += ["![the figures](paper.svg)", ""]
    return "\n".join(lines)


def draw(parts: list[Part], path: Path) -> None:
    """All figures on one page, two in a row."""
    if not parts:
        return
    rows = -(-len(parts) // 2)
    how: dict[str, Any] = {"squeeze": False, "saved": {"metadata": {"Date": None}}}
    with picture(path, (13, 4.2 * rows), rows, 2, **how) as (_, grid):
        for axes, part in zip(grid.flat, parts, strict=False):
            if part.figure is not None:
                part.figure(axes)
                axes.set_title(part.title, fontsize=10)
        for axes in list(grid.flat)[len(parts) :]:
            axes.set_axis_off()
