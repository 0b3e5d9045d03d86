"""Print a comparison to a terminal, or convert it to JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triton_linear.tools.diff.compare import Comparison, Line, Pair, moving
from triton_linear.tools.diff.compiled import LineFacts

if TYPE_CHECKING:
    from triton_linear.tools.diff.command import Side

MOST_LINES = 12
"""The number of source lines that are shown of a kernel without `--all`."""
_UNITS = {"stack": "bytes of stack", "shared": "bytes of shared memory", "occupancy": "CTAs at a time"}
_NARROWER = "narrower"
_STYLES = {"worse": "red", _NARROWER: "red", "better": "green"}


def show(console: Console, sides: Sequence[Side], comparison: Comparison, everything: bool) -> None:
    """Print a comparison: first the kernels that differ, then the names of the others."""
    for side in sides:
        words = f" with {side.words}" if side.words else ""
        console.print(Text(f"{side.letter}  {side.what}{words}"), soft_wrap=True)
    for pair in comparison.pairs:
        if not pair.same_code:
            _show(console, pair, everything)
    if same := [pair.a.name for pair in comparison.pairs if pair.same_code]:
        console.print()
        console.print(f"the same code: {', '.join(same)}", highlight=False)
    for letter, names in zip("AB", comparison.only, strict=True):
        if names:
            console.print(f"only in {letter}: {', '.join(names)}", highlight=False)


def _show(console: Console, pair: Pair, everything: bool) -> None:
    sides = pair.a, pair.b
    names, targets, warps = (
        " and ".join(dict.fromkeys(map(str, values)))
        for values in zip(
            *((side.name, side.report.target, side.report.num_warps) for side in sides), strict=True
        )
    )
    console.print()
    console.print(Text.assemble((names, "bold"), f"  {targets}, {warps} warps"))
    for letter, side in zip("AB", sides, strict=True):
        if side.left:
            console.print(Text(f"{letter} is stock Triton's: {side.left}"))
    console.print(_table(pair))
    shown = pair.lines if everything else pair.lines[:MOST_LINES]
    for line in shown:
        console.print()
        place = line.place
        name = f"{Path(place.file).name}:{place.line}" if place.line else str(place)
        head = Text.assemble((name, "bold"), f"  {place.code}")
        console.print(head, overflow="ellipsis", no_wrap=True)
        console.print(_line(line))
    if rest := len(pair.lines) - len(shown):
        console.print(Text(f"{rest} more {'line differs' if rest == 1 else 'lines differ'}; --all shows them"))
    console.print()
    console.print(Text(f"B against A, {pair.verdict}", "bold"))


def _table(pair: Pair) -> Table:
    """The figures of the whole kernel, those that differ first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for letter in ("A", "B", ""):
        table.add_column(letter, justify="right")
    for name, first, second, sign in sorted(_rows(pair), key=lambda row: row[1] == row[2]):
        style = _STYLES.get(sign, "" if first != second else "dim")
        table.add_row(Text(name, style), Text(first, style), Text(second, style), Text(sign, style))
    return table


def _rows(pair: Pair) -> Iterator[tuple[str, str, str, str]]:
    for one in pair.figures:
        a, b = ("not known" if value is None else str(value) for value in (one.a, one.b))
        yield _UNITS.get(one.name, one.name), a, b, _sign(one.worse)


def _sign(worse: float | None) -> str:
    """The word for a figure that is `worse` by this much in B."""
    return "" if not worse else "worse" if worse > 0 else "better"


def _line(line: Line) -> Table:
    """A table of what differs in a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    if line.conversions:
        _add(table, "conversions", [_conversions(side) for side in (line.a, line.b)])
    if line.layouts:
        narrow = dict.fromkeys(line.narrower, f"  {_NARROWER}")
        _add(table, "layouts", [_layouts(line.a, line.b, {}), _layouts(line.b, line.a, narrow)])
    return table


def _add(table: Table, name: str, sides: Sequence[Sequence[str]]) -> None:
    for letter, texts in zip("AB", sides, strict=True):
        for number, text in enumerate(texts or ["none"]):
            first = not number
            table.add_row(f"  {name}" if letter == "A" and first else "", letter if first else "", Text(text))


def _conversions(facts: LineFacts) -> list[str]:
    counts = Counter(map(str, moving(facts)))
    return [f"{count} times {text}" if count > 1 else text for text, count in counts.items()]


def _layouts(facts: LineFacts, other: LineFacts, marks: Mapping[str, str]) -> list[str]:
    """The layouts that the other side does not have, in words, each with the mark of its operation."""
    keys = {one.key for one in other.layouts}
    own = (one for one in facts.layouts if one.key not in keys)
    words = ((one, one.operation.rpartition(".")[2]) for one in own)
    return [
        f"{what} {one.tensor} {one.encoding}: {one.words}{marks.get(one.operation, '')}" for one, what in words
    ]


def as_json(sides: Sequence[Side], comparison: Comparison) -> dict[str, Any]:
    """The whole comparison as JSON values."""
    return {
        "sides": [{"side": one.letter, "what": one.what, "words": one.words} for one in sides],
        "kernels": [_pair_as_json(pair) for pair in comparison.pairs],
        "only_in_a": list(comparison.only[0]),
        "only_in_b": list(comparison.only[1]),
    }


def _pair_as_json(pair: Pair) -> dict[str, Any]:
    sides = pair.a, pair.b
    return {
        "kernel": pair.a.name,
        "target": [side.report.target for side in sides],
        "num_warps": [side.report.num_warps for side in sides],
        "left": [side.left for side in sides],
        "same_code": pair.same_code,
        "verdict": asdict(pair.verdict),
        "figures": {one.name: {"a": one.a, "b": one.b, "worse": one.worse} for one in pair.figures},
        "limited_by": [side.resources.limited_by for side in sides],
        "narrower": list(pair.narrower),
        "lines": [
            {
                "file": line.place.file,
                "line": line.place.line,
                "code": line.place.code,
                "differs": list(line.differs),
                "narrower": list(line.narrower),
                "a": _facts_as_json(line.a),
                "b": _facts_as_json(line.b),
            }
            for line in pair.every_line
        ],
    }


def _facts_as_json(facts: LineFacts) -> dict[str, Any]:
    return {
        "conversions": [{**asdict(one), "lowered": one.way} for one in facts.conversions],
        "layouts": [
            {name: getattr(one, name) for name in ("operation", "tensor", "encoding", "words", "run")}
            for one in facts.layouts
        ],
    }
