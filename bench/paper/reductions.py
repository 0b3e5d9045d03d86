"""Reductions of tensors of seven kinds of layouts: shared-memory instructions of ours, of stock Triton and of
Triton 3.0, which has no linear layouts, and whether results are right.

    for case in cases():
        record = run(case)

Instructions are those in the PTX for cuda:90 of a kernel that does nothing but reduce. Results are what the
interpreter gets from the LLVM dialect that the PTX is made of. No GPU is needed. Triton 3.0.0 is that of the
Python `TRITON_300`; where there is none, it is left out:

    python3.11 -m venv /work/venv300 && /work/venv300/bin/pip install triton==3.0.0 setuptools
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from triton_linear.dialect.encodings import layout_of
from triton_linear.lowering.simulate_memory import SimulationError
from triton_linear.tools.compile import lower, to_triton
from triton_linear.tools.errors import ToolError
from triton_linear.tools.functions import LoweredKernel, lower_kernel, registers_of

from bench.paper.reductions_kernel import ARGMAX, OLD, SUM, Case, kernel

TARGET = "cuda:90"
TRITON_300 = os.environ.get("TRITON_300", "/work/venv300/bin/python")
SHAPES = ((128, 16), (128, 128), (32, 128), (32, 32), (16, 16))
_OLD_SCRIPT = Path(__file__).with_name("reductions_old.py")
_SHARED = re.compile(r"\b(?P<kind>ld\.shared|st\.shared|ldmatrix|stmatrix)\S*")
_OTHERS = re.compile(r"\b(?:(?P<shuffle>shfl)|(?P<barrier>bar(?:rier)?)\.sync)\b")

BLOCKED, MMA, MMA_INPUT = "blocked", "mma", "mma input"
SLICE_BLOCKED, SLICE_MMA, SLICE_INPUT = "slice of blocked", "slice of mma", "slice of mma input"
LINEAR = "custom linear"
PAPER = {
    BLOCKED: {"legacy": "20/20", "linear": "20/20", "instructions": (5888, 1388)},
    MMA: {"legacy": "20/20", "linear": "20/20", "instructions": (5914, 3517)},
    MMA_INPUT: {"legacy": "0/10", "linear": "10/10", "instructions": None},
    SLICE_BLOCKED: {"legacy": "20/20", "linear": "20/20", "instructions": (6703, 4687)},
    SLICE_MMA: {"legacy": "0/10", "linear": "10/10", "instructions": None},
    SLICE_INPUT: {"legacy": "0/10", "linear": "10/10", "instructions": None},
    LINEAR: {"legacy": "0/10", "linear": "10/10", "instructions": None},
}
"""The paper's table: reductions that are right, and shared-memory instructions, in the legacy system and in the
linear one. Which layouts and operations these are is not stated; the figures compare in proportion only."""


def _mma(warps: str, shape: str) -> str:
    return (
        f"#ttg.nvidia_mma<{{versionMajor = 2, versionMinor = 0, warpsPerCTA = {warps}, instrShape = {shape}}}>"
    )


def _operand(parent: str) -> str:
    return f"#ttg.dot_op<{{opIdx = 0, parent = {parent}, kWidth = 1}}>"


def _slice(parent: str, dim: int = 0) -> str:
    return f"#ttg.slice<{{dim = {dim}, parent = {parent}}}>"


def _blocked(size: str, threads: str, warps: str, order: str) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = {size}, threadsPerWarp = {threads}, warpsPerCTA = {warps}, "
        f"order = {order}}}>"
    )


LAYOUTS = {
    BLOCKED: (
        _blocked("[1, 4]", "[4, 8]", "[2, 2]", "[1, 0]"),
        _blocked("[4, 1]", "[8, 4]", "[1, 4]", "[0, 1]"),
    ),
    MMA: (_mma("[2, 2]", "[16, 8]"), _mma("[1, 4]", "[16, 8]")),
    MMA_INPUT: (_operand(_mma("[2, 2]", "[16, 8]")),),
    SLICE_BLOCKED: (
        _slice(_blocked("[1, 1, 4]", "[1, 4, 8]", "[1, 2, 2]", "[2, 1, 0]")),
        _slice(_blocked("[1, 4, 1]", "[2, 4, 4]", "[2, 1, 2]", "[1, 2, 0]")),
    ),
    SLICE_MMA: (_slice(_mma("[1, 2, 2]", "[1, 16, 8]")),),
    SLICE_INPUT: (_slice(_operand(_mma("[1, 2, 2]", "[1, 16, 8]"))),),
}


def _linear(shape: tuple[int, int], gaps: bool) -> str:
    """A layout that no other encoding has: warps along both dimensions, the first register beyond the lanes.

    `gaps`: lanes take turns along the dimensions, so that those along each of them are not in a row.
    """
    rows, columns = ([(axis, bit) for bit in range(size.bit_length() - 1)] for axis, size in enumerate(shape))
    warps = [rows.pop(), columns.pop()]
    turns = [bit for pair in zip_longest(columns, rows) for bit in pair if bit is not None]
    bits = turns if gaps else [*columns, *rows]
    lanes, registers = bits[:5], bits[:4:-1]
    places = {"register": registers, "lane": lanes, "warp": warps, "block": []}
    bases = {
        name: [[1 << bit if place == axis else 0 for place in (0, 1)] for axis, bit in found]
        for name, found in places.items()
    }
    return "#ttg.linear<{" + ", ".join(f"{name} = {found}" for name, found in bases.items()) + "}>"


def cases() -> list[Case]:
    """All reductions of the table."""
    found = []
    for kind in PAPER:
        for alone, shape, axis, operation in product((False, True), SHAPES, (0, 1), (SUM, ARGMAX)):
            layouts = LAYOUTS.get(kind) or (_linear(shape, False), _linear(shape, True))
            for number, encoding in enumerate(layouts):
                found.append(Case(kind, number, encoding, shape, axis, operation, alone))
    return found


def run(case: Case) -> dict[str, Any]:
    """The record of one case: for `ours`, `stock` and, where there is one, `triton 3.0.0`, instructions and
    whether the result is right (None for Triton 3.0.0, which is compiled only), or an `error`."""
    record: dict[str, Any] = {
        "key": case.key,
        "kind": case.kind,
        "operation": case.operation,
        "alone": case.alone,
    }
    for name, ours in (("ours", True), ("stock", False)):
        try:
            lowered = lower_kernel(kernel(case), "reduction.ttgir", TARGET, ours=ours, reductions=ours)
            ptx = lower(to_triton(lowered.embedded), TARGET, "ptx").text("ptx")
            record[name] = {**figures(ptx), "right": is_right(case, lowered)}
        except (ToolError, SimulationError) as error:
            record[name] = {"error": str(error)}
    if Path(TRITON_300).exists():
        record["triton 3.0.0"] = _of_old(case)
    return record


def figures(ptx: str) -> dict[str, Any]:
    """Instructions that access shared memory, all and by kind, shuffles and barriers."""
    kinds = Counter(found["kind"] for found in _SHARED.finditer(ptx))
    others = Counter(found.lastgroup for found in _OTHERS.finditer(ptx))
    return {
        "instructions": kinds.total(),
        "kinds": dict(sorted(kinds.items())),
        "shuffles": others["shuffle"],
        "barriers": others["barrier"],
    }


def is_right(case: Case, lowered: LoweredKernel) -> bool:
    """Whether the interpreter finds every result right in every thread that holds it, without a race."""
    rng = np.random.default_rng(sum(map(ord, case.key)))
    values = rng.integers(-40, 40, case.shape).astype(np.float32)  # sums are exact; maxima have ties
    layout = layout_of(case.given, case.shape, 32)
    result = layout_of(case.wanted, (case.shape[1 - case.axis],), 32)
    inputs = [values.view(np.uint32).astype(np.uint64)[None]]
    if case.operation == SUM:
        wanted = [values.sum(case.axis).view(np.uint32)]
    else:
        places = np.indices(case.shape)[case.axis]
        inputs.append(places.astype(np.uint64)[None])
        wanted = [values.max(case.axis).view(np.uint32), values.argmax(case.axis)]
    outcome = lowered.run([registers_of(tensor, layout, lowered) for tensor in inputs])
    if outcome.races:
        return False
    for index, numbers in enumerate(wanted):
        found, undefined = outcome.sinks[f"result{index}"]
        expected = registers_of(numbers.astype(np.uint64)[None], result, lowered)
        if undefined.any() or found.shape != expected.shape or (found != expected).any():
            return False
    return True


def _of_old(case: Case) -> dict[str, Any]:
    """What Triton 3.0.0 makes of it, in a process of its own: it aborts where it does not know a layout."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reduction.ttgir")
        path.write_text(kernel(case, OLD))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        found = subprocess.run(
            [TRITON_300, str(_OLD_SCRIPT), str(path)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
    if found.returncode:
        said = [line for line in found.stderr.splitlines() if line.strip()]
        telling = [line for line in said if re.search(r"error:|Error|Assertion|LLVM ERROR", line)]
        return {"error": (telling or said or [f"status {found.returncode}"])[0][-300:]}
    compiled = json.loads(found.stdout)
    return {**figures(compiled["ptx"]), "right": None}


def totals(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By kind of layout: for each of the systems, how many compile and are right, and instructions; `common`:
    those of cases that all of them compile."""
    result: dict[str, dict[str, Any]] = {}
    for kind in PAPER:
        mine = [record for record in records if record["kind"] == kind]
        systems = [name for name in ("ours", "stock", "triton 3.0.0") if any(name in record for record in mine)]
        common = [record for record in mine if all("error" not in record[name] for name in systems)]
        result[kind] = {
            name: {
                "cases": len(mine),
                "compiled": sum("error" not in record[name] for record in mine),
                "right": sum(bool(record[name].get("right")) for record in mine),
                "instructions": sum(record[name].get("instructions", 0) for record in mine),
                "common": sum(record[name]["instructions"] for record in common),
                "barriers": sum(record[name].get("barriers", 0) for record in mine),
            }
            for name in systems
        }
    return result
