"""Compiles random conversions in parallel, runs them, and compares every register of every thread.

    python -m bench.gpu_random [--count 575] [--seed 1] [--dry cuda:90] [--output FOLDER]
                               [--clusters 2,4,8 [--beside | --inside]]

A kernel's registers are compared with the other kernel's, and with what the layouts say. Conversions that stock
Triton cannot compile (it crashes, or is ended after some seconds) are counted apart; the plugin's code for them
is compared with the layouts all the same. The results go to gpu_random.json, a summary to gpu_random.md and the
standard output. The exit status is 1 unless all is as it must be. `--dry` compiles for a target without
launching anything, and runs the plugin's code in the interpreter. `--clusters` draws conversions inside the
CTAs of clusters of these sizes instead, in loops, and times them: stock Triton's over the
plugin's, on a GPU full of clusters, and over what tuning would choose of the two: the faster by every other
turn, timed in the turns between. The results are in gpu_clusters.json and .md then. With `--beside` a
warp-specialised region follows in each kernel (gpu_clusters_beside.json and .md). With `--inside` each kernel
converts in the partition of such a region (gpu_clusters_inside.json and .md).
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import triton

import triton_linear
from bench.conversions.build import parameters
from bench.conversions.driver import Kernel, Memory, device, synchronize
from bench.conversions.run import ask_device
from bench.fuzz.run import CTAS
from triton_linear.examples.spec import gpu_target
from triton_linear.tools.support.compile import LOWERING, compile_text
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify import command as verify

from ..harness import results
from ..harness.cases import chosen
from ..harness.child import Child, empty_cache
from ..harness.options import Parser
from ..harness.progress import progress
from .kernels import BESIDE, INSIDE, LANES, LOOP_STEPS, METHODS, RandomCase, Words, cluster_cases, random_cases
from .report import DECIDED, FINE, IDENTICAL, NEITHER, NO_STOCK, STOCK_CRASHES, STOCK_WRONG, VERIFIED, markdown

SECONDS = 8
MEMORY = 6 << 30

_PORTABLE = 8
"""CTAs that a cluster may have without asking."""
STEPS = (200, 4200)
"""Iterations of two launches whose difference is timed: some ten milliseconds."""
TURNS = 10
WINS_BY = 0.01
"""The part of stock Triton's time that ours has to save to be chosen."""

MODULES = (__name__, "bench.gpu_random.warm")


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
        path.write_text(case.text(target, method))
        ours = triton_linear.enabled(strict=True, assign=False, occupancy=False)
        with ours if method == "ours" else nullcontext([]) as reports:
            options = {"num_warps": case.own_warps, "num_ctas": case.ctas}
            kernel = triton.compile(str(path), target=gpu_target(target), options=options)
    plans = [c.lowering for r in reports for c in r.conversions]
    plans += ["folded"] * sum(r.folded for r in reports)
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
    compilation = compile_text(case.text(target, "ours"), "kernel.ttgir", target, "llvm", LOWERING)
    right = all(conversion.ok for conversion in verify.check(compilation))
    return VERIFIED if right else "wrong in the interpreter"


class _Buffers:
    """The memory that so many CTAs of a kernel read and write; the first clusters have these inputs, then they
    begin again with the first."""

    def __init__(self, case: RandomCase, ctas: int, inputs: Sequence[Words | None]) -> None:
        self.threads = ctas * case.warps * LANES
        self.inputs = [Memory(8 * count * self.threads) for count in case.input_counts]
        self.counters = [Memory(4 * self.threads) for _ in (*case.input_counts, "out")]
        self.out = Memory(8 * case.register_counts[1] * self.threads)
        for memory, given in zip(self.inputs, inputs, strict=True):
            if given is None:
                memory.fill(0)
            else:
                memory.write(np.resize(given, memory.size // 8).tobytes())

    def arguments(self) -> list[Memory]:
        """What the kernel takes before the number of its iterations."""
        tensors = zip((*self.inputs, self.out), self.counters, strict=True)
        return [memory for pair in tensors for memory in pair]

    def clear(self) -> None:
        """Make ready for another launch."""
        self.out.fill(0x55)
        for counters in self.counters:
            counters.fill(0)
        synchronize()

    def free(self) -> None:
        """Give everything back."""
        for memory in self.arguments():
            memory.free()


def launch(case: RandomCase, binary: Binary) -> Words:
    """What every register holds in the end: [cluster, thread, register]."""
    shape = case.expected().shape
    buffers = _Buffers(case, shape[0] * case.ctas, case.inputs())
    buffers.clear()
    kernel = _loaded(case, binary)
    kernel.launch(shape[0] * case.ctas, (*buffers.arguments(), LOOP_STEPS))
    synchronize()
    for counters, per_thread in zip(buffers.counters, (*case.input_counts, shape[2]), strict=True):
        counts = np.frombuffer(counters.read(), np.uint32)
        if (counts != per_thread).any():
            raise RuntimeError(f"threads counted {counts.min()} to {counts.max()} of {per_thread} registers")
    found = np.frombuffer(buffers.out.read(), np.uint64).reshape(shape)
    kernel.unload()
    buffers.free()
    return found


def _loaded(case: RandomCase, binary: Binary) -> Kernel:
    kernel = Kernel(binary.cubin, binary.name, case.all_warps, binary.shared, binary.parameters)
    if case.ctas > _PORTABLE:
        kernel.admit_large_clusters()
    return kernel


def clocked(case: RandomCase, binaries: Mapping[str, Binary]) -> tuple[dict[str, float], float]:
    """Seconds of an iteration by each method, on a GPU full of clusters, and the ratio of `decided`. Raises
    ValueError as `_least`."""
    kernels = {name: _loaded(case, binary) for name, binary in binaries.items()}
    full = min(kernel.resident() for kernel in kernels.values()) * device().multiprocessors
    ctas = max(1, full // case.ctas) * case.ctas
    buffers = _Buffers(case, ctas, [None])
    taken: dict[tuple[str, int], list[float]] = {}
    for _ in range(TURNS):
        for name, kernel in kernels.items():
            for steps in STEPS:
                taken.setdefault((name, steps), []).append(_seconds(kernel, ctas, buffers, steps))
    buffers.free()
    for kernel in kernels.values():
        kernel.unload()
    everything = _least(kernels, taken)
    halves = [{key: times[first::2] for key, times in taken.items()} for first in (0, 1)]
    return everything, decided(*(_least(METHODS, half) for half in halves))


def _least(names: Iterable[str], taken: Mapping[tuple[str, int], Sequence[float]]) -> dict[str, float]:
    """Seconds of an iteration by each method: the least of several for a long loop, less the least of several
    for a short one. Raises ValueError if the short one took longer."""
    least: dict[str, float] = {}
    for name in names:
        short, long = (min(taken[name, steps]) for steps in STEPS)
        if long <= short:
            raise ValueError(f"{name}: {STEPS[1]} iterations took no longer than {STEPS[0]}")
        least[name] = (long - short) / (STEPS[1] - STEPS[0])
    return least


def decided(chosen: Mapping[str, float], timed: Mapping[str, float]) -> float:
    """Stock Triton's time over that of the faster method, which is chosen by the first times, in the second.

    >>> decided({"stock": 2.0, "ours": 1.0}, {"stock": 2.0, "ours": 1.25})
    1.6
    >>> decided({"stock": 1.0, "ours": 0.999}, {"stock": 2.0, "ours": 1.0})
    1.0
    """
    stock, ours = METHODS
    return timed[stock] / timed[ours if chosen[ours] < (1 - WINS_BY) * chosen[stock] else stock]


def _seconds(kernel: Kernel, ctas: int, buffers: _Buffers, steps: int) -> float:
    buffers.clear()
    begun = time.perf_counter()
    kernel.launch(ctas, (*buffers.arguments(), steps))
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
        found = iter(Isolation(build, MODULES, SECONDS, MEMORY).map(work, workers, tick))
    clock.append(time.perf_counter())
    execute = interpreted(cases, target, workers) if dry else run_apart
    child = Child()
    with progress("judge" if dry else "run", len(cases)) as tick:
        records = []
        for case in cases:
            built = {method: next(found) for method in METHODS}
            record = judge(case, built["stock"], built["ours"], partial(execute, child))
            if not dry and is_timed(case, record["outcome"]):
                record |= timed(child, case, built)
            records.append(record)
            tick()
    child.close()
    clock.append(time.perf_counter())
    seconds = {"compile": round(clock[1] - clock[0], 1), "run": round(clock[2] - clock[1], 1)}
    return {"seconds": seconds, "workers": workers, "records": records}


def is_timed(case: RandomCase, outcome: str) -> bool:
    """Whether a kernel is timed on a GPU: those of clusters, if the plugin's is right."""
    return case.ctas > 1 and outcome == IDENTICAL


def timed(child: Child, case: RandomCase, built: Mapping[str, Binary | Lost]) -> dict[str, Any]:
    """What is added to a record: seconds of an iteration by both methods, and stock Triton's over ours."""
    try:
        least, chosen = child.ask(clocked, case, built)
    except Exception as error:
        return {"not timed": f"{type(error).__name__}: {error}"}
    return {"iteration": least, "ratio": least["stock"] / least["ours"], DECIDED: chosen}


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


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("gpu_random", __doc__)
    parser.add_argument("--count", type=int, default=575)
    parser.only("conversions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=_sizes, metavar="N,N", help="sizes of clusters")
    kind = parser.add_mutually_exclusive_group()
    region = partial(kind.add_argument, dest="region", action="store_const", default="")
    region("--beside", const=BESIDE, help="in front of a warp-specialised region")
    region("--inside", const=INSIDE, help="in a partition of a warp-specialised region")
    options = parser.dry().workers().output().parse_args(argv)
    if options.region and not options.clusters:
        parser.error("--beside and --inside need --clusters")
    return options


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if any(size not in CTAS for size in sizes):
        raise argparse.ArgumentTypeError(f"clusters have one of {CTAS} CTAs")
    return sizes


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    options = parse(argv)
    stem = "_".join(filter(None, ("gpu_clusters", options.region))) if options.clusters else "gpu_random"
    if options.clusters:
        drawn = cluster_cases(options.seed, options.count, options.clusters, options.region)
    else:
        drawn = random_cases(options.seed, options.count)
    cases = chosen("gpu_random", drawn, options.only)
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
