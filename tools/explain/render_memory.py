"""Render accesses to shared memory and reductions for a terminal."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP
from triton_linear.tools.explain.records import AccessReport, Place, ReductionReport
from triton_linear.tools.verify.words import count


def shortened(place: str) -> str:
    """A path, relative to the working directory if it is below it."""
    return place.removeprefix(f"{Path.cwd()}{os.sep}")


def head(place: Place, loop_depth: int, what: str = "") -> Text:
    """The first line of a report: the place, its source code, and the number of loops around it."""
    text = Text.assemble(
        (shortened(str(place)), "bold"), f"  {place.code or what}" if place.code or what else ""
    )
    if loop_depth:
        text.append(f"  [in {count(loop_depth, 'loop')}]", "bold yellow")
    return text


def field(name: str, *parts: str | tuple[str, str]) -> RenderableType:
    """A line of a report after its name; a long line is wrapped with the same indentation."""
    line = Table.grid()
    line.add_column(width=10, style="dim")
    line.add_column()
    line.add_row(name, Text.assemble(*parts))
    return Padding(line, (0, 0, 0, 2))


def wavefronts_text(wavefronts: int, minimum: int) -> str:
    """The number of wavefronts, and the minimum."""
    return f"{count(wavefronts, 'wavefront')} ({minimum} at least)"


def access(report: AccessReport) -> RenderableType:
    """Render an access to shared memory."""
    name = report.operation.removeprefix("ttg.")
    lines: list[RenderableType] = [head(report.place, report.loop_depth, name)]
    lines.append(field("registers", (report.registers, "bold"), f"  {name}"))
    if report.registers_words:
        lines.append(field("", report.registers_words))
    lines.append(field("memory", (report.memory, "bold")))
    if report.memory_words:
        lines.append(field("", report.memory_words))
    if report.staging:
        lines.append(field("staging", report.staging))
    figures = report.figures
    if figures is None:
        lines.append(field("modelled", f"not: {report.detail}"))
        return Group(*lines)
    conflicts = figures.wavefronts > figures.minimum_wavefronts
    wavefronts = wavefronts_text(figures.wavefronts, figures.minimum_wavefronts)
    width = f", {count(figures.width, 'byte')} of a thread in a row"
    lines.append(field("modelled", (wavefronts, "yellow" if conflicts else ""), width))
    return Group(*lines)


def reduction(report: ReductionReport) -> RenderableType:
    """Render a reduction, scan or sort."""
    name = report.operation.removeprefix("tt.").removeprefix("tl.")
    lines: list[RenderableType] = [head(report.place, report.loop_depth, name)]
    kind = f" along dim{report.axis}"
    if report.steps:
        kind = f"  {count(report.steps, 'step')}, which Triton makes as reductions"
    lines.append(field(name, (report.source, "bold"), kind))
    if report.source_words:
        lines.append(field("", report.source_words))
    if report.spread:
        parts = [
            f"{report.spread[dim]} {what}"
            for dim, what in (
                (REGISTER, "in the registers of a thread"),
                (LANE, "across lanes"),
                (WARP, "across warps"),
            )
            if report.spread.get(dim, 1) > 1
        ]
        lines.append(field("axis", ", ".join(parts) or "one coordinate"))
    return Group(*lines)
