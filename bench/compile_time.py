"""What the plugin adds to the compile time of the example kernels.

Each sample is a process of its own with an empty cache: it compiles a small kernel first, which pays for
imports, and then the kernel in question once, so nothing that this package or Triton remembers of that kernel
helps. Stock and plugin samples alternate. Times count ptxas and other children; the table gives the least of
the samples, as a machine that others use only ever adds to them, and the overhead by the clock and by processor
time. Samples "known" find on disk what an earlier process has found out of the kernel, as where Triton's own
cache has been emptied of it.

Beside the examples are a matmul in fp8 whose operands lie by rows, a kernel with nothing to do, and eight
kernels that are compiled at once, each in a thread.

What the first compile of a process takes beyond that of stock Triton is processor time. It is mostly imports,
so it is measured, like `import triton_linear` alone, with the bytecode of every module at hand, as where the
package is installed: without, Python would compile all sources each time.

The picture, where matplotlib is installed, has the phases by kernel.

    python -m bench.compile_time [--targets cuda:90 hip:gfx942] [--only REGEX] [--samples 9] [--output FOLDER]
"""

from __future__ import annotations

import functools
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import triton
import triton.language as tl

from bench.harness.cases import say
from bench.harness.child import Child, empty_cache, told
from bench.harness.options import Parser
from bench.harness.plot import available, picture
from bench.harness.report import page, table
from bench.harness.results import publish
from bench.harness.turns import in_turns
from triton_linear.dialect.store import FOLDER
from triton_linear.examples import specs
from triton_linear.examples.spec import KernelSpec, gpu_target

THREADS = 8
TOGETHER = "eight at once"
"""So many kernels in as many threads."""
KNOWN = "known"
MODES = ("stock", "plugin", KNOWN)
PHASES = {
    "to MLIR": "to MLIR",
    "passes": "passes",
    "embed": "code put in",
    "to Triton": "to Triton",
    "stock": "Triton's stage",
    "assemble again": "assembled again",
}
"""Phases of a report that have a column, and how the table calls them."""
PLANNING = "planning"
"""What the passes take to plan conversions; a part of each pass that does."""
SHOWN = (*(phase for phase in PHASES if phase != "stock"), "compare")
"""Phases that the picture shows: what the plugin does, and what is compiled or assembled again for it."""


@triton.jit
def warm_up(source, destination, SIZE: tl.constexpr):
    """Sums rows: small, and with a conversion, so that everything a compile needs gets imported."""
    index = tl.arange(0, SIZE)
    tile = tl.load(source + index[:, None] * SIZE + index[None, :])
    tl.store(destination + index, tl.sum(tile, 1))


WARM_UP = KernelSpec(
    "warm_up", warm_up, {"source": "*fp32", "destination": "*fp32"}, {"SIZE": 32}, ("source", "destination")
)


@triton.jit
def added(source, destination, SIZE: tl.constexpr):
    """Adds one: the plugin has nothing to do."""
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(destination + index, tl.load(source + index) + 1)


NOTHING = KernelSpec(
    "nothing to do",
    added,
    {"source": "*fp32", "destination": "*fp32"},
    {"SIZE": 1024},
    ("source", "destination"),
)


def subjects(target: str) -> list[KernelSpec]:
    """The kernels that are compiled for a target."""
    gpu = gpu_target(target)
    found = specs(gpu)
    (matmul,) = (spec for spec in found if spec.name == "matmul")
    element = {"cuda": "fp8e4nv", "hip": "fp8e4b8"}[gpu.backend]
    signature = {**matmul.signature, "a_ptr": f"*{element}", "b_ptr": f"*{element}"}
    return [*found, replace(matmul, name="fp8_matmul", signature=signature), NOTHING]


def processor_time() -> float:
    """Seconds of processors that this process and its children have used."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(spec: KernelSpec, target: str) -> tuple[float, float]:
    """Seconds that one compile takes, from Triton's AST pass to the binary: by the clock, of processors."""
    start, used = time.perf_counter(), processor_time()
    triton.compile(spec.source(), target=gpu_target(target), options=dict(spec.options))
    return time.perf_counter() - start, processor_time() - used


def timed_together(target: str) -> tuple[float, float]:
    """The same of `THREADS` kernels, each compiled in a thread of its own."""
    together = [spec for spec in subjects(target) if spec is not NOTHING][:THREADS]
    start, used = time.perf_counter(), processor_time()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(timed, together, [target] * THREADS))
    return time.perf_counter() - start, processor_time() - used


def sample(mode: str, kernel: str, target: str, bytecode: str, kept: str) -> dict[str, Any]:
    """One sample, in this process, which keeps the bytecode of what it imports in a folder; what the plugin
    keeps goes to the folder `kept` if that is empty, and comes from there in the mode for it."""
    sys.dont_write_bytecode, sys.pycache_prefix = False, bytecode
    own = Path(triton.knobs.cache.dir, FOLDER)
    if mode == KNOWN:
        shutil.copytree(kept, own)
    used = processor_time()
    reports: list[Any] = []
    if mode != "stock":
        import triton_linear

        triton_linear.install(strict=True, on_report=reports.append)
    timed(WARM_UP, target)
    first = processor_time() - used
    passes = passes_timed() if mode == "plugin" else {}
    if kernel == TOGETHER:
        seconds, processor = timed_together(target)
    else:
        (spec,) = (spec for spec in subjects(target) if spec.name == kernel)
        seconds, processor = timed(spec, target)
    result: dict[str, Any] = {"seconds": seconds, "processor": processor, "first": first}
    if mode == "plugin" and not os.listdir(kept) and own.exists():
        shutil.copytree(own, kept, dirs_exist_ok=True)
    if mode != "stock":
        result["phases"] = dict(reports[-1].seconds)
        result["conversions"] = reports[-1].seen
        result["ours"] = reports[-1].emitted
        result["passes"] = dict(passes)
    return result


def passes_timed() -> Mapping[str, float]:
    """Seconds that each pass takes from now on, by its name, and the planning of conversions."""
    from triton_linear.lowering.planners import select
    from triton_linear.passes import pipeline

    spent, run, plan = Counter[str](), pipeline.run_passes, select._moving_plans

    def run_timed(*arguments: Any, **named: Any) -> Any:
        found = run(*arguments, **named)
        spent.update(dict(found.seconds))
        return found

    def plan_timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        found = plan(*arguments)
        spent[PLANNING] += time.perf_counter() - start
        return found

    pipeline.run_passes, select._moving_plans = run_timed, plan_timed
    return spent


def fresh_sample(mode: str, kernel: str, target: str, bytecode: str, kept: str) -> dict[str, Any]:
    """One sample, in a process and with a cache of its own."""
    child = Child(patience=600.0)
    try:
        with empty_cache():
            found: dict[str, Any] = child.ask(told, sample, mode, kernel, target, bytecode, kept)
    finally:
        child.close()
    return found


def measure(kernel: str, target: str, samples: int, bytecode: str) -> dict[str, Any]:
    """The row of one kernel: the least of each mode, and of each of the plugin's phases."""
    with tempfile.TemporaryDirectory() as kept:
        taken = in_turns(
            {mode: functools.partial(fresh_sample, mode, kernel, target, bytecode, kept) for mode in MODES},
            samples,
        )

    def least(what: str) -> dict[str, float]:
        return {mode: min(one[what] for one in taken[mode]) for mode in MODES}

    def parts(what: str) -> dict[str, float]:
        """The least milliseconds of each part of the plugin's compile."""
        named = dict.fromkeys(part for one in taken["plugin"] for part in one[what])
        return {
            part: 1e3 * min(one[what][part] for one in taken["plugin"] if part in one[what]) for part in named
        }

    seconds, processor, first = least("seconds"), least("processor"), least("first")
    return {
        "kernel": kernel,
        "target": target,
        "conversions": taken["plugin"][0]["conversions"],
        "ours": taken["plugin"][0]["ours"],
        "stock_ms": 1e3 * seconds["stock"],
        "plugin_ms": 1e3 * seconds["plugin"],
        "overhead_percent": 100 * (seconds["plugin"] / seconds["stock"] - 1),
        "known_overhead_percent": 100 * (seconds[KNOWN] / seconds["stock"] - 1),
        "processor_added_ms": 1e3 * (processor["plugin"] - processor["stock"]),
        "processor_overhead_percent": 100 * (processor["plugin"] / processor["stock"] - 1),
        "known_processor_overhead_percent": 100 * (processor[KNOWN] / processor["stock"] - 1),
        "first_compile_extra_ms": 1e3 * (first["plugin"] - first["stock"]),
        "known_first_compile_extra_ms": 1e3 * (first[KNOWN] - first["stock"]),
        "phases_ms": parts("phases"),
        "passes_ms": parts("passes"),
        "samples": {mode: [1e3 * one["seconds"] for one in taken[mode]] for mode in MODES},
    }


def overheads(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """By target, what the plugin adds in processor time to new kernels and to known ones: median and worst.

    A kernel with nothing to do is not among them.
    """
    found = []
    for target in dict.fromkeys(row["target"] for row in rows):
        cells = []
        for key in ("processor_overhead_percent", "known_processor_overhead_percent"):
            added = [row[key] for row in rows if row["target"] == target and row["kernel"] != NOTHING.name]
            cells += [f"{statistics.median(added):+.1f} %", f"{max(added):+.1f} %"] if added else ["", ""]
        found.append((target, *cells))
    return found


def markdown(result: dict[str, Any]) -> str:
    """The table for people."""
    alone = [row for row in result["rows"] if row["kernel"] != TOGETHER]
    rows = [
        (
            row["target"],
            row["kernel"],
            row["conversions"],
            f"{row['stock_ms']:.0f}",
            f"{row['plugin_ms']:.0f}",
            f"{row['overhead_percent']:+.1f} %",
            f"{row['processor_added_ms']:+.0f}",
            f"{row['processor_overhead_percent']:+.1f} %",
            f"{row['known_processor_overhead_percent']:+.1f} %",
        )
        for row in alone
    ]
    phases = [
        (
            row["target"],
            row["kernel"],
            *(f"{row['phases_ms'].get(phase, 0.0):.0f}" for phase in PHASES),
        )
        for row in alone
    ]
    totals = {target: Counter[str]() for target in dict.fromkeys(row["target"] for row in alone)}
    for row in alone:
        totals[row["target"]].update(row["passes_ms"])
    named = dict.fromkeys(part for total in totals.values() for part, _ in total.most_common())
    passes = [(part, *(f"{total[part]:.1f}" for total in totals.values())) for part in named]
    extra = statistics.median(row["first_compile_extra_ms"] for row in result["rows"])
    known = statistics.median(row["known_first_compile_extra_ms"] for row in result["rows"])
    together = [
        f"{THREADS} kernels in as many threads take {row['overhead_percent']:+.1f} % by the clock on "
        f"{row['target']}, known {row['known_overhead_percent']:+.1f} %."
        for row in result["rows"]
        if row["kernel"] == TOGETHER
    ]
    return page(
        f"Compile time, Triton {result['triton']}, Python {result['python']}, {result['date']}: least of "
        f"{result['samples']}, milliseconds from the AST to the binary.",
        "",
        *table(
            "target | kernel | conversions: | stock: | with the plugin: | overhead: | ms of processors: "
            "| in processor time: | known:",
            rows,
        ),
        "",
        *table("target | median: | worst: | known, median: | worst:", overheads(alone)),
        "",
        *together,
        "",
        "Known is processor time where an earlier process has left on disk what it found out.",
        "",
        "What the plugin does in them, and Triton's own stage from TTGIR to LLVM IR with what it is given:",
        "",
        *table("target | kernel | " + " | ".join(f"{name}:" for name in PHASES.values()), phases),
        "",
        "The passes of all these kernels together, and what of that is the planning of conversions:",
        "",
        *table("part | " + " | ".join(f"{target}:" for target in totals), passes),
        "",
        f"A process's first compile takes {extra:.0f} ms of processor time longer: it imports the passes and "
        f"the MLIR bindings; where the kernel is known, {known:.0f} ms. `import triton_linear` takes "
        f"{result['import_ms']:.1f} ms.",
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """What the plugin adds to each compile in percent of stock Triton's time, its phases apart: the picture.

    The rest is what Triton's stages and the assembler take longer, or less long, for our code.
    """
    rows = [row for row in result["rows"] if row["kernel"] != TOGETHER]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    height = 1 + 0.3 * max(sum(row["target"] == target for row in rows) for target in targets)
    with picture(path, (11, height), 1, len(targets), squeeze=False, saved={"metadata": {"Date": None}}) as (
        _,
        axes,
    ):
        for axis, target in zip(axes[0], targets, strict=True):
            mine = [row for row in rows if row["target"] == target]
            done = [0.0] * len(mine)
            for phase in SHOWN:
                parts = [100 * row["phases_ms"].get(phase, 0.0) / row["stock_ms"] for row in mine]
                axis.barh(range(len(mine)), parts, left=done, label=PHASES.get(phase, phase), height=0.6)
                done = [before + part for before, part in zip(done, parts, strict=True)]
            for key, mark, label in (
                ("overhead_percent", "k|", "in all, by the clock"),
                ("processor_overhead_percent", "k.", "in processor time"),
                ("known_processor_overhead_percent", "kx", "the same, known"),
            ):
                axis.plot([row[key] for row in mine], range(len(mine)), mark, label=label)
            axis.axvline(0, color="0.3", linewidth=0.8)
            axis.set_yticks(range(len(mine)), [row["kernel"] for row in mine], fontsize=8)
            axis.invert_yaxis()
            axis.set_title(target)
            axis.set_xlabel("percent of stock Triton's compile")
            axis.grid(axis="x", linewidth=0.3)
        axes[0][-1].legend(fontsize=7)


_IMPORT = "import time; a = time.process_time(); import triton_linear; print(time.process_time() - a)"


def import_time(samples: int, bytecode: str) -> float:
    """Seconds of processor time that `import triton_linear` takes, the least of several processes."""
    settings = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
    command = [sys.executable, "-c", _IMPORT]
    return min(
        float(subprocess.run(command, env=os.environ | settings, stdout=subprocess.PIPE, check=True).stdout)
        for _ in range(samples + 1)  # the first may write the bytecode
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("compile_time", __doc__).output().only("kernels")
    parser.add_argument("--targets", nargs="+", default=["cuda:90", "hip:gfx942"])
    parser.add_argument("--samples", type=int, default=9)
    options = parser.parse_args(argv)
    rows = []
    with tempfile.TemporaryDirectory() as bytecode:
        import_ms = 1e3 * import_time(options.samples, bytecode)
        for target in options.targets:
            with tempfile.TemporaryDirectory() as kept:
                fresh_sample("plugin", subjects(target)[0].name, target, bytecode, kept)  # which writes it
            names = (*(spec.name for spec in subjects(target)), TOGETHER)
            for name in (name for name in names if re.search(options.only, name)):
                rows.append(measure(name, target, options.samples, bytecode))
                say(f"{target} {name}: {rows[-1]['overhead_percent']:+.1f} %")
    facts = {"samples": options.samples, "import_ms": import_ms, "rows": rows}
    publish(options.output, "compile_time", markdown, **facts)
    if available():
        plot(facts, options.output / "compile_time.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
