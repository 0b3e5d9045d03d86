"""Time a script's kernels for `triton-linear explain --measure`: with stock Triton, with this package, and with
conversions that cost nothing (passes/conversions/free.py)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triton_linear.tools.explain import verdict
from triton_linear.tools.explain.records import Measured, ModuleReport
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.records import Launched, MeasuringPlan
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.modes import FREE
from triton_linear.variants import OURS

NOISE = 0.005
"""If free conversions save a smaller part of a kernel's time, no share is computed."""


def check_script(what: str) -> None:
    """Fail unless `what` is a Python script: nothing else launches kernels."""
    if Path(what).suffix != ".py":
        fail("measure: times are those of kernels that a Python script launches, and this is none", what)
    rounds.check_script(what, module=False)


def measured(script: str, arguments: Sequence[str]) -> dict[str, tuple[Measured, ...]]:
    """Run a script on the GPU, in child processes, and time each of its kernels.

    Returns the times by the digest of the kernel's TTGIR, for the grid with the longest total time first. The
    output of the script is not shown. Fails if there is no GPU, or the script's exit status is not 0.
    """
    device = rounds.gpu_name("explain --measure")
    plan = MeasuringPlan(os.path.abspath(script), arguments, modes=(OURS, FREE), decide=False)
    launches, status = rounds.rounds(plan)
    if status:
        fail(f"the script ended with status {status} when its kernels were timed", script)
    by_module: dict[str, list[Measured]] = {}
    for launch in sorted(launches, key=lambda launch: -launch.microseconds):
        by_module.setdefault(launch.module, []).append(_record(launch, device))
    return {module: tuple(records) for module, records in by_module.items()}


def _record(launch: Launched, device: str) -> Measured:
    """The record of a launch; if none of its conversions could be left out, their cost is not known."""
    problems = dict(launch.problems)
    if launch.comparison is None:
        return Measured(device, launch.grid, launch.launches, None, None, None, None, problems)
    ours, free = (None if one is None else one.ratio for one in map(launch.ratio, (OURS, FREE)))
    moving = launch.comparison.kept
    kept = [detail for detail in moving if detail]
    if kept:
        problems.setdefault(FREE, f"{len(kept)} of {len(moving)} conversions cannot be free: {kept[0]}")
        free = None if len(kept) == len(moving) else free
    share = None
    if ours is not None and free is not None and 1 - 1 / free >= NOISE:
        share = (1 - 1 / ours) / (1 - 1 / free)
    microseconds = launch.comparison.microseconds
    return Measured(device, launch.grid, launch.launches, microseconds, ours, free, share, problems)


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
