"""Print a comparison to a terminal, or convert it to JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triton_linear.report import NOOP as FOLDED
from triton_linear.tools.diff.assembly import WIDE, Where
from triton_linear.tools.diff.compare import Comparison, Line, Pair
from triton_linear.tools.diff.compiled import CompiledSide
from triton_linear.tools.diff.facts import ConversionFact, LineFacts
from triton_linear.tools.diff.figures import TimedLoop
from triton_linear.tools.diff.ir import NOOP
from triton_linear.tools.explain.records import Place
from triton_linear.tools.explain.render_memory import ledger
from triton_linear.tools.verify.words import short_encoding, short_type

WIDTH = 100
MOST_LINES = 12
"""The number of source lines that are shown of a kernel without `--all`."""
_UNITS = {"stack": "bytes of stack", "shared": "bytes of shared memory", "occupancy": "CTAs at a time"}
_NARROWER = "narrower"
_STYLES = {"worse": "red", _NARROWER: "red", "better": "green"}


def show(console: Console, comparison: Comparison, everything: bool) -> None:
    """Print a comparison: first the kernels that differ, then the names of the others."""
    for side in comparison.sides:
        console.print(Text(f"{side.side.letter}  {_title(side)}"), soft_wrap=True)
    changed = [pair for pair in comparison.pairs if pair.divergence is not None]
    for pair in changed:
        _show(console, pair, everything)
    if same := [pair.name for pair in comparison.pairs if pair.divergence is None]:
        console.print()
        console.print(f"the same code: {', '.join(same)}", highlight=False)
    for letter, names in zip("AB", comparison.only, strict=True):
        if names:
            console.print(f"only in {letter}: {', '.join(names)}", highlight=False)


def _title(side: CompiledSide) -> str:
    words = f" with {side.side.words}" if side.side.words else ""
    return f"{side.side.what}{words}{f', Triton {side.triton}' if side.triton else ''}"


def _show(console: Console, pair: Pair, everything: bool) -> None:
    targets, warps = ({str(one or "not known"): None for one in values} for values in _machines(pair))
    machine = f"{' and '.join(targets)}, {' and '.join(warps)} warps"
    name = " and ".join(dict.fromkeys(side.name for side in pair.facts))
    console.print()
    console.print(Text.assemble((name, "bold"), f"  {machine}"))
    console.print(Text(f"began to differ: {pair.divergence}"))
    if not all(side.has_layouts for side in pair.facts):
        console.print(Text("layouts cannot be compared: one side has no TTGIR"))
    elif pair.layout_divergence != pair.divergence:
        where = f" began to differ: {pair.layout_divergence}" if pair.layout_divergence else ": no difference"
        console.print(Text(f"layouts and conversions{where}"))
    console.print(_table(pair))
    shown = pair.lines if everything else pair.lines[:MOST_LINES]
    for line in shown:
        console.print()
        console.print(_head(line), overflow="ellipsis", no_wrap=True)
        console.print(_line(line))
    if rest := len(pair.lines) - len(shown):
        console.print(Text(f"{rest} more {'line differs' if rest == 1 else 'lines differ'}; --all shows them"))
    if pair.figure("shared").worse != 0:
        for letter, memory in zip("AB", pair.shared_memory, strict=True):
            console.print()
            unknown = Text(f"shared memory of {letter}: who holds it is not known")
            console.print(unknown if memory is None else ledger(memory, letter))


def _machines(pair: Pair) -> tuple[list[str], list[int | None]]:
    """The targets and the numbers of warps of both sides."""
    return [side.target for side in pair.facts], [side.num_warps for side in pair.facts]


def _table(pair: Pair) -> Table:
    """The figures of the whole kernel, those that differ first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for letter in ("A", "B", ""):
        table.add_column(letter, justify="right")
    rows: list[tuple[str, str, str, str]] = []
    for one in pair.figures:
        rows.append((_UNITS.get(one.name, one.name), _number(one.a), _number(one.b), _sign(one.worse)))
    for a, b in pair.loops:
        if a is None and b is None:
            continue
        at = next(loop for loop in (a, b) if loop is not None).where
        worse = b.clocks - a.clocks if a is not None and b is not None else None
        rows.append((f"clocks of the loop at {_place(at)}", _clocks(a), _clocks(b), _sign(worse)))
    for kind, first, second in _totals(pair):
        rows.append((kind, first, second, _NARROWER if kind in pair.narrower else ""))
    for name, first, second, sign in sorted(rows, key=lambda row: row[1] == row[2]):
        style = _STYLES.get(sign, "" if first != second else "dim")
        table.add_row(Text(name, style), Text(first, style), Text(second, style), Text(sign, style))
    return table


def _sign(worse: int | None) -> str:
    """The word for a figure that is `worse` by this much in B."""
    return "" if not worse else "worse" if worse > 0 else "better"


def _number(value: int | None) -> str:
    return "not known" if value is None else str(value)


def _clocks(loop: TimedLoop | None) -> str:
    return "none" if loop is None else str(loop.clocks)


def _totals(pair: Pair) -> Iterator[tuple[str, str, str]]:
    a, b = (side.instructions() for side in pair.facts)
    for kind in dict.fromkeys((*WIDE, *a, *b)):
        if kind in a or kind in b:
            yield kind, widths(a.get(kind)), widths(b.get(kind))


def widths(counted: Counter[int] | None) -> str:
    """The number of accesses of each width, in words.

    >>> widths(Counter({128: 2, 32: 1})), widths(None)
    ('2 of 128, 1 of 32 bits', 'none')
    """
    if not counted:
        return "none"
    if set(counted) == {0}:
        return str(counted[0])
    return ", ".join(f"{count} of {bits}" for bits, count in sorted(counted.items(), reverse=True)) + " bits"


def _head(line: Line) -> Text:
    return Text.assemble((_place(line.where), "bold"), f"  {code_of(line.where)}")


def _line(line: Line) -> Table:
    """A table of what differs in a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for kind in line.instructions:
        a, b = (widths(side.instructions.get(kind)) for side in (line.a, line.b))
        table.add_row(f"  {kind}", "A", a)
        narrower = kind in line.narrower
        table.add_row("", "B", Text(f"{b}  {_NARROWER}" if narrower else b, "red" if narrower else ""))
    if line.conversions:
        _rows(table, "  conversions", [_conversions(side) for side in (line.a, line.b)])
    if line.layouts:
        _rows(
            table, "  layouts", [_layouts(side, other) for side, other in ((line.a, line.b), (line.b, line.a))]
        )
    return table


def _rows(table: Table, name: str, sides: Sequence[Sequence[str]]) -> None:
    for letter, texts in zip("AB", sides, strict=True):
        for number, text in enumerate(texts or ["none"]):
            table.add_row(
                name if letter == "A" and not number else "", letter if not number else "", Text(text)
            )


def _conversions(facts: LineFacts) -> list[str]:
    counts = Counter(conversion_words(one) for one in facts.conversions if one.crosses != NOOP)
    return [f"{count} times {text}" if count > 1 else text for text, count in counts.items()]


def conversion_words(one: ConversionFact) -> str:
    """A conversion in words: its tensor, how far it moves data, and its lowering."""
    how = f", {one.lowering}" if one.lowering not in ("", FOLDED, one.crosses) else ""
    loops = f", in {one.loops} loop{'s' * (one.loops > 1)}" if one.loops else ""
    return f"{short_type(one.source)} -> {short_encoding(one.destination)} {one.crosses}{how}{loops}"


def _layouts(facts: LineFacts, other: LineFacts) -> list[str]:
    """The layouts that the other side does not have, in words."""
    keys = {one.key for one in other.layouts}
    words = {one.words for one in other.layouts}
    return [
        f"{one.operation.rpartition('.')[2]} {one.tensor}: {one.encoding if one.words in words else one.words}"
        for one in facts.layouts
        if one.key not in keys
    ]


def _place(where: Where) -> str:
    return f"{Path(where[0]).name}:{where[1]}" if where[1] else "an unknown place"


def code_of(where: Where) -> str:
    """The text of a source line; empty if it cannot be read."""
    return Place.of(f"{where[0]}:{where[1]}:1").code if where[1] else ""


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison as JSON values."""
    return {
        "sides": [
            {"side": one.side.letter, "what": str(one.side.what), "words": one.side.words, "triton": one.triton}
            for one in comparison.sides
        ],
        "kernels": [_pair_as_json(pair) for pair in comparison.pairs],
        "only_in_a": list(comparison.only[0]),
        "only_in_b": list(comparison.only[1]),
    }


def _pair_as_json(pair: Pair) -> dict[str, Any]:
    return {
        "kernel": pair.name,
        "target": [side.target for side in pair.facts],
        "num_warps": [side.num_warps for side in pair.facts],
        "same_code": pair.divergence is None,
        "began": asdict(pair.divergence) if pair.divergence else None,
        "layouts_began": asdict(pair.layout_divergence) if pair.layout_divergence else None,
        "figures": {one.name: {"a": one.a, "b": one.b, "worse": one.worse} for one in pair.figures},
        "limited_by": [side.resources.limited_by for side in pair.facts],
        "loops": [{"a": a and asdict(a), "b": b and asdict(b)} for a, b in pair.loops],
        "narrower": list(pair.narrower),
        "shared_memory": [memory and asdict(memory) for memory in pair.shared_memory],
        "lines": [
            {
                "file": line.where[0],
                "line": line.where[1],
                "code": code_of(line.where),
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
        "instructions": {
            kind: {str(bits): n for bits, n in c.items()} for kind, c in facts.instructions.items()
        },
        "conversions": [asdict(one) for one in facts.conversions],
        "layouts": [
            {"operation": one.operation, "tensor": one.tensor, "encoding": one.encoding, "words": one.words}
            for one in facts.layouts
        ],
    }
