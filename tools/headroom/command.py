"""`triton-linear headroom SCRIPT`: measure the cost of a program's layout conversions, and how much of it is
saved.

The program runs in child processes. The first compares this package with stock Triton; the second compares
stock Triton with kernels whose conversions are free (passes/conversions/free.py). Such kernels compute
garbage, on copies of the arguments, and may crash. If a child crashes, the next one skips the kernel that it
was measuring.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.rounds import Spawn, check_script, done, gpu_name, rounds, run_child
from triton_linear.tools.support.errors import Diagnostic, ToolError, fail
from triton_linear.tools.support.modes import FREE, OURS
from triton_linear.tools.support.options import add_program
from triton_linear.tools.support.progress import status_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headroom`."""
    parser.add_argument("--conversions", action="store_true", help="also leave out one conversion at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.5,
        help="time for each comparison of a kernel (default %(default)s)",
    )
    parser.add_argument("--flush", action="store_true", help="empty the L2 cache before each timed launch")
    parser.add_argument(
        "--grids", type=int, default=4, help="time a kernel on so many grids at most (default %(default)s)"
    )
    add_program(parser)


def run(chosen: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if the program failed."""
    check_script(chosen.script, chosen.module)
    if chosen.json is not None and not chosen.json.resolve().parent.is_dir():
        fail("cannot write there: no such folder", str(chosen.json))
    device = gpu_name("headroom")
    with tempfile.TemporaryDirectory(prefix="triton-linear-headroom-") as folder:
        plan = MeasuringPlan(
            records="",
            script=chosen.script,
            arguments=list(chosen.arguments),
            module=chosen.module,
            seconds=chosen.seconds,
            flush=chosen.flush,
            grids=chosen.grids,
        )
        records, status = measure(plan, chosen.conversions, Path(folder))
    return show(records, status, device, chosen)


def show(records: Sequence[Mapping[str, Any]], status: int, device: str, chosen: argparse.Namespace) -> int:
    """Print the results. Raises ToolError if the program failed."""
    from triton_linear.tools.headroom import figures
    from triton_linear.tools.support.console import opened
    from triton_linear.tools.support.console import show as print_table

    kernels = figures.kernels_of(records)
    if not kernels:
        why = f"the program ended with status {status}" if status else "the program ended"
        fail(f"{why} without launching a kernel of Triton's", chosen.script)
    if chosen.json is not None:
        data = figures.as_json(kernels, device, [chosen.script, *chosen.arguments])
        chosen.json.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    console = opened()
    print_table(console, figures.table_of(kernels, device, chosen.conversions))
    console.print(figures.sentence(kernels), highlight=False, soft_wrap=True)
    if status:
        message = f"the program ended with status {status}; the figures are for what it did before"
        raise ToolError(Diagnostic("error", message, chosen.script))
    return 0


def measure(
    plan: MeasuringPlan, each: bool, folder: Path, spawn: Spawn | None = None
) -> tuple[list[dict[str, Any]], int]:
    """The records of all children, and the exit status of the program in the first one.

    `each`: also measure each conversion being free alone. `spawn` runs a child, by default `run_child`.
    """
    spawn = spawn or run_child
    records, ended = rounds(replace(plan, modes=[OURS]), folder, spawn, loud=True)
    if any(record.get("seen") for record in records):
        free_plan = replace(plan, modes=[FREE], each=each, skip=done(records))
        with status_line("timing the kernels with free conversions"):
            records += rounds(free_plan, folder, spawn, loud=False)[0]
    return records, ended.status
