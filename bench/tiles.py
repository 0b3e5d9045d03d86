"""A matmul with an epilogue in many tile sizes, against stock Triton on the GPU that is here.

    python -m bench.tiles [--output DIR] [--only REGEX] [--turns N] [--budget SECONDS]

gelu(a @ b + bias) + residual of f16 matrices (examples/matmul.py), in every tile size that finds registers and
shared memory. Beside all of the plugin, the plugin without its bounds on registers. Results have to be the
same, bit for bit. Writes tiles.json and tiles.md; the exit status is 1 if a result differs or a case fails.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from triton_linear.examples.matmul import matmul_gelu_residual

from .harness.options import Parser
from .harness.report import between, measured_on, page, sizes, spread, table
from .kernels import beside, modes
from .kernels.kernel import Kernel, Tensor

SIZES = ((4096, 4096, 1024), (8192, 8192, 4096))
BLOCKS = (64, 128, 256)
INNER = (32, 64)
WARPS = (4, 8)
STAGES = (3, 4)
ACCUMULATOR = range(32, 129)
"""Registers of a thread for its part of the product: fewer leave it idle, more leave none for anything else."""
SHARED = 227 * 1024
MODES = (modes.OURS, modes.LAYOUTS)


def cases() -> Iterator[beside.Described]:
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


def compare(name: str, kernel: Kernel, turns: int) -> tuple[dict[str, Any], float]:
    """Stock's time over that of each mode, and whether all results have the same bits."""
    record, warm, facts = beside.measured(name, kernel, MODES, turns)
    record["ratio"] = {mode: warm[mode]["ratio"] for mode in MODES}
    for fact in ("registers", "spilled"):
        record[fact] = {mode: known["kernels"][0][fact] for mode, known in facts.items()}
    return record, record["ratio"][modes.OURS][1]


def markdown(found: dict[str, Any]) -> str:
    """The best of each size, means, and a table, fastest with stock Triton first."""
    rows: list[dict[str, Any]] = found["cases"]
    left = found.get("not_run")
    ratios = {mode: [row["ratio"][mode][1] for row in rows] for mode in MODES}
    means = [(mode, len(known), *spread(known)) for mode, known in ratios.items()]
    best = [line for size in SIZES for line in _best([row for row in rows if row["size"] == list(size)])]
    every = [
        (
            sizes(row["size"]),
            sizes(row["block"]),
            row["warps"],
            row["stages"],
            f"{row['microseconds']:.1f}",
            *(between(row["ratio"][mode]) for mode in MODES),
            f"{row['registers'][modes.STOCK]}, {row['registers'][modes.OURS]}",
            "identical" if row["identical"] else "DIFFER",
        )
        for row in sorted(rows, key=lambda row: (row["size"], row["microseconds"]))
    ]
    return page(
        "# A matmul with an epilogue, in many tile sizes",
        "",
        f"{measured_on(found)}. gelu(a @ b + bias) + residual, f16; stock / the mode, medians with their 95 % "
        "interval. `ours`: the plugin; `layouts`: without its bounds on registers.",
        "",
        *table("mode | cases: | geometric mean: | least: | most: | below 0.98: | above 1.02:", means),
        "",
        *best,
        "",
        *table(
            "size | tile | warps: | stages: | stock µs: | ours: | layouts: | registers | results",
            every,
        ),
        *(["", f"Not run for want of time: {len(left)}, of {left[0]} and on."] if left else []),
    )


def _best(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The best tile with stock Triton against the best with the plugin."""
    if not rows:
        return []
    stock = min(rows, key=lambda row: row["microseconds"])
    ours = min(rows, key=_ours)
    return [
        f"- {sizes(stock['size'])}: best of stock {stock['microseconds']:.1f} µs ({sizes(stock['block'])}, "
        f"{stock['warps']} warps, {stock['stages']} stages), best of ours {_ours(ours):.1f} µs "
        f"({sizes(ours['block'])}, {ours['warps']} warps, {ours['stages']} stages): "
        f"{stock['microseconds'] / _ours(ours):.3f}"
    ]


def _ours(row: dict[str, Any]) -> float:
    return float(row["microseconds"] / row["ratio"][modes.OURS][1])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; see the module's docstring."""
    options = Parser("tiles", __doc__).output(Path("build/bench")).only().turns(15).budget().parse_args(argv)
    text, failures = beside.execute("tiles", cases(), compare, markdown, options)
    print(text)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
