"""Times the examples at realistic sizes, stock Triton and the plugin side by side, and what each kernel takes.

    python -m bench.end_to_end [--dry cuda:90] [--only REGEX] [--turns 60] [--output bench/results]

Launches are captured in CUDA graphs of some milliseconds: one of stock Triton's kernel, one of the plugin's and
one more of stock Triton's, which shows the noise. They take turns in changing order, with a warm L2 cache.
Ratios are medians over the turns. The results go to end_to_end.json, a table to end_to_end.md and the standard
output. The exit status is 1 if bits differ. Registers and the like are those of the kernels as the examples'
`compile_specs` have them. `--dry` compiles for a target and gives what is known without running.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
import triton_linear
from triton.backends.compiler import GPUTarget
from triton_linear.examples import (
    attention,
    fp8_attention,
    int4_matmul,
    layer_norm,
    matmul,
    specs,
    transpose8,
)
from triton_linear.examples.compare import gpu_name, modes, same_bits
from triton_linear.examples.spec import KernelSpec, gpu_target

from bench.conversions.build import resource_usage

GRAPH_MS = 2.0
MOST_LAUNCHES = 400
MODES = ("stock", "plugin", "stock again")

Launch = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Workload:
    """A kernel of an example at some sizes; `launch` makes what runs it, on random input."""

    kernel: str
    sizes: Mapping[str, int]
    launch: Callable[[GPUTarget, Mapping[str, int]], Launch]

    @property
    def name(self) -> str:
        """Kernel and sizes."""
        return f"{self.kernel} {'x'.join(map(str, self.sizes.values()))}"


def _problem(example: ModuleType, kernel: str, *sizes: Mapping[str, int]) -> list[Workload]:
    def launch(target: GPUTarget, size: Mapping[str, int]) -> Launch:
        made: Launch = example.problem("cuda", target, **size).launch
        return made

    return [Workload(kernel, size, launch) for size in sizes]


def _layer_norm(backward: bool) -> Callable[[GPUTarget, Mapping[str, int]], Launch]:
    def launch(target: GPUTarget, size: Mapping[str, int]) -> Launch:
        import torch

        generator = torch.Generator("cuda").manual_seed(0)
        shapes = ((size["rows"], size["columns"]),) * 2 + ((size["columns"],),) * 2
        x, grad, weight, bias = (
            torch.randn(shape, device="cuda", dtype=torch.float16, generator=generator) for shape in shapes
        )
        if not backward:
            return lambda: dict(zip(("out", "mean", "rstd"), layer_norm.forward(x, weight, bias), strict=True))
        _, mean, rstd = layer_norm.forward(x, weight, bias)
        names = ("grad_x", "grad_weight", "grad_bias")
        return lambda: dict(zip(names, layer_norm.backward_shares(grad, x, weight, mean, rstd), strict=True))

    return launch


def workloads() -> list[Workload]:
    """Everything that is timed."""
    rows = [{"rows": rows, "columns": columns} for rows, columns in ((4096, 1024), (32768, 1024), (65536, 512))]
    return [
        *_problem(
            fp8_attention,
            "fp8_attention",
            {"heads": 64, "length": 1024},
            {"heads": 64, "length": 4096},
            {"heads": 16, "length": 8192},
        ),
        *_problem(
            attention,
            "attention",
            {"batch": 4, "heads": 16, "length": 1024},
            {"batch": 4, "heads": 16, "length": 4096},
            {"batch": 1, "heads": 16, "length": 8192},
        ),
        *_problem(
            int4_matmul,
            "int4_matmul",
            {"m": 64, "n": 4096, "k": 4096},
            {"m": 1024, "n": 4096, "k": 4096},
            {"m": 4096, "n": 4096, "k": 4096},
        ),
        *_problem(
            matmul,
            "matmul",
            {"m": 2048, "n": 2048, "k": 1024},
            {"m": 4096, "n": 4096, "k": 4096},
            {"m": 8192, "n": 4096, "k": 512},
        ),
        *_problem(
            transpose8,
            "transpose8",
            {"batch": 16, "m": 1024, "n": 1024},
            {"batch": 64, "m": 512, "n": 2048},
            {"batch": 1, "m": 8192, "n": 8192},
        ),
        *(Workload("layer_norm_forward", size, _layer_norm(backward=False)) for size in rows),
        *(Workload("layer_norm_backward", size, _layer_norm(backward=True)) for size in rows),
    ]


# What is known without running.


@dataclass(frozen=True)
class Multiprocessor:
    """What the CTAs of a multiprocessor share: warps, CTAs, and bytes of shared memory."""

    warps: int
    ctas: int
    shared: int

    def resident(self, registers: int, shared: int, warps: int) -> int:
        """CTAs of `warps` warps that fit, each with `shared` bytes and `registers` registers a thread.

        There are 65536 registers, given to a warp 256 at a time, and a quarter of the warps lives on each of
        four partitions. Shared memory is given 128 bytes at a time, after 1 KiB for the system.

        >>> MULTIPROCESSORS[90].resident(registers=168, shared=49152, warps=8)
        1
        """
        of_a_warp = -(-max(registers, 1) * 32 // 256) * 256
        by_registers = 65536 // of_a_warp // 4 * 4 // warps
        by_shared = self.shared // (-(-shared // 128) * 128 + 1024)
        return min(self.ctas, self.warps // warps, by_registers, by_shared)


# CUDA programming guide, technical specifications per compute capability.
MULTIPROCESSORS = {
    80: Multiprocessor(64, 32, 164 << 10),
    86: Multiprocessor(48, 16, 100 << 10),
    87: Multiprocessor(48, 16, 164 << 10),
    89: Multiprocessor(48, 24, 100 << 10),
    90: Multiprocessor(64, 32, 228 << 10),
    100: Multiprocessor(64, 32, 228 << 10),
    103: Multiprocessor(64, 32, 228 << 10),
    120: Multiprocessor(48, 24, 100 << 10),
}


@dataclass(frozen=True)
class Resources:
    """What a thread, a CTA and a multiprocessor hold of a kernel."""

    registers: int
    spilled_bytes: int
    shared: int
    ctas: int


def resources(kernel: Any, capability: int) -> Resources:
    """Those of a compiled kernel."""
    registers, spilled = resource_usage(kernel.asm["cubin"])
    shared, warps = kernel.metadata.shared, kernel.metadata.num_warps
    ctas = MULTIPROCESSORS[capability].resident(registers, shared, warps)
    return Resources(registers, spilled, shared, ctas)


def compiled(spec: KernelSpec, target: GPUTarget) -> dict[str, Any]:
    """The resources of a kernel both ways, and its conversions by what became of them."""
    found: dict[str, Any] = {}
    for mode, context in (("stock", nullcontext([])), ("plugin", triton_linear.enabled(strict=True))):
        with context as reports:
            kernel = triton.compile(spec.source(), target=target, options=dict(spec.options))
        found[mode] = dataclasses.asdict(resources(kernel, target.arch))
    (report,) = reports
    kinds = Counter(conversion.lowering for conversion in report.conversions)
    kinds["folded"] = report.folded
    return found | {"conversions": {kind: count for kind, count in kinds.items() if count}}


# Timing.


def summarise(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Medians, and the ratios of the turns: stock over plugin, and stock over stock again, with quartiles.

    >>> summarise({"stock": [2.0, 2.2], "plugin": [1.0, 1.1], "stock again": [2.0, 2.2]})["stock_over_plugin"]
    [2.0, 2.0, 2.0]
    """

    def ratio(other: str) -> list[float]:
        turns = [a / b for a, b in zip(times["stock"], times[other], strict=True)]
        return [round(quartile, 5) for quartile in statistics.quantiles(turns, n=4, method="inclusive")]

    return {
        "microseconds": {mode: statistics.median(values) for mode, values in times.items()},
        "stock_over_plugin": ratio("plugin"),
        "stock_over_stock": ratio("stock again"),
    }


def measure(workload: Workload, target: GPUTarget, turns: int) -> dict[str, Any]:
    """Times and whether the bits are the same."""
    import torch

    launch = workload.launch(target, workload.sizes)
    contexts = dict(modes())
    contexts["stock again"] = contexts["stock"]
    outputs, graphs, launches = {}, {}, 1
    for mode in MODES:
        with contexts[mode]():
            outputs[mode] = {key: value.clone() for key, value in launch().items()}
            if mode == "stock":
                milliseconds = triton.testing.do_bench(launch, warmup=5, rep=10, return_mode="median")
                launches = max(1, min(MOST_LAUNCHES, math.ceil(GRAPH_MS / milliseconds)))
            graphs[mode] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[mode]):
                for _ in range(launches):
                    launch()
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for turn in range(-2, turns):  # Two turns to warm up.
        for step in range(len(MODES)):
            mode = MODES[(turn + step) % len(MODES)]
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            graphs[mode].replay()
            events[1].record()
            torch.cuda.synchronize()
            if turn >= 0:
                times[mode].append(1e3 * events[0].elapsed_time(events[1]) / launches)
    same = all(same_bits(outputs["stock"][key], outputs["plugin"][key]) for key in outputs["stock"])
    return summarise(times) | {"launches": launches, "turns": turns, "same_bits": same}


def sort_key(record: Mapping[str, Any]) -> float:
    """Losers first."""
    ratio: Sequence[float] = record.get("stock_over_plugin", (0, 0, 0))
    return ratio[1]


def markdown(report: Mapping[str, Any]) -> str:
    """The table for people."""
    timed = not report["dry"]
    lines = [
        f"{report['device']}, Triton {report['triton']}, triton-linear {report['triton_linear']}, "
        f"{report['date']}. Registers a thread, spilled bytes a thread, shared bytes a CTA and CTAs a "
        "multiprocessor: with stock Triton → with the plugin.",
        "",
    ]
    if timed:
        lines += [
            "Median times of a launch; ratios are medians over the turns, with half the distance of their "
            "quartiles. Losers first.",
            "",
        ]
    heads = ["kernel", "conversions", "registers", "spilled", "shared", "CTAs"]
    if timed:
        heads[1:1] = ["stock µs", "plugin µs", "stock / plugin", "stock / stock", "bits"]
    right = ["---" if head in ("kernel", "conversions", "bits") else "---:" for head in heads]
    lines += [f"| {' | '.join(heads)} |", f"| {' | '.join(right)} |"]
    for record in report["runs"]:
        cells = [record["name"]]
        if timed:
            times = record["microseconds"]
            cells += [f"{times[mode]:.1f}" for mode in MODES[:2]]
            for ratio in (record["stock_over_plugin"], record["stock_over_stock"]):
                cells.append(f"{ratio[1]:.3f} ± {(ratio[2] - ratio[0]) / 2:.3f}")
            cells.append("same" if record["same_bits"] else "DIFFERENT")
        cells.append(", ".join(f"{count} {kind}" for kind, count in record["conversions"].items()) or "none")
        for field in dataclasses.fields(Resources):
            before, after = (record[mode][field.name] for mode in MODES[:2])
            cells.append(f"{before}" if before == after else f"{before} → {after}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.end_to_end", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--dry", metavar="TARGET", help="compile for TARGET, launch nothing")
    parser.add_argument("--only", metavar="REGEX", default="", help="the workloads whose names match")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    options = parse(argv)
    device = f"compiled for {options.dry}" if options.dry else gpu_name()
    if device is None:
        print("end_to_end: no NVIDIA GPU (with PyTorch) here", file=sys.stderr)
        return 1
    target = gpu_target(options.dry) if options.dry else triton.runtime.driver.active.get_current_target()
    chosen = [workload for workload in workloads() if re.search(options.only, workload.name)]
    by_name = {spec.name: spec for spec in specs(target)}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache  # Kernels from a cache would have no reports.
        known = {
            kernel: compiled(by_name[kernel], target) for kernel in dict.fromkeys(w.kernel for w in chosen)
        }
        if options.dry:
            runs = [{"name": kernel} | facts for kernel, facts in known.items()]
        else:
            runs = []
            for workload in chosen:
                timed = measure(workload, target, options.turns)
                runs.append({"name": workload.name} | timed | known[workload.kernel])
                ratio = timed["stock_over_plugin"][1]
                print(f"{workload.name}: {ratio:.3f}", file=sys.stderr, flush=True)
    report = {
        "device": device,
        "dry": bool(options.dry),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "triton": triton.__version__,
        "triton_linear": triton_linear.__version__,
        "runs": sorted(runs, key=sort_key),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / ("end_to_end_dry" if options.dry else "end_to_end")
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(report))
    print(markdown(report), end="")
    return int(any(not run.get("same_bits", True) for run in runs))


if __name__ == "__main__":
    sys.exit(main())
