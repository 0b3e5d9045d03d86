"""Matrix products whose operands lie every way, against stock Triton on the GPU that is here.

    python -m bench.operands [--output DIR] [--only REGEX] [--turns N] [--dry TARGET]

An operand "across" lies the other way than its rows: neighbours are below each other for the first, beside each
other for the second, as in most frameworks. Results have to be the same, bit for bit. Writes operands.json and
operands.md; the exit status is 1 if a result differs or a case fails. `--dry` only compiles, with both.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
import triton_linear

from .kernels import measure, modes, triton_kernels
from .kernels.case import TRITON, Case
from .kernels.kernel import Kernel, Tensor
from .kernels.statistics import geometric_mean
from .report import save

SIZE = 2048
# Types of the operands, that of the product, and bytes of a row of a block along the inner dimension.
TYPES = {
    "f32": ("float32", "float32", tl.float32, 32),
    "f16": ("float16", "float16", tl.float16, 64),
    "fp8": ("float8_e4m3fn", "float8_e4m3fn", tl.float8e4nv, 64),
    "int8 x bf16": ("int8", "bfloat16", tl.bfloat16, 64),
    "bf16 x int8": ("bfloat16", "int8", tl.bfloat16, 64),
}
BLOCKS = ((64, 64, 4), (64, 128, 4), (128, 128, 8))


def cases() -> Iterator[tuple[str, dict[str, Any], Kernel]]:
    """Every case: its name, what it is made of, and the kernel."""
    for (types, (a, b, kind, inner)), down, across, (m, n, warps) in itertools.product(
        TYPES.items(), (False, True), (True, False), BLOCKS
    ):
        strides = {
            "stride_am": 1 if down else SIZE,
            "stride_ak": SIZE if down else 1,
            "stride_bk": SIZE if across else 1,
            "stride_bn": 1 if across else SIZE,
        }
        ways = f"{'across' if down else 'along'}, {'across' if across else 'along'}"
        name = f"{types}, {ways}, {m}x{n}"
        described = {"types": types, "first across": down, "second across": across, "block": [m, n, inner]}
        yield (
            name,
            described,
            Kernel(
                triton_kernels.matmul_mixed,
                {"a_ptr": _operand(a), "b_ptr": _operand(b)},
                {"out_ptr": Tensor("float32" if kind is tl.float32 else "float16", (SIZE, SIZE))},
                (SIZE // m, SIZE // n),
                {"m": SIZE, "n": SIZE, "k": SIZE} | strides,
                {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": inner, "TYPE": kind},
                {"num_warps": warps, "num_stages": 3},
            ),
        )


def _operand(dtype: str) -> Tensor:
    return Tensor(dtype, (SIZE, SIZE), 128 if dtype == "int8" else None)


def compare(name: str, kernel: Kernel, turns: int) -> dict[str, Any]:
    """Stock's time over ours, and whether the results have the same bits."""
    session = measure.Session(Case(name, "dot", TRITON, kernel.make), measure.Effort(turns=turns, cold=0))
    expected, found = (session.results(mode) for mode in (modes.STOCK, modes.OURS))
    warm, _ = measure.timed(session, (modes.STOCK, modes.OURS), lambda: None)
    facts = {mode: session.variant(mode).facts for mode in (modes.STOCK, modes.OURS)}
    return {
        "identical": measure.same(expected, found),
        "microseconds": warm[modes.STOCK]["microseconds"],
        "ratio": warm[modes.OURS]["ratio"],
        "fell_back": facts[modes.OURS]["fell_back"],
        "registers": {mode: [k["registers"] for k in facts[mode]["kernels"]] for mode in facts},
    }


def markdown(found: dict[str, Any]) -> str:
    """A table, the greatest gain first."""
    rows = sorted(found["cases"], key=lambda case: -case["ratio"][1])
    mean = geometric_mean(case["ratio"][1] for case in rows)
    below = sum(case["ratio"][1] < 0.98 for case in rows)
    lines = [
        "# Matrix products whose operands lie every way",
        "",
        f"{found['device']}, Triton {found['triton']}, triton-linear {found['triton_linear']}, "
        f"{found['date']}. "
        f"[{SIZE}, {SIZE}] x [{SIZE}, {SIZE}]; stock / ours, {len(rows)} cases: geometric mean {mean:.3f}, "
        f"{sum(case['ratio'][1] > 1.02 for case in rows)} above 1.02, {below} below 0.98; "
        f"{sum(case['identical'] for case in rows)} with the same bits.",
        "",
        "An operand across lies the other way than the product takes it.",
        "",
        "| types | first | second | block | stock µs | stock / ours | results |",
        "| --- | --- | --- | --- | ---: | ---: | --- |",
    ]
    for case in rows:
        low, ratio, high = case["ratio"]
        ways = ["across" if case[side] else "along" for side in ("first across", "second across")]
        block = "x".join(map(str, case["block"]))
        verdict = "identical" if case["identical"] else "DIFFER"
        lines.append(
            f"| {case['types']} | {ways[0]} | {ways[1]} | {block} | {case['microseconds']:.1f} "
            f"| {ratio:.3f} ({low:.3f} to {high:.3f}) | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def dry(target: str, only: str) -> int:
    """Compile every case for a target, with the plugin; the number of those that fell back to stock Triton."""
    from triton.backends.compiler import GPUTarget

    vendor, _, arch = target.partition(":")
    gpu = GPUTarget(vendor, int(arch) if arch.isdigit() else arch, 32 if vendor == "cuda" else 64)
    failures = 0
    for name, _, kernel in cases():
        if not re.search(only, name):
            continue
        with triton_linear.enabled() as reports:
            triton.compile(kernel.source(), target=gpu, options=dict(kernel.options))
        errors = [report.error for report in reports if report.error]
        failures += bool(errors)
        print(f"{name}: {errors or 'compiled'}", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.operands", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", default="", help="cases whose names this regular expression finds")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--dry", metavar="TARGET", help="only compile, for instance for cuda:90")
    options = parser.parse_args()
    if options.dry:
        return int(dry(options.dry, options.only) > 0)
    import torch

    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "date": datetime.date.today().isoformat(),
        "triton": triton.__version__,
        "triton_linear": triton_linear.__version__,
        "cases": [],
    }
    failures = 0
    for name, described, kernel in cases():
        if not re.search(options.only, name):
            continue
        try:
            case = described | compare(name, kernel, options.turns)
        except Exception as error:
            failures += 1
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        failures += not case["identical"] or bool(case["fell_back"])
        found["cases"].append(case)
        print(f"{name}: {case['ratio'][1]:.3f}", flush=True)
    print(save(options.output, "operands", markdown, found, indent=1).splitlines()[2])
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
