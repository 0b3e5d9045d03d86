"""Runs the suite: each case in every mode, in a process that is replaced when a case has broken it.

    python -m bench.kernels [--output DIR] [--only REGEX] [--modes stock,ours,free,lower,assign] [--quick]

Results go to kernels.json, kernels.md and, with matplotlib, kernels.svg, after every case. `free`, whose
results are garbage, is measured last, and again beside stock. The exit status is 1 if a result is wrong,
differs from run to run, or a mode failed. `--dry` compiles what is written by hand for a target, and lists the
rest. `--join` makes one report of several.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import re
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import triton
import triton_linear

from . import measure, modes
from .case import TORCH, Case
from .cases import cases
from .measure import Effort, Failed
from .report import LOSS, markdown, middle, problems, total_line

PATIENCE = 120.0  # Seconds after which a case counts as hung.
FATAL = (
    "CUDA error",
    "CUDA_ERROR",
    "[CUDA]",
    "CUDA driver error",
    "BrokenProcessPool",
    "TimeoutError",
    "OutOfMemory",
)
COLD_TURNS = 16
ALL = (
    modes.STOCK,
    modes.OURS,
    modes.LAYOUTS,
    modes.LOWER,
    modes.ASSIGN,
    modes.BOUND,
    modes.BASELINE,
    modes.FREE,
)
DEFAULT = (modes.STOCK, modes.OURS, modes.FREE)


class Child:
    """A process with the GPU, started when it is needed and replaced when a case has broken or hung it.

    `start`, called there first with the arguments, gives `facts`.
    """

    def __init__(self, start: Callable[..., Any] = measure.start, *arguments: Any) -> None:
        self._start, self._arguments = start, arguments
        self._pool: ProcessPoolExecutor | None = None
        self.patience = PATIENCE
        self.facts: dict[str, Any] = {}
        self.starts = 0

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call there; what it raises is raised here, and ends the process if that may be unusable."""
        try:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
                self.facts = self._pool.submit(self._start, *self._arguments).result(timeout=self.patience)
                self.starts += 1
            return self._pool.submit(function, *arguments).result(timeout=self.patience)
        except Exception as error:
            if not self.starts or any(word in f"{type(error).__name__}: {error}" for word in FATAL):
                self.close()
            raise

    def close(self) -> None:
        """End the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)


def measured(
    case: Case,
    wanted: Sequence[str],
    effort: Effort,
    ask: Callable[..., Any],
    ask_free: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """The record of a case: `ask` measures modes in the process, `ask_free` (None: `ask`) those of garbage."""
    record: dict[str, Any] = {"name": case.name, "group": case.group, "kind": case.kind, "modes": {}}
    sound = [mode for mode in wanted if mode not in (modes.STOCK, modes.FREE)]
    if modes.OURS in sound:
        sound.append(modes.AGAIN)
    try:
        record |= ask(measure.run, case.name, sound, effort)
    except Exception as error:
        record |= _one_by_one(case, sound, effort, ask, Failed.of(error))
    if modes.FREE in wanted and "error" not in record["modes"].get(modes.STOCK, {"error": ""}):
        configs = record["modes"][modes.STOCK].get("configs", ())
        try:
            beside = (ask_free or ask)(measure.run, case.name, [modes.FREE], effort, configs)
            record["modes"][modes.FREE] = beside["modes"][modes.FREE]
            record["seconds"]["free"] = beside["seconds"]["all"]
        except Exception as error:
            record["modes"][modes.FREE] = Failed.of(error).facts()
    return record


def repeated(record: Mapping[str, Any], effort: Effort, times: int, ask: Callable[..., Any]) -> list[float]:
    """Stock over ours of a case whose inputs lie elsewhere in memory, each time."""
    configs, found = record["modes"][modes.STOCK].get("configs", ()), []
    for number in range(1, times + 1):
        moved = replace(effort, cold=0, dump=None, room=5 * number)
        try:
            answer = ask(measure.run, record["name"], [modes.OURS], moved, configs)
        except Exception as error:
            print(f"{record['name']} again: {Failed.of(error)}", file=sys.stderr)
            break
        found.append(answer["modes"][modes.OURS]["ratio"][1])
    return found


def _one_by_one(
    case: Case, sound: Sequence[str], effort: Effort, ask: Callable[..., Any], reason: Failed
) -> dict[str, Any]:
    """The record of a case that cannot be measured in all modes: stock alone, then beside each other mode."""
    found: dict[str, Any] = {"modes": {}, "together": reason.error, "seconds": {}}
    for mode in (modes.STOCK, *sound):
        try:
            answer = ask(measure.run, case.name, [mode], effort)
        except Exception as error:
            found["modes"][mode] = Failed.of(error).facts()
            if mode == modes.STOCK:
                break
            continue
        found["calls"], found["seconds"] = answer["calls"], answer["seconds"]
        found["modes"][mode] = answer["modes"][mode]
    return found


def execute(options: argparse.Namespace, save: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The report of a run; `save` gets what there is of it after every case."""
    chosen = [case for case in cases() if re.search(options.only, case.name)]
    if not chosen:
        raise SystemExit(f"kernels: no case matches '{options.only}'")
    folder = tempfile.mkdtemp() if options.dump else None
    turns, cold = (15, 0) if options.quick else (options.turns, COLD_TURNS)
    effort = Effort(turns, cold, options.pin, folder)
    child, apart = Child(), Child() if options.apart else None
    begun = time.perf_counter()
    try:
        begin(child, "kernels")
        report = heading(child.facts, options)
        for number, case in enumerate(chosen):
            spent = time.perf_counter() - begun
            if options.budget is not None and spent > options.budget:
                report["not_run"] = [left.name for left in chosen[number:]]
                break
            extra = (modes.UNPINNED,) if options.unpinned and case.kind == TORCH else ()
            wanted = (*options.modes, *extra)
            record = measured(case, wanted, effort, child.ask, apart.ask if apart else None)
            report["cases"].append(record)
            report["seconds"] = round(time.perf_counter() - begun, 1)
            save(report)
            print(
                f"{number + 1}/{len(chosen)} {total_line(record)} [{report['seconds']:.0f} s]",
                file=sys.stderr,
                flush=True,
            )
        for record in report["cases"]:
            if (middle(record, modes.OURS) or 1.0) < LOSS and options.repeat:
                record["elsewhere"] = repeated(record, effort, options.repeat, child.ask)
                save(report)
        report["processes"] = child.starts + (apart.starts if apart else 0)
    finally:
        child.close()
        if apart:
            apart.close()
    save(report)
    if options.dump:
        pack(Path(folder or ""), options.dump)
    return report


def begin(child: Child, program: str) -> None:
    """Start the child's process, for its facts. Raises SystemExit where there is no GPU."""
    try:
        child.ask(_nothing)
    except (ImportError, RuntimeError) as error:
        raise SystemExit(f"{program}: no NVIDIA GPU (with PyTorch) here: {error}") from error


def _nothing() -> None:
    """Asked of a process that is to start."""


def versions(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a report is of: the device, the date, and what runs."""
    return {
        "device": facts["device"],
        "target": facts["target"],
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "triton": triton.__version__,
        "triton_linear": triton_linear.__version__,
        "torch": facts["torch"],
        "cuda": facts.get("driver"),
        "settings_missing": facts.get("settings_missing", []),
    }


def heading(facts: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The report before there is a case in it."""
    return {
        **versions(facts),
        "modes": list(options.modes),
        "turns": 15 if options.quick else options.turns,
        "pinned": options.pin,
        "seconds": 0.0,
        "not_run": [],
        "cases": [],
    }


def pack(folder: Path, output: Path) -> Path:
    """Everything in `folder` as one archive in `output`."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / "kernels-ir.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(folder.iterdir()):
            if file.is_file():
                archive.add(file, file.name)
    return path


def join(paths: Sequence[Path]) -> dict[str, Any]:
    """One report of several of the same device and versions; of a case that is in two, the later one counts."""
    reports = [json.loads(path.read_text()) for path in paths]
    joined = dict(reports[0])
    for report in reports[1:]:
        for key in ("device", "triton", "triton_linear", "torch"):
            if report[key] != joined[key]:
                raise SystemExit(f"kernels: {key} is {report[key]} in one report and {joined[key]} in another")
    records = {record["name"]: record for report in reports for record in report["cases"]}
    joined["cases"] = list(records.values())
    left = dict.fromkeys(name for report in reports for name in report["not_run"])
    joined["not_run"] = [name for name in left if name not in records]
    joined["seconds"] = round(sum(report["seconds"] for report in reports), 1)
    joined["date"] = max(report["date"] for report in reports)
    return joined


def write(report: Mapping[str, Any], folder: Path) -> None:
    """The JSON and the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / "kernels.md").write_text(markdown(report))


def draw(report: Mapping[str, Any], folder: Path) -> None:
    """The picture, where matplotlib is installed."""
    try:
        from .plot import plot

        plot(report, folder / "kernels.svg")
    except (ImportError, ValueError) as error:
        print(f"kernels: no plot: {error}", file=sys.stderr)


def _modes(text: str) -> tuple[str, ...]:
    chosen = text.split(",")
    for mode in chosen:
        if mode not in ALL:
            raise argparse.ArgumentTypeError(f"'{mode}' is none of {', '.join(ALL)}")
    return tuple(mode for mode in ALL if mode in (modes.STOCK, *chosen))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.kernels", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "results")
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose names match")
    parser.add_argument("--modes", type=_modes, default=DEFAULT, help=f"of {','.join(ALL)}; stock always")
    parser.add_argument("--quick", action="store_true", help="15 turns, and none cold")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument(
        "--repeat", type=int, metavar="N", default=0, help="losers so often again, their inputs elsewhere"
    )
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin no case after so long")
    parser.add_argument(
        "--pin",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Inductor's configurations are those chosen with stock Triton",
    )
    parser.add_argument("--unpinned", action="store_true", help="also ours with configurations chosen anew")
    parser.add_argument("--apart", action="store_true", help="free in a process of its own, stock beside it")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="TTGIR and PTX there, as one archive")
    parser.add_argument("--dry", metavar="TARGET", nargs="?", const="cuda:90", help="compile, launch nothing")
    parser.add_argument("--join", type=Path, nargs="+", metavar="JSON", help="one report of several")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    options = parse(argv)
    if options.list:
        for case in cases():
            print(f"{case.name:32} {case.group:14} {case.kind}")
        return 0
    if options.dry:
        from .dry import compile_all

        return compile_all(options.dry, options.only, options.dump)
    if options.join:
        report = join(options.join)
        write(report, options.output)
    else:
        report = execute(options, lambda report: write(report, options.output))
    draw(report, options.output)
    print(markdown(report), end="")
    failed = sum(bool(problems(record)) for record in report["cases"])
    left = len(report["not_run"])
    print(
        f"kernels: {len(report['cases'])} cases, {failed} with failures, {left} not run, in "
        f"{report['seconds']:.0f} s; {options.output / 'kernels.json'}",
        file=sys.stderr,
    )
    return int(bool(failed))
