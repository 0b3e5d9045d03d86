"""Print reports to a terminal, or write them as an HTML file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

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
    "stock": "magenta",
}
_OUTCOMES = {FASTER: "green", SLOWER: "red", UNKNOWN: "yellow"}
MOST_OF_TITLE = 74
"""The number of characters of a title that fit on a terminal of 80 columns."""


def _anchor(anchor: Anchor | None) -> str:
    if anchor is None:
        return "nothing asks for it"
    place = f" at {Path(anchor.file).name}:{anchor.line}" if anchor.line else ""
    return f"{anchor.reason} ({anchor.operation}{place})"


Part = str | tuple[str, str]
"""A text, or one with its style; a field is its name and its parts."""


def conversion(
    report: ConversionReport, times: int = 1, stock: Sequence[ConversionReport] = ()
) -> RenderableType:
    """Render a conversion, or `times` equal ones, with those that stock Triton has on its line."""
    if report.kind == NOOP and times > 1:
        what = f": {times} conversions that move nothing"
        return entry(report, "", [("lowered", (report.lowering, _COLOURS[NOOP]), what)])
    modelled = f"{report.clocks:.1f} clocks per warp, latency {report.latency:.1f}"
    return entry(
        report,
        "",
        [
            ("from", (report.source, "bold"), f"  {_anchor(report.from_anchor)}"),
            ("", report.source_words),
            ("to", (report.destination, "bold"), f"  {_anchor(report.to_anchor)}"),
            ("", report.destination_words),
            ("lowered", (report.lowering, _COLOURS.get(report.kind, ""))),
            *_times(times),
            ("counted", str(report.figures or report.problem)),
            ("modelled", modelled if report.clocks else ""),
            *(("stock", str(other)) for other in stock),
            *(("" if number else "not", (why, "dim")) for number, why in enumerate(report.rejected)),
            ("without", report.advice),
        ],
    )


def access(report: AccessReport, times: int = 1) -> RenderableType:
    """Render an access to shared memory, or `times` equal ones."""
    name, figures = report.operation.removeprefix("ttg."), report.figures
    modelled: tuple[Part, ...] = (f"not: {report.detail}",)
    if figures is not None:
        wavefronts = wavefronts_text(figures.wavefronts, figures.minimum_wavefronts)
        conflicts = "yellow" if figures.wavefronts > figures.minimum_wavefronts else ""
        modelled = (wavefronts, conflicts), f", {count(figures.width, 'byte')} of a thread in a row"
    return entry(
        report,
        name,
        [
            ("registers", (report.registers, "bold"), f"  {name}"),
            ("", report.registers_words),
            ("memory", (report.memory, "bold")),
            ("", report.memory_words),
            *_times(times),
            ("modelled", *modelled),
        ],
    )


def _times(times: int) -> list[tuple[str, str]]:
    return [("times", f"{times}; of each:")] if times > 1 else []


_ALONG = {REGISTER: "in the registers of a thread", LANE: "across lanes", WARP: "across warps"}


def reduction(report: ReductionReport) -> RenderableType:
    """Render a reduction, scan or sort."""
    name = report.operation.removeprefix("tt.").removeprefix("tl.")
    kind = f" along dim{report.axis}"
    if report.steps:
        kind = f"  {count(report.steps, 'step')}, which Triton makes as reductions"
    spread = [f"{report.spread[dim]} {what}" for dim, what in _ALONG.items() if report.spread.get(dim, 1) > 1]
    axis = (", ".join(spread) or "one coordinate") if report.spread else ""
    rows = [(name, (report.source, "bold"), kind), ("", report.source_words), ("axis", axis)]
    return entry(report, name, rows)


def times(report: Measured) -> RenderableType:
    """Render the times of a kernel on one grid."""
    known = (
        (report.stock_microseconds, "{:.1f} µs with stock Triton"),
        (report.stock_over_ours, "{:.3f} times as fast with ours"),
    )
    parts = [text.format(value) for value, text in known if value is not None]
    parts += [f"{mode}: {problem}" for mode, problem in report.problems.items()]
    launches = count(report.launches, "launch", "launches")
    grid = "x".join(map(str, report.grid))
    return fields([("measured", (grid, "bold"), f"  {launches}: {', '.join(parts)}")])


def module(report: ModuleReport) -> RenderableType:
    """Render a module: its conversions, accesses and reductions, those in the deepest loops first."""
    kinds = Counter(one.kind for one in report.conversions)
    summary = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) or "no conversions"
    summary += f", {report.folded} folded away" if report.folded else ""
    summary += f", {report.avoided} avoided by layouts" if report.avoided else ""
    summary += f"; {report.made} of these made by our passes" if report.made else ""
    parts: list[RenderableType] = [Text(f"{report.target}, {count(report.num_warps, 'warp')}: {summary}")]
    stock: dict[tuple[str, int], list[ConversionReport]] = {}
    for one in report.stock or ():
        if one.moves:
            stock.setdefault((one.place.file, one.place.line), []).append(one)

    def grouped(group: Sequence[ConversionReport]) -> RenderableType:
        place = group[0].place
        others = stock.pop((place.file, place.line), []) if group[0].moves else []
        return conversion(group[0], len(group), others)

    def section(title: str, entries: Iterable[RenderableType]) -> None:
        """Add entries, each below an empty line."""
        if found := [part for one in entries for part in (Text(), one)]:
            parts.extend((Text(), Text(title, "bold underline"), *found) if title else found)

    section("", map(grouped, _grouped(report.conversions)))
    rest = (entry(others[0], "", [("stock", str(one)) for one in others]) for others in stock.values())
    section("conversions of stock Triton on other lines", rest)
    same = Counter(replace(one, place=one.place.whole_line) for one in report.accesses)
    section("accesses to shared memory", (access(*one) for one in same.items()))
    sorts = any(one.steps for one in report.reductions)
    section(
        "reductions, scans and sorts" if sorts else "reductions and scans", map(reduction, report.reductions)
    )
    for kernel in report.shared_memory:
        if kernel.bytes or kernel.stock:
            beside = "" if kernel.stock is None else f", {kernel.stock} by stock Triton"
            parts += [Text(), Text(f"shared memory of {kernel.kernel}: {kernel.bytes} bytes{beside}", "bold")]
    if report.measured is not None:
        devices = ", ".join(dict.fromkeys(one.device for one in report.measured))
        title = f"times of a launch, {devices}" if devices else "no launch was seen"
        parts += [Text(), Text(title, "bold underline"), *map(times, report.measured)]
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
        line = one.place.whole_line
        key = (line, one.loop_depth) if one.kind == NOOP else replace(one, place=line)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def show(console: Console, reports: Sequence[ModuleReport]) -> None:
    """Print all modules."""
    for report in reports:
        console.print(module(report))


def shortened(place: str) -> str:
    """A path, relative to the working directory if it is below it."""
    return place.removeprefix(f"{Path.cwd()}{os.sep}")


def entry(
    report: ConversionReport | AccessReport | ReductionReport,
    what: str,
    rows: Iterable[Sequence[Part]],
) -> RenderableType:
    """A report: its place, the code there (else what it is), and the number of loops; then its fields."""
    code = report.place.code or what
    text = Text.assemble((shortened(str(report.place)), "bold"), f"  {code}" if code else "")
    if report.loop_depth:
        text.append(f"  [in {count(report.loop_depth, 'loop')}]", "bold yellow")
    return Group(text, fields(rows))


def fields(rows: Iterable[Sequence[Part]]) -> RenderableType:
    """Lines behind their names, those with a text; a long one is wrapped with the same indentation."""
    table = Table.grid()
    table.add_column(width=10, style="dim")
    table.add_column()
    for name, *parts in rows:
        if (text := Text.assemble(*parts)).plain:
            table.add_row(str(name), text)
    return Padding(table, (0, 0, 0, 2))
