"""`triton-linear tune SCRIPT`: measure variants of a program's kernels, and store which is the fastest.

The program runs in child processes (tools/measuring), with stock Triton; each launch is measured after the
program's own launch. Each decision is written to the file of decisions as soon as it is known, so that none is
lost if the run is interrupted.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections import defaultdict
from collections.abc import Iterable

from triton_linear.decisions import Circumstances, Decision, DecisionError, DecisionFile, default_file
from triton_linear.tools.measuring.records import CONTEST, IDLE, Launched, MeasuringPlan
from triton_linear.tools.measuring.rounds import check_script, gpu_name, rounds
from triton_linear.tools.support.errors import Diagnostic, ToolError, fail
from triton_linear.tools.support.progress import say
from triton_linear.tools.tune import figures
from triton_linear.tools.tune.figures import TunedKernel
from triton_linear.variants import STOCK


def run(chosen: argparse.Namespace) -> int:
    """Run the command and return its exit status. Raises ToolError if the program failed."""
    from triton_linear.tools.support.console import opened, show

    check_script(chosen.script, chosen.module)
    file = DecisionFile(chosen.decisions or default_file())
    try:
        if file.path.exists():
            file.read()
    except DecisionError as error:
        fail(str(error))
    device = gpu_name("tune")
    plan = MeasuringPlan(
        chosen.script,
        chosen.arguments,
        modes=[name for name in chosen.variants if name != STOCK],
        module=chosen.module,
        seconds=chosen.seconds,
        grids=chosen.grids,
    )
    say("measuring: each kernel is compiled and measured behind its first launch")
    launches, status = rounds(plan, loud=True, ended=Decider(file).decide)
    if not launches:
        why = f"the program ended with status {status}" if status else "the program ended"
        fail(f"{why} without launching a kernel of Triton's", chosen.script)
    kernels = figures.tuned(launches)
    store(file, kernels)
    console = opened()
    show(console, figures.table_of(kernels, launches, device))
    console.print(figures.sentence(kernels), highlight=False, soft_wrap=True)
    if status:
        message = f"the program ended with status {status}; the figures are for what it did before"
        raise ToolError(Diagnostic("error", message, chosen.script))
    return 0


class Decider:
    """Decides about each kernel as soon as it has been measured, stores the decision and prints it."""

    def __init__(self, file: DecisionFile) -> None:
        self._file = file
        self._launches = defaultdict[Circumstances, list[Launched]](list)
        self._started = time.monotonic()

    def decide(self, launch: Launched) -> None:
        """Decide about the kernel of a launch, for all grids that are known. Fails if that cannot be stored."""
        if launch.comparison is not None:
            known = self._launches[launch.comparison.circumstances]
            known.append(launch)
            (kernel,) = figures.tuned(known)
            store(self._file, [kernel])
            ratio = kernel.ratio
            text = f"{kernel.variant} {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
        elif (text := launch.problems[CONTEST]) == IDLE:
            return
        say(f"[{time.monotonic() - self._started:.0f} s, {len(self._launches)} decided] {launch.name}: {text}")


def now_text() -> str:
    """Date and time (UTC) in the format of `Decision.measured`."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def store(file: DecisionFile, kernels: Iterable[TunedKernel]) -> None:
    """Store the decisions about kernels. Fails if the file cannot be written."""
    now = now_text()
    decisions = [
        Decision(
            each.circumstances, each.variant, each.name, each.ratio.ratio, each.ratio.low, each.ratio.high, now
        )
        for each in kernels
    ]
    try:
        if decisions:
            file.put(decisions)
    except DecisionError as error:
        fail(str(error))
