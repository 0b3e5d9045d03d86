"""`triton-linear report`: sum up a file of reports, kernel by kernel."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_linear.report import Outcome
from triton_linear.tools.support.errors import fail
from triton_linear.tools.verify.words import count

if TYPE_CHECKING:
    from rich.table import Table

COUNTS = ("seen", "ours", "noop", "folded", "avoided", "kept", "made")
_HEADS = {"noop": "no-op", "kept": "left"}
Line = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `report`."""
    parser.epilog = (
        "A row is a kernel's compiles for one GPU, added up. Kernels that came from a cache were not "
        "compiled, and are not in the file."
    )
    parser.add_argument("file", metavar="FILE", help="what TRITON_LINEAR=report=FILE has written; - for stdin")
    parser.add_argument("--json", action="store_true", help="print the sums as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the table and the errors of failed compiles."""
    lines, invalid = read(arguments.file)
    if invalid:
        print(f"{arguments.file}: {count(invalid, 'line')} left out: no whole report", file=sys.stderr)
    if not lines:
        fail("there is no report in it", arguments.file)
    sums = [summed(group) for group in grouped(lines)]
    if arguments.json:
        print(json.dumps(sums, indent=2))
    else:
        from triton_linear.tools.support.console import opened, show

        show(opened(), table_of(sums, lines))
        for line in {(line["kernel"], line["error"]): line for line in lines if line["error"]}.values():
            print(f"{line['kernel']} for {line['target']}: {line['error']}")
    return 0


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
        except (ValueError, RecursionError):
            report = None
        if _is_report(report):
            reports.append(report)
        else:
            invalid += 1
    return reports, invalid


def _is_report(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    kinds: dict[str, type] = {"kernel": str, "target": str, "seconds": dict, "date": str, "process": int}
    kinds |= dict.fromkeys(COUNTS, int)
    outcomes = {outcome.name.lower() for outcome in Outcome}
    return (
        all(isinstance(value.get(name), kind) for name, kind in kinds.items())
        and value.get("outcome") in outcomes
        and isinstance(value.get("error"), (str, type(None)))
        and all(isinstance(seconds, (int, float)) for seconds in value["seconds"].values())
    )


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
    outcomes = Counter(line["outcome"] for line in group)
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
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=len(sums) > 1)
    numbers = ("compiles", *COUNTS)
    table.add_column("kernel", count(len(sums), "kernel"), overflow="fold")
    table.add_column("for")
    for name in numbers:
        total = str(sum(each[name] for each in sums))
        table.add_column(_HEADS.get(name, name), total, justify="right", no_wrap=True)
    for name, head in (("stock_seconds", "Triton (s)"), ("plugin_seconds", "plugin (s)")):
        total = f"{sum(each[name] for each in sums):.2f}"
        table.add_column(head, total, justify="right", no_wrap=True)
    processes = count(len({line["process"] for line in lines}), "process", "processes")
    table.add_column("what became of it", processes)
    for each in sums:
        outcomes = [
            Outcome[name.upper()].value
            + (f", {times} times" if times > 1 and len(each["outcomes"]) > 1 else "")
            for name, times in each["outcomes"].items()
        ]
        seconds = (f"{each[name]:.2f}" for name in ("stock_seconds", "plugin_seconds"))
        counts = (str(each[name]) for name in numbers)
        table.add_row(each["kernel"], each["target"], *counts, *seconds, "; ".join(outcomes))
    return table
