"""Without a GPU: every kernel of the figure compiles for a target in every mode; what becomes of conversions.

    python -m bench.paper.kernels_dry [--target cuda:90] [--only REGEX]

A row per kernel that is compiled; sizes that share one stand in one row. The exit status is 1 if one does not
compile, falls back, or needs more shared memory than an H200 has for one program.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

from bench.harness.cases import say
from bench.harness.child import empty_cache
from bench.harness.options import Parser
from bench.harness.report import counted, row, table
from bench.kernels import dry, modes
from triton_linear.examples.spec import gpu_target

from .kernel_case import Case, cases
from .kernels import counts

SHARED = 232448
"""Bytes of shared memory that a program may take on an H200."""


def same_kernels(only: str) -> dict[tuple[Any, ...], list[Case]]:
    """Cases by what is compiled for them."""
    found: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases():
        if re.search(only, case.key):
            sources = [(kernel.source().hash(), *kernel.options.items()) for kernel in case.work().kernels]
            found.setdefault(tuple(sources), []).append(case)
    return found


def compiled(case: Case, target: Any) -> tuple[list[str], list[str]]:
    """(cells of a row: counts of stock Triton, what became of conversions in the other modes; what failed)."""
    cells: list[str] = []
    failed: list[str] = []
    for mode in modes.WAYS:
        kernels, became, problems = dry.compile_case(case.work().measured(case.key), target, mode)
        failed += [f"{mode}: {problem}" for problem in problems]
        shared = max((kernel.metadata.shared for kernel in kernels), default=0)
        if shared > SHARED:
            failed.append(f"{mode}: {shared} bytes of shared memory")
        if not cells:
            operations = counts([kernel.asm["ttgir"] for kernel in kernels])
            cells.append("/".join(map(str, operations.values())))
        else:
            cells.append(counted(became) or "none")
    return cells, failed


def main(argv: Sequence[str] | None = None) -> int:
    """Compile all kernels, or those of the cases that a pattern finds."""
    parser = Parser("paper.kernels_dry", __doc__, whole=True).only("cases", "")
    parser.add_argument("--target", default="cuda:90")
    options = parser.parse_args(argv)
    wrong = 0
    print(*table(f"cases | stock: loads/stores/conversions: | {' | '.join(modes.WAYS[1:])}"), sep="\n")
    for same in same_kernels(options.only).values():
        with empty_cache():  # Of a kernel that another row has too, the cache would have no report.
            cells, failed = compiled(same[0], gpu_target(options.target))
        print(row(", ".join(case.key for case in same), *cells), flush=True)
        wrong += len(failed)
        for problem in failed:
            say(f"{same[0].key}: {problem}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
