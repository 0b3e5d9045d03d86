"""The command: draw programs, run them, shrink those that fail, and report.

python -m bench.fuzz [--count N] [--target TARGET] [--results STEM] [OPTION ...]
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

from bench.fuzz.examine import title
from bench.fuzz.pairs import is_single
from bench.fuzz.program import Program, program_in
from bench.fuzz.results import record
from bench.fuzz.run import (
    CLUSTERS,
    KINDS,
    PROGRAMS,
    SINGLES,
    Caller,
    FuzzPlan,
    InProcesses,
    Unit,
    check_target,
    fuzz,
    has_clusters,
    outcome,
    stock,
)
from bench.fuzz.shrink import shrink
from bench.fuzz.totals import Failure, Totals
from bench.fuzz.write import write
from triton_linear.dialect import triton_versions
from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED, installed_release
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.arguments import add_pipeline_options, pipeline_options
from triton_linear.tools.support.compile import DEFAULTS
from triton_linear.tools.support.errors import Printer, fail, guarded

TARGETS = (
    "cuda:80",
    "cuda:90",
    "cuda:100",
    "hip:gfx90a",
    "hip:gfx942",
    "hip:gfx950",
)
_SHOWN = 20


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fuzz",
        description="Verify random conversions, alone and in random programs.",
        epilog="Single conversions are run one by one. Programs are chains of them in loops and branches, "
        "between other users of shared memory, and are run as a whole, with races looked for in all of a "
        "program. What fails is shrunk to a small module that fails the same way; its first line says what it "
        "must give.",
    )
    option = parser.add_argument
    option("--count", type=int, default=2000, help="conversions, over all targets (default %(default)s)")
    option("--seed", type=int, default=1, help="what to draw them from (default %(default)s)")
    option(
        "--target",
        action="append",
        help="GPU to compile for, or 'all'; may be given several times (default cuda:90)",
    )
    option(
        "--only",
        choices=("singles", "programs", "partitions", "regions", "clusters"),
        help="single conversions alone, programs alone, conversions or programs in warp-specialised regions, "
        "or conversions in clusters of 2 to 16 CTAs",
    )
    option("--time", type=float, metavar="SECONDS", help="begin no module after so many seconds")
    option(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes; the modules are the same for any number (default: one for each processor)",
    )
    option(
        "--assembly",
        type=_every,
        default=16,
        metavar="N",
        help="take every N-th module of singles on to PTX or hsaco; 0: none, all: every one "
        "(default %(default)s)",
    )
    option("--save", type=Path, metavar="FOLDER", help="write all modules there, as input of `verify`")
    option(
        "--failures",
        type=Path,
        metavar="FOLDER",
        default=Path("fuzz-failures"),
        help="where to write what failed, shrunk (default %(default)s)",
    )
    option(
        "--shrink",
        type=float,
        metavar="SECONDS",
        default=120,
        help="for each kind of failure; 0: leave it as it is (default %(default)s)",
    )
    option("--results", type=Path, metavar="STEM", help="add the totals to those in STEM.json and STEM.md")
    option("--replay", type=Path, metavar="FILE", help="run a module that an earlier run wrote")
    add_pipeline_options(parser)
    return parser


def _every(text: str) -> int:
    """Parse N of "every N-th module"; `all` means 1."""
    if text == "all":
        return 1
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is neither a number nor 'all'")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0 if nothing failed."""
    arguments = parser().parse_args(argv)
    return guarded(lambda: run(arguments), Printer())


def run(arguments: argparse.Namespace) -> int:
    """Replay a module or draw new ones, as the arguments say; the exit status is 0 if nothing failed."""
    triton_versions.require()
    if arguments.replay is not None:
        return replay(arguments.replay, pipeline_options(arguments))
    totals, seconds = drawn(arguments)
    if arguments.results is not None:
        record(arguments.results, arguments.seed, arguments.only, totals, seconds)
    return int(not all(found.ok for found in totals.values()))


def drawn(arguments: argparse.Namespace) -> tuple[dict[str, Totals], float]:
    """Draw and run programs, and print what was found; return the totals by target, and the seconds taken."""
    if arguments.count < 0:
        fail(f"count: {arguments.count} is negative")
    if arguments.jobs < 1:
        fail(f"jobs: {arguments.jobs} is not a number of processes")
    targets = plain_targets(arguments.target)
    if arguments.only == CLUSTERS:
        _check_clusters(targets)
    if arguments.save is not None:
        _make(arguments.save)
    kinds = KINDS if arguments.only is None else (arguments.only,)
    plans = [
        FuzzPlan(
            name,
            arguments.seed,
            arguments.count // len(targets) + (k < arguments.count % len(targets)),
            arguments.assembly,
            kinds,
            pipeline_options(arguments),
        )
        for k, name in enumerate(targets)
    ]
    start = time.monotonic()
    console = Console(file=sys.stderr)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks = {p.target: progress.add_task(f"{p.target}, seed {p.seed}", total=p.count) for p in plans}

        def advance(target: str, conversions: int) -> None:
            progress.advance(TaskID(tasks[target]), conversions)

        totals = fuzz(plans, arguments.jobs, arguments.time, arguments.save, advance)
    seconds = time.monotonic() - start
    failures = [failure for found in totals.values() for failure in found.failures]
    for failure in failures[:_SHOWN]:
        print(f"{failure.program.target}: {failure.kind}: {failure.message}")
    if len(failures) > _SHOWN:
        print(f"... and {len(failures) - _SHOWN} more")
    reproduce(failures, arguments.failures, arguments.shrink, pipeline_options(arguments))
    whole = Totals()
    for target, found in totals.items():
        print(f"{target}, seed {arguments.seed}: {in_words(found)}")
        whole.add(found)
    if len(totals) > 1:
        print(f"all {len(totals)} targets: {in_words(whole)}")
    print(f"{whole}; {seconds:.0f} s")
    return totals, seconds


def in_words(totals: Totals) -> str:
    """A description of the totals."""
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(totals.kinds.items()))
    stock = f"; {totals.stock.total()} programs that stock Triton fails on" if totals.stock else ""
    broken = f"; {totals.broken} broken" if totals.broken else ""
    return (
        f"{kinds or 'nothing'}; {totals.modules} modules, {totals.programs} of them programs, "
        f"{totals.assembled} assembled with {totals.assembled_conversions} conversions{stock}{broken}"
    )


def plain_targets(names: list[str] | None) -> list[str]:
    """The targets that the command line names, each once."""
    wanted: list[str] = []
    for name in names or ["cuda:90"]:
        wanted += TARGETS if name == "all" else [name]
    for name in wanted:
        check_target(name)
    return list(dict.fromkeys(wanted))


def _check_clusters(targets: list[str]) -> None:
    """Fail if a target has no clusters, or this Triton's conversions in clusters are left to Triton."""
    for name in targets:
        if not has_clusters(target_called(name)):
            fail(f"{name} has no clusters")
    if installed_release() not in CLUSTERS_ORDERED:
        fail("conversions through memory in clusters are left to this Triton (docs/versions.md)")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot write modules there: {error.strerror}", str(folder))


def unit_of(program: Program, seed: int = 0, options: PipelineOptions = DEFAULTS) -> Unit:
    """The unit of a program that is run as a whole."""
    return Unit(PROGRAMS, 0, seed, (program,), options=options)


def totals_of(program: Program, call: Caller, options: PipelineOptions = DEFAULTS) -> Totals:
    """The totals of a program, run as a whole, and also as a single conversion if it is one."""
    totals = outcome(unit_of(program, options=options), call)
    if is_single(program):
        totals.add(outcome(Unit(CLUSTERS if program.ctas > 1 else SINGLES, 0, 0, (program,)), call))
    return totals


def fails_like(
    failure: Failure, call: Caller, options: PipelineOptions = DEFAULTS
) -> Callable[[Program], bool]:
    """A function that returns whether a program fails like this one."""
    wanted = signature(failure)

    def without_stock(function: Callable[[Unit], Any], unit: Unit) -> Any:
        # Stock Triton may take minutes. For wrong results it has already been run on the original program.
        if function is stock and failure.kind in ("wrong", "race", "registers"):
            return Totals()
        return call(function, unit)

    def fails(program: Program) -> bool:
        totals = totals_of(program, without_stock, options)
        return any(signature(found) == wanted for found in totals.failures)

    return fails


def signature(failure: Failure) -> str:
    """The characteristics of a failure that must not change while a program is shrunk."""
    if failure.kind in ("crash", "error", "left"):
        reason = failure.message.partition(": ")[2].partition(": ")[2]
        return f"{failure.kind} {re.sub(r'[^A-Za-z ]', '', reason)[:60]}"
    return failure.kind


def reproduce(
    failures: list[Failure], folder: Path, seconds: float, options: PipelineOptions = DEFAULTS
) -> None:
    """Shrink one failure of each kind and target, and write the resulting program to a file."""
    chosen: dict[tuple[str, str], Failure] = {}
    for failure in failures:
        chosen.setdefault((failure.program.target, signature(failure)), failure)
    if not chosen:
        return
    _make(folder)
    call = InProcesses(seconds=30)
    for number, failure in enumerate(chosen.values()):
        program = reduced(failure, call, seconds, options)
        path = folder / f"{program.target.replace(':', '-')}-{failure.kind}-{number}.ttgir"
        path.write_text(write(program).text)
        print(f"smallest that fails so: {title(program)}")
        print(f"    {path}")
        print(f"    python -m bench.fuzz --replay {path}")


def reduced(failure: Failure, call: Caller, seconds: float, options: PipelineOptions = DEFAULTS) -> Program:
    """The smallest program found that fails like this one."""
    fails = fails_like(failure, call, options)
    if not seconds or not fails(failure.program):
        return failure.program
    return shrink(failure.program, fails, seconds)


def replay(path: Path, options: PipelineOptions = DEFAULTS) -> int:
    """Run a program that an earlier run wrote; the exit status is 0 if it does not fail."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot open input file: {getattr(error, 'strerror', 'it is not UTF-8 text')}", str(path))
    try:
        program = program_in(text)
        rewritten = "" if program is None else write(program).text
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        fail(f"the program in its first line is not one: {error}", str(path), 1, 1)
    if program is None:
        fail("it has no first line that says what it must give; try 'triton-linear verify'", str(path), 1, 1)
    if rewritten != text:
        fail("the module is not the program in its first line", str(path), 1, 1)
    check_target(program.target)
    totals = totals_of(program, InProcesses(), options)
    for failure in totals.failures:
        print(f"{program.target}: {failure.kind}: {failure.message}")
    for reason in totals.stock:
        print(f"stock Triton {reason}")
    print(f"{program.target}, {title(program)}: {in_words(totals)}")
    print(totals)
    return 0 if totals.ok else 1
