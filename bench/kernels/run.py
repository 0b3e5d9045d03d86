"""Runs the suite: each case in every mode, in a process that is replaced when a case has broken it.

    python -m bench.kernels [--output DIR] [--only REGEX] [--modes stock,ours,lower,assign] [--quick]

Results go to kernels.json, kernels.md and, with matplotlib, kernels.svg, after every case. The exit status is 1
if a result is wrong, differs from run to run, or a mode failed. `--dry` compiles what is written by hand for a
target, and lists the rest. `--join` makes one report of several.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..harness import results
from ..harness.cases import Run, chosen, say
from ..harness.child import Child, Failed
from ..harness.options import Parser, some_of
from ..harness.statistics import LOSS
from . import measure, modes
from .case import TORCH, Case
from .cases import cases
from .measure import Effort
from .report import markdown, middle, problems, total_line

COLD_TURNS = 16
ALL = (
    modes.STOCK,
    modes.OURS,
    modes.LAYOUTS,
    modes.LOWER,
    modes.ASSIGN,
    modes.DECIDED,
    modes.EXACT,
    modes.CONTEST,
    *modes.VARIED,
    *modes.WITHOUT,
)
DEFAULT = (modes.STOCK, modes.OURS)


def measured(
    case: Case,
    wanted: Sequence[str],
    effort: Effort,
    ask: Callable[..., Any],
    configs: Sequence[str] = (),
) -> dict[str, Any]:
    """The record of a case: `ask` measures modes in the process.

    configs: those of Inductor's kernels, where an earlier run is to say them.
    """
    record: dict[str, Any] = {"name": case.name, "group": case.group, "kind": case.kind, "modes": {}}
    sound = [mode for mode in wanted if mode != modes.STOCK]
    if modes.OURS in sound:
        sound.append(modes.AGAIN)
    try:
        record |= ask(measure.run, case.name, sound, effort, configs)
    except Exception as error:
        record |= _one_by_one(case, sound, effort, ask, configs, Failed.of(error))
    return record


def repeated(record: Mapping[str, Any], effort: Effort, times: int, ask: Callable[..., Any]) -> list[float]:
    """Stock over ours of a case whose inputs lie elsewhere in memory, each time."""
    configs, found = record["modes"][modes.STOCK].get("configs", ()), []
    for number in range(1, times + 1):
        moved = replace(effort, cold=0, dump=None, room=5 * number)
        try:
            answer = ask(measure.run, record["name"], [modes.OURS], moved, configs)
        except Exception as error:
            say(f"{record['name']} again: {Failed.of(error)}")
            break
        found.append(answer["modes"][modes.OURS]["ratio"][1])
    return found


def _one_by_one(
    case: Case,
    sound: Sequence[str],
    effort: Effort,
    ask: Callable[..., Any],
    configs: Sequence[str],
    reason: Failed,
) -> dict[str, Any]:
    """The record of a case that cannot be measured in all modes: stock alone, then beside each other mode."""
    found: dict[str, Any] = {"modes": {}, "together": reason.error, "seconds": {}}
    for mode in (modes.STOCK, *sound):
        try:
            answer = ask(measure.run, case.name, [mode], effort, configs)
        except Exception as error:
            found["modes"][mode] = Failed.of(error).facts()
            if mode == modes.STOCK:
                break
            continue
        found["calls"], found["seconds"] = answer["calls"], answer["seconds"]
        found["modes"][mode] = answer["modes"][mode]
    return found


def execute(options: argparse.Namespace) -> dict[str, Any]:
    """The report of a run, written after every case."""
    wanted = chosen("kernels", cases(), options.only)
    folder = tempfile.mkdtemp() if options.dump else None
    turns, cold = (15, 0) if options.quick else (options.turns, COLD_TURNS)
    effort = Effort(turns, cold, options.pin, folder)
    configs = configs_of(options.configs)
    child = Child(measure.start)
    run = Run(lambda report: write(report, options.output), options.budget)
    try:
        made = {"modes": list(options.modes), "turns": turns, "pinned": options.pin}
        run.heading(heading(child.begin("kernels")) | made)
        for case in run.each(wanted):
            extra = (modes.UNPINNED,) if options.unpinned and case.kind == TORCH else ()
            of_case = configs.get(case.name, ())
            record = measured(case, (*options.modes, *extra), effort, child.ask, of_case)
            run.add(record, total_line(record))
        for record in run.report["cases"]:
            if (middle(record, modes.OURS) or 1.0) < LOSS and options.repeat:
                record["elsewhere"] = repeated(record, effort, options.repeat, child.ask)
                run.save()
        run.report["processes"] = child.starts
    finally:
        child.close()
    run.save()
    if folder:
        pack(Path(folder), options.dump)
    return run.report


def configs_of(report: Path | None) -> dict[str, list[str]]:
    """The configurations of Inductor's kernels by case, as they were chosen with stock Triton in a run."""
    if report is None:
        return {}
    found = {
        record["name"]: record["modes"] for record in json.loads(report.read_text(encoding="utf-8"))["cases"]
    }
    return {name: ways.get(modes.STOCK, {}).get("configs", []) for name, ways in found.items()}


def heading(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a report is of: the device, the date, and what runs."""
    return {
        "device": facts["device"],
        "target": facts["target"],
        **results.versions(),
        "torch": facts["torch"],
        "cuda": facts.get("driver"),
        "settings_missing": facts.get("settings_missing", []),
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
    same = ("device", "triton", "triton_linear", "torch")
    return results.join("kernels", paths, same, lambda record: record["name"])


def write(report: Mapping[str, Any], folder: Path) -> None:
    """The JSON and the tables."""
    results.save(folder, "kernels", markdown, report)


def draw(report: Mapping[str, Any], folder: Path) -> None:
    """The picture, where matplotlib is installed."""
    try:
        from .plot import plot

        plot(report, folder / "kernels.svg")
    except (ImportError, ValueError) as error:
        say(f"kernels: no plot: {error}")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("kernels", __doc__).output().only()
    modes_help = f"of {','.join(ALL)}; stock always"
    parser.add_argument("--modes", type=some_of(ALL, (modes.STOCK,)), default=DEFAULT, help=modes_help)
    parser.add_argument("--quick", action="store_true", help="15 turns, and none cold")
    parser.turns(40).budget()
    parser.add_argument(
        "--repeat", type=int, metavar="N", default=0, help="losers so often again, their inputs elsewhere"
    )
    parser.add_argument(
        "--pin",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Inductor's configurations are those chosen with stock Triton",
    )
    configs_help = "take Inductor's configurations from an earlier kernels.json"
    parser.add_argument("--configs", type=Path, metavar="JSON", help=configs_help)
    parser.add_argument("--unpinned", action="store_true", help="also ours with configurations chosen anew")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="TTGIR and PTX there, as one archive")
    return parser.dry("cuda:90").join().list().parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    options = parse(argv)
    if options.list:
        listed = cases()
        width = max(len(case.name) for case in listed)
        for case in listed:
            print(f"{case.name:{width}}  {case.group:14} {case.kind}")
        return 0
    if options.dry:
        from .dry import compile_all

        return compile_all(options.dry, options.only, options.dump)
    if options.join:
        report = join(options.join)
        write(report, options.output)
    else:
        report = execute(options)
    draw(report, options.output)
    print(markdown(report), end="")
    failed = sum(bool(problems(record)) for record in report["cases"])
    left = len(report["not_run"])
    say(
        f"kernels: {len(report['cases'])} cases, {failed} with failures, {left} not run, in "
        f"{report['seconds']:.0f} s; {options.output / 'kernels.json'}"
    )
    return int(bool(failed))
