"""`triton-linear explain`: why each conversion of a kernel exists, how it is lowered, and its cost."""

from __future__ import annotations

import argparse
import sys

from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.gate import Condition
from triton_linear.tools.explain.measure import check_script, measured, with_times
from triton_linear.tools.explain.pack import packings
from triton_linear.tools.explain.records import Measured, ModuleReport
from triton_linear.tools.explain.render import show
from triton_linear.tools.support.arguments import pipeline_options
from triton_linear.tools.support.console import present
from triton_linear.tools.support.errors import Diagnostic, Printer, ToolError, fail
from triton_linear.tools.support.inputs import modules
from triton_linear.tools.support.launches import digest
from triton_linear.tools.support.progress import status_line


def run(arguments: argparse.Namespace) -> int:
    """Explain the modules; the exit status is 1 if something is wrong or a condition of `--fail-on` holds."""
    conditions = [Condition.parse(text) for text in arguments.fail_on]
    if arguments.top is not None and arguments.top < 0:
        fail(f"top: {arguments.top} is negative")
    if arguments.pack:
        return _pack(arguments)
    times: dict[str, tuple[Measured, ...]] | None = None
    if arguments.measure:
        check_script(arguments.what)
        with status_line("timing the kernels of the script"):
            times = measured(arguments.what, arguments.arguments)
    reports: list[ModuleReport] = []
    failed = False
    for name, text in modules(arguments.what, arguments.arguments, arguments.target):
        arguments.sources[name] = text
        try:
            with status_line(f"explaining {name}"):
                report = explained(
                    text, name, arguments.target, stock=arguments.stock, options=pipeline_options(arguments)
                )
            if times is not None:
                report = with_times(report, times.get(digest(text), ()))
            reports.append(report)
        except ToolError as error:
            failed = True
            printer = Printer(arguments.sources)
            for diagnostic in error.diagnostics or [Diagnostic("error", "the passes failed", name)]:
                printer.print(diagnostic)
    names = ", ".join(name for report in reports for name in report.kernels)
    values = {"modules": [report.as_json() for report in reports]}
    present(arguments, f"{names}: conversions", lambda page: show(page, reports, arguments.top), values)
    for condition in conditions:
        if condition.holds(reports):
            failed = True
            print(
                Diagnostic("error", f"fail-on: {condition.text}: it is {condition.value(reports)}"),
                file=sys.stderr,
            )
    wrong = any(c.figures and (c.figures.wrong or c.figures.races) for r in reports for c in r.conversions)
    return int(failed or wrong)


def _pack(arguments: argparse.Namespace) -> int:
    """Print the order in which weights should be packed."""
    failed = False
    for name, text in modules(arguments.what, arguments.arguments, arguments.target):
        arguments.sources[name] = text
        try:
            packed = packings(text, name)
        except ToolError as error:
            failed = True
            for diagnostic in error.diagnostics:
                Printer(arguments.sources).print(diagnostic)
            continue
        print("\n".join(map(str, packed)) or f"{name}: no dot takes integers from a load in a loop")
    return int(failed)
