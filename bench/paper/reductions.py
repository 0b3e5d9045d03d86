"""Reductions of tensors of seven kinds of layouts: shared-memory instructions of ours, of stock Triton and of
Triton 3.0.0, which has no linear layouts, and whether results are right.

Instructions are those in the PTX for cuda:90 of a kernel that does nothing but reduce. Results are what the
interpreter gets from the LLVM dialect that the PTX is made of. No GPU is needed. What Triton 3.0.0 makes of
each case is kept: `reductions_old`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import product, zip_longest
from typing import TYPE_CHECKING, Any

from bench.harness.ttgir import blocked, dot_operand, linear, mma, slice_of
from bench.paper.reductions_kernel import ARGMAX, SUM, Case, kernel
from bench.paper.reductions_report import (
    BLOCKED,
    MMA,
    MMA_INPUT,
    PAPER,
    SLICE_BLOCKED,
    SLICE_INPUT,
    SLICE_MMA,
    report,
)
from bench.paper.table import Part, Record, Table

if TYPE_CHECKING:
    from bench.whole_kernels import LoweredKernel

TARGET = "cuda:90"
SHAPES = ((128, 16), (128, 128), (32, 128), (32, 32), (16, 16))
_SHARED = re.compile(r"\b(?P<kind>ld\.shared|st\.shared|ldmatrix|stmatrix)\S*")
_OTHERS = re.compile(r"\b(?:(?P<shuffle>shfl)|(?P<barrier>bar(?:rier)?)\.sync)\b")


LAYOUTS = {
    BLOCKED: (
        blocked([1, 4], [4, 8], [2, 2], [1, 0]),
        blocked([4, 1], [8, 4], [1, 4], [0, 1]),
    ),
    MMA: (mma(2, [2, 2], [16, 8]), mma(2, [1, 4], [16, 8])),
    MMA_INPUT: (dot_operand(0, mma(2, [2, 2], [16, 8]), 1),),
    SLICE_BLOCKED: (
        slice_of(0, blocked([1, 1, 4], [1, 4, 8], [1, 2, 2], [2, 1, 0])),
        slice_of(0, blocked([1, 4, 1], [2, 4, 4], [2, 1, 2], [1, 2, 0])),
    ),
    SLICE_MMA: (slice_of(0, mma(2, [1, 2, 2], [1, 16, 8])),),
    SLICE_INPUT: (slice_of(0, dot_operand(0, mma(2, [1, 2, 2], [1, 16, 8]), 1)),),
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
    return linear(bases)


def cases() -> list[Case]:
    """All reductions of the table."""
    found = []
    for kind in PAPER:
        for alone, shape, axis, operation in product((False, True), SHAPES, (0, 1), (SUM, ARGMAX)):
            layouts = LAYOUTS.get(kind) or (_linear(shape, False), _linear(shape, True))
            for number, encoding in enumerate(layouts):
                found.append(Case(kind, number, encoding, shape, axis, operation, alone))
    return found


def run(case: Case) -> Record:
    """For `ours` and `stock`: `figures` and whether the result is right, or an `error`."""
    from bench.whole_kernels import lower_kernel
    from triton_linear.lowering.interpreter.memory import SimulationError
    from triton_linear.passes.options import PipelineOptions
    from triton_linear.tools.support.compile import lower, to_triton
    from triton_linear.tools.support.errors import ToolError

    record: dict[str, Any] = {}
    for name, ours in (("ours", True), ("stock", False)):
        try:
            lowered = lower_kernel(
                kernel(case), "reduction.ttgir", TARGET, PipelineOptions(assign=False) if ours else None
            )
            ptx = lower(to_triton(lowered.embedded), TARGET, "ptx").text("ptx")
            record[name] = {**figures(ptx), "right": is_right(case, lowered)}
        except (ToolError, SimulationError) as error:
            record[name] = {"error": str(error)}
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
    import numpy as np

    from bench.whole_kernels import registers_of
    from triton_linear.dialect.encodings import layout_of

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
    given: list[Any] = [registers_of(tensor, layout, lowered) for tensor in inputs]
    outcome = lowered.run(given)
    if outcome.races:
        return False
    for index, numbers in enumerate(wanted):
        found, undefined = outcome.sinks[f"result{index}"]
        expected = registers_of(numbers.astype(np.uint64)[None], result, lowered)
        if undefined.any() or found.shape != expected.shape or (found != expected).any():
            return False
    return True


def _report(records: Mapping[str, Record]) -> Part:
    return report(cases(), records)


TABLE = Table("reductions", timed=False, gpu=False, cases=cases, run=run, report=_report)
