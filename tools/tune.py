"""`triton-linear tune SCRIPT`: measure variants of a program's kernels, and store which is the fastest.

The program runs in child processes (tools/measuring), with stock Triton; each launch is measured after the
program's own launch. Each decision is written to the file of decisions as soon as it is known, so that none is
lost if the run is interrupted.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear.decisions import Circumstances, Decision, DecisionError, DecisionFile, default_file
from triton_linear.tools.measuring import choose
from triton_linear.tools.measuring.choose import EVEN, Interval
from triton_linear.tools.measuring.rounds import (
    CONTEST,
    IDLE,
    Launched,
    MeasuringPlan,
    check_script,
    gpu_name,
    rounds,
)
from triton_linear.tools.support.console import show
from triton_linear.tools.support.errors import Diagnostic, ToolError, fail
from triton_linear.variants import OURS, STOCK


def run(chosen: argparse.Namespace) -> int:
    """Run the command and return its exit status. Raises ToolError if the program failed."""
    if not chosen.module:
        check_script(chosen.script)
    file = DecisionFile(chosen.decisions or default_file())
    try:
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
    _say("measuring: each kernel is compiled and measured behind its first launch")
    launches, status = rounds(plan, loud=True, ended=Decider(file).decide)
    if not launches:
        why = f"the program ended with status {status}" if status else "the program ended"
        fail(f"{why} without launching a kernel of Triton's", chosen.script)
    kernels = tuned(launches)
    store(file, kernels)
    show(table_of(kernels, launches, device))
    print(sentence(kernels))
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
            (kernel,) = tuned(known)
            store(self._file, [kernel])
            ratio = kernel.ratio
            text = f"{kernel.variant} {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
        elif (text := launch.problems[CONTEST]) == IDLE:
            return
        _say(f"[{time.monotonic() - self._started:.0f} s, {len(self._launches)} decided] {launch.name}: {text}")


def now_text() -> str:
    """Date and time (UTC) in the format of `Decision.measured`."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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


@dataclass(frozen=True)
class TunedKernel:
    """A kernel, the grids on which it was measured, and the chosen variant.

    ratio: how many times faster the variant is than stock Triton, over the time of all launches. ours: how
    many times faster the plugin is without a decision; None if it was not measured. exact: whether the
    variant's results are bit for bit stock Triton's.
    """

    circumstances: Circumstances
    name: str
    launches: tuple[Launched, ...]
    variant: str
    ratio: Interval
    ours: Interval | None
    exact: bool

    @property
    def microseconds(self) -> float:
        """The time of all launches in stock Triton."""
        return sum(launch.microseconds for launch in self.launches)


def tuned(launches: Iterable[Launched]) -> list[TunedKernel]:
    """The kernels whose variants were compared, with their decisions, sorted by time in descending order."""
    groups: dict[Circumstances, list[Launched]] = {}
    for launch in launches:
        if launch.comparison is not None:
            groups.setdefault(launch.comparison.circumstances, []).append(launch)
    kernels = [_tuned(circumstances, group) for circumstances, group in groups.items()]
    return sorted(kernels, key=lambda kernel: -kernel.microseconds)


def _tuned(circumstances: Circumstances, launches: Sequence[Launched]) -> TunedKernel:
    ratios = {name: _combined(launches, name) for name in (STOCK, *(one.fastest for one in launches), OURS)}
    faster = {one.fastest: ratio for one in launches if (ratio := ratios[one.fastest]) and ratio.low > 1}
    chosen = max(faster, key=lambda name: faster[name].ratio, default=STOCK)
    exact = all(one.comparison is not None and chosen in one.comparison.exact for one in launches)
    ratio = faster.get(chosen, EVEN)
    return TunedKernel(circumstances, launches[0].name, tuple(launches), chosen, ratio, ratios[OURS], exact)


def _combined(launches: Sequence[Launched], name: str) -> Interval | None:
    """The ratio of a variant over all launches; None if it was not measured in all of them."""
    parts = [(launch.microseconds, launch.ratio(name)) for launch in launches]
    known = [(weight, ratio) for weight, ratio in parts if ratio is not None]
    return choose.combined(known) if len(known) == len(parts) else None


def table_of(kernels: Sequence[TunedKernel], launches: Sequence[Launched], device: str) -> Table:
    """The table of the results; launches that were not measured come last, with the reason."""
    table = Table(title=device, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("kernel", overflow="fold")
    for name in ("launches", "stock ms", "stock / ours", "taken", "stock / taken", "95 of 100", "results"):
        table.add_column(name, justify="left" if name in ("taken", "results") else "right", no_wrap=True)
    for kernel in kernels:
        table.add_row(
            Text(kernel.name, "bold"),
            str(sum(launch.launches for launch in kernel.launches)),
            f"{kernel.microseconds / 1e3:.3f}",
            "–" if kernel.ours is None else f"{kernel.ours.ratio:.3f}",
            kernel.variant,
            f"{kernel.ratio.ratio:.3f}",
            f"{kernel.ratio.low:.3f} to {kernel.ratio.high:.3f}",
            "same bits" if kernel.exact else "other rounding",
        )
        for launch in kernel.launches:
            for name, problem in launch.problems.items():
                table.add_row(Text(f"  {name}: {problem}", "dim"))
    for launch in launches:
        if launch.comparison is None:
            reason = launch.problems.get(CONTEST) or next(iter(launch.problems.values()), "not measured")
            grid = "x".join(map(str, launch.grid))
            table.add_row(Text(f"{launch.name} {grid}: {reason}", "dim"), str(launch.launches))
    return table


def sentence(kernels: Sequence[TunedKernel]) -> str:
    """The summary of all kernels, as a sentence."""
    total = sum(kernel.microseconds for kernel in kernels)
    if not total:
        return "no kernel has anything to choose"
    after = sum(kernel.microseconds / kernel.ratio.ratio for kernel in kernels)
    plain = sum(kernel.microseconds / (kernel.ours or EVEN).ratio for kernel in kernels)
    taken = sum(kernel.variant not in (STOCK, OURS) for kernel in kernels)
    stock = sum(kernel.variant == STOCK for kernel in kernels)
    return (
        f"{len(kernels)} kernels, {total / 1e3:.3f} ms in stock Triton: {1 - plain / total:.1%} less with the "
        f"plugin, {1 - after / total:.1%} less with these decisions ({taken} for another variant, {stock} for "
        f"stock Triton)"
    )
