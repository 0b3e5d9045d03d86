"""Totals of runs, added up in files: one JSON record for each run, and a summary of all of them."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.fuzz.program import as_json
from bench.fuzz.totals import Totals
from triton_linear import __version__
from triton_linear.dialect import triton_versions
from triton_linear.tools.support.errors import fail

_FIGURES = ("conversions", "programs", "wrong", "races", "left", "excess", "broken")


def record(stem: Path, seed: int, only: str | None, totals: Mapping[str, Totals], seconds: float) -> None:
    """Append a run to STEM.json, and rewrite STEM.md."""
    path = stem.with_suffix(".json")
    try:
        runs: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        stem.parent.mkdir(parents=True, exist_ok=True)
        runs.append(run_record(seed, only, totals, seconds))
        path.write_text(json.dumps(runs, indent=1) + "\n")
        stem.with_suffix(".md").write_text(markdown(runs))
    except OSError as error:
        fail(f"cannot write results: {error.strerror}", str(path))
    except json.JSONDecodeError as error:
        fail(f"it holds no results: {error.msg}", str(path), error.lineno, error.colno)


def run_record(seed: int, only: str | None, totals: Mapping[str, Totals], seconds: float) -> dict[str, Any]:
    """The record of a run."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "triton_linear": __version__,
        "triton": triton_versions.found(),
        "python": platform.python_version(),
        "seed": seed,
        "only": only,
        "seconds": round(seconds, 1),
        "targets": {target: as_data(found) for target, found in totals.items()},
    }


def as_data(totals: Totals) -> dict[str, Any]:
    """The totals as data for JSON."""
    found = {f.name: getattr(totals, f.name) for f in dataclasses.fields(totals)}
    failures = [
        {"kind": f.kind, "message": f.message, "program": json.loads(as_json(f.program))}
        for f in totals.failures
    ]
    return {**found, "failures": failures}


def markdown(runs: Sequence[Mapping[str, Any]]) -> str:
    """A readable summary of all runs."""
    by_target: dict[str, Counter[str]] = {}
    kinds: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    stock: Counter[str] = Counter()
    failures: list[str] = []
    for run in runs:
        for target, found in run["targets"].items():
            by_target.setdefault(target, Counter()).update({name: found[name] for name in _FIGURES})
            kinds.update(found["kinds"])
            steps.update(found["steps"])
            stock.update(found["stock"])
            failures += [
                f"{target}, seed {run['seed']}: {f['kind']}: {f['message'][:300]}" for f in found["failures"]
            ]
    whole: Counter[str] = Counter()
    for counts in by_target.values():
        whole.update(counts)
    seconds = sum(run["seconds"] for run in runs)
    versions = sorted(
        {f"triton-linear {r['triton_linear']}, Triton {r['triton']}, Python {r['python']}" for r in runs}
    )
    dates = sorted({run["date"] for run in runs})
    lines = [
        f"{whole['conversions']} random conversions through Triton's backend and the interpreter, "
        f"{whole['programs']} programs of several among them: {len(failures)} failures. "
        f"{'; '.join(versions)}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; "
        f"{seconds:.0f} s in {len(runs)} runs.",
        "",
        "`wrong`: of a conversion or program, a register is; `left`: to Triton; `excess`: accesses of shared",
        "memory above the minimum of wavefronts; `broken`: a process crashed, hung or refused.",
        "",
        f"| target | {' | '.join(_FIGURES)} |",
        f"| --- |{' ---: |' * len(_FIGURES)}",
    ]
    for target, counts in (*by_target.items(), ("all", whole)):
        lines.append(f"| {target} | {' | '.join(str(counts[name]) for name in _FIGURES)} |")
    lines += ["", "| lowering | conversions |", "| --- | ---: |"]
    lines += [f"| {kind} | {count} |" for kind, count in sorted(kinds.items())]
    if steps:
        lines += ["", "| step of programs | times |", "| --- | ---: |"]
        lines += [f"| {step} | {count} |" for step, count in sorted(steps.items())]
    lines += [
        "",
        "`assembled`: conversions of the modules that were taken on to PTX or hsaco, where that was counted.",
        "",
        "| seed | of | targets | conversions | assembled | seconds |",
        "| ---: | --- | --- | ---: | ---: | ---: |",
    ]
    for run in runs:
        count = sum(found["conversions"] for found in run["targets"].values())
        targets = ", ".join(run["targets"])
        counted = [found.get("assembled_conversions") for found in run["targets"].values()]
        assembled = "" if None in counted else str(sum(counted))
        lines.append(
            f"| {run['seed']} | {run['only'] or 'both'} | {targets} | {count} | {assembled} "
            f"| {run['seconds']:.0f} |"
        )
    if stock:
        lines += [
            "",
            "Modules that fail with stock Triton alone too, or cannot be interpreted. Programs among them",
            "are counted, their conversions are not; where only assembly fails, the code before it was run:",
            "",
        ]
        lines += [f"- {count}: `{reason}`" for reason, count in stock.most_common()]
    if failures:
        lines += ["", "Failed:", ""]
        lines += [f"- {failure}" for failure in failures]
    return "\n".join(lines) + "\n"
