"""Gathers along the rows of [512, k]: stock Triton and the plugin.

Each program has a tile of its own: one kernel loads it and its indices, gathers once and stores, in which
memory takes most of the time; the other gathers `CHAIN` times in a loop, each time from what it got before.
Results have to be the same, bit for bit.

    python -m bench.paper.gather --target cuda:90 [--only REGEX]

compiles the kernels for that GPU, without one, and counts instructions; the exit status is 1 if one falls back
to stock Triton.
"""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from bench.harness.cases import chosen
from bench.harness.child import empty_cache
from bench.harness.options import Parser
from bench.kernels import measure, modes
from bench.kernels.kernel import Kernel, Tensor
from triton_linear.examples.spec import gpu_target

from . import compared
from .gather_report import report
from .kernel_case import Work
from .table import Part, Record, Table

ROWS = 512
COLUMNS = (2, 4, 8, 16, 32, 64)
ELEMENTS = ("float32", "float16", "int8")
WARPS = 4
BLOCKS = 2048
CHAIN = 32
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


@dataclass(frozen=True)
class Gather:
    """Gathers along the rows of [ROWS, columns] elements, so many times."""

    element: str
    columns: int
    times: int

    @property
    def key(self) -> str:
        """See `Case`."""
        return f"[{ROWS}, {self.columns}] {self.element}, {'once' if self.times == 1 else 'chain'}"

    def kernel(self) -> Kernel:
        """How it is launched."""
        shape = (BLOCKS * ROWS, self.columns)
        inputs = {
            "x_ptr": Tensor(self.element, shape, 128 if self.element == "int8" else None),
            "index_ptr": Tensor("int32", shape, self.columns, index=True),
        }
        return Kernel(
            gather_rows,
            inputs,
            {"out_ptr": Tensor(self.element, shape)},
            (BLOCKS,),
            constants={"ROWS": ROWS, "COLUMNS": self.columns, "TIMES": self.times},
            options={"num_warps": WARPS},
        )

    def work(self) -> Work:
        """The launch, and what it must give: elements are moved, so nothing is rounded."""

        def gathered(torch: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
            tile, index = given["x_ptr"], given["index_ptr"].long()
            for _ in range(self.times):
                tile = tile.gather(1, index)
            return {"out_ptr": tile}

        return Work([self.kernel()], gathered, tolerance=0.0)


def cases() -> Sequence[Gather]:
    """Every size of every element, once and in a chain."""
    return [Gather(*each) for each in itertools.product(ELEMENTS, COLUMNS, (1, CHAIN))]


def prepare(case: Gather) -> dict[str, str]:
    """Compile a case in every mode into Triton's cache; gives what went wrong, by mode."""
    return compared.prepare(case.work())


def run(case: Gather) -> Record:
    """Times, ratios, facts of the kernels and verdicts on the results of one case, in every mode."""
    begun = time.perf_counter()
    _, found = compared.run(case.work(), case.key)
    return {
        "element": case.element,
        "columns": case.columns,
        "times": case.times,
        **found,
        "seconds": round(time.perf_counter() - begun, 2),
    }


def compiled(kernel: Kernel, target: Any, mode: str) -> dict[str, Any]:
    """What a kernel is in one mode, without a GPU: how its gathers are done, and instructions that it has."""
    with modes.context(mode) as reports:
        found = triton.compile(kernel.source(), target=target, options=dict(kernel.options))
    assembly = found.asm["ptx" if target.backend == "cuda" else "amdgcn"]
    return {
        "gathers": measure.gathers(reports, {report.kernel for report in reports}),
        "failed": [report.error for report in reports if report.error],
        "shared": found.metadata.shared,
        **{name: len(re.findall(pattern, assembly)) for name, pattern in INSTRUCTIONS.items()},
    }


def compile_all(name: str, only: str) -> int:
    """Print a line for each case and mode; 1 if a kernel falls back to stock Triton."""
    target, wrong = gpu_target(name), 0
    with empty_cache():
        for case in chosen("gather", cases(), only, lambda case: case.key):
            for mode in modes.WAYS:
                facts = compiled(case.kernel(), target, mode)
                wrong += bool(facts["failed"])
                counts = ", ".join(f"{facts[key]} {key}" for key in INSTRUCTIONS)
                lowered = "; ".join(": ".join(gather) for gather in facts["gathers"])
                print(f"{case.key:28} {mode:6} {counts}, {facts['shared']} bytes  {lowered}", flush=True)
    return int(wrong > 0)


def _report(records: Mapping[str, Record]) -> Part:
    return report([case.key for case in cases()], records)


TABLE = Table(name="gather", timed=True, gpu=True, cases=cases, run=run, report=_report, prepare=prepare)


def main(arguments: list[str] | None = None) -> int:
    """Compile and count; see the module's docstring."""
    parser = Parser("paper.gather", __doc__).only()
    parser.add_argument("--target", required=True, help="compile for this GPU, without one")
    options = parser.parse_args(arguments)
    return compile_all(options.target, options.only)


if __name__ == "__main__":
    sys.exit(main())
