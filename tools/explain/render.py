"""Print reports to a terminal, or write them as an HTML file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP
from triton_linear.report import NOOP
from triton_linear.tools.explain.anchors import Anchor
from triton_linear.tools.explain.records import (
    AccessReport,
    ConversionReport,
    Measured,
    ModuleReport,
    Place,
    ReductionReport,
)
from triton_linear.tools.explain.verdict import FASTER, SLOWER, UNKNOWN
from triton_linear.tools.support.words import count, wavefronts_text

_COLOURS = {
    "noop": "green",
    "registers": "green",
    "shuffle": "cyan",
    "warp-shared": "yellow",
    "cta-shared": "red",
    "cluster-shared": "red",
    "stock": "magenta",
}
_OUTCOMES = {FASTER: "green", SLOWER: "red", UNKNOWN: "yellow"}
MOST_OF_TITLE = 74
"""The number of characters of a title that fit on a terminal of 80 columns."""


def _anchor(anchor: Anchor | None, otherwise: str) -> str:
    if anchor is None:
        return otherwise
    place = f" at {Path(anchor.file).name}:{anchor.line}" if anchor.line else ""
    return f"{anchor.reason} ({anchor.operation}{place})"


def conversion(
    report: ConversionReport, times: int = 1, stock: Sequence[ConversionReport] = ()
) -> RenderableType:
    """Render a conversion, or `times` equal ones, with those that stock Triton has on its line; several no-ops
    take one line."""
    lines: list[RenderableType] = [head(report.place, report.loop_depth)]

    def line(name: str, *parts: str | tuple[str, str]) -> None:
        lines.append(field(name, *parts))

    if report.kind == NOOP and times > 1:
        line("lowered", (report.lowering, _COLOURS[NOOP]), f": {times} conversions that move nothing")
        return Group(*lines)
    line("from", (report.source, "bold"), f"  {_anchor(report.from_anchor, 'nothing asks for it')}")
    if report.source_words:
        line("", report.source_words)
    line("to", (report.destination, "bold"), f"  {_anchor(report.to_anchor, 'nothing asks for it')}")
    if report.destination_words:
        line("", report.destination_words)
    line("lowered", (report.lowering, _COLOURS.get(report.kind, "")))
    if times > 1:
        line("times", f"{times}; of each:")
    if report.figures is not None or report.problem:
        line("counted", str(report.figures or report.problem))
    if report.clocks:
        line("modelled", f"{report.clocks:.1f} clocks per warp, latency {report.latency:.1f}")
    for other in stock:
        line("stock", str(other))
    for number, rejected in enumerate(report.rejected):
        line("not" if number == 0 else "", (rejected, "dim"))
    if report.advice:
        line("without", report.advice)
    return Group(*lines)


def times(report: Measured) -> RenderableType:
    """Render the times of a kernel on one grid."""
    parts: list[str] = []
    if report.stock_microseconds is not None:
        parts.append(f"{report.stock_microseconds:.1f} µs with stock Triton")
    if report.stock_over_ours is not None:
        parts.append(f"{report.stock_over_ours:.3f} times as fast with ours")
    if report.stock_over_free is not None:
        parts.append(f"{report.stock_over_free:.3f} times if conversions were free")
    if report.share_taken is not None:
        parts.append(f"ours saves {report.share_taken:.0%} of that")
    parts += [f"{mode}: {problem}" for mode, problem in report.problems.items()]
    grid = "x".join(map(str, report.grid))
    launches = count(report.launches, "launch", "launches")
    return field("measured", (grid, "bold"), f"  {launches}: {', '.join(parts)}")


def module(report: ModuleReport, top: int | None) -> RenderableType:
    """Render a module: its conversions, accesses to shared memory and reductions, the most expensive in the
    deepest loops first.
    """
    kinds: dict[str, int] = {}
    for one in report.conversions:
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    summary = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) or "no conversions"
    folded = f", {report.folded} folded away" if report.folded else ""
    folded += f", {report.avoided} avoided by layouts" if report.avoided else ""
    folded += f"; {report.made} of these made by our passes" if report.made else ""
    parts: list[RenderableType] = [
        Text(f"{report.target}, {count(report.num_warps, 'warp')}: {summary}{folded}")
    ]
    stock: dict[tuple[str, int], list[ConversionReport]] = {}
    for one in report.stock or ():
        if one.moves:
            stock.setdefault((one.place.file, one.place.line), []).append(one)

    def grouped(group: Sequence[ConversionReport]) -> RenderableType:
        place = group[0].place
        others = stock.pop((place.file, place.line), []) if group[0].moves else []
        return conversion(group[0], len(group), others)

    parts += _first(_grouped(report.conversions), grouped, top)
    if stock and top is None:
        parts += [Text(), Text("conversions of stock Triton on other lines", "bold underline")]
        for others in stock.values():
            parts += [Text(), head(others[0].place, others[0].loop_depth)]
            parts += [field("stock", str(one)) for one in others]
    same = Counter(replace(one, place=replace(one.place, column=0)) for one in report.accesses)
    parts += _first(list(same.items()), lambda one: access(*one), top, "accesses to shared memory")
    sorts = any(one.steps for one in report.reductions)
    parts += _first(
        report.reductions, reduction, top, "reductions, scans and sorts" if sorts else "reductions and scans"
    )
    if report.gathers:
        parts += [Text(), Text("gathers", "bold underline"), *map(Text, report.gathers)]
    if report.tensor_memory:
        parts += [Text(), Text("tensor memory", "bold underline"), *map(Text, report.tensor_memory)]
    for kernel in report.shared_memory:
        if kernel.bytes or kernel.stock:
            beside = "" if kernel.stock is None else f", {kernel.stock} by stock Triton"
            parts += [Text(), Text(f"shared memory of {kernel.kernel}: {kernel.bytes} bytes{beside}", "bold")]
    if report.measured is not None:
        devices = ", ".join(dict.fromkeys(one.device for one in report.measured))
        parts += [
            Text(),
            Text(f"times of a launch, {devices}" if devices else "no launch was seen", "bold underline"),
        ]
        parts += map(times, report.measured)
    if report.assignment:
        parts += [Text(), *(Text(line, "dim") for line in report.assignment)]
    if report.verdict is not None:
        colour = _OUTCOMES.get(report.verdict.outcome, "")
        parts += [Text(), Text(str(report.verdict), f"bold {colour}".strip())]
    names = ", ".join(report.kernels)
    title = f"{names}  ({report.file})"
    if len(title) > MOST_OF_TITLE:
        title, parts = names, [Text(report.file), *parts]
    return Panel(Group(*parts), title=Text(title, "bold"), title_align="left")


def _grouped(reports: Sequence[ConversionReport]) -> list[list[ConversionReport]]:
    """Group conversions of the same line with equal reports; no-ops are grouped by their line only."""
    groups: dict[object, list[ConversionReport]] = {}
    for one in reports:
        line = replace(one.place, column=0)
        key = (line, one.loop_depth) if one.kind == NOOP else replace(one, place=line)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


_Report = TypeVar("_Report")


def _first(
    reports: Sequence[_Report], rendered: Callable[[_Report], RenderableType], top: int | None, title: str = ""
) -> Iterator[RenderableType]:
    """Render the first `top` reports under a title, and a line with the number of the others."""
    if reports and title:
        yield from (Text(), Text(title, "bold underline"))
    shown = reports if top is None else reports[:top]
    for one in shown:
        yield from (Text(), rendered(one))
    if len(shown) < len(reports):
        yield from (Text(), Text(f"{len(reports) - len(shown)} more, which cost less"))


def show(console: Console, reports: Sequence[ModuleReport], top: int | None) -> None:
    """Print all modules."""
    for report in reports:
        console.print(module(report, top))


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


def access(report: AccessReport, times: int = 1) -> RenderableType:
    """Render an access to shared memory, or `times` equal ones."""
    name = report.operation.removeprefix("ttg.")
    lines: list[RenderableType] = [head(report.place, report.loop_depth, name)]
    lines.append(field("registers", (report.registers, "bold"), f"  {name}"))
    if report.registers_words:
        lines.append(field("", report.registers_words))
    lines.append(field("memory", (report.memory, "bold")))
    if report.memory_words:
        lines.append(field("", report.memory_words))
    if times > 1:
        lines.append(field("times", f"{times}; of each:"))
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
