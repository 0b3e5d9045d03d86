"""Time a script's kernels for `triton-linear explain --measure`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triton_linear.report import NOOP
from triton_linear.tools.explain import verdict
from triton_linear.tools.explain.records import Measured, ModuleReport
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.headroom import TimedKernel, kernels_of, measure
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.modes import FREE


def check_script(what: str) -> None:
    """Fail unless `what` is a Python script: nothing else launches kernels."""
    if Path(what).suffix != ".py":
        fail("measure: times are those of kernels that a Python script launches, and this is none", what)
    rounds.check_script(what, module=False)


def measured(script: str, arguments: Sequence[str]) -> dict[str, tuple[Measured, ...]]:
    """Run a script on the GPU, in child processes, and time each of its kernels with stock Triton, with this
    package, and with conversions that cost nothing.

    Returns the times by the digest of the kernel's TTGIR, for the grid with the longest total time first. The
    output of the script is not shown. Fails if there is no GPU, or the script's exit status is not 0.
    """
    device = rounds.gpu_name("explain --measure")
    with tempfile.TemporaryDirectory(prefix="triton-linear-explain-") as folder:
        plan = MeasuringPlan(records="", script=os.path.abspath(script), arguments=list(arguments))
        records, status = measure(plan, Path(folder), rounds.run_child)
    if status:
        fail(f"the script ended with status {status} when its kernels were timed", script)
    by_module: dict[str, list[TimedKernel]] = {}
    for kernel in kernels_of(records):
        by_module.setdefault(kernel.module, []).append(kernel)
    return {
        module: tuple(_record(kernel, device) for kernel in kernels) for module, kernels in by_module.items()
    }


def _record(kernel: TimedKernel, device: str) -> Measured:
    """The record of a kernel; if none of its conversions could be left out, their cost is not known."""
    headroom, share, problems = kernel.headroom, kernel.share, dict(kernel.problems)
    moving = [one for one in kernel.conversions if one.ours != NOOP]
    kept = [one for one in moving if not one.left_out]
    if kept:
        problems.setdefault(FREE, f"{len(kept)} of {len(moving)} conversions cannot be free: {kept[0].detail}")
        if len(kept) == len(moving):
            headroom = share = None
    return Measured(
        device, kernel.grid, kernel.launches, kernel.microseconds, kernel.speedup, headroom, share, problems
    )


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
