"""A matmul with an epilogue in many tile sizes, against stock Triton on the GPU that is here.

    python -m bench.tiles [--output DIR] [--only REGEX] [--turns N] [--budget SECONDS]

gelu(a @ b + bias) + residual of f16 matrices (examples/matmul.py), in every tile size that finds registers and
shared memory. Beside all of the plugin, the plugin without its bounds on registers, and those bounds alone for
stock Triton's kernel. Results have to be the same, bit for bit. Writes tiles.json and tiles.md; the exit status
is 1 if a result differs or a case fails.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import triton
import triton_linear
from triton_linear.examples.matmul import matmul_gelu_residual

from .kernels import measure, modes
from .kernels.case import TRITON, Case
from .kernels.cases_triton import Kernel, Tensor
from .kernels.statistics import geometric_mean
from .report import save

SIZES = ((4096, 4096, 1024), (8192, 8192, 4096))
BLOCKS = (64, 128, 256)
INNER = (32, 64)
WARPS = (4, 8)
STAGES = (3, 4)
ACCUMULATOR = range(32, 129)
"""Registers of a thread for its part of the product: fewer leave it idle, more leave none for anything else."""
SHARED = 227 * 1024
MODES = (modes.OURS, modes.LAYOUTS, modes.BOUND)


def cases() -> Iterator[tuple[str, dict[str, Any], Kernel]]:
    """Every case: its name, what it is made of, and the kernel."""
    for (m, n, k), bm, bn, bk, warps, stages in itertools.product(SIZES, BLOCKS, BLOCKS, INNER, WARPS, STAGES):
        if bm * bn // (32 * warps) not in ACCUMULATOR or 2 * bk * (bm + bn) * stages > SHARED:
            continue
        described = {"size": [m, n, k], "block": [bm, bn, bk], "warps": warps, "stages": stages}
        inputs = {
            "a_ptr": Tensor("float16", (m, k)),
            "b_ptr": Tensor("float16", (k, n)),
            "bias_ptr": Tensor("float16", (n,)),
            "residual_ptr": Tensor("float16", (m, n)),
        }
        numbers = {"m": m, "n": n, "k": k, "stride_am": k, "stride_bk": n, "stride_om": n}
        yield (
            f"{m}x{n}x{k}, {bm}x{bn}x{bk}, {warps} warps, {stages} stages",
            described,
            Kernel(
                matmul_gelu_residual,
                inputs,
                {"out_ptr": Tensor("float16", (m, n))},
                (m // bm * (n // bn),),
                numbers,
                {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8},
                {"num_warps": warps, "num_stages": stages},
            ),
        )


def compare(name: str, kernel: Kernel, turns: int) -> dict[str, Any]:
    """Stock's time over that of each mode, and whether all results have the same bits."""
    session = measure.Session(Case(name, "dot", TRITON, kernel.make), measure.Effort(turns=turns, cold=0))
    expected = session.results(modes.STOCK)
    identical = all(measure.same(expected, session.results(mode)) for mode in MODES)
    warm, _ = measure.timed(session, (modes.STOCK, *MODES), lambda: None)
    facts = {mode: session.variant(mode).facts for mode in (modes.STOCK, *MODES)}
    return {
        "identical": identical,
        "microseconds": warm[modes.STOCK]["microseconds"],
        "ratio": {mode: warm[mode]["ratio"] for mode in MODES},
        "fell_back": facts[modes.OURS]["fell_back"],
        "registers": {mode: facts[mode]["kernels"][0]["registers"] for mode in facts},
        "spilled": {mode: facts[mode]["kernels"][0]["spilled"] for mode in facts},
    }


def markdown(found: dict[str, Any]) -> str:
    """The best of each size, means, and a table, fastest with stock Triton first."""
    rows: list[dict[str, Any]] = found["cases"]
    lines = [
        "# A matmul with an epilogue, in many tile sizes",
        "",
        f"{found['device']}, Triton {found['triton']}, triton-linear {found['triton_linear']}, "
        f"{found['date']}. gelu(a @ b + bias) + residual, f16; stock / the mode, medians with their 95 % "
        "interval. `ours`: the plugin; `layouts`: without its bounds on registers; `bound`: those alone, for "
        "stock Triton's kernel.",
        "",
        "| mode | cases | geometric mean | least | most | below 0.98 | above 1.02 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for mode in MODES:
        ratios = [row["ratio"][mode][1] for row in rows]
        lines.append(
            f"| {mode} | {len(ratios)} | {geometric_mean(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} "
            f"| {sum(r < 0.98 for r in ratios)} | {sum(r > 1.02 for r in ratios)} |"
        )
    lines.append("")
    for size in SIZES:
        lines += _best([row for row in rows if row["size"] == list(size)])
    lines += [
        "",
        "| size | tile | warps | stages | stock µs | ours | layouts | bound | registers | results |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for row in sorted(rows, key=lambda row: (row["size"], row["microseconds"])):
        ratios = " | ".join(
            f"{ratio:.3f} ({low:.3f} to {high:.3f})"
            for low, ratio, high in (row["ratio"][mode] for mode in MODES)
        )
        registers = f"{row['registers'][modes.STOCK]}, {row['registers'][modes.OURS]}"
        lines.append(
            f"| {_times(row['size'])} | {_times(row['block'])} | {row['warps']} | {row['stages']} "
            f"| {row['microseconds']:.1f} | {ratios} | {registers} "
            f"| {'identical' if row['identical'] else 'DIFFER'} |"
        )
    if found.get("not_run"):
        lines += ["", f"Not run for want of time: {len(found['not_run'])}, of {found['not_run'][0]} and on."]
    return "\n".join(lines) + "\n"


def _best(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The best tile with stock Triton against the best with the plugin."""
    if not rows:
        return []
    stock = min(rows, key=lambda row: row["microseconds"])
    ours = min(rows, key=_ours)
    return [
        f"- {_times(stock['size'])}: best of stock {stock['microseconds']:.1f} µs ({_times(stock['block'])}, "
        f"{stock['warps']} warps, {stock['stages']} stages), best of ours {_ours(ours):.1f} µs "
        f"({_times(ours['block'])}, {ours['warps']} warps, {ours['stages']} stages): "
        f"{stock['microseconds'] / _ours(ours):.3f}"
    ]


def _ours(row: dict[str, Any]) -> float:
    return float(row["microseconds"] / row["ratio"][modes.OURS][1])


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tiles", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", default="", help="cases whose names this regular expression finds")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin no case after so long")
    options = parser.parse_args()
    import torch

    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "date": datetime.date.today().isoformat(),
        "triton": triton.__version__,
        "triton_linear": triton_linear.__version__,
        "cases": [],
        "not_run": [],
    }
    failures, begun = 0, time.perf_counter()
    for name, described, kernel in cases():
        if not re.search(options.only, name):
            continue
        if options.budget is not None and time.perf_counter() - begun > options.budget:
            found["not_run"].append(name)
            continue
        try:
            case = described | compare(name, kernel, options.turns)
        except Exception as error:
            failures += 1
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        failures += not case["identical"] or bool(case["fell_back"])
        found["cases"].append(case)
        print(f"{name}: {case['ratio'][modes.OURS][1]:.3f}", flush=True)
    print(save(options.output, "tiles", markdown, found, indent=1))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
