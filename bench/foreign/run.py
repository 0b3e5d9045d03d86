"""Runs kernels of other packages with the plugin off and on, and compares results and times.

    python -m bench.foreign [--output DIR] [--only REGEX] [--budget SECONDS] [--jobs N] [--config middle]
    python -m bench.foreign --compile-only [--target cuda:90 ...] [--dump DIR]

First every kernel is compiled with both, in parallel processes, for a GPU that need not be there; then, unless
`--compile-only`, each is launched with both, in one process for each GPU. What crashes costs its case alone.
foreign.json and foreign.md (`--compile-only`: foreign-compile.*) are written as it goes. The exit status is 1
if the plugin fails or a result is wrong. `--control` puts stock Triton on both sides (foreign-control.*): what
breaks then as well is not the plugin's; with `--compile-only`, nothing is compiled but for stock Triton.
`python -m bench.foreign.fetch` gets the packages. `--join` makes one report of several. `python -m
bench.serving` is the same for other packages (`Suite`).
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ..harness import cases as harness
from ..harness import results
from ..harness.cases import chosen, say
from ..harness.child import Child
from ..harness.options import Parser, some_of
from ..kernels import modes
from . import compiled, launches, measure
from .case import Case
from .report import crashes, failures, markdown, rows_of
from .suite import FOREIGN, Suite

PATIENCE = 600.0
"""Seconds after which a compile counts as hung: there may be more processes than cores."""
GPU_PATIENCE = 60.0
COMPILE_SHARE = 0.6
"""Of the budget, for compiling; cases whose compile has not begun then are not run."""
BESIDE = (
    modes.DECIDED,
    modes.EXACT,
    modes.CONTEST,
    modes.LAYOUTS,
    modes.LOWER,
    modes.ASSIGN,
    *modes.WITHOUT,
    *modes.VARIED,
)
"""Modes that may be measured beside the plugin as it is."""


class Run(harness.Run):
    """A run: its options, and the report so far. What is measured, and the page of it, may be others'."""

    patience = GPU_PATIENCE
    measure: Callable[..., dict[str, Any]] = staticmethod(measure.run)
    page: Callable[[Any], str] = staticmethod(markdown)

    def __init__(self, suite: Suite, options: argparse.Namespace) -> None:
        super().__init__(self._write, options.budget)
        self.suite, self.options, self.lock = suite, options, threading.Lock()
        self.heading(
            {
                "title": suite.title,
                **results.versions(),
                "torch": _torch_version(),
                "config": options.config,
                "control": options.control,
                "targets": list(options.target),
                "packages": [
                    {"name": each.name, "version": each.version} for each in suite.packages if each.kernels
                ],
            }
        )

    def _write(self, report: dict[str, Any]) -> None:
        write(self.page, report, self.options.output, f"{self.suite.stem}{self.suffix}")

    @property
    def suffix(self) -> str:
        """Of the files' names."""
        return "-compile" if self.options.compile_only else "-control" if self.options.control else ""

    def compile_all(self, cases: Sequence[Case], make_child: Callable[[], Any]) -> None:
        """Compile every case for every target, each in whichever process is free."""
        local, children = threading.local(), []
        share = 1.0 if self.options.compile_only else COMPILE_SHARE

        def one(case: Case, target: str) -> dict[str, Any] | None:
            if self.late(share):
                return None
            # A process compiles for one target only: packages decide at import what GPU there is.
            if getattr(local, "target", None) != target:
                if getattr(local, "child", None) is not None:
                    local.child.close()
                local.child, local.target = make_child(), target
                with self.lock:
                    children.append(local.child)
            what = (self.suite, case.name, target, self.options.config)
            ask = functools.partial(local.child.ask, compiled.run, *what)
            try:
                stock_alone = self.options.control and self.options.compile_only
                record = ask(self.options.dump, stock_alone, self.options.beside)
            except Exception as problem:
                record = {"case": case.name, "target": target, "kernels": []}
                record |= {"error": compiled.error_of(problem)} | alone(lambda: ask(None, True))
            return dict(record) | {"package": case.package}

        try:
            with ThreadPoolExecutor(self.options.jobs) as pool:
                asked = {pool.submit(one, c, target): c for target in self.options.target for c in cases}
                for done in as_completed(asked):
                    record = done.result()
                    if record is None:
                        if asked[done].name not in self.report["not_run"]:
                            self.report["not_run"].append(asked[done].name)
                        continue
                    self.report["cases"].append(record)
                    self.save()
                    count = len(self.report["cases"])
                    say(f"{count}/{len(asked)} {line(record)} [{self.spent:.0f} s]")
        finally:
            for child in children:
                child.close()
        order = {case.name: place for place, case in enumerate(cases)}
        self.report["cases"].sort(key=lambda r: (self.report["targets"].index(r["target"]), order[r["case"]]))

    def take_compiled(self, cases: Sequence[Case], records: Sequence[dict[str, Any]]) -> None:
        """Take the records of another run, whose kernels are in the cache."""
        names = {case.name for case in cases}
        wanted = [each for each in records if each["case"] in names and each["target"] in self.options.target]
        self.report["cases"] = list(wanted)

    def measure_all(self, children: Sequence[Any]) -> None:
        """Launch what was compiled, each case in whichever process is free."""
        waiting = deque(
            record for record in self.report["cases"] if any("stock" in row for row in record["kernels"])
        )

        def take(child: Any) -> None:
            while True:
                with self.lock:
                    if not waiting:
                        return
                    record = waiting.popleft()
                    if self.late():
                        self.report["not_run"].append(record["case"])
                        continue
                found = self.measured(child, record["case"])
                with self.lock:
                    record["measured"] = found
                    self.save()
                say(f"{record['case']}: {measured_line(found)} [{self.spent:.0f} s]")

        with ThreadPoolExecutor(len(children)) as pool:
            for taken in [pool.submit(take, child) for child in children]:
                taken.result()

    def measured(self, child: Any, case: str) -> dict[str, Any]:
        """What the GPU says of a case. One that breaks its process gets another, and where it breaks that too,
        it is tried with stock Triton on both sides."""
        plugin = not self.options.control

        def ask(plugin: bool) -> dict[str, Any]:
            options = self.options
            what = (self.suite, case, options.config, options.turns, plugin, options.beside)
            return dict(child.ask(self.measure, *what))

        try:
            return ask(plugin)
        except Exception as problem:
            once = compiled.error_of(problem)
        try:
            return ask(plugin) | {"once": once}
        except Exception as problem:
            return {"kernels": [], "error": compiled.error_of(problem)} | alone(lambda: ask(False))


def alone(call: Callable[[], Any]) -> dict[str, str]:
    """Whether a case that broke its process works with stock Triton alone, with which `call` runs it again."""
    try:
        call()
    except Exception as problem:
        return {"alone": compiled.error_of(problem)}
    return {"alone": "works"}


def _torch_version() -> str:
    import torch

    return str(torch.__version__)


def line(record: dict[str, Any]) -> str:
    """What became of a case, in short."""
    rows = record["kernels"]
    bad = sum("error" in row.get("ours", {}) for row in rows)
    text = f"{record['target']} {record['case']}: {len(rows)} kernels"
    text += f", {sum(row.get('ours', {}).get('seen', 0) for row in rows)} conversions"
    return (
        text
        + (f", {bad} FAILED" if bad else "")
        + (f", {record['error'][:120]}" if record.get("error") else "")
    )


def measured_line(record: dict[str, Any]) -> str:
    """The ratios of a case."""
    if record.get("error"):
        return str(record["error"][:160])
    each = [f"{r['ratio'][1]:.2f}" if "ratio" in r else "FAILED" for r in record["kernels"]]
    bad = [r["kernel"] for r in record["kernels"] if r.get("result") == "WRONG"]
    return " ".join(each) + (f" WRONG: {', '.join(bad)}" if bad else "")


def execute(
    suite: Suite, options: argparse.Namespace, cases: Sequence[Case], kind: type[Run] = Run
) -> dict[str, Any]:
    """The report of a run."""
    with tempfile.TemporaryDirectory() as folder:
        site, cache = Path(folder, "site"), (options.cache or Path(folder, "cache")).absolute()
        suite.unpack(options.archive, site)
        cache.mkdir(parents=True, exist_ok=True)
        if options.dump is not None:
            Path(options.dump).mkdir(parents=True, exist_ok=True)
        run = kind(suite, options)
        where = (suite, str(site), str(cache))
        cards = [] if options.compile_only else measure.cards() or [""]
        gpus = [Child(measure.start, *where, card, patience=kind.patience) for card in cards]
        try:
            if gpus:
                run.report |= gpus[0].begin(suite.name, "; there is --compile-only")
                run.report["targets"] = options.target = [gpus[0].facts["target"]]
            if options.compiled:
                run.take_compiled(cases, json.loads(options.compiled.read_text(encoding="utf-8"))["cases"])
            else:
                run.compile_all(cases, lambda: Child(compiled.start, *where, patience=PATIENCE))
            if gpus:
                run.measure_all(gpus)
        finally:
            for gpu in gpus:
                gpu.close()
        run.save()
        return run.report


def join(program: str, paths: Sequence[Path]) -> dict[str, Any]:
    """One report of several of the same versions; of a case that is in two, the later one counts."""
    same = ("device", "triton", "triton_linear", "torch", "config", "control")
    joined = results.join(program, paths, same, lambda each: (each["case"], each["target"]))
    joined["cases"] = [{k: v for k, v in each.items() if k != "traceback"} for each in joined["cases"]]
    joined["targets"] = list(dict.fromkeys(each["target"] for each in joined["cases"]))
    return joined


def write(page: Callable[[Any], str], report: dict[str, Any], folder: Path, stem: str) -> None:
    """The JSON and the page."""
    results.save(folder, stem, page, report, indent=None)


def wrong(report: dict[str, Any]) -> list[str]:
    """Everything that the plugin did wrong in a run."""
    found = crashes(report["cases"])
    for target in report["targets"]:
        records = [each for each in report["cases"] if each["target"] == target]
        found += failures(rows_of(records))
        found += failures(
            {"kernel": row["kernel"], "measured": row}
            for record in records
            for row in record.get("measured", {}).get("kernels", ())
        )
    return found


def parse(suite: Suite, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser(suite.name, __doc__).output().only().workers("--jobs").turns(15).budget().join().list()
    parser.add_argument("--archive", type=Path, default=suite.archive, help="what fetch wrote")
    parser.add_argument(
        "--config", choices=launches.RANKS, default=launches.RANKS[0], help="of what tunes itself"
    )
    parser.add_argument("--compile-only", action="store_true", help="launch nothing; no GPU is needed")
    parser.add_argument("--target", nargs="+", default=["cuda:90"], help="for --compile-only")
    parser.add_argument("--control", action="store_true", help="launch stock Triton's kernels on both sides")
    parser.add_argument(
        "--beside",
        type=some_of(BESIDE),
        default=(),
        metavar="MODES",
        help=f"measure these too: {', '.join(BESIDE)}; {modes.DECIDED} follows decisions",
    )
    parser.add_argument(
        "--compiled",
        type=Path,
        metavar="FILE",
        help="the report of a run with --compile-only and this --cache: compile nothing",
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where what is compiled stays for other runs")
    parser.add_argument("--dump", metavar="DIR", help="the TTGIR of every kernel there")
    return parser.parse_args(argv)


def main(suite: Suite = FOREIGN, argv: Sequence[str] | None = None, kind: type[Run] = Run) -> int:
    """Run and write; see the module's docstring."""
    options = parse(suite, argv)
    wanted = chosen(suite.name, suite.cases(), options.only)
    if options.list:
        print("\n".join(case.name for case in wanted))
        return 0
    if options.join:
        report = join(suite.name, options.join)
        suffix = "-compile" if not report.get("device") else "-control" if report.get("control") else ""
        write(kind.page, report, options.output, f"{suite.stem}{suffix}")
    else:
        report = execute(suite, options, wanted, kind)
    bad = wrong(report)
    for text in bad:
        say(f"{suite.name}: {text}")
    kernels = {row["kernel"] for case in report["cases"] for row in case["kernels"] if "stock" in row}
    say(f"{suite.name}: {len(kernels)} kernels, {len(bad)} failures, {report['seconds']:.0f} s")
    return int(bool(bad))
