"""`triton-linear explain`: why each conversion of a kernel exists, how it is lowered, and its cost."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triton_linear.tools.explain import verdict
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import ConversionReport, Measured, ModuleReport
from triton_linear.tools.explain.render import show
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.launches import digest
from triton_linear.tools.measuring.rounds import Launched, MeasuringPlan
from triton_linear.tools.support.arguments import Condition, pipeline_options
from triton_linear.tools.support.console import present, status_line
from triton_linear.tools.support.errors import Diagnostic, Printer, ToolError, fail
from triton_linear.tools.support.inputs import modules
from triton_linear.variants import OURS

KINDS = ("noop", "registers", "shuffle", "warp-shared", "cta-shared", "shared", "stock")
SUMS = ("wavefronts", "shuffles", "barriers", "bytes", "wrong", "races")
OTHERS = ("accesses", "conflicts", "reductions")
"""Accesses to shared memory, their wavefronts above the minimum, reductions and scans."""
MEMORY = "shared memory"
"""The largest number of bytes of shared memory of a kernel."""
_IN_LOOPS = " in loops"
_COUNTED = ("conversions", *(f"{kind} conversions" for kind in KINDS), "scratch", *SUMS, *OTHERS)
CONDITIONS = (*_COUNTED, *(name + _IN_LOOPS for name in _COUNTED), MEMORY)
"""What conditions of `--fail-on` count: `shared conversions in loops > 0`."""
KNOWN = (
    "'shared conversions in loops > 0'; what is counted is "
    f"'conversions' ({', '.join(KINDS)} or all), 'scratch', {', '.join((*SUMS, *OTHERS, MEMORY))}"
)


def run(arguments: argparse.Namespace) -> int:
    """Explain the modules; the exit status is 1 if something is wrong or a condition of `--fail-on` holds."""
    conditions = [Condition.parse(text, CONDITIONS, KNOWN) for text in arguments.fail_on]
    times: dict[str, tuple[Measured, ...]] | None = None
    if arguments.measure:
        if Path(arguments.what).suffix != ".py":
            fail("measure: times are those of kernels that a Python script launches", arguments.what)
        rounds.check_script(arguments.what)
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
        number = counted(condition.name, reports)
        if condition.holds(number):
            failed = True
            condition.say(f"it is {number}")
    wrong = any(c.figures and (c.figures.wrong or c.figures.races) for r in reports for c in r.conversions)
    return int(failed or wrong)


def counted(name: str, reports: Sequence[ModuleReport]) -> int:
    """The count of this name in reports; `scratch` is the largest of a conversion."""
    if name == MEMORY:
        return max((kernel.bytes for report in reports for kernel in report.shared_memory), default=0)
    *kind, what = name.removesuffix(_IN_LOOPS).split(" ")
    records = {"conflicts": "accesses", **dict.fromkeys(OTHERS[::2], what)}.get(what, "conversions")
    found = [
        one
        for report in reports
        for one in getattr(report, records)
        if (one.loop_depth or _IN_LOOPS not in name) and (not kind or _is(one, kind[0]))
    ]
    if what == records:
        return len(found)
    if what == "scratch":
        return max((one.scratch_bytes for one in found), default=0)
    figures = [one.figures for one in found if one.figures is not None]
    if what == "conflicts":
        return sum(one.wavefronts - one.minimum_wavefronts for one in figures)
    return sum(getattr(one, what) for one in figures)


def _is(one: ConversionReport, kind: str) -> bool:
    return one.kind == kind or (kind == "shared" and one.kind.endswith("-shared"))


# --measure


def measured(script: str, arguments: Sequence[str]) -> dict[str, tuple[Measured, ...]]:
    """Run a script on the GPU, in child processes, and time each of its kernels: with stock Triton, and with
    this package.

    Returns the times by the digest of the kernel's TTGIR, for the grid with the longest total time first. The
    output of the script is not shown. Fails if there is no GPU, or the script's exit status is not 0.
    """
    device = rounds.gpu_name("explain --measure")
    plan = MeasuringPlan(os.path.abspath(script), arguments, modes=(OURS,), decide=False)
    launches, status = rounds.rounds(plan)
    if status:
        fail(f"the script ended with status {status} when its kernels were timed", script)
    by_module: dict[str, list[Measured]] = {}
    for launch in sorted(launches, key=lambda launch: -launch.microseconds):
        by_module.setdefault(launch.module, []).append(_record(launch, device))
    return {module: tuple(records) for module, records in by_module.items()}


def _record(launch: Launched, device: str) -> Measured:
    """The record of a launch."""
    found, ours = launch.comparison, launch.ratio(OURS)
    microseconds = None if found is None else found.microseconds
    ratio = None if ours is None else ours.ratio
    return Measured(device, launch.grid, launch.launches, microseconds, ratio, dict(launch.problems))


def with_times(report: ModuleReport, times: tuple[Measured, ...]) -> ModuleReport:
    """The report with the times of the kernel; what was measured takes the place of what was expected."""
    known = [
        (one.launches * one.stock_microseconds, one.stock_over_ours)
        for one in times
        if one.stock_microseconds is not None and one.stock_over_ours is not None
    ]
    found = verdict.measured(known)
    if found is not None and report.verdict is not None and found.outcome == report.verdict.outcome:
        found = replace(found, why=report.verdict.why)
    return replace(report, measured=times, verdict=found or report.verdict)
