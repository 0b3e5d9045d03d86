"""How long `linear-assign-layouts` takes, against the stock compile of the same module.

Everything happens in one process, after one compile and one run of the pass that pay for imports. The stock
compile goes from the TritonGPU module to the binary, ptxas included; a kernel's whole compile is longer, by
what comes before. The pass is timed twice: first with nothing remembered of layouts, encodings and plans, as
when a process meets the layouts of a kernel for the first time, and again with all of that in its caches. Each
time is the best of some rounds.

    python bench/assign_time.py FOLDER_OR_FILE.ttgir... [--rounds 5] [--output bench/results]
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import triton
from triton_linear.dialect import bridge
from triton_linear.examples.spec import gpu_target
from triton_linear.passes import driver
from triton_linear.passes.assign import AssignLayouts

MUCH = 5.0
"""Percent of the stock compile that are worth a line in the table."""


def modules(paths: Sequence[Path]) -> Iterator[Path]:
    """The files given, and those in folders given."""
    for path in paths:
        yield from sorted(path.glob("*.ttgir")) if path.is_dir() else [path]


def forget() -> None:
    """Empty every cache of this package but those that hold one thing, like the release that is installed."""
    for found in gc.get_objects():
        if not isinstance(found, functools._lru_cache_wrapper) or not found.__module__.startswith(
            "triton_linear"
        ):
            continue
        if found.__wrapped__.__code__.co_argcount:
            found.cache_clear()


def compile_seconds(path: Path, target: str) -> float:
    """Seconds of Triton's own compile, from the module to the binary."""
    start = time.perf_counter()
    triton.compile(str(path), target=gpu_target(target))
    return time.perf_counter() - start


def pass_seconds(text: str) -> tuple[float, bool]:
    """Seconds of the pass alone, and whether it changed the module."""
    module = bridge.text_to_upstream(text, bridge.upstream_context())
    outcome = driver.run(module, [AssignLayouts()])
    if not outcome.succeeded:
        raise RuntimeError("\n".join(map(str, outcome.diagnostics)))
    return dict(outcome.seconds)[AssignLayouts.name], "ll.assigned" in module.operation.attributes


def target_of(text: str) -> str:
    """The target that a module names."""
    return text.split('ttg.target = "', 1)[1].split('"', 1)[0]


def measure(path: Path, rounds: int) -> dict[str, Any]:
    """The row of one module, in milliseconds."""
    text = path.read_text()
    target = target_of(text)
    stock, first = [], []
    for _ in range(rounds):
        stock.append(compile_seconds(path, target))
        forget()
        first.append(pass_seconds(text))
    repeated = [pass_seconds(text) for _ in range(rounds)]
    row: dict[str, Any] = {"module": path.stem, "target": target, "changed": first[0][1]}
    row["stock_ms"] = 1e3 * min(stock)
    for name, times in (("first", first), ("repeated", repeated)):
        row[f"{name}_ms"] = 1e3 * min(seconds for seconds, _ in times)
        row[f"{name}_percent"] = 100 * row[f"{name}_ms"] / row["stock_ms"]
    return row


def markdown(result: dict[str, Any]) -> str:
    """The table for people."""
    rows = result["rows"]
    lines = [
        f"Time of `linear-assign-layouts` on {len(rows)} modules, Triton {result['triton']}, Python "
        f"{result['python']}, {result['machine']}, {result['date']}: best of {result['rounds']}, in percent of "
        "the stock compile from the TritonGPU module to the binary.",
        "",
        "| layouts and plans | median | worst | median ms | worst ms | above 5 % |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title in (("first", "met for the first time"), ("repeated", "known")):
        shares = [row[f"{name}_percent"] for row in rows]
        times = [row[f"{name}_ms"] for row in rows]
        lines.append(
            f"| {title} | {statistics.median(shares):.1f} % | {max(shares):.1f} % | "
            f"{statistics.median(times):.1f} | {max(times):.1f} | {sum(share > MUCH for share in shares)} |"
        )
    lines += ["", "| module | stock ms | first ms | | known ms | |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in sorted(rows, key=lambda row: -row["first_percent"]):
        if row["first_percent"] > MUCH:
            first, known = (
                f"{row[f'{n}_ms']:.1f} | {row[f'{n}_percent']:.1f} %" for n in ("first", "repeated")
            )
            lines.append(f"| {row['module']} | {row['stock_ms']:.0f} | {first} | {known} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="FOLDER_OR_FILE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(argv)
    found = list(modules(options.paths))
    with tempfile.TemporaryDirectory() as cache:
        triton.knobs.cache.dir = cache
        triton.knobs.compilation.always_compile = True
        measure(found[-1], 1)
        rows = []
        for path in found:
            rows.append(measure(path, options.rounds))
            print(f"{path.stem}: {rows[-1]['first_percent']:.1f} %", file=sys.stderr, flush=True)
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "triton": triton.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "rounds": options.rounds,
        "rows": rows,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "assign_time.json").write_text(json.dumps(result, indent=2) + "\n")
    table = markdown(result)
    (options.output / "assign_time.md").write_text(table)
    print(table, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
