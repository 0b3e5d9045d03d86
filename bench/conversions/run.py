"""Runs the suite: compiles every case by every method in parallel processes, then times them.

    python -m bench.conversions [--dry cuda:90] [--only REGEX] [--methods stock,legacy,ours] [--force]

Results go to the folder of the installed Triton in bench/results: conversions.json, conversions.md and, with
matplotlib, conversions.svg. The exit status is 1 if a method failed to compile, gave a wrong result, or was
found wrong by the interpreter. `--dry` compiles for a target without launching anything and runs the plugin's
code in the interpreter.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from triton_linear.lowering.target import targets

from ..harness import results
from ..harness.cases import called, chosen, say
from ..harness.child import Child, empty_cache, scatter
from ..harness.options import Parser
from ..harness.progress import progress
from .bounds import Bound, bound
from .build import BASELINE, FORCED, METHODS, Built, build, directions, forced_methods
from .cases import Case, cases
from .report import markdown, problems

Tick = Callable[[], object]


def compile_all(
    work: Sequence[tuple[str, str]], target: str, verify: bool, workers: int, tick: Tick
) -> list[Built]:
    """Build every (case, method)."""
    found: dict[int, Built] = {}

    def done(index: int, built: Any) -> None:
        found[index] = built if isinstance(built, Built) else Built(*work[index], error=built["error"])
        tick()

    calls = [(*item, target, verify) for item in work]
    scatter(build, calls, workers, done, patience=float("inf"))
    return [found[index] for index in range(len(work))]


def timed(child: Child, case: Case, built: Sequence[Built], turns: int) -> dict[str, dict[str, Any]]:
    """What `measure` says; of methods that broke the process, that they did."""
    usable = [b for b in built if b.error is None]
    if all(b.method != BASELINE for b in usable):
        return {}
    try:
        found: dict[str, dict[str, Any]] = child.ask(time_case, case.name, usable, turns)
        return found
    except Exception as error:
        return {b.method: {"error": f"{type(error).__name__}: {error}"} for b in usable}


def time_case(name: str, built: Sequence[Built], turns: int) -> dict[str, dict[str, Any]]:
    """`measure`, in the process that has the GPU."""
    from .measure import Effort, measure

    return measure(called(name, cases()), built, Effort(turns))


def ask_device() -> tuple[str, str, float]:
    """The GPU's name, target and nominal clock rate; raises where there is none."""
    from .driver import device

    found = device()
    return found.name, found.target, found.clock_mhz


def ask_clock(name: str, baseline: Built) -> float:
    """The clock rate under load."""
    from .measure import clock_mhz

    return clock_mhz(called(name, cases()), baseline)


def total_bound(case: Case) -> Bound:
    """What the round trip must move: the sums over both directions."""
    there, back = (bound(src, dst, case.bits) for src, dst in directions(case))
    return Bound(*(sum(counts) for counts in zip(astuple(there), astuple(back), strict=True)))


def described(case: Case) -> dict[str, Any]:
    """The case itself, for JSON."""
    least = total_bound(case)
    kinds = {
        "within a warp": least.stored == 0,
        "replicated operands": case.group in ("operand", "replicated") and least.loaded > least.stored,
        "8-bit transposes": case.group == "transpose" and case.bits == 8,
    }
    return {
        "name": case.name,
        "group": case.group,
        "kinds": [kind for kind, fits in kinds.items() if fits],
        "shape": list(case.shape),
        "bits": case.bits,
        "warps": case.warps,
        "a": str(case.a),
        "b": str(case.b),
        "bound": {"clocks": least.clocks, "limit": least.limit, **asdict(least)},
        "methods": {},
    }


def execute(options: argparse.Namespace) -> dict[str, Any]:
    """The report of a run."""
    wanted = chosen("conversions", cases(), options.only)
    child = Child()
    name, target, clock = (
        (f"compiled for {options.dry}", options.dry, 0.0) if options.dry else child.ask(ask_device)
    )
    begun = time.perf_counter()
    work = []
    for case in wanted:
        forced = forced_methods(case, targets.target(target)) if options.force else []
        work += [(case.name, method) for method in (*options.methods, *forced, BASELINE)]
    with progress("compile", len(work)) as tick:
        built = compile_all(work, target, bool(options.dry), options.workers, tick)
    compiled = time.perf_counter()
    records = [described(case) for case in wanted]
    with progress("bound" if options.dry else "time", len(wanted)) as tick:
        for case, record in zip(wanted, records, strict=True):
            mine = [b for b in built if b.case == case.name]
            methods = record["methods"] = {b.method: b.facts() for b in mine}
            if not options.dry:
                if case is wanted[0]:
                    clock = child.ask(ask_clock, case.name, next(b for b in mine if b.method == BASELINE))
                for method, found in timed(child, case, mine, options.turns).items():
                    methods[method] |= found
            tick()
    child.close()
    return {
        "device": name,
        "target": target,
        "clock_mhz": clock,
        **results.versions(),
        "turns": options.turns,
        "seconds": {
            "compile": round(compiled - begun, 1),
            "time": round(time.perf_counter() - compiled, 1),
        },
        "cases": records,
    }


def write(report: dict[str, Any], folder: Path, stem: str) -> list[Path]:
    """The files of a report: JSON, markdown and, where matplotlib is installed and times were taken, a plot."""
    results.save(folder, stem, markdown, report)
    paths = [folder / f"{stem}.json", folder / f"{stem}.md"]
    if any("throughput" in facts for result in report["cases"] for facts in result["methods"].values()):
        try:
            from .plot import plot

            for suffix in ("svg", "png"):
                path = folder / f"{stem}.{suffix}"
                plot(report, path)
                paths.append(path)
        except ImportError as error:
            say(f"conversions: no plot: {error}")
    return paths


def _methods(text: str) -> list[str]:
    """Those of METHODS, or forced ones."""
    methods = text.split(",")
    for method in methods:
        if method not in METHODS and not method.startswith(FORCED):
            known = ", ".join((*METHODS, f"{FORCED}KIND"))
            raise argparse.ArgumentTypeError(f"'{method}' is none of {known}")
    return methods


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("conversions", __doc__).dry().only()
    parser.add_argument("--methods", type=_methods, default=list(METHODS), help="comma-separated")
    parser.add_argument("--force", action="store_true", help="also each plan that could have been chosen")
    return parser.turns(11, "launches per method and mode").workers().output().list().parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    options = parse(argv)
    if options.list:
        for case in cases():
            print(f"{case.name:40} {case.group:12} {case.size}")
        return 0
    with nullcontext() if "TRITON_CACHE_DIR" in os.environ else empty_cache():
        report = execute(options)
    stem = "conversions_dry" if options.dry else "conversions"
    paths = write(report, options.output, stem)
    wrong = [f"{result['name']}: {problem}" for result in report["cases"] for problem in problems(result)]
    for line in wrong:
        say(line)
    print(f"{len(report['cases'])} cases, {len(wrong)} problems; {', '.join(map(str, paths))}")
    return int(bool(wrong))
