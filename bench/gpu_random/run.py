"""Compiles random conversions in parallel, runs them, and compares every register of every thread.

    python -m bench.gpu_random [--count 575] [--seed 1] [--clusters 2,4,8 [--beside]] [--dry cuda:90]
                               [--output FOLDER]

A kernel's registers are compared with the other kernel's, and with what the layouts say. Conversions that stock
Triton cannot compile (it crashes, or is ended after some seconds) are counted apart; the plugin's code for them
is compared with the layouts all the same. The results go to gpu_random.json, a summary to gpu_random.md and the
standard output. The exit status is 1 unless all is as it must be. `--dry` compiles for a target without
launching anything, and runs the plugin's code in the interpreter. `--clusters` draws conversions that change
what the CTAs of clusters of these sizes hold instead, in loops, and times them: stock Triton's over the
plugin's, on a GPU full of clusters. The results are in gpu_clusters.json and .md then. With `--beside` a
warp-specialised region follows in each kernel (gpu_clusters_beside.json and .md).
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import triton

import triton_linear
from bench.conversions.build import parameters
from bench.conversions.driver import Kernel, Memory, device, synchronize
from bench.conversions.run import ask_device
from triton_linear.examples.spec import gpu_target
from triton_linear.tools.fuzzing.run import CTAS
from triton_linear.tools.support.compile import compile_text
from triton_linear.tools.support.functions import LOWERING
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify import command as verify

from ..harness import results
from ..harness.cases import chosen
from ..harness.child import Child, empty_cache
from ..harness.options import Parser
from ..harness.progress import progress
from ..harness.report import listed, measured_on, page, table
from .kernels import LANES, LOOP_STEPS, RandomCase, Words, cluster_cases, kernel_text, random_cases

SLOWER = 0.97
"""Ratios below are listed by themselves."""
METHODS = ("stock", "ours")
SECONDS = 8
MEMORY = 6 << 30

_PORTABLE = 8
"""CTAs that a cluster may have without asking."""
STEPS = (200, 4200)
"""Iterations of two launches whose difference is timed: some ten milliseconds."""
TURNS = 5

MODULES = (__name__, "bench.gpu_random.warm")

IDENTICAL = "identical"
VERIFIED = "verified"
NO_STOCK = "right, where stock Triton fails"
NEITHER = "compiled by neither"
STOCK_WRONG = "right, where stock Triton is wrong"
STOCK_CRASHES = "right, where stock Triton's kernel crashes"
FINE = (IDENTICAL, VERIFIED, NO_STOCK, STOCK_WRONG, STOCK_CRASHES)


@dataclass(frozen=True)
class Binary:
    """A compiled kernel, what the plugin did with each conversion, and how long compiling took."""

    cubin: bytes
    name: str
    shared: int
    parameters: int
    plans: tuple[str, ...]
    seconds: float


def build(case: RandomCase, method: str, target: str) -> Binary:
    """Compile one kernel; raises where that fails, and where the plugin would leave the kernel to Triton."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, empty_cache():
        path = Path(folder) / "kernel.ttgir"
        path.write_text(kernel_text(case, target))
        ours = triton_linear.enabled(strict=True, assign=False, occupancy=False)
        with ours if method == "ours" else nullcontext([]) as reports:
            options = {"num_warps": case.warps, "num_ctas": case.ctas}
            kernel = triton.compile(str(path), target=gpu_target(target), options=options)
    plans = [plan for r in reports for plan in (*(c.lowering for c in r.conversions), *["folded"] * r.folded)]
    metadata = kernel.metadata
    return Binary(
        kernel.asm["cubin"],
        metadata.name,
        metadata.shared,
        parameters(kernel.asm["ptx"]),
        tuple(plans),
        time.perf_counter() - begun,
    )


def interpret(case: RandomCase, target: str) -> str:
    """The outcome without a GPU: what the interpreter says of the plugin's code."""
    checked = verify.check(compile_text(kernel_text(case, target), "kernel.ttgir", target, "llvm", LOWERING))
    return VERIFIED if all(conversion.ok for conversion in checked) else "wrong in the interpreter"


def launch(case: RandomCase, binary: Binary) -> Words:
    """What every register holds in the end: [cluster, thread, register]."""
    source, shape = case.source(), case.expected().shape
    threads, registers = shape[0] * shape[1], shape[2]
    sizes = (source.nbytes, 4 * threads, 8 * threads * registers, 4 * threads)
    memory, filled, out, drained = buffers = [Memory(size) for size in sizes]
    memory.write(source.tobytes())
    out.fill(0x55)
    for counters in (filled, drained):
        counters.fill(0)
    kernel = _loaded(case, binary)
    kernel.launch(shape[0] * case.ctas, (*buffers, LOOP_STEPS))
    synchronize()
    for counters, per_thread in ((filled, source.shape[2]), (drained, registers)):
        counts = np.frombuffer(counters.read(4 * threads), np.uint32)
        if (counts != per_thread).any():
            raise RuntimeError(f"threads counted {counts.min()} to {counts.max()} of {per_thread} registers")
    found = np.frombuffer(out.read(8 * threads * registers), np.uint64).reshape(shape)
    kernel.unload()
    for buffer in buffers:
        buffer.free()
    return found


def _loaded(case: RandomCase, binary: Binary) -> Kernel:
    kernel = Kernel(binary.cubin, binary.name, case.all_warps, binary.shared, binary.parameters)
    if case.ctas > _PORTABLE:
        kernel.admit_large_clusters()
    return kernel


def clocked(case: RandomCase, stock: Binary, ours: Binary) -> dict[str, float]:
    """Seconds of an iteration by each method, the least of several, on a GPU full of clusters."""
    kernels = {name: _loaded(case, binary) for name, binary in zip(METHODS, (stock, ours), strict=True)}
    full = min(kernel.resident() for kernel in kernels.values()) * device().multiprocessors
    ctas = max(1, full // case.ctas) * case.ctas
    threads = ctas * case.warps * LANES
    sizes = (8 * case.register_counts[0], 4, 8 * case.register_counts[1], 4)
    buffers = [Memory(size * threads) for size in sizes]
    least: dict[str, float] = {}
    for _ in range(TURNS):
        for name, kernel in kernels.items():
            short, long = (_seconds(kernel, ctas, buffers, steps) for steps in STEPS)
            each = (long - short) / (STEPS[1] - STEPS[0])
            least[name] = min(each, least.get(name, each))
    for buffer in buffers:
        buffer.free()
    for kernel in kernels.values():
        kernel.unload()
    return least


def _seconds(kernel: Kernel, ctas: int, buffers: Sequence[Memory], steps: int) -> float:
    for buffer in buffers:
        buffer.fill(0)
    synchronize()
    begun = time.perf_counter()
    kernel.launch(ctas, (*buffers, steps))
    synchronize()
    return time.perf_counter() - begun


def run(case: RandomCase, stock: Binary | None, ours: Binary) -> str:
    """The outcome on a GPU; `stock` is None where there is none."""
    expected, found = case.expected(), launch(case, ours)
    right = bool((found == expected).all())
    if stock is None:
        return NO_STOCK if right else "wrong"
    other = launch(case, stock)
    if right:
        return IDENTICAL if bool((found == other).all()) else STOCK_WRONG
    return "wrong" if bool((other == expected).all()) else "both are wrong"


def judge(
    case: RandomCase, stock: Binary | Lost, ours: Binary | Lost, execute: Callable[..., str]
) -> dict[str, Any]:
    """The record of one conversion."""
    seconds = {
        method: round(b.seconds, 3)
        for method, b in zip(METHODS, (stock, ours), strict=True)
        if isinstance(b, Binary)
    }
    record: dict[str, Any] = {"name": case.name, "seconds": seconds}
    if isinstance(stock, Lost):
        record["stock"] = re.sub(r"\S+/(?=kernel\.ttgir)", "", stock.reason)  # Its folder differs every time.
    if isinstance(ours, Lost):
        outcome = NEITHER if isinstance(stock, Lost) else "only stock Triton compiles it"
        return record | {"plans": [], "outcome": outcome, "error": ours.reason}
    record["plans"] = list(ours.plans)
    try:
        return record | {"outcome": execute(case, None if isinstance(stock, Lost) else stock, ours)}
    except Exception as error:
        return record | {"outcome": "error", "error": f"{type(error).__name__}: {error}"}


def examine(cases: Sequence[RandomCase], target: str, dry: bool, workers: int) -> dict[str, Any]:
    """The records of all conversions, in order, and how many seconds each step took."""
    clock = [time.perf_counter()]
    work = [(case, method, target) for case in cases for method in METHODS]
    with progress("compile", len(work)) as tick:
        built = Isolation(build, MODULES, SECONDS, MEMORY).map(work, workers, tick)
    clock.append(time.perf_counter())
    execute = interpreted(cases, target, workers) if dry else run_apart
    child = Child()
    with progress("judge" if dry else "run", len(cases)) as tick:
        records = []
        for case, stock, ours in zip(cases, built[::2], built[1::2], strict=True):
            record = judge(case, stock, ours, partial(execute, child))
            if case.ctas > 1 and not dry and record["outcome"] == IDENTICAL:
                record |= timed(child, case, stock, ours)
            records.append(record)
            tick()
    child.close()
    clock.append(time.perf_counter())
    seconds = {"compile": round(clock[1] - clock[0], 1), "run": round(clock[2] - clock[1], 1)}
    return {"seconds": seconds, "workers": workers, "records": records}


def timed(child: Child, case: RandomCase, stock: Any, ours: Any) -> dict[str, Any]:
    """What is added to a record: seconds of an iteration, and stock Triton's over ours."""
    try:
        least = child.ask(clocked, case, stock, ours)
    except Exception as error:
        return {"not timed": f"{type(error).__name__}: {error}"}
    return {"iteration": least, "ratio": least["stock"] / least["ours"]}


def _ratios(records: Sequence[dict[str, Any]]) -> list[str]:
    """What was gained, by sizes of clusters and altogether."""
    groups: dict[str, list[float]] = {}
    for record in records:
        if "ratio" in record:
            size = re.search(r"\d+ CTAs", record["name"])
            for group in ("all", size[0] if size else ""):
                groups.setdefault(group, []).append(record["ratio"])
    if not groups:
        return []
    rows = (
        (group, len(found), f"{geometric_mean(found):.3f}", f"{min(found):.3f}", f"{max(found):.3f}")
        for group, found in sorted(groups.items())
    )
    slower = [f"{r['name']}: {r['ratio']:.3f}" for r in records if r.get("ratio", 1) < SLOWER]
    return [
        "Stock Triton's time over the plugin's:",
        "",
        *table("clusters | conversions: | geometric mean: | least: | most:", rows),
        *listed(f"Below {SLOWER}:", slower),
    ]


def interpreted(cases: Sequence[RandomCase], target: str, workers: int) -> Callable[..., str]:
    """What gives the outcome of each case without a GPU."""
    with progress("interpret", len(cases)) as tick:
        isolation = Isolation(interpret, MODULES, 10 * SECONDS, MEMORY)
        verdicts = isolation.map([(case, target) for case in cases], workers, tick)
    said = {case.index: verdict for case, verdict in zip(cases, verdicts, strict=True)}

    def execute(child: Child, case: RandomCase, stock: Binary | None, ours: Binary) -> str:
        verdict = said[case.index]
        if isinstance(verdict, Lost):
            raise RuntimeError(verdict.reason)
        return NO_STOCK if stock is None and verdict == VERIFIED else verdict

    return execute


def run_apart(child: Child, case: RandomCase, stock: Binary | None, ours: Binary) -> str:
    """`run` in another process.

    A kernel that crashes takes its process along: whose was it? Stock Triton's, if that fails alone and ours
    alone is right.
    """
    try:
        return str(child.ask(run, case, stock, ours))
    except Exception:
        if stock is not None and child.ask(run, case, None, ours) == NO_STOCK:
            try:
                child.ask(launch, case, stock)
            except Exception:
                return STOCK_CRASHES
        raise


def markdown(report: dict[str, Any]) -> str:
    """The report for people."""
    records, seconds = report["records"], report["seconds"]
    outcomes = Counter(record["outcome"] for record in records)
    groups: dict[str, list[bool]] = {}
    for record in records:
        plans = ", ".join(sorted(set(record["plans"]))) or "none"
        groups.setdefault(plans, []).append(record["outcome"] in FINE)
    reasons = Counter(record["stock"] for record in records if "stock" in record)
    wrong = [record["name"] for record in records if record["outcome"] in (STOCK_WRONG, STOCK_CRASHES)]
    failed = [record for record in records if record["outcome"] not in FINE]
    return page(
        f"{measured_on(report)}, seed {report['seed']}: of {len(records)} random conversions "
        + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        + f". {seconds['compile']:.0f} s to compile, {seconds['run']:.0f} s to run.",
        "",
        "Identical: every register of every thread holds the same bits as with stock Triton, and those that",
        "the layouts say, for patterns of bits that tell every element from the others.",
        "",
        *table(
            "plans | conversions: | fine:",
            ((plans, len(fine), sum(fine)) for plans, fine in sorted(groups.items())),
        ),
        *_ratios(records),
        *listed(
            "How stock Triton failed to compile:",
            (f"{count}: `{reason}`" for reason, count in reasons.most_common()),
        ),
        *listed("Where stock Triton's registers are not what the layouts say, or its kernel crashes:", wrong),
        *listed("Failed:", (f"{r['name']}: {r['outcome']} {r.get('error', '')[:300]}" for r in failed)),
    )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("gpu_random", __doc__)
    parser.add_argument("--count", type=int, default=575)
    parser.only("conversions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=_sizes, metavar="N,N", help="sizes of clusters")
    parser.add_argument("--beside", action="store_true", help="in front of a warp-specialised region")
    return parser.dry().workers().output().parse_args(argv)


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if any(size not in CTAS for size in sizes):
        raise argparse.ArgumentTypeError(f"clusters have one of {CTAS} CTAs")
    return sizes


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    options = parse(argv)
    if options.clusters:
        drawn = cluster_cases(options.seed, options.count, options.clusters, options.beside)
    else:
        drawn = random_cases(options.seed, options.count)
    cases = chosen("gpu_random", drawn, options.only)
    stem = "gpu_clusters" + "_beside" * options.beside if options.clusters else "gpu_random"
    return reported(options, stem, markdown, partial(examine, cases))


def reported(
    options: argparse.Namespace,
    stem: str,
    markdown: Callable[[dict[str, Any]], str],
    examine: Callable[[str, bool, int], dict[str, Any]],
) -> int:
    """Examine cases for the target of this machine or of --dry, save the report and print it; 1 unless all are
    fine.

    examine: gives the records for a target, without a GPU if so asked, by so many processes that compile.
    """
    if options.dry:
        device, target = f"compiled for {options.dry}", options.dry
    else:
        child = Child()
        device, target, _ = child.ask(ask_device)
        child.close()
    report = {
        "device": device,
        "target": target,
        **results.versions(),
        "seed": options.seed,
        **examine(target, bool(options.dry), options.workers),
    }
    print(results.save(options.output, stem + ("_dry" if options.dry else ""), markdown, report), end="")
    return int(any(record["outcome"] not in FINE for record in report["records"]))
