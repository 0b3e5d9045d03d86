"""What users of Triton complained about in public, as small kernels, against stock Triton.

    python -m bench.reported [--output DIR] [--only REGEX] [--turns N] [--budget SECONDS] [--dry [TARGET]]
    python -m bench.reported --reasons [--output DIR] [--only REGEX] [--turns N]

On a GPU every case is launched with stock Triton and with the plugin in turn, and results are compared. Writes
reported.json and reported.md; the exit status is 1 where a case fails, falls back or gives other results.
`--dry` compiles only, and prints what is counted in PTX, each for the GPU that it was reported for.
`--reasons` times, of some cases that are not won, what might have won them; reasons.json and reasons.md.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..harness import results
from ..harness.cases import Run, chosen, say
from ..harness.child import Child, Failed, empty_cache
from ..harness.options import Parser
from ..kernels import measure as kernels
from ..kernels import modes
from . import dry, measure, reasons
from .cases import CASES
from .report import markdown, ratio

PATIENCE = 60.0


def compiled(target: str, only: str) -> int:
    """Print the counts of every case, stock Triton's and ours; the number of those that do not compile."""
    failures = 0
    with empty_cache():
        for case in chosen("reported", CASES, only):
            gpu = case.target if target == OWN else target
            for way, count in ((modes.STOCK, dry.stock), (modes.OURS, dry.ours)):
                try:
                    print(f"{case.name}, {gpu}, {way}: {_shown(count(case, gpu))}", flush=True)
                except Exception as error:
                    failures += 1
                    print(f"{case.name}, {gpu}, {way}: {type(error).__name__}: {error}", flush=True)
    return failures


OWN = "own"
"""The target of `--dry` where none is named: of each case its own."""


def _shown(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def problems(record: Mapping[str, Any]) -> list[str]:
    """What is wrong with a case."""
    found = [record["error"]] if "error" in record else []
    for way, facts in record.get("ways", {}).items():
        found += [f"{way}: {text}" for text in facts["fell_back"]]
        found += [f"{way}: other results"] if facts["result"] == "WRONG" else []
    return found


_REPORTED = "reported", markdown, measure.run


def execute(options: argparse.Namespace) -> dict[str, Any]:
    """The report of a run, written after every case."""
    known = [case for case in CASES if not options.reasons or case.name in reasons.REASONS]
    wanted = chosen("reported", known, options.only)
    stem, page, one = ("reasons", reasons.markdown, measure.reasons) if options.reasons else _REPORTED
    child = Child(kernels.start, patience=PATIENCE)
    run = Run(lambda report: results.save(options.output, stem, page, report), options.budget)
    try:
        facts = child.begin("reported")
        run.heading({"device": facts["device"], **results.versions(), "torch": facts["torch"]})
        for case in run.each(wanted):
            try:
                record = child.ask(one, case.name, options.turns)
            except Exception as error:
                record = {"name": case.name, **Failed.of(error).facts()}
            found = ratio(record)
            run.add(record, f"{case.name}: {'; '.join(problems(record)) or f'{found:.3f}'}")
    finally:
        child.close()
    run.save()
    return run.report


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; see the module's docstring."""
    parser = Parser("reported", __doc__, whole=True).output().only().turns(15).budget().dry(OWN)
    parser.add_argument("--reasons", action="store_true", help="time what might have won cases that are not")
    options = parser.parse_args(argv)
    if options.dry:
        if options.dry != OWN and not re.fullmatch(r"cuda:\d+", options.dry):
            raise SystemExit(f"reported: '{options.dry}' is no NVIDIA GPU such as cuda:90")
        return int(compiled(options.dry, options.only) > 0)
    report = execute(options)
    print((reasons.markdown if options.reasons else markdown)(report), end="")
    failed = [record["name"] for record in report["cases"] if problems(record)]
    say(f"reported: {len(report['cases'])} cases, {len(failed)} with failures, in {report['seconds']:.0f} s")
    return int(bool(failed))
