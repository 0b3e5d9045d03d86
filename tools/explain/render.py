"""Reports for a terminal, and as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text
from triton_linear.tools.explain.anchors import Anchor
from triton_linear.tools.explain.gather import ConversionReport, Figures, ModuleReport

_COLOURS = {
    "noop": "green",
    "registers": "green",
    "shuffle": "cyan",
    "warp-shared": "yellow",
    "cta-shared": "red",
    "stock": "magenta",
}
WIDTH = 110


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def figures_text(figures: Figures) -> str:
    """What was counted, without what is zero."""
    parts = [
        f"{figures.wavefronts} wavefronts ({figures.minimum_wavefronts} at least)"
        if figures.wavefronts
        else "",
        _count(figures.shuffles, "shuffle") if figures.shuffles else "",
        f"{figures.alu} alu" if figures.alu else "",
        _count(figures.barriers, "barrier") if figures.barriers else "",
        _count(figures.warp_barriers, "warp barrier") if figures.warp_barriers else "",
        f"{figures.bytes} bytes moved" if figures.bytes else "",
        f"{figures.wrong} registers WRONG" if figures.wrong else "",
        _count(figures.races, "RACE") if figures.races else "",
    ]
    return ", ".join(filter(None, parts)) or "no instruction"


def _anchor(anchor: Anchor | None, otherwise: str) -> str:
    if anchor is None:
        return otherwise
    place = f" at {Path(anchor.file).name}:{anchor.line}" if anchor.line else ""
    return f"{anchor.reason} ({anchor.operation}{place})"


def _shortened(place: str) -> str:
    """A path below the working directory as it is called there."""
    return place.removeprefix(f"{Path.cwd()}{os.sep}")


def conversion(report: ConversionReport, rivals: bool = True) -> RenderableType:
    """One conversion."""
    place = report.place
    head = Text.assemble((_shortened(str(place)), "bold"), f"  {place.code}" if place.code else "")
    if report.loop_depth:
        head.append(f"  [in {_count(report.loop_depth, 'loop')}]", "bold yellow")
    lines: list[RenderableType] = [head]

    def line(name: str, *parts: str | tuple[str, str]) -> None:
        lines.append(Padding(Text.assemble((f"{name:<10}", "dim"), *parts), (0, 0, 0, 2)))

    line("from", (report.source, "bold"), f"  {_anchor(report.from_anchor, 'nothing asks for it')}")
    if report.source_words:
        line("", report.source_words)
    line("to", (report.destination, "bold"), f"  {_anchor(report.to_anchor, 'nothing asks for it')}")
    if report.destination_words:
        line("", report.destination_words)
    line("lowered", (report.lowering, _COLOURS.get(report.kind, "")))
    if report.figures is not None:
        line("counted", figures_text(report.figures))
        if report.clocks:
            line("modelled", f"{report.clocks:g} clocks per warp, {report.latency:g} to wait for")
    if rivals:
        for number, rejected in enumerate(report.rejected):
            line("not" if number == 0 else "", (rejected, "dim"))
    if report.advice:
        line("without", report.advice)
    return Group(*lines)


def module(report: ModuleReport, top: int | None) -> RenderableType:
    """A module: its conversions, the dearest in most loops first."""
    shown = report.conversions if top is None else report.conversions[:top]
    kinds: dict[str, int] = {}
    for one in report.conversions:
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    summary = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) or "no conversions"
    folded = f", {report.folded} folded away" if report.folded else ""
    parts: list[RenderableType] = [
        Text(f"{report.target}, {_count(report.num_warps, 'warp')}: {summary}{folded}")
    ]
    for one in shown:
        parts += [Text(), conversion(one)]
    if len(shown) < len(report.conversions):
        parts += [Text(), Text(f"{len(report.conversions) - len(shown)} more, which cost less")]
    if report.assignment:
        parts += [Text(), *(Text(line, "dim") for line in report.assignment)]
    title = f"{', '.join(report.kernels)}  ({report.file})"
    return Panel(Group(*parts), title=Text(title, "bold"), title_align="left")


def show(console: Console, reports: Sequence[ModuleReport], top: int | None) -> None:
    """Print all modules."""
    for report in reports:
        console.print(module(report, top))


def as_html(reports: Sequence[ModuleReport], top: int | None) -> str:
    """One file that loads nothing."""
    with open("/dev/null", "w") as nowhere:
        console = Console(
            record=True, width=WIDTH + 30, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        show(console, reports, top)
    return console.export_html(inline_styles=True)
