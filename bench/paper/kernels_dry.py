"""Without a GPU: every kernel of the figure compiles for a target in every mode; what becomes of conversions.

    python -m bench.paper.kernels_dry [--target cuda:90] [--only REGEX]

A row per kernel that is compiled; sizes that share one stand in one row. The exit status is 1 if one does not
compile, falls back, or needs more shared memory than an H200 has for one program.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from typing import Any
from unittest import mock

from triton_linear.examples.spec import gpu_target

from bench.kernels import dry

from .compared import COMPILED
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
    for mode in COMPILED:
        kernels, became, problems = dry.compile_case(case.work().measured(case.key), target, mode)
        failed += [f"{mode}: {problem}" for problem in problems]
        shared = max((kernel.metadata.shared for kernel in kernels), default=0)
        if shared > SHARED:
            failed.append(f"{mode}: {shared} bytes of shared memory")
        if not cells:
            counted = counts([kernel.asm["ttgir"] for kernel in kernels])
            cells.append("/".join(map(str, counted.values())))
        else:
            cells.append(", ".join(f"{count} {kind}" for kind, count in became.items()) or "none")
    return cells, failed


def main(argv: Sequence[str] | None = None) -> int:
    """Compile all kernels, or those of the cases that a pattern finds."""
    parser = argparse.ArgumentParser(prog="python -m bench.paper.kernels_dry", description=__doc__)
    parser.add_argument("--target", default="cuda:90")
    parser.add_argument("--only", default="", metavar="REGEX")
    options = parser.parse_args(argv)
    wrong = 0
    measured = " | ".join(COMPILED[1:])
    print(f"| cases | stock: loads/stores/conversions | {measured} |")
    print(f"| --- | ---: |{' --- |' * (len(COMPILED) - 1)}")
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ):
        for number, same in enumerate(same_kernels(options.only).values()):
            # Of a kernel that another row has too, the cache would have no report.
            os.environ["TRITON_CACHE_DIR"] = os.path.join(cache, str(number))
            cells, failed = compiled(same[0], gpu_target(options.target))
            print(f"| {', '.join(case.key for case in same)} | {' | '.join(cells)} |", flush=True)
            for problem in failed:
                wrong += 1
                print(f"{same[0].key}: {problem}", file=sys.stderr, flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
