"""How long layouts take to be assigned, against the stock compile of the same kernel.

Timed is the pass that `assign` turns on, `linear-assign-layouts`.

Everything happens in one process, after one compile and one run of the pass that pay for imports. The stock
compile goes from the TritonGPU module to the binary, ptxas included; where the module is a kernel of
`bench/kernels` that compiles without a GPU, named CASE-KERNEL, its whole compile is timed as well, from its
Python source. The pass is timed twice: first with nothing remembered of layouts, encodings and plans, as when a
process meets the layouts of a kernel for the first time, and again with all of that in its caches. It plans
conversions that would be planned without it, too; so what it adds is all passes with it less all passes without
it, with nothing remembered. Each time is the best of some rounds.

    python -m bench.assign_time FOLDER_OR_FILE.ttgir... [--rounds 5] [--output FOLDER]
"""

from __future__ import annotations

import functools
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import triton

from bench.harness.cases import say
from bench.harness.options import Parser
from bench.harness.report import number, page, row, table
from bench.harness.results import publish
from bench.kernels.cases import cases
from triton_linear.dialect import bridge, ll
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.target import targets
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import rewrite

TIMES = {"first": "met for the first time", "repeated": "known", "added": "met for the first time, added"}
"""What is timed of the pass, and how the table calls it."""
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
    outcome = run_passes(module, [AssignLayouts()], remarks=False)  # as in a compile
    if not outcome.succeeded:
        raise RuntimeError("\n".join(map(str, outcome.diagnostics)))
    changed = ll.ASSIGNED in module.operation.attributes
    return sum(dict(outcome.seconds).values()), changed


def passes_seconds(text: str, target: str, assign: bool) -> float:
    """Seconds of all passes over a module, with or without the one in question."""
    module = bridge.text_to_upstream(text, bridge.upstream_context())
    start = time.perf_counter()
    rewrite(module, PipelineOptions(assign=assign, reductions=False), targets.target(target), remarks=False)
    return time.perf_counter() - start


@functools.cache
def sources(target: str) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The kernels of the suite that compile without a GPU, by case and kernel, with their options."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for case in cases():
        if case.sources is not None:
            for source, options in case.sources(gpu_target(target)).values():
                found[f"{case.name}-{source.fn.__name__}"] = source, dict(options)
    return found


def whole_seconds(name: str, target: str) -> float | None:
    """Seconds of Triton's own compile from Python on, None if the source is not here."""
    if name not in sources(target):
        return None
    source, options = sources(target)[name]
    start = time.perf_counter()
    triton.compile(source, target=gpu_target(target), options=options)
    return time.perf_counter() - start


def target_of(text: str) -> str:
    """The target that a module names."""
    return text.split('ttg.target = "', 1)[1].split('"', 1)[0]


def measure(path: Path, rounds: int) -> dict[str, Any]:
    """The row of one module, in milliseconds."""
    text = path.read_text()
    target = target_of(text)
    times: dict[str, list[float]] = {name: [] for name in ("stock", "whole", "first", "with", "without")}
    changed = False
    for _ in range(rounds):
        times["stock"].append(compile_seconds(path, target))
        if (whole := whole_seconds(path.stem, target)) is not None:
            times["whole"].append(whole)
        forget()
        seconds, changed = pass_seconds(text)
        times["first"].append(seconds)
        for name, assign in (("with", True), ("without", False)):
            forget()
            times[name].append(passes_seconds(text, target, assign))
    pass_seconds(text)
    times["repeated"] = [pass_seconds(text)[0] for _ in range(rounds)]
    best = {name: 1e3 * min(seconds) for name, seconds in times.items() if seconds}
    best["added"] = best.pop("with") - best.pop("without")
    row: dict[str, Any] = {"module": path.stem, "target": target, "changed": changed}
    row |= {f"{name}_ms": milliseconds for name, milliseconds in best.items()}
    for name in TIMES:
        row[f"{name}_percent"] = 100 * best[name] / best["stock"]
        if "whole" in best:
            row[f"{name}_percent_of_whole"] = 100 * best[name] / best["whole"]
    return row


def markdown(result: dict[str, Any]) -> str:
    """The table for people."""
    rows = result["rows"]
    wholes = [each for each in rows if "whole_ms" in each]

    def both(some: Sequence[dict[str, Any]], key: str, unit: str = " %") -> list[str]:
        values = [each[key] for each in some]
        return [f"{statistics.median(values):.1f}{unit}", f"{max(values):.1f}{unit}"]

    totals = []
    for name, title in TIMES.items():
        much = sum(each[f"{name}_percent"] > MUCH for each in rows)
        cells = [title, *both(rows, f"{name}_percent"), *both(rows, f"{name}_ms", ""), much]
        if wholes:
            cells += [*both(wholes, f"{name}_percent"), *both(wholes, f"{name}_percent_of_whole")]
        totals.append(cells)
    slow = []
    for each in sorted(rows, key=lambda each: -each["first_percent"]):
        if each["first_percent"] > MUCH:
            pairs = [(f"{each[f'{name}_ms']:.1f}", f"{each[f'{name}_percent']:.1f} %") for name in TIMES]
            share = f"{each['first_percent_of_whole']:.1f} %" if "whole_ms" in each else ""
            head = (each["module"], f"{each['stock_ms']:.0f}", number(each.get("whole_ms"), 0))
            slow.append(row(*head, *pairs[0], share, *pairs[1], *pairs[2]))
    return page(
        f"Time of `linear-assign-layouts` on {len(rows)} modules, Triton {result['triton']}, Python "
        f"{result['python']}, {result['machine']}, {result['date']}: best of {result['rounds']}, in percent of "
        "the stock compile from the TritonGPU module to the binary; and for the "
        f"{len(wholes)} of them whose source is here, of that and of the whole compile. Added is what all "
        "passes take with it less what they take without it.",
        "",
        *table(
            "layouts and plans | median: | worst: | median ms: | worst ms: | above 5 %: | with source: median: "
            "| worst: | of whole: median: | worst:",
            totals,
        ),
        "",
        "| module | stock ms | whole ms | first ms | | of whole | known ms | | added ms | |",
        "| --- |" + " ---: |" * 9,
        *slow,
    )


def parser(bench: str, doc: str | None, many: str) -> Parser:
    """Modules, and how often each is timed."""
    found = Parser(bench, doc).modules(many).output()
    found.add_argument("--rounds", type=int, default=5)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    options = parser("assign_time", __doc__, "+").parse_args(argv)
    found = list(modules(options.paths))
    with tempfile.TemporaryDirectory() as cache:
        triton.knobs.cache.dir = cache
        triton.knobs.compilation.always_compile = True
        measure(found[-1], 1)
        rows = []
        for path in found:
            rows.append(measure(path, options.rounds))
            say(f"{path.stem}: {rows[-1]['first_percent']:.1f} %")
    publish(options.output, "assign_time", markdown, rounds=options.rounds, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
