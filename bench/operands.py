"""Matrix products whose operands lie every way, against stock Triton on the GPU that is here.

    python -m bench.operands [--output DIR] [--only REGEX] [--turns N] [--dry TARGET]

An operand "across" lies the other way than its rows: neighbours are below each other for the first, beside each
other for the second, as in most frameworks. Results have to be the same, bit for bit. Writes operands.json and
operands.md; the exit status is 1 if a result differs or a case fails. `--dry` only compiles, with both.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import triton.language as tl

from triton_linear.examples.spec import gpu_target

from .harness.child import empty_cache
from .harness.options import Parser
from .harness.report import between, measured_on, page, sizes, spread, table
from .harness.statistics import GAIN, LOSS
from .kernels import beside, dry, modes, triton_kernels
from .kernels.kernel import Kernel, Tensor

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


def cases() -> Iterator[beside.Described]:
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


def compare(name: str, kernel: Kernel, turns: int) -> tuple[dict[str, Any], float]:
    """Stock's time over ours, and whether the results have the same bits."""
    record, warm, facts = beside.measured(name, kernel, (modes.OURS,), turns)
    record["ratio"] = warm[modes.OURS]["ratio"]
    record["registers"] = {mode: [k["registers"] for k in known["kernels"]] for mode, known in facts.items()}
    return record, record["ratio"][1]


def markdown(found: dict[str, Any]) -> str:
    """A table, the greatest gain first."""
    cases = sorted(found["cases"], key=lambda case: -case["ratio"][1])
    mean, _, _, below, above = spread([case["ratio"][1] for case in cases])
    rows = [
        (
            case["types"],
            *("across" if case[side] else "along" for side in ("first across", "second across")),
            sizes(case["block"]),
            f"{case['microseconds']:.1f}",
            between(case["ratio"]),
            "identical" if case["identical"] else "DIFFER",
        )
        for case in cases
    ]
    return page(
        "# Matrix products whose operands lie every way",
        "",
        f"{measured_on(found)}. [{SIZE}, {SIZE}] x [{SIZE}, {SIZE}]; stock / ours, {len(cases)} cases: "
        f"geometric mean {mean}, {above} above {GAIN}, {below} below {LOSS}; "
        f"{sum(case['identical'] for case in cases)} with the same bits.",
        "",
        "An operand across lies the other way than the product takes it.",
        "",
        *table("types | first | second | block | stock µs: | stock / ours: | results", rows),
    )


def compiled(target: str, only: str) -> int:
    """Compile every case for a target, with the plugin; the number of those that fell back to stock Triton."""
    failures = 0
    with empty_cache():
        for name, _, kernel in cases():
            if re.search(only, name):
                *_, failed = dry.compile_case(beside.case(name, kernel), gpu_target(target), modes.OURS)
                failures += bool(failed)
                print(f"{name}: {failed or 'compiled'}", flush=True)
    return failures


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; see the module's docstring."""
    parser = Parser("operands", __doc__).output(Path("build/bench")).only().turns(20).dry()
    options = parser.parse_args(argv)
    if options.dry:
        return int(compiled(options.dry, options.only) > 0)
    options.budget = None
    text, failures = beside.execute("operands", cases(), compare, markdown, options)
    print(text.splitlines()[2])
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
