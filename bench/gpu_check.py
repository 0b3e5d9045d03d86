"""Runs the examples and one hundred single conversions on a GPU with and without the plugin.

Results have to be the same bit for bit; those of examples, whose sums may add in another order, within the
tolerance of each.

    python bench/gpu_check.py [--dry cuda:90] [--if-present] [--jobs N] [--output FOLDER]

The results go to gpu_check.json, a summary to gpu_check.md and the standard output. A check that crashes or
hangs costs its own process alone. The exit status is 1 unless every check passed. `--dry` compiles for a
target without launching anything; `--if-present` does nothing on a machine without an NVIDIA GPU.
"""

from __future__ import annotations

import collections
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # This file is run by its name.

from bench import gpu_worker
from bench.harness import results
from bench.harness.cases import say
from bench.harness.child import empty_cache, scatter
from bench.harness.options import Parser
from bench.harness.report import counted, listed, measured_on, number, page, table
from triton_linear.examples.compare import gpu_name

PASSES = ("identical", "within tolerance", "verified")


def run(dry: str | None, jobs: int) -> list[dict[str, Any]]:
    """Every check's result; a check whose process died is an error.

    Examples are timed, so each runs alone; conversions run in `jobs` processes.
    """
    checks = list(gpu_worker.checks())
    found: dict[int, dict[str, Any]] = {}

    def done(index: int, outcome: dict[str, Any]) -> None:
        if "outcome" not in outcome:
            outcome = {"outcome": "error", "errors": [outcome["error"]], "plans": []}
        check = checks[index]
        found[index] = {"index": index, "name": check.name, **check.facts, **outcome}
        if outcome["outcome"] not in PASSES:
            say(f"{check.name}: {outcome['outcome']} {outcome['errors']}")

    timed = [index for index, check in enumerate(checks) if check.facts["group"] == "example"]
    others = [index for index in range(len(checks)) if index not in timed]
    with empty_cache():
        for indices, processes in ((timed, 1), (others, jobs)):
            scatter(
                gpu_worker.run,
                [(index, dry) for index in indices],
                processes,
                lambda place, outcome, indices=indices: done(indices[place], outcome),
            )
    return [found[index] for index in sorted(found)]


def summary(report: dict[str, Any]) -> str:
    """The outcomes in two tables."""
    found = report["results"]
    examples = []
    for result in found:
        if result["group"] == "example":
            times = result.get("milliseconds", {})
            cells = [number(times.get(mode), 4) for mode in ("stock", "plugin")]
            plans = counted(collections.Counter(result["plans"]))
            ratio = number(result.get("stock_over_plugin"), 3)
            examples.append((result["name"], plans, result["outcome"], *cells, ratio))
    groups: dict[str, list[bool]] = collections.defaultdict(list)
    for result in found:
        if result["group"] == "conversion":
            plan = ", ".join(sorted(set(result["plans"]))) or "none"
            groups[plan].append(result["outcome"] in PASSES)
    failed = [result for result in found if result["outcome"] not in PASSES]
    return page(
        f"{measured_on(report)}: {len(found) - len(failed)} of {len(found)} checks passed.",
        "",
        *table(
            "example | conversions by plan | outcome | stock ms: | with the plugin ms: | stock / plugin:",
            examples,
        ),
        "",
        *table(
            "single conversions, by plan | checks: | passed:",
            ((plan, len(oks), sum(oks)) for plan, oks in sorted(groups.items())),
        ),
        *listed("Failed:", (f"{r['name']}: {r['outcome']} {'; '.join(r['errors'])[:300]}" for r in failed)),
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("gpu_check", __doc__).dry().output().workers("--jobs")
    parser.add_argument("--if-present", action="store_true", help="do nothing if there is no GPU")
    options = parser.parse_args(argv)
    device = f"compiled for {options.dry}" if options.dry else gpu_name()
    if device is None:
        print("gpu_check: no NVIDIA GPU (with PyTorch) here")
        return 0 if options.if_present else 1
    start = time.perf_counter()
    found = run(options.dry, options.jobs)
    report = {
        "device": device,
        **results.versions(),
        "python": platform.python_version(),
        "seconds": round(time.perf_counter() - start, 1),
        "results": found,
    }
    stem = "gpu_check_dry" if options.dry else "gpu_check"
    print(results.save(options.output, stem, summary, report), end="")
    return int(any(result["outcome"] not in PASSES for result in found))


if __name__ == "__main__":
    sys.exit(main())
