"""Tables, cells and sentences that the pages of results share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .statistics import GAIN, LOSS, geometric_mean

Row = Iterable[object] | str


def table(heads: str, rows: Iterable[Row] = ()) -> list[str]:
    """The lines of a table; a column whose head ends in a colon is one of numbers. A row may be a line already.

    >>> table("kernel | µs:", [("matmul", 7)])
    ['| kernel | µs |', '| --- | ---: |', '| matmul | 7 |']
    """
    names = [name.strip() for name in heads.split("|")]
    rules = ["---:" if name.endswith(":") else "---" for name in names]
    lines = [f"| {' | '.join(name.removesuffix(':') for name in names)} |", f"| {' | '.join(rules)} |"]
    return [*lines, *(each if isinstance(each, str) else row(*each) for each in rows)]


def row(*cells: object) -> str:
    """One line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def page(*lines: str) -> str:
    """Lines as a text."""
    return "\n".join(lines) + "\n"


def listed(title: str, found: Iterable[str], otherwise: Sequence[str] = ()) -> list[str]:
    """Findings as a list under a line that says what they are; without any `otherwise`."""
    lines = [f"- {each}" for each in found]
    return ["", title, "", *lines] if lines else list(otherwise)


def not_run(report: Mapping[str, Any]) -> list[str]:
    """The cases for which there was no time."""
    left = report.get("not_run")
    return ["", f"Not run for want of time: {', '.join(left)}."] if left else []


def measured_on(report: Mapping[str, Any]) -> str:
    """What was measured, and when."""
    torch = f" PyTorch {report['torch']}," if report.get("torch") else ""
    return (
        f"{report['device']}, Triton {report['triton']},{torch} triton-linear "
        f"{report['triton_linear']}, {report['date']}"
    )


def number(value: float | None, digits: int = 2, otherwise: str = "") -> str:
    """A cell that may be empty."""
    return otherwise if value is None else f"{value:.{digits}f}"


def between(values: Sequence[float] | None, digits: int = 3, otherwise: str = "") -> str:
    """(low, median, high) in a cell.

    >>> between((0.9, 1.0, 1.25))
    '1.000 (0.900 to 1.250)'
    """
    if values is None:
        return otherwise
    low, middle, high = (f"{value:.{digits}f}" for value in values)
    return f"{middle} ({low} to {high})"


def sizes(shape: Iterable[int]) -> str:
    """A shape in words.

    >>> sizes((64, 128))
    '64x128'
    """
    return "x".join(map(str, shape))


def counted(counts: Mapping[str, int]) -> str:
    """How many of each kind.

    >>> counted({"shuffle": 2, "noop": 1})
    '2 shuffle, 1 noop'
    """
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def spread(ratios: Sequence[float]) -> tuple[object, ...]:
    """Cells: the geometric mean, the least and the most; how many are below and above what counts as equal."""
    if not ratios:
        return ("", "", "", 0, 0)
    figures = (geometric_mean(ratios), min(ratios), max(ratios))
    ends = (sum(ratio < LOSS for ratio in ratios), sum(ratio > GAIN for ratio in ratios))
    return (*(number(figure, 3) for figure in figures), *ends)


def named(found: Iterable[tuple[str, float]]) -> str:
    """Names with their ratios, or that there are none."""
    return ", ".join(f"{name} ({value:.3f})" for name, value in found) or "none"


Named = Iterable[tuple[str, float | None]]


def losers(found: Named) -> list[tuple[str, float]]:
    """Those that are slower than stock Triton, worst first."""
    known = [(name, value) for name, value in found if value is not None and value < LOSS]
    return sorted(known, key=lambda pair: pair[1])


def winners(found: Named) -> list[tuple[str, float]]:
    """Those that are faster than stock Triton, best first."""
    known = [(name, value) for name, value in found if value is not None and value > GAIN]
    return sorted(known, key=lambda pair: -pair[1])


def one_line(text: str, most: int = 300) -> str:
    """Text in one line of a page."""
    return " ".join(text.split())[:most]
