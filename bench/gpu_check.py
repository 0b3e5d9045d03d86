"""Runs the examples and one hundred single conversions on a GPU with and without the plugin.

Results have to be the same bit for bit; those of examples, whose sums may add in another order, within the
tolerance of each.

    python bench/gpu_check.py [--dry cuda:90] [--if-present] [--output bench/results]

The results go to gpu_check.json, a summary to gpu_check.md and the standard output. A check that crashes or
hangs costs its own process alone. The exit status is 1 unless every check passed. `--dry` compiles for a
target without launching anything; `--if-present` does nothing on a machine without an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import triton
import triton_linear
from gpu_worker import checks
from triton_linear.examples import EXAMPLES
from triton_linear.examples.compare import gpu_name

PATIENCE = 120.0  # Seconds without a result after which a worker counts as hung.
PASSES = ("identical", "within tolerance", "verified")


def worker(first: int, dry: str | None, cache: str) -> Iterator[dict[str, Any]]:
    """The results of one worker, in order, until it ends, dies or hangs."""
    command = [sys.executable, str(Path(__file__).with_name("gpu_worker.py")), str(first)]
    command += ["--dry", dry] if dry else []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TRITON_CACHE_DIR": cache}
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while (line := lines.get(timeout=PATIENCE)) is not None:
            if line.startswith("{"):
                yield json.loads(line)
    except queue.Empty:
        print(f"worker hung for {PATIENCE:.0f} s and was ended", file=sys.stderr)
    finally:
        process.kill()
        process.wait()


def run(dry: str | None) -> list[dict[str, Any]]:
    """Every check's result; a check whose worker died is an error."""
    names = [check.name for check in checks()]
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        while len(results) < len(names):
            before = len(results)
            for result in worker(before, dry, cache):
                results.append(result)
                if result["outcome"] not in PASSES:
                    print(f"{result['name']}: {result['outcome']} {result['errors']}", file=sys.stderr)
            lost = len(results)
            if lost < len(names) and (lost == before or results[-1]["outcome"] != "error"):
                results.append(
                    {
                        "index": lost,
                        "name": names[lost],
                        "group": "example" if lost < len(EXAMPLES) else "conversion",
                        "outcome": "error",
                        "errors": ["the process crashed or hung"],
                        "plans": [],
                    }
                )
    return results


def summary(report: dict[str, Any]) -> str:
    """The outcomes in two tables."""
    results = report["results"]
    conversions = [result for result in results if result["group"] == "conversion"]
    passed = sum(result["outcome"] in PASSES for result in results)
    lines = [
        f"{report['device']}, Triton {report['triton']}, triton-linear {report['triton_linear']}, "
        f"{report['date']}: {passed} of {len(results)} checks passed.",
        "",
        "| example | conversions by plan | outcome | stock ms | with the plugin ms | stock / plugin |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for result in results:
        if result["group"] == "example":
            times = result.get("milliseconds")
            cells = [f"{times['stock']:.4f}", f"{times['plugin']:.4f}"] if times else ["", ""]
            ratio = f"{result['stock_over_plugin']:.3f}" if times else ""
            plans = ", ".join(f"{n} {plan}" for plan, n in collections.Counter(result["plans"]).items())
            lines.append(
                f"| {result['name']} | {plans} | {result['outcome']} | {cells[0]} | {cells[1]} | {ratio} |"
            )
    lines += ["", "| single conversions, by plan | checks | passed |", "| --- | ---: | ---: |"]
    groups: dict[str, list[bool]] = collections.defaultdict(list)
    for result in conversions:
        plan = ", ".join(sorted(set(result["plans"]))) or "none"
        groups[plan].append(result["outcome"] in PASSES)
    lines += [f"| {plan} | {len(oks)} | {sum(oks)} |" for plan, oks in sorted(groups.items())]
    failed = [result for result in results if result["outcome"] not in PASSES]
    if failed:
        lines += ["", "Failed:", ""]
        lines += [
            f"- {result['name']}: {result['outcome']} {'; '.join(result['errors'])[:300]}" for result in failed
        ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry", metavar="TARGET", help="compile for TARGET, launch nothing")
    parser.add_argument("--if-present", action="store_true", help="do nothing if there is no GPU")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(argv)
    device = f"compiled for {options.dry}" if options.dry else gpu_name()
    if device is None:
        print("gpu_check: no NVIDIA GPU (with PyTorch) here")
        return 0 if options.if_present else 1
    start = time.perf_counter()
    results = run(options.dry)
    report = {
        "device": device,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "triton": triton.__version__,
        "triton_linear": triton_linear.__version__,
        "python": platform.python_version(),
        "seconds": round(time.perf_counter() - start, 1),
        "results": results,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    stem = "gpu_check_dry" if options.dry else "gpu_check"
    (options.output / f"{stem}.json").write_text(json.dumps(report, indent=1) + "\n")
    table = summary(report)
    (options.output / f"{stem}.md").write_text(table)
    print(table, end="")
    return int(any(result["outcome"] not in PASSES for result in results))


if __name__ == "__main__":
    sys.exit(main())
