"""`triton-linear status`: what is installed and on, and what became of the kernels in a file of reports."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear import __version__, environment
from triton_linear.dialect import mlir_provider, triton_versions, verdicts
from triton_linear.overview import decisions_line
from triton_linear.report import Outcome
from triton_linear.tools.support.console import show
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.words import count

COUNTS = ("seen", "ours", "noop", "folded", "avoided", "kept", "made")
_HEADS = {"noop": "no-op", "kept": "left"}
Line = Mapping[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Print what is installed and on, or the sums of a file of reports. The exit status is 0."""
    if arguments.file is None:
        print("\n".join((f"triton-linear {__version__}", *_state())))
        if (table := passes()) is not None:
            print(flush=True)
            show(table)
        return 0
    lines, invalid = read(arguments.file)
    if invalid:
        print(f"{arguments.file}: {count(invalid, 'line')} left out: no whole report", file=sys.stderr)
    if not lines:
        fail("there is no report in it", arguments.file)
    sums = [summed(group) for group in grouped(lines)]
    if arguments.json:
        print(json.dumps(sums, indent=2))
        return 0
    show(table_of(sums, lines))
    for line in {(line["kernel"], line["error"]): line for line in lines if line["error"]}.values():
        print(f"{line['kernel']} for {line['target']}: {line['error']}")
    return 0


def _state() -> Iterator[str]:
    yield triton_line()
    yield mlir_line()
    variable = os.environ.get(environment.VARIABLE, "")
    try:
        on = environment.parse(variable) is not None
        triton_versions.require()
    except (ValueError, TypeError) as error:
        yield f"off: {environment.VARIABLE}={variable}: {error}"
    except (triton_versions.UnsupportedTriton, triton_versions.UnsupportedMLIR):
        yield "off: it does not work with what is installed"
    else:
        because = f"{environment.VARIABLE}={variable}" if variable else f"{environment.VARIABLE} is not set"
        yield f"on: {because}" if on else f"off: {because}; a program may call install()"
    yield decisions_line()


def passes() -> Table | None:
    """The passes and what they do with the installed Triton; None where the plugin does not work with it."""
    try:
        triton_versions.require()
        from triton_linear.passes.coverage import coverage
    except (triton_versions.UnsupportedTriton, triton_versions.UnsupportedMLIR):
        return None
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("pass", "with this Triton"):
        table.add_column(name, no_wrap=True)
    table.add_column("what it does, and what it does not with this Triton")
    for entry in coverage(triton_versions.installed_release()):
        lines = [entry.summary, *(f"- {limit}" for limit in entry.limits)]
        colour = "green" if entry.state == "on" else "yellow"
        table.add_row(entry.name, Text(entry.state, colour), "\n".join(lines))
    return table


def triton_line() -> str:
    """The line about Triton: the version that the module states, its folder, and whether it is supported."""
    version, place = triton_versions.found(), verdicts.libtriton()
    triton = f"triton {version}" + ("" if place is None else f" in {place.parents[1]}")
    if version in triton_versions.TESTED:
        return f"{triton}: a tested release"
    try:
        triton_versions.require()
    except triton_versions.UnsupportedTriton as error:
        return f"triton: refused: {error}"
    rules = ".".join(map(str, triton_versions.installed_release()))
    verdict = verdicts.kept()
    quickly = ", run quickly," if verdict is not None and verdict.quick else ""
    return f"{triton}: no tested release; by 'triton-linear doctor'{quickly} it keeps to the rules of {rules}"


def mlir_line() -> str:
    """The line about MLIR's bindings: their version, or why they cannot be used."""
    try:
        import triton_linear.dialect.mlir_adapter  # noqa: F401
    except triton_versions.UnsupportedMLIR as error:
        return f"mlir: refused: {error}"
    return f"mlir: {mlir_provider.installed() or 'of no known package'}"


def read(file: str) -> tuple[list[Line], int]:
    """The reports in a file, and the number of lines that are not reports."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8", errors="replace")
    except OSError as error:
        fail(error.strerror or str(error), file)
    reports, invalid = [], 0
    for line in filter(str.strip, text.splitlines()):
        try:
            report = json.loads(line)
            summed([report])  # which has to know all that it adds up
            if not report.keys() >= {"process", "error"}:
                raise KeyError(line)
            reports.append(report)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            invalid += 1
    return reports, invalid


def grouped(lines: Sequence[Line]) -> list[list[Line]]:
    """The reports of each kernel for each GPU, in descending order of conversions."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["kernel"], line["target"]), []).append(line)
    return sorted(groups.values(), key=lambda group: (-sum(line["seen"] for line in group), group[0]["kernel"]))


def summed(group: Sequence[Line]) -> dict[str, Any]:
    """The sums of one kernel's reports."""
    stock = sum(line["seconds"].get("stock", 0) for line in group)
    whole = sum(sum(line["seconds"].values()) for line in group)
    outcomes = Counter(Outcome[line["outcome"].upper()].name.lower() for line in group)
    return {
        "kernel": group[0]["kernel"],
        "target": group[0]["target"],
        "compiles": len(group),
        "outcomes": dict(outcomes),
        **{name: sum(line[name] for line in group) for name in COUNTS},
        "stock_seconds": round(stock, 6),
        "plugin_seconds": round(whole - stock, 6),
    }


def table_of(sums: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> Table:
    """The table of the sums, with totals in the footer."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=len(sums) > 1)
    table.add_column("kernel", count(len(sums), "kernel"), overflow="fold")
    table.add_column("for")
    seconds = {"stock_seconds": "Triton (s)", "plugin_seconds": "plugin (s)"}
    numbers = dict.fromkeys(("compiles", *COUNTS), "{}") | dict.fromkeys(seconds, "{:.2f}")
    for name, shown in numbers.items():
        total = shown.format(sum(each[name] for each in sums))
        table.add_column((_HEADS | seconds).get(name, name), total, justify="right", no_wrap=True)
    processes = count(len({line["process"] for line in lines}), "process", "processes")
    table.add_column("what became of it", processes)
    for each in sums:
        outcomes = [
            Outcome[name.upper()].value
            + (f", {times} times" if times > 1 and len(each["outcomes"]) > 1 else "")
            for name, times in each["outcomes"].items()
        ]
        cells = (shown.format(each[name]) for name, shown in numbers.items())
        table.add_row(each["kernel"], each["target"], *cells, "; ".join(outcomes))
    return table
