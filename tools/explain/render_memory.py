"""Render accesses to shared memory, reductions and the ledger of shared memory for a terminal."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP
from triton_linear.tools.explain.records import (
    AccessReport,
    Holder,
    Ledger,
    Place,
    ReductionFigures,
    ReductionReport,
)
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


def short_place(place: Place) -> str:
    """File and line, without folders."""
    return f"{Path(place.file).name}:{place.line}" if place.line else ""


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
    allocation = short_place(report.buffer)
    lines.append(field("memory", (report.memory, "bold"), f"  made at {allocation}" if allocation else ""))
    if report.memory_words:
        lines.append(field("", report.memory_words))
    if report.staging:
        lines.append(field("staging", report.staging))
    figures = report.figures
    if figures is None:
        lines.append(field("counted", f"not: {report.detail}"))
        return Group(*lines)
    conflicts = figures.wavefronts > figures.minimum_wavefronts
    widths = " and ".join(map(str, figures.widths))
    lines.append(
        field(
            "counted",
            (wavefronts_text(figures.wavefronts, figures.minimum_wavefronts), "yellow" if conflicts else ""),
            f", {figures.bytes} bytes, {widths} by a lane at once",
        )
    )
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
    figures = report.figures
    if figures is None:
        lines.append(field("counted", f"not: {report.detail}"))
        return Group(*lines)
    lines.append(field("counted", _counts(figures)))
    if report.apart is not None:
        lines.append(field("split", _counts(report.apart)))
    return Group(*lines)


def _counts(figures: ReductionFigures) -> str:
    counted = [
        count(figures.shuffles, "shuffle") if figures.shuffles else "",
        wavefronts_text(figures.wavefronts, figures.minimum_wavefronts) if figures.wavefronts else "",
        count(figures.barriers, "barrier") if figures.barriers else "",
        f"{figures.bytes} bytes moved" if figures.bytes else "",
        f"{figures.scratch_bytes} bytes of scratch" if figures.scratch_bytes else "",
    ]
    return ", ".join(filter(None, counted)) or "nothing leaves a thread"


def ledger(report: Ledger, called: str = "") -> RenderableType:
    """Render the users of a kernel's shared memory, under its name or what it is `called`."""
    stock = "" if report.stock_peak is None else f", {report.stock_peak} by stock Triton"
    title = f"shared memory of {called or report.kernel}: {report.peak} bytes{stock}"
    if not report.holders:
        return Text(title, "bold")
    at = short_place(report.live_at)
    if report.live:
        title += f"; at most {report.live} are held at once" + (f", first at {at}" if at else "")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("bytes", "offset"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("who", "from", "to"):
        table.add_column(name, no_wrap=True)
    table.add_column("what")
    for holder in report.holders:
        table.add_row(*_row(holder))
    return Group(Text(title, "bold"), Padding(table, (0, 0, 0, 2)))


def _row(holder: Holder) -> tuple[str, ...]:
    numbers = ("?" if number is None else str(number) for number in (holder.bytes, holder.offset))
    first, last = short_place(holder.place) or "the beginning", short_place(holder.until) or "the end"
    if holder.last_operation == "scf.yield":
        last = f"end of loop {last}"
    who = holder.operation if holder.kind == "other" else holder.kind
    return (*numbers, who, first, last, holder.what)
