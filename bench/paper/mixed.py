"""Mixed precision: products of integers and floats of 16 pairs of types in 49 shapes.

The integers become the type of the floats, or f16 where those are f8 (e4m3), and `tl.dot` does the rest. Small
multiples of a quarter go in, so that every partial sum is exact in f32 and in the ten bits of TF32: a result is
right if it is that of float64, bit for bit.

The paper counts what its legacy Triton passes. Ours are three: Triton 3.0.0, which only compiles here
(`mixed_old`); conversions as it did them, in the Triton of today; and stock Triton of today.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.report import table
from bench.paper.table import Part, Record, Table, not_run

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "f32", "f64", "f8")
SIZES = (1, 2, 4, 8, 16, 32, 64)
DEPTH = 64
WARPS = 4
PAPER = {"legacy": 366, "linear": 784}
OLD = Path(__file__).parents[1] / "results" / "mixed-3.0.0.json"

POINTERS = {"f16": "*fp16", "f32": "*fp32", "f64": "*fp64", "f8": "*fp8e4nv"} | {
    name: f"*{name}" for name in INTEGERS
}
"""Triton's name of a pointer to each type."""
PRODUCTS = {"f16": "float16", "f32": "float32", "f64": "float64", "f8": "float16"}
"""What is multiplied, by the type of the floats, as `tl` calls it."""
_TORCH = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "f8": "float8_e4m3fn",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}


@dataclass(frozen=True)
class Mixed:
    """[m, DEPTH] of `integer` times [DEPTH, n] of `floating`."""

    integer: str
    floating: str
    m: int
    n: int

    @property
    def key(self) -> str:
        """See `Case`."""
        return f"{self.integer} x {self.floating}, {self.m}x{self.n}"

    @property
    def pair(self) -> str:
        """The two types."""
        return f"{self.integer} x {self.floating}"

    @property
    def result(self) -> str:
        """The type of the product: the accumulator's."""
        return "f64" if self.floating == "f64" else "f32"


def cases() -> Sequence[Mixed]:
    """784 of them."""
    return [
        Mixed(integer, floating, m, n)
        for integer in INTEGERS
        for floating in FLOATS
        for m in SIZES
        for n in SIZES
    ]


def operands(case: Mixed) -> tuple[Any, Any, Any]:
    """Integers of -8 to 7, quarters of -2 to 1.75, and their product in float64, on the CPU."""
    import torch

    generator = torch.Generator().manual_seed(100 * case.m + case.n)
    a = torch.randint(-8, 8, (case.m, DEPTH), generator=generator)
    b = torch.randint(-8, 8, (DEPTH, case.n), generator=generator).double() / 4
    product = a.double() @ b
    return a.to(torch_type(case.integer)), b.to(torch_type(case.floating)), product


def torch_type(name: str) -> Any:
    """PyTorch's type of that name of ours."""
    import torch

    return getattr(torch, _TORCH[name])


def source(case: Mixed) -> Any:
    """The kernel of a case as `triton.compile` takes it."""
    import triton.language as tl

    from bench.paper.mixed_kernel import mixed_matmul
    from triton_linear.examples.spec import KernelSpec

    types = {"a_ptr": case.integer, "b_ptr": case.floating, "out_ptr": case.result}
    constants = {"M": case.m, "N": case.n, "K": DEPTH, "TYPE": getattr(tl, PRODUCTS[case.floating])}
    signature = {name: POINTERS[type_] for name, type_ in types.items()}
    return KernelSpec(case.key, mixed_matmul, signature, constants, tuple(types)).source()


def compiled(case: Mixed, way: str, target: str) -> str | None:
    """Compile without a GPU: None, or what went wrong."""
    import triton

    from bench.kernels import modes
    from triton_linear.examples.spec import gpu_target

    try:
        with modes.context(way, strict=True):
            triton.compile(source(case), target=gpu_target(target), options={"num_warps": WARPS})
    except Exception as problem:
        return first_line(problem)
    return None


def first_line(problem: BaseException) -> str:
    """Of a compiler's own assertion if one is behind it; shapes are left out, so that errors can be counted."""
    cause = problem.__cause__ or problem
    lines = str(cause).strip().splitlines() or [""]
    return re.sub(r"\(\[constexpr.*?\]\)", "(...)", f"{type(cause).__name__}: {lines[0]}")[:300]


def run(case: Mixed) -> Record:
    """By way: whether it compiles, whether it is right, and what went wrong."""
    import torch
    import triton.language as tl

    from bench.kernels import modes
    from bench.paper.mixed_kernel import mixed_matmul

    a, b, product = operands(case)
    a, b = a.cuda(), b.cuda()
    found: dict[str, dict[str, Any]] = {}
    for way in modes.WAYS:
        out = torch.full(product.shape, float("nan"), dtype=torch_type(case.result), device="cuda")
        arguments = (a, b, out, case.m, case.n, DEPTH, getattr(tl, PRODUCTS[case.floating]))
        found[way] = {"compiled": False, "right": False}
        try:
            with modes.context(way, strict=True):
                mixed_matmul.warmup(*arguments, grid=(1,), num_warps=WARPS)
                found[way]["compiled"] = True
                mixed_matmul[(1,)](*arguments, num_warps=WARPS)
        except Exception as problem:
            found[way]["error"] = first_line(problem)
            continue
        found[way]["right"] = bool(torch.equal(out.cpu().double(), product))
    return found


def old() -> Mapping[str, Any]:
    """What `mixed_old` recorded."""
    found: Mapping[str, Any] = json.loads(OLD.read_text())
    return found


def report(records: Mapping[str, Record]) -> Part:
    """Passed of each pair, by way."""
    before = old()
    compiles = set(before["compiled"])
    declared = cases()
    measured = [case for case in declared if case.key in records]
    had = any("legacy" in record for record in records.values())
    columns = ("stock", "legacy", "ours") if had else ("stock", "ours")

    def passed(way: str, pair: str) -> int:
        return sum(
            bool(records[case.key].get(way, {}).get("right")) for case in measured if pair in ("", case.pair)
        )

    def row(name: str, pair: str) -> Sequence[object]:
        here = [case for case in declared if pair in ("", case.pair)]
        passes = (passed(way, pair) for way in columns)
        return name, len(here), sum(case.key in compiles for case in here), *passes

    pairs = [f"{integer} x {floating}" for integer in INTEGERS for floating in FLOATS]
    lines = [
        "Products of integers and floats, M and N of 1 to 64, K of 64: how many of each pair of types pass. "
        "A case passes if it compiles and every element is that of float64. The paper's legacy Triton passes "
        f"{PAPER['legacy']} of {PAPER['linear']}, its linear layouts all; which shapes those are it does not "
        "say, so counts of single pairs do not compare.",
        "",
        f"Triton {before['triton']} is compiled for {before['target']} and not run, which can only flatter it. "
        "*legacy* is today's Triton with conversions as that version had them: that alone costs no case, if "
        "its column is as stock's. Before 3.9, Triton has no code for the layout that it gives to products of "
        "doubles with integers of 8 or 16 bits.",
        "",
        *table(
            f"pair | cases | Triton {before['triton']} compiles | {' | '.join(columns)}",
            [
                *(row(pair, pair) for pair in pairs),
                row("all", ""),
                ("the paper", PAPER["linear"], PAPER["legacy"], *("" for _ in columns[1:]), PAPER["linear"]),
            ],
        ),
        "",
        *_errors(f"Triton {before['triton']}", Counter(before["errors"])),
    ]
    shortfalls = []
    for way in columns:
        errors = Counter(
            records[case.key][way].get("error", "wrong result")
            for case in measured
            if way in records[case.key] and not records[case.key][way]["right"]
        )
        errors += Counter(records[case.key]["error"] for case in measured if "error" in records[case.key])
        lines += _errors(way, errors)
        if way == "ours":
            shortfalls = [f"{count} cases fail: {error}" for error, count in errors.items()]
    shortfalls += not_run(declared, records)

    def figure(axes: Any) -> None:
        names = ["paper, legacy", f"Triton {before['triton']}", *columns, "paper, linear"]
        heights = [PAPER["legacy"], len(compiles), *(passed(way, "") for way in columns), PAPER["linear"]]
        greys = ["0.75", "tab:blue", *["tab:blue"] * len(columns), "0.75"]
        bars = axes.bar(names, heights, color=greys)
        axes.bar_label(bars)
        axes.set_ylabel(f"cases of {len(declared)} that pass")
        axes.set_title("Mixed precision")
        axes.tick_params(axis="x", rotation=30)

    return Part("Mixed-precision matmul", "\n".join(lines) + "\n", shortfalls, figure)


def _errors(who: str, errors: Mapping[str, int]) -> list[str]:
    """What went wrong, most frequent first."""
    ordered = sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    return [f"- {who}, {count} cases: `{error[:160]}`" for error, count in ordered]


TABLE = Table("mixed", timed=False, gpu=True, cases=cases, run=run, report=report)
