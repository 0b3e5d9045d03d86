"""Gathers along the rows of [512, k]: stock Triton, the plugin, and Triton of before; needs an NVIDIA GPU.

    python -m bench.gather [--output DIR] [--only REGEX] [--turns N] [--budget SECONDS]
    python -m bench.gather --target cuda:90 [--only REGEX]

The shapes are those of the linear-layouts paper (arXiv 2505.23819). Each program has a tile of its own: one
kernel loads it and its indices, gathers once and stores, in which memory takes most of the time; the other
gathers `CHAIN` times in a loop, each time from what it got before. Beside the plugin as it is, its legacy mode:
gathers through row-major shared memory, and conversions of before (docs/legacy.md). Results have to be the
same, bit for bit.

After each case a line is added to gather.jsonl; cases that are there are not run again. At the end gather.json
and gather.md are made of all of them. The exit status is 1 if a result differs or a case fails. With `--target`
kernels are compiled for that GPU, without one, and instructions counted.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
import triton_linear
from triton_linear.examples.spec import gpu_target

from .kernels import measure, modes
from .kernels.case import TRITON, Case
from .kernels.cases_triton import Kernel, Tensor
from .report import save

ROWS = 512
COLUMNS = (2, 4, 8, 16, 32, 64, 128, 256)
ELEMENTS = ("float32", "float16", "int8")
WARPS = 4
BLOCKS = 2048
CHAIN = 32
MODES = (modes.OURS, modes.BASELINE)
INSTRUCTIONS = {
    "shuffles": r"\bshfl\.sync|\bds_bpermute",
    "stores": r"\bst\.shared|\bstmatrix|\bds_write|\bds_store",
    "loads": r"\bld\.shared|\bldmatrix|\bds_read|\bds_load",
    "barriers": r"\bbar\.sync|\bs_barrier",
}


@triton.jit
def gather_rows(x_ptr, index_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TIMES: tl.constexpr):
    """Each program gathers along the rows of a tile of its own, TIMES times."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    places = rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tile, index = tl.load(x_ptr + places), tl.load(index_ptr + places)
    if TIMES == 1:
        tile = tl.gather(tile, index, 1)
    else:
        for _ in range(TIMES):
            tile = tl.gather(tile, index, 1)
    tl.store(out_ptr + places, tile)


def cases() -> Iterator[tuple[str, dict[str, Any], Kernel]]:
    """Every case: its name, what it is made of, and the kernel."""
    for element, columns, times in itertools.product(ELEMENTS, COLUMNS, (1, CHAIN)):
        shape = (BLOCKS * ROWS, columns)
        inputs = {
            "x_ptr": Tensor(element, shape, 128 if element == "int8" else None),
            "index_ptr": Tensor("int32", shape, columns, index=True),
        }
        yield (
            f"[{ROWS}, {columns}] {element}, {'once' if times == 1 else 'chain'}",
            {"columns": columns, "element": element, "times": times},
            Kernel(
                gather_rows,
                inputs,
                {"out_ptr": Tensor(element, shape)},
                (BLOCKS,),
                constants={"ROWS": ROWS, "COLUMNS": columns, "TIMES": times},
                options={"num_warps": WARPS},
            ),
        )


def compiled(kernel: Kernel, target: Any, mode: str) -> dict[str, Any]:
    """What a kernel is in one mode, without a GPU: how its gathers are done, and instructions that it has."""
    with modes.context(mode) as reports:
        found = triton.compile(kernel.source(), target=target, options=dict(kernel.options))
    assembly = found.asm["ptx" if target.backend == "cuda" else "amdgcn"]
    return {
        "gathers": [(gather.lowering, gather.detail) for report in reports for gather in report.gathers],
        "failed": [report.error for report in reports if report.error],
        "shared": found.metadata.shared,
        **{name: len(re.findall(pattern, assembly)) for name, pattern in INSTRUCTIONS.items()},
    }


def compile_all(name: str, only: str) -> int:
    """Print a line for each case and mode; 1 if a kernel falls back to stock Triton."""
    target, wrong = gpu_target(name), 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        for case, _, kernel in cases():
            if not re.search(only, case):
                continue
            for mode in (modes.STOCK, *MODES):
                facts = compiled(kernel, target, mode)
                wrong += bool(facts["failed"])
                counts = ", ".join(f"{facts[key]} {key}" for key in INSTRUCTIONS)
                lowered = "; ".join(": ".join(gather) for gather in facts["gathers"])
                print(f"{case:28} {mode:6} {counts}, {facts['shared']} bytes  {lowered}", flush=True)
    return int(wrong > 0)


def compare(name: str, kernel: Kernel, turns: int) -> dict[str, Any]:
    """Stock's time over that of each mode, and whether all results have the same bits."""
    session = measure.Session(Case(name, "gather", TRITON, kernel.make), measure.Effort(turns=turns, cold=0))
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
        "shared": {mode: facts[mode]["kernels"][0]["shared"] for mode in facts},
    }


def markdown(found: dict[str, Any]) -> str:
    """A table for each element type, once and in a chain."""
    lines = [
        "# Gathers along the rows of [512, k]",
        "",
        f"{found['device']}, Triton {found['triton']}, triton-linear {found['triton_linear']}, "
        f"{found['date']}. {BLOCKS} programs of {WARPS} warps; stock / the mode, medians with their 95 % "
        f"interval. `once`: load, gather, store; a number: as many gathers, each of what the one before gave. "
        "`ours`: the plugin; `legacy`: gathers and conversions as Triton lowered them before linear layouts.",
    ]
    for element in ELEMENTS:
        rows = [row for row in found["cases"] if row["element"] == element]
        if not rows:
            continue
        lines += [
            "",
            f"## {element}",
            "",
            "| k | gathers | stock µs | ours | legacy | shared bytes | results |",
            "| ---: | --- | ---: | ---: | ---: | --- | --- |",
        ]
        for row in rows:
            ratios = " | ".join(
                f"{ratio:.2f} ({low:.2f} to {high:.2f})"
                for low, ratio, high in (row["ratio"][mode] for mode in MODES)
            )
            shared = ", ".join(str(row["shared"][mode]) for mode in (modes.STOCK, *MODES))
            lines.append(
                f"| {row['columns']} | {'once' if row['times'] == 1 else row['times']} "
                f"| {row['microseconds']:.1f} | {ratios} | {shared} "
                f"| {'identical' if row['identical'] else 'DIFFER'} |"
            )
    return "\n".join(lines) + "\n"


def device_name() -> str:
    """The GPU that is there."""
    import torch

    return str(torch.cuda.get_device_name())


def done(path: Path) -> dict[str, dict[str, Any]]:
    """The cases of a file of lines, by name; a line that a killed run left unfinished is not one."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            case = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[case["name"]] = case
    return found


def measure_all(output: Path, only: str, turns: int, budget: float | None) -> int:
    """Measure the cases that `output` has not yet, and write tables of all; how many are not as they are to be.

    After `budget` seconds no case is begun.
    """
    begun, path = time.perf_counter(), output / "gather.jsonl"
    output.mkdir(parents=True, exist_ok=True)
    found, failures = done(path), 0
    made = {
        "device": device_name(),
        "date": datetime.date.today().isoformat(),
        "triton": triton.__version__,
        "triton_linear": triton_linear.__version__,
    }
    order = []
    for name, described, kernel in cases():
        order.append(name)
        if name in found or not re.search(only, name):
            continue
        if budget is not None and time.perf_counter() - begun > budget:
            print(f"{name}: not begun, {budget:g} seconds are over", flush=True)
            break
        try:
            case = {"name": name, **made, **described, **compare(name, kernel, turns)}
        except Exception as error:
            failures += 1
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        found[name] = case
        # On a line of its own, even behind what a killed run began.
        whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
        with path.open("a") as lines:
            lines.write(("" if whole else "\n") + json.dumps(case) + "\n")
        print(f"{name}: {case['ratio'][modes.OURS][1]:.3f}", flush=True)
    rows = [found[name] for name in order if name in found]
    print(save(output, "gather", markdown, {**made, "cases": rows}, indent=1))
    return failures + sum(not case["identical"] or bool(case["fell_back"]) for case in rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gather", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", default="", help="cases whose names this regular expression finds")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin no case after so long")
    parser.add_argument("--target", help="compile for this GPU, without one, and count instructions")
    options = parser.parse_args(arguments)
    if options.target:
        return compile_all(options.target, options.only)
    return int(measure_all(options.output, options.only, options.turns, options.budget) > 0)


if __name__ == "__main__":
    sys.exit(main())
