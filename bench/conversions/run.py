"""Runs the suite: compiles every case by every method in parallel processes, then times them.

    python -m bench.conversions [--dry cuda:90] [--only REGEX] [--methods stock,legacy,ours] [--force]

Results go to bench/results as conversions.json, conversions.md and, with matplotlib, conversions.svg. The exit
status is 1 if a method failed to compile, gave a wrong result, or was found wrong by the interpreter.
`--dry` compiles for a target without launching anything and runs the plugin's code in the interpreter.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import triton
import triton_linear
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from triton_linear.lowering import targets

from .bounds import Bound, bound
from .build import BASELINE, FORCED, METHODS, Built, build, directions, forced_methods
from .cases import Case, cases
from .report import markdown, problems

PATIENCE = 120.0  # Seconds after which a case that is being timed counts as hung.
FATAL = ("CUDA_ERROR", "BrokenProcessPool", "TimeoutError")
Tick = Callable[[], None]


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def compile_all(
    work: Sequence[tuple[str, str]], target: str, verify: bool, workers: int, tick: Tick
) -> list[Built]:
    """Build every (case, method). One that ends its process is tried again alone, and then given up."""
    found: dict[tuple[str, str], Built] = {}
    with _pool(workers) as pool:
        futures: dict[Future[Built], tuple[str, str]] = {
            pool.submit(build, *item, target, verify): item for item in work
        }
        for future in as_completed(futures):
            try:
                found[futures[future]] = future.result()
                tick()
            except BrokenProcessPool:
                continue
    for item in work:
        if item not in found:
            found[item] = _alone(item, target, verify)
            tick()
    return [found[item] for item in work]


def _alone(item: tuple[str, str], target: str, verify: bool) -> Built:
    with _pool(1) as pool:
        try:
            return pool.submit(build, *item, target, verify).result()
        except BrokenProcessPool:
            return Built(*item, error="the compiler ended the process")


class Timer:
    """Times cases in a process of its own, which is replaced once a case has broken or hung it."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._pool: ProcessPoolExecutor | None = None

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call there; an exception is raised here, and the process replaced if it is unusable."""
        if self._pool is None:
            self._pool = _pool(1)
        try:
            return self._pool.submit(function, *arguments).result(timeout=PATIENCE)
        except Exception as error:
            if any(word in f"{type(error).__name__}: {error}" for word in FATAL):
                self.close()
            raise

    def time(self, case: Case, built: Sequence[Built]) -> dict[str, dict[str, Any]]:
        """What `measure` says; of methods that broke the process, that they did."""
        usable = [b for b in built if b.error is None]
        if all(b.method != BASELINE for b in usable):
            return {}
        try:
            found: dict[str, dict[str, Any]] = self.ask(time_case, case.name, usable, self._turns)
            return found
        except Exception as error:
            return {b.method: {"error": f"{type(error).__name__}: {error}"} for b in usable}

    def close(self) -> None:
        """End the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list(pool._processes.values()):
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)


def time_case(name: str, built: Sequence[Built], turns: int) -> dict[str, dict[str, Any]]:
    """`measure`, in the process that has the GPU."""
    from .measure import Effort, measure

    return measure(_named(name), built, Effort(turns))


def ask_device() -> tuple[str, str, float]:
    """The GPU's name, target and nominal clock rate; raises where there is none."""
    from .driver import device

    found = device()
    return found.name, found.target, found.clock_mhz


def ask_clock(name: str, baseline: Built) -> float:
    """The clock rate under load."""
    from .measure import clock_mhz

    return clock_mhz(_named(name), baseline)


def _named(name: str) -> Case:
    return next(case for case in cases() if case.name == name)


def total_bound(case: Case) -> Bound:
    """What the round trip must move: the sums over both directions."""
    there, back = (bound(src, dst, case.bits) for src, dst in directions(case))
    return Bound(
        there.stored + back.stored,
        there.loaded + back.loaded,
        there.exchanged + back.exchanged,
        there.permuted + back.permuted,
    )


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
        "bound": {
            "clocks": least.clocks,
            "limit": least.limit,
            "stored": least.stored,
            "loaded": least.loaded,
            "exchanged": least.exchanged,
            "permuted": least.permuted,
        },
        "methods": {},
    }


def execute(options: argparse.Namespace) -> dict[str, Any]:
    """The report of a run."""
    chosen = [case for case in cases() if re.search(options.only, case.name)]
    if not chosen:
        raise SystemExit(f"conversions: no case matches '{options.only}'")
    timer = Timer(options.turns)
    name, target, clock = (
        (f"compiled for {options.dry}", options.dry, 0.0) if options.dry else timer.ask(ask_device)
    )
    begun = time.perf_counter()
    work = []
    for case in chosen:
        forced = forced_methods(case, targets.target(target)) if options.force else []
        work += [(case.name, method) for method in (*options.methods, *forced, BASELINE)]
    with progress() as bars:
        task = bars.add_task("compile", total=len(work))
        built = compile_all(work, target, bool(options.dry), options.workers, lambda: bars.advance(task))
        compiled = time.perf_counter()
        results = [described(case) for case in chosen]
        task = bars.add_task("bound" if options.dry else "time", total=len(chosen))
        for case, result in zip(chosen, results, strict=True):
            mine = [b for b in built if b.case == case.name]
            methods = result["methods"] = {b.method: b.facts() for b in mine}
            if not options.dry:
                if case is chosen[0]:
                    clock = timer.ask(ask_clock, case.name, next(b for b in mine if b.method == BASELINE))
                for method, timed in timer.time(case, mine).items():
                    methods[method] |= timed
            bars.advance(task)
    timer.close()
    return {
        "device": name,
        "target": target,
        "clock_mhz": clock,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "triton": triton.__version__,
        "triton_linear": triton_linear.__version__,
        "turns": options.turns,
        "seconds": {
            "compile": round(compiled - begun, 1),
            "time": round(time.perf_counter() - compiled, 1),
        },
        "cases": results,
    }


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar for each task, on standard error."""
    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield bars


def write(report: dict[str, Any], folder: Path, stem: str) -> list[Path]:
    """The files of a report: JSON, markdown and, where matplotlib is installed and times were taken, a plot."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.json", folder / f"{stem}.md"]
    paths[0].write_text(json.dumps(report, indent=1) + "\n")
    paths[1].write_text(markdown(report))
    if any("throughput" in facts for result in report["cases"] for facts in result["methods"].values()):
        try:
            from .plot import plot

            for suffix in ("svg", "png"):
                path = folder / f"{stem}.{suffix}"
                plot(report, path)
                paths.append(path)
        except ImportError as error:
            print(f"conversions: no plot: {error}", file=sys.stderr)
    return paths


def _methods(text: str) -> list[str]:
    methods = text.split(",")
    for method in methods:
        if method not in METHODS and not method.startswith(FORCED):
            known = ", ".join((*METHODS, f"{FORCED}KIND"))
            raise argparse.ArgumentTypeError(f"'{method}' is none of {known}")
    return methods


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.conversions", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--dry", metavar="TARGET", help="compile for TARGET, launch nothing")
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose names match")
    parser.add_argument("--methods", type=_methods, default=list(METHODS), help="comma-separated")
    parser.add_argument("--force", action="store_true", help="also each plan that could have been chosen")
    parser.add_argument("--turns", type=int, default=11, help="launches per method and mode")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that compile")
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "results")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    options = parse(argv)
    if options.list:
        for case in cases():
            print(f"{case.name:40} {case.group:12} {case.size}")
        return 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("TRITON_CACHE_DIR", cache)
        report = execute(options)
    stem = "conversions_dry" if options.dry else "conversions"
    paths = write(report, options.output, stem)
    wrong = [f"{result['name']}: {problem}" for result in report["cases"] for problem in problems(result)]
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(report['cases'])} cases, {len(wrong)} problems; {', '.join(map(str, paths))}")
    return int(bool(wrong))
