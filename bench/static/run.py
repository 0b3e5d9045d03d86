"""Compiles the suite for AMD GPUs by stock Triton and with the plugin, interprets both, and counts.

    python -m bench.static [--target hip:gfx942]... [--only REGEX] [--stock FILE] [--workers 2]

Results go to the folder of the installed Triton in bench/results, as static.json and static.md. Nothing is
timed, and no GPU is needed. `--stock` takes what stock Triton does from an earlier result, so that only the
plugin's side is made anew; only where neither the cases nor the interpreter changed since. The exit status is 1
if the plugin failed on a case, or the interpreter found its code wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import triton

from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.support.isolated import Isolation, Lost

from ..harness.cases import say
from ..harness.child import empty_cache
from ..harness.options import Parser
from ..harness.progress import progress
from ..harness.results import publish
from .cases import TARGETS, cases
from .compiled import empty_loop
from .job import OURS, STOCK, Job, batch
from .model import Model, constants
from .report import counted, markdown, of_target, problems

SECONDS = 120
MEMORY = 16 << 30
TOGETHER = 8
"""Jobs that share a process: starting one takes longer than a job."""
WARM = ("bench.static.job", *(f"mlir.dialects.{name}" for name in ("gpu", "llvm", "rocdl")))
Key = tuple[str, str, str]
"""Target, case, method."""
Counted = dict[str, Any]


def earlier(path: Path | None) -> dict[Key, Counted]:
    """What stock Triton did in a result, its clocks by the constants of today.

    Raises SystemExit for a result of another Triton.
    """
    if path is None:
        return {}
    result = json.loads(path.read_text())
    if result["triton"] != triton.__version__:
        raise SystemExit(f"static: {path} is of Triton {result['triton']}, this is {triton.__version__}")
    found: dict[Key, Counted] = {}
    for each in result["targets"]:
        model = Model(target_called(each["target"]).costs)
        for case in each["cases"]:
            stock = case[STOCK]
            if "wavefronts" in stock:
                clocks = model.clocks(stock["instructions"], stock["wavefronts"], stock["nop_states"])
                found[each["target"], case["name"], STOCK] = stock | {"clocks": clocks}
    return found


def count(jobs: Sequence[Job], workers: int, tick: Callable[[], None]) -> list[Counted]:
    """What each job found. Those whose process ended are tried again one by one."""
    isolation: Isolation[list[Counted]] = Isolation(batch, WARM, SECONDS, MEMORY)
    batches = [jobs[first : first + TOGETHER] for first in range(0, len(jobs), TOGETHER)]
    found: list[Counted] = []
    together = isolation.map([(each,) for each in batches], workers, tick)
    for members, results in zip(batches, together, strict=True):
        if isinstance(results, Lost):
            for alone in isolation.map([([job],) for job in members], workers):
                found += [{"error": alone.reason}] if isinstance(alone, Lost) else alone
        else:
            found += results
    return found


def execute(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every case of every target, by both."""
    found = earlier(options.stock)
    wanted = {
        target: [case for case in cases(target) if re.search(options.only, case.name)]
        for target in options.target or TARGETS
    }
    if not any(wanted.values()):
        raise SystemExit(f"static: no case matches '{options.only}'")
    jobs = [
        Job(target, case.name, method, empty_loop(target))
        for target, members in wanted.items()
        for case in members
        for method in (STOCK, OURS)
        if method == OURS or (target, case.name, STOCK) not in found
    ]
    with progress("count", -(-len(jobs) // TOGETHER)) as tick:
        results = count(jobs, options.workers, tick)
    found |= {(job.target, job.case, job.method): result for job, result in zip(jobs, results, strict=True)}
    return [
        {
            "target": target,
            "constants": [vars(constant) for constant in constants(target_called(target))],
            "cases": [
                {
                    "name": case.name,
                    "group": case.group,
                    "shape": list(case.shape),
                    "bits": case.bits,
                    "warps": case.warps,
                    "a": str(case.a),
                    "b": str(case.b),
                    STOCK: found[target, case.name, STOCK],
                    OURS: found[target, case.name, OURS],
                }
                for case in members
            ],
        }
        for target, members in wanted.items()
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    parser = Parser("static", __doc__, whole=True).only()
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be said several times")
    parser.add_argument("--stock", type=Path, metavar="FILE", help="an earlier static.json")
    parser.add_argument("--stem", default="static", help="the name of the result files (default static)")
    options = parser.workers(count=2).output().parse_args(argv)
    begun = time.perf_counter()
    with empty_cache():
        targets = execute(options)
    seconds = round(time.perf_counter() - begun, 1)
    publish(options.output, options.stem, markdown, seconds=seconds, targets=targets)
    wrong = [f"{each['target']} {problem}" for each in targets for problem in problems(each, OURS)]
    for line in wrong:
        say(line)
    for each in targets:
        say(of_target(counted(each)))
    say(f"{len(wrong)} problems of ours; {seconds:.0f} s")
    return int(bool(wrong))
