"""Random conversions in warp-specialised regions on a GPU: bit for bit, and how long they take beside stock's.

    python -m bench.gpu_partitions [--count 150] [--seed 1] [--dry cuda:90] [--output FOLDER]
                                   [--thresholds NAME=VALUE,...] [--beside WHAT,...]

A kernel has two conversions in loops that run at the same time: one by the kernel's own four warps, and one by
a partition of 1, 2, 4 or 8. Every register of every thread is compared with stock Triton's, and with what the
layouts say. Timed are launches that fill the GPU, less the launch without iterations, less the same of a kernel
whose loops convert nothing. The results go to gpu_partitions.json, a summary to gpu_partitions.md and the
standard output; the exit status is 1 unless all registers are as they must be. `--dry` compiles for a target
without launching anything, and runs the plugin's code in the interpreter, with all its warps. `--thresholds`
changes thresholds (docs/builders/policy.md) of the target in the plugin's compiles.

`--beside` has more compiled and timed: variants of `triton-linear tune` (docs/tune.md), and the plugin with
other thresholds (`matrix_bytes=8`, several with + between them). `decided` is then what tuning would give: the
fastest of all by every other turn, timed in the turns between.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import triton

from bench.conversions.build import parameters
from bench.conversions.driver import Kernel, Memory, device, synchronize
from bench.fuzz.pairs import as_program
from bench.fuzz.partitions import examine_partitions
from bench.fuzz.random_layouts import random_pair
from bench.gpu_random import run as random_run
from bench.gpu_random.kernels import BUFFERS, LANES, LOOP_STEPS, Body, RandomCase, Words, converting
from bench.gpu_random.run import FINE, MEMORY, METHODS, VERIFIED, Binary, judge
from triton_linear.examples.spec import gpu_target
from triton_linear.hook import pinned
from triton_linear.lowering.target.targets import thresholds_of
from triton_linear.setting import Options
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.variants import variant

from .harness.cases import chosen
from .harness.child import Child, empty_cache
from .harness.options import Parser
from .harness.progress import progress
from .harness.report import listed, measured_on, page, table

BASELINE = "baseline"
STOCK, OURS = METHODS
DECIDED = "decided"
MODULES = (__name__, "bench.gpu_random.warm")
SECONDS = 20
OWN_WARPS = 4
WARP_GROUP = 4
PARTITION_WARPS = (1, 2, 4, 8)
MOST_REGISTERS = 64
MOST_BYTES = 64 << 10
PILOT_STEPS = 200
LAUNCH_SECONDS = 0.004
MOST_STEPS = 200_000
TURNS = 10
WINS_BY = 0.01
"""The part of stock Triton's time that a variant has to save to be taken in its place."""
NOTHING = 1e-6
"""Microseconds of an iteration of one CTA of many that are a clock of the GPU, or less."""


@dataclass(frozen=True)
class PartitionCase:
    """One kernel: what its own warps convert, and what those of its partition do."""

    index: int
    own: RandomCase
    inner: RandomCase

    @property
    def name(self) -> str:
        """A readable identifier, unique by its leading index."""
        return f"{self.index:03d} {self.own.name[4:]} beside {self.inner.name[4:]}"

    @property
    def sides(self) -> tuple[tuple[RandomCase, int], ...]:
        """Both conversions, and the first warp of each.

        Triton places partitions behind the kernel's warps, those of more warps first, and fills the last warp
        group with partitions that do nothing: beside a single warp these are of two and of one.
        """
        filled_before = 2 if self.inner.warps == 1 else 0
        return (self.own, 0), (self.inner, self.own.warps + filled_before)

    @property
    def warps(self) -> int:
        """All warps of the CTA, which Triton fills up to whole warp groups."""
        return -(-(self.own.warps + self.inner.warps) // WARP_GROUP) * WARP_GROUP


def partition_cases(seed: int, count: int) -> list[PartitionCase]:
    """`count` kernels; the same seed, the same kernels."""
    rng = random.Random(f"partitions {seed}")
    return [
        PartitionCase(n, _drawn(rng, n, OWN_WARPS), _drawn(rng, n, rng.choice(PARTITION_WARPS)))
        for n in range(count)
    ]


def _drawn(rng: random.Random, index: int, warps: int) -> RandomCase:
    while True:
        case = RandomCase(index, random_pair(rng, LANES, warps), warps, loop=True)
        size = int(np.prod(case.pair.shape)) * case.element.bits // 8
        # Stock Triton does not compile 2 in 5 of the general ones.
        if case.pair.family.startswith("general") or case.pair.source == case.pair.destination:
            continue
        if max(case.register_counts) <= MOST_REGISTERS and size <= MOST_BYTES:
            return case


def kernel_text(case: PartitionCase, target: str, baseline: bool = False) -> str:
    """The module with the kernel `convert(source0, ..., drained0, source1, ..., drained1, steps)`."""
    bodies = [Body(side, str(n), LANES * case.warps) for n, (side, _) in enumerate(case.sides)]
    for body in bodies:
        converting(body, baseline)
    own, inner = ("\n      ".join(body.lines) for body in bodies)
    captured = [*(f"%captured_{name}" for name in BUFFERS), "%steps0"]
    names = [*(f"%{name}0" for name in BUFFERS), *captured[:-1]]
    divisible = [f"{name}: !tt.ptr<i64> {{tt.divisibility = 16 : i32}}" for name in names]
    types = ["!tt.ptr<i64>"] * len(BUFFERS) + ["i32"]
    inside = [f"%{name}1" for name in (*BUFFERS, "steps")]
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(inside, types, strict=True))
    return (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {case.own.warps} : i32, '
        f'ttg.target = "{target}", "ttg.threads-per-warp" = {LANES} : i32}} {{\n'
        f"  tt.func public @convert({', '.join((*divisible, '%steps0: i32'))}) {{\n"
        f"    ttg.warp_specialize({', '.join(captured)})\n"
        f"    default {{\n      {own}\n      ttg.warp_yield\n    }}\n"
        f"    partition0({arguments}) num_warps({case.inner.warps}) {{\n      {inner}\n"
        f"      ttg.warp_return\n    }}"
        f" : ({', '.join(types)}) -> ()\n    tt.return\n  }}\n}}\n"
    )


def build(case: PartitionCase, method: str, target: str, thresholds: str = "") -> Binary:
    """Compile one kernel; raises where that fails, and where the plugin would leave it to Triton.

    method: stock, ours, the baseline, or what `--beside` names. thresholds: changes to those of the target, in
    the syntax that `targets.target` reads; not for stock and the baseline.
    """
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, empty_cache():
        path = Path(folder) / "kernel.ttgir"
        path.write_text(kernel_text(case, target, baseline=method == BASELINE))
        options_of = _options(method, thresholds)
        with nullcontext([]) if options_of is None else pinned(options_of) as reports:
            options = {"num_warps": case.own.warps}
            kernel = triton.compile(str(path), target=gpu_target(target), options=options)
    plans = [plan for r in reports for plan in (*(c.lowering for c in r.conversions), *["folded"] * r.folded)]
    return Binary(
        kernel.asm["cubin"],
        kernel.metadata.name,
        kernel.metadata.shared,
        parameters(kernel.asm["ptx"]),
        tuple(plans),
        time.perf_counter() - begun,
    )


def _options(method: str, thresholds: str) -> Options | None:
    """The plugin's options for a method; None for those without it. Raises ValueError for another."""
    if method in (STOCK, BASELINE):
        return None
    ours = Options(strict=True, assign=False, thresholds=thresholds)
    if "=" in method:
        return replace(ours, thresholds=",".join(filter(None, (thresholds, *method.split("+")))))
    return variant(method).of(ours)


def interpret(case: PartitionCase, target: str) -> str:
    """The outcome without a GPU: both conversions in one kernel, all warps run."""
    programs = [
        as_program(side.pair, side.warps, target, region=region) for region, (side, _) in enumerate(case.sides)
    ]
    return VERIFIED if examine_partitions(programs, LANES, "kernel.ttgir").ok else "wrong in the interpreter"


class _Launcher:
    """A kernel with its buffers for so many CTAs."""

    def __init__(self, case: PartitionCase, binary: Binary, ctas: int) -> None:
        self.case, self.ctas, threads = case, ctas, LANES * case.warps
        self.kernel = Kernel(binary.cubin, binary.name, case.warps, binary.shared, binary.parameters)
        self.buffers: list[Memory] = []
        for side, _ in case.sides:
            source, drained = side.register_counts
            sizes = (8 * source, 4, 8 * drained, 4)
            self.buffers += [Memory(ctas * threads * size) for size in sizes]
        for buffer in self.buffers:
            buffer.fill(0)

    def launch(self, steps: int) -> float:
        """Seconds that it takes."""
        begun = time.perf_counter()
        self.kernel.launch(self.ctas, [*self.buffers, steps])
        synchronize()
        return time.perf_counter() - begun

    def close(self) -> None:
        """Give everything back."""
        self.kernel.unload()
        for buffer in self.buffers:
            buffer.free()


def launch(case: PartitionCase, binary: Binary) -> list[Words]:
    """What every register of both conversions holds in the end: [CTA, thread, register] of each."""
    ctas = max(len(side.patterns()) for side, _ in case.sides)
    launcher = _Launcher(case, binary, ctas)
    threads = LANES * case.warps
    for n, (side, first) in enumerate(case.sides):
        source = side.source()
        whole = np.zeros((ctas, threads, source.shape[2]), np.uint64)
        whole[: len(source), first * LANES : (first + side.warps) * LANES] = source
        launcher.buffers[len(BUFFERS) * n].write(whole.tobytes())
    launcher.launch(LOOP_STEPS)
    found = []
    for n, (side, first) in enumerate(case.sides):
        expected = side.expected()
        content = np.frombuffer(launcher.buffers[len(BUFFERS) * n + 2].read(), np.uint64)
        whole = content.reshape(ctas, threads, expected.shape[2])
        found.append(whole[: len(expected), first * LANES : (first + side.warps) * LANES].copy())
    launcher.close()
    return found


def run(case: PartitionCase, stock: Binary | None, ours: Binary) -> str:
    """The outcome on a GPU; `stock` is None where there is none."""

    def agree(one: Sequence[Words], other: Sequence[Words]) -> bool:
        return all(bool((a == b).all()) for a, b in zip(one, other, strict=True))

    expected, found = [side.expected() for side, _ in case.sides], launch(case, ours)
    right = agree(found, expected)
    if stock is None:
        return random_run.NO_STOCK if right else "wrong"
    other = launch(case, stock)
    if right:
        return random_run.IDENTICAL if agree(found, other) else random_run.STOCK_WRONG
    return "wrong" if agree(other, expected) else "both are wrong"


def timed(case: PartitionCase, built: dict[str, Binary]) -> dict[str, float]:
    """Microseconds of one iteration of launches that fill the GPU, by method; see the module's docstring."""
    launchers = {}
    for method, binary in built.items():
        kernel = Kernel(binary.cubin, binary.name, case.warps, binary.shared, binary.parameters)
        ctas = max(1, kernel.resident()) * device().multiprocessors
        kernel.unload()
        launchers[method] = _Launcher(case, binary, ctas)
    steps: dict[str, int] = {}
    for method, launcher in launchers.items():
        launcher.launch(PILOT_STEPS)
        each = max(1e-9, (launcher.launch(PILOT_STEPS) - launcher.launch(0)) / PILOT_STEPS)
        steps[method] = int(min(MOST_STEPS, max(PILOT_STEPS, LAUNCH_SECONDS / each)))
    taken: dict[str, list[float]] = {method: [] for method in launchers}
    for _ in range(TURNS):
        for method, launcher in launchers.items():
            spent = launcher.launch(steps[method]) - launcher.launch(0)
            # A GPU that holds more CTAs does more in the same time.
            taken[method].append(spent / steps[method] / launcher.ctas * 1e6)
    for launcher in launchers.values():
        launcher.close()
    found: dict[str, Any] = {method: statistics.median(times) for method, times in taken.items()}
    return found | ({DECIDED: decided(taken)} if len(built) > len(METHODS) + 1 else {})


def decided(taken: dict[str, list[float]]) -> dict[str, Any]:
    """What tuning would give: the fastest method by every other turn, and its time in the turns between, with
    those of stock Triton and the baseline."""
    chosen = {method: statistics.median(times[::2]) for method, times in taken.items() if method != BASELINE}
    best = min(chosen, key=chosen.__getitem__)
    if chosen[best] > (1 - WINS_BY) * chosen[STOCK]:
        best = STOCK
    others = {method: statistics.median(taken[method][1::2]) for method in (STOCK, BASELINE)}
    return {"method": best, DECIDED: statistics.median(taken[best][1::2]), **others}


def examine(
    cases: Sequence[PartitionCase],
    thresholds: str,
    beside: Sequence[str],
    target: str,
    dry: bool,
    workers: int,
) -> dict[str, Any]:
    """The records of all kernels, in order, and how many seconds each step took."""
    clock = [time.perf_counter()]
    methods = (STOCK, OURS, BASELINE, *beside)
    work = [(case, method, target, thresholds) for case in cases for method in methods]
    with progress("compile", len(work)) as tick:
        binaries = iter(Isolation(build, MODULES, SECONDS, MEMORY).map(work, workers, tick))
    clock.append(time.perf_counter())
    child = Child()
    records = []
    with progress("judge" if dry else "run", len(cases)) as tick:
        for case in cases:
            built = {method: next(binaries) for method in methods}
            execute = partial(_interpreted, target) if dry else partial(_apart, child)
            record = judge(case, built[STOCK], built[OURS], execute)
            if not dry:
                record |= _others(child, case, {method: built[method] for method in beside})
                right = [m for m in beside if record["beside"][m] == random_run.NO_STOCK]
                whole = {method: built[method] for method in (STOCK, OURS, BASELINE, *right)}
                if record["outcome"] == random_run.IDENTICAL and not isinstance(built[BASELINE], Lost):
                    record["microseconds"] = child.ask(timed, case, whole)
            records.append(record)
            tick()
    child.close()
    clock.append(time.perf_counter())
    seconds = {"compile": round(clock[1] - clock[0], 1), "run": round(clock[2] - clock[1], 1)}
    report = {"thresholds": thresholds, "beside": list(beside), "seconds": seconds}
    return report | {"workers": workers, "records": records}


def _others(child: Child, case: PartitionCase, built: dict[str, Binary | Lost]) -> dict[str, Any]:
    """The outcome of each method beside the plugin; one that breaks its process costs no other."""
    found: dict[str, str] = {}
    for method, binary in built.items():
        try:
            found[method] = binary.reason if isinstance(binary, Lost) else _apart(child, case, None, binary)
        except Exception as error:
            found[method] = f"{type(error).__name__}: {error}"
    return {"beside": found} if found else {}


def _interpreted(target: str, case: PartitionCase, stock: Binary | None, ours: Binary) -> str:
    verdict = interpret(case, target)
    return random_run.NO_STOCK if stock is None and verdict == VERIFIED else verdict


def _apart(child: Child, case: PartitionCase, stock: Binary | None, ours: Binary) -> str:
    """`run` in another process, which a kernel that crashes takes along."""
    return str(child.ask(run, case, stock, ours))


def ratio(record: dict[str, Any], method: str = OURS) -> float | None:
    """How many times as long stock Triton's conversions take as those of a method; None where that was not
    timed, or is nothing."""
    times = record.get("microseconds")
    if times is not None and method == DECIDED:
        times = times.get(DECIDED)
    if times is None or method not in times:
        return None
    stock, ours = (times[each] - times[BASELINE] for each in (STOCK, method))
    least = max(times[BASELINE] / 20, NOTHING)  # what is below is not told from the loop's own time
    return stock / ours if min(stock, ours) > least else None


def speeds(records: Sequence[dict[str, Any]], method: str) -> str:
    """Of a method, how fast kernels are beside stock Triton's."""
    found = sorted(each for record in records if (each := ratio(record, method)) is not None)
    if not found:
        return "nothing was timed"
    below = sum(each < 0.97 for each in found)
    return (
        f"Stock takes {statistics.geometric_mean(found):.3f} times as long in the geometric mean of "
        f"{len(found)} kernels, {found[0]:.2f} to {found[-1]:.2f}; {below} are below 0.97"
    )


def markdown(report: dict[str, Any]) -> str:
    """The report for people."""
    records, seconds = report["records"], report["seconds"]
    outcomes = Counter(record["outcome"] for record in records)
    ratios = sorted((found, record["name"]) for record in records if (found := ratio(record)) is not None)
    groups: dict[str, list[bool]] = {}
    for record in records:
        plans = ", ".join(sorted(set(record["plans"]))) or "none"
        groups.setdefault(plans, []).append(record["outcome"] in FINE)
    speed = "" if not ratios else f" {speeds(records, OURS)}."
    beside = [(method, speeds(records, method)) for method in report.get("beside", ())]
    beside += [(DECIDED, speeds(records, DECIDED))] if beside else []
    changed = f", {report['thresholds']}" if report.get("thresholds") else ""
    return page(
        f"{measured_on(report)}, seed {report['seed']}{changed}: of {len(records)} kernels of two random "
        "conversions, one of them in a partition, "
        + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        + f". {seconds['compile']:.0f} s to compile, {seconds['run']:.0f} s to run.{speed}",
        "",
        *table(
            "plans | kernels: | fine:",
            ((plans, len(fine), sum(fine)) for plans, fine in sorted(groups.items())),
        ),
        *listed("Beside these:", (f"{method}: {text}" for method, text in beside)),
        *listed("The slowest beside stock:", (f"{found:.2f}: {name}" for found, name in ratios[:10])),
        *listed(
            "Failed:",
            (
                f"{r['name']}: {r['outcome']} {r.get('error', '')[:300]}"
                for r in records
                if r["outcome"] not in FINE
            ),
        ),
    )


def _checked(thresholds: str) -> str:
    """The text as it is; argparse reports thresholds that do not exist."""
    try:
        thresholds_of(thresholds)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return thresholds


def _methods(text: str) -> tuple[str, ...]:
    """The names of variants, or changes of thresholds; argparse reports those that do not exist."""
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if "=" in name:
            _checked(name.replace("+", ","))
        else:
            try:
                variant(name)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from error
    return names


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("gpu_partitions", __doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.only("kernels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--thresholds", type=_checked, default="", metavar="NAME=VALUE,...")
    parser.add_argument("--beside", type=_methods, default=(), metavar="WHAT,...")
    return parser.dry().workers().output().parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    options = parse(argv)
    cases = chosen("gpu_partitions", partition_cases(options.seed, options.count), options.only)
    return random_run.reported(
        options, "gpu_partitions", markdown, partial(examine, cases, options.thresholds, options.beside)
    )


if __name__ == "__main__":
    sys.exit(main())
