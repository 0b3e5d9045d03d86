"""Compiles the suite for AMD GPUs by stock Triton and with the plugin, runs both in the interpreter, and counts.

    python -m bench.static [--target hip:gfx942]... [--only REGEX] [--stock FILE] [--workers 2]

Results go to bench/results as static.json and static.md. Nothing is timed, and no GPU is needed. `--stock` takes
what stock Triton does from an earlier result, so that only the plugin's side is made anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triton
import triton_linear
from triton_linear.lowering.targets import target as target_called
from triton_linear.tools.isolated import Isolation, Lost

from bench.conversions.run import progress
from bench.report import publish

from .cases import TARGETS, cases
from .job import OURS, STOCK, work
from .model import constants
from .report import markdown, of_target

SECONDS = 120
MEMORY = 16 << 30
WARM = ("bench.static.job", *(f"mlir.dialects.{name}" for name in ("gpu", "llvm", "rocdl")))


def earlier(path: Path | None) -> dict[tuple[str, str], Any]:
    """What stock Triton did in a result of the same Triton, by target and case."""
    if path is None:
        return {}
    result = json.loads(path.read_text())
    if result["triton"] != triton.__version__:
        raise SystemExit(f"static: {path} is of Triton {result['triton']}, this is {triton.__version__}")
    return {
        (each["target"], case["name"]): case[STOCK]
        for each in result["targets"]
        for case in each["cases"]
        if "error" not in case[STOCK]
    }


def execute(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every case of every target, by both."""
    known = earlier(options.stock)
    chosen = {t: [c for c in cases(t) if re.search(options.only, c.name)] for t in options.target or TARGETS}
    jobs = [
        (target, case.name, method)
        for target, members in chosen.items()
        for case in members
        for method in (STOCK, OURS)
        if method == OURS or (target, case.name) not in known
    ]
    if not jobs:
        raise SystemExit(f"static: no case matches '{options.only}'")
    isolation: Isolation[dict[str, Any]] = Isolation(work, WARM, SECONDS, MEMORY)
    with progress() as bar:
        task = bar.add_task("count", total=len(jobs))
        results = isolation.map(jobs, options.workers, lambda: bar.advance(task))
    found = {(target, name, STOCK): taken for (target, name), taken in known.items()}
    for job, result in zip(jobs, results, strict=True):
        found[job] = {"error": result.reason} if isinstance(result, Lost) else result
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
        for target, members in chosen.items()
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; the exit status is 1 if the plugin failed on a case or the interpreter finds it wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.static", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be said several times")
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose names match")
    parser.add_argument("--stock", type=Path, metavar="FILE", help="an earlier static.json")
    parser.add_argument(
        "--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes (default 2)"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "results")
    parser.add_argument("--stem", default="static", help="the name of the result files (default static)")
    options = parser.parse_args(argv)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        targets = execute(options)
    seconds = round(time.perf_counter() - begun, 1)
    publish(
        options.output,
        options.stem,
        markdown,
        triton_linear=triton_linear.__version__,
        seconds=seconds,
        targets=targets,
    )
    bad = [
        f"{each['target']} {case['name']}: {case[OURS].get('error') or '; '.join(case[OURS]['wrong'])}"
        for each in targets
        for case in each["cases"]
        if case[OURS].get("error") or case[OURS]["wrong"]
    ]
    for line in bad:
        print(line, file=sys.stderr)
    summary = "; ".join(of_target(each) for each in targets)
    print(f"{summary}; {len(bad)} problems of ours; {seconds:.0f} s", file=sys.stderr)
    return int(bool(bad))
