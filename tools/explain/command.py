"""`triton-linear explain`: why each conversion of a kernel exists, how it is lowered, and its cost."""

from __future__ import annotations

import argparse

from triton_linear.tools.explain import gate
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.measure import check_script, measured, with_times
from triton_linear.tools.explain.records import Measured
from triton_linear.tools.explain.render import show
from triton_linear.tools.support.arguments import pipeline_options
from triton_linear.tools.support.console import present
from triton_linear.tools.support.errors import Diagnostic, Printer, ToolError
from triton_linear.tools.support.gate import Condition
from triton_linear.tools.support.inputs import modules
from triton_linear.tools.support.launches import digest
from triton_linear.tools.support.progress import status_line


def run(arguments: argparse.Namespace) -> int:
    """Explain the modules; the exit status is 1 if something is wrong or a condition of `--fail-on` holds."""
    conditions = [Condition.parse(text, gate.NAMES, gate.KNOWN) for text in arguments.fail_on]
    times: dict[str, tuple[Measured, ...]] | None = None
    if arguments.measure:
        check_script(arguments.what)
        with status_line("timing the kernels of the script"):
            times = measured(arguments.what, arguments.arguments)
    options = pipeline_options(arguments)

    reports, failed = [], False
    for name, text in modules(arguments.what, arguments.arguments, arguments.target):
        arguments.sources[name] = text
        try:
            with status_line(f"explaining {name}"):
                report = explained(text, name, arguments.target, stock=arguments.stock, options=options)
            reports.append(report if times is None else with_times(report, times.get(digest(text), ())))
        except ToolError as error:
            failed = True
            for diagnostic in error.diagnostics or [Diagnostic("error", "the passes failed", name)]:
                Printer(arguments.sources).print(diagnostic)
    names = ", ".join(name for report in reports for name in report.kernels)
    values = {"modules": [report.as_json() for report in reports]}
    present(arguments, f"{names}: conversions", lambda page: show(page, reports), values)
    for condition in conditions:
        value = gate.value(condition.name, reports)
        if condition.holds(value):
            failed = True
            condition.say(f"it is {value}")
    wrong = any(c.figures and (c.figures.wrong or c.figures.races) for r in reports for c in r.conversions)
    return int(failed or wrong)
