"""What the plugin adds to the compile time of the example kernels.

Each sample is a process of its own with an empty cache: it compiles a small kernel first, which pays for
imports, and then the kernel in question once, so nothing that this package or Triton remembers of that kernel
helps. Stock and plugin samples alternate. Times count ptxas and other children; the table gives the least of
the samples, as a machine that others use only ever adds to them, and the overhead by the clock and by processor
time.

    python -m bench.compile_time [--targets cuda:90 hip:gfx942] [--samples 9] [--output FOLDER]
"""

from __future__ import annotations

import functools
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from bench.harness.cases import say
from bench.harness.child import Child, empty_cache, told
from bench.harness.options import Parser
from bench.harness.report import page, table
from bench.harness.results import publish
from bench.harness.turns import in_turns
from triton_linear.examples import specs
from triton_linear.examples.spec import KernelSpec, gpu_target

MODES = ("stock", "plugin")
PHASES = {
    "to MLIR": "to MLIR",
    "passes": "passes",
    "embed": "code put in",
    "to Triton": "to Triton",
    "stock": "Triton's stage",
    "assemble again": "assembled again",
}
"""Phases of a report that have a column, and how the table calls them."""


@triton.jit
def warm_up(source, destination, SIZE: tl.constexpr):
    """Sums rows: small, and with a conversion, so that everything a compile needs gets imported."""
    index = tl.arange(0, SIZE)
    tile = tl.load(source + index[:, None] * SIZE + index[None, :])
    tl.store(destination + index, tl.sum(tile, 1))


WARM_UP = KernelSpec(
    "warm_up", warm_up, {"source": "*fp32", "destination": "*fp32"}, {"SIZE": 32}, ("source", "destination")
)


def processor_time() -> float:
    """Seconds of processors that this process and its children have used."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(spec: KernelSpec, target: str) -> tuple[float, float]:
    """Seconds that one compile takes, from Triton's AST pass to the binary: by the clock, of processors."""
    start, used = time.perf_counter(), processor_time()
    triton.compile(spec.source(), target=gpu_target(target), options=dict(spec.options))
    return time.perf_counter() - start, processor_time() - used


def sample(mode: str, kernel: str, target: str) -> dict[str, Any]:
    """One sample, in this process."""
    (spec,) = (spec for spec in specs(gpu_target(target)) if spec.name == kernel)
    start = time.perf_counter()
    reports: list[Any] = []
    if mode == "plugin":
        import triton_linear

        triton_linear.install(strict=True, on_report=reports.append)
    timed(WARM_UP, target)
    first = time.perf_counter() - start
    seconds, processor = timed(spec, target)
    result: dict[str, Any] = {"first": first, "seconds": seconds, "processor": processor}
    if mode == "plugin":
        result["phases"] = dict(reports[-1].seconds)
        result["conversions"] = reports[-1].seen
        result["ours"] = reports[-1].emitted
    return result


def fresh_sample(mode: str, kernel: str, target: str) -> dict[str, Any]:
    """One sample, in a process and with a cache of its own."""
    child = Child(patience=600.0)
    try:
        with empty_cache():
            found: dict[str, Any] = child.ask(told, sample, mode, kernel, target)
    finally:
        child.close()
    return found


def measure(kernel: str, target: str, samples: int) -> dict[str, Any]:
    """The row of one kernel: the least of each mode, and of each of the plugin's phases."""
    taken = in_turns({mode: functools.partial(fresh_sample, mode, kernel, target) for mode in MODES}, samples)

    def least(what: str) -> dict[str, float]:
        return {mode: min(one[what] for one in taken[mode]) for mode in MODES}

    seconds, processor, first = least("seconds"), least("processor"), least("first")
    phases = {
        phase: min(one["phases"][phase] for one in taken["plugin"] if phase in one["phases"])
        for phase in dict.fromkeys(phase for one in taken["plugin"] for phase in one["phases"])
    }
    return {
        "kernel": kernel,
        "target": target,
        "conversions": taken["plugin"][0]["conversions"],
        "ours": taken["plugin"][0]["ours"],
        "stock_ms": 1e3 * seconds["stock"],
        "plugin_ms": 1e3 * seconds["plugin"],
        "overhead_percent": 100 * (seconds["plugin"] / seconds["stock"] - 1),
        "processor_overhead_percent": 100 * (processor["plugin"] / processor["stock"] - 1),
        "first_compile_extra_ms": 1e3 * (first["plugin"] - first["stock"]),
        "phases_ms": {phase: 1e3 * seconds for phase, seconds in phases.items()},
        "samples": {mode: [1e3 * one["seconds"] for one in taken[mode]] for mode in MODES},
    }


def markdown(result: dict[str, Any]) -> str:
    """The table for people."""
    rows = [
        (
            row["target"],
            row["kernel"],
            row["conversions"],
            f"{row['stock_ms']:.0f}",
            f"{row['plugin_ms']:.0f}",
            f"{row['overhead_percent']:+.1f} %",
            f"{row['processor_overhead_percent']:+.1f} %",
        )
        for row in result["rows"]
    ]
    phases = [
        (
            row["target"],
            row["kernel"],
            *(f"{row['phases_ms'].get(phase, 0.0):.0f}" for phase in PHASES),
        )
        for row in result["rows"]
    ]
    extra = statistics.median(row["first_compile_extra_ms"] for row in result["rows"])
    return page(
        f"Compile time, Triton {result['triton']}, Python {result['python']}, {result['date']}: least of "
        f"{result['samples']}, milliseconds from the AST to the binary.",
        "",
        *table(
            "target | kernel | conversions: | stock: | with the plugin: | overhead: | in processor time:", rows
        ),
        "",
        "What the plugin does in them, and Triton's own stage from TTGIR to LLVM IR with what it is given:",
        "",
        *table("target | kernel | " + " | ".join(f"{name}:" for name in PHASES.values()), phases),
        "",
        f"A process's first compile takes {extra:.0f} ms longer: it imports the MLIR bindings.",
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("compile_time", __doc__).output()
    parser.add_argument("--targets", nargs="+", default=["cuda:90", "hip:gfx942"])
    parser.add_argument("--samples", type=int, default=9)
    options = parser.parse_args(argv)
    rows = []
    for target in options.targets:
        for spec in specs(gpu_target(target)):
            rows.append(measure(spec.name, target, options.samples))
            say(f"{target} {spec.name}: {rows[-1]['overhead_percent']:+.1f} %")
    publish(options.output, "compile_time", markdown, samples=options.samples, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
