"""`triton-linear-opt`: run passes over TritonGPU IR and print it at any stage of compilation.

triton-linear-opt kernel.ttgir --linear-select-lowering=target=cuda:90 --linear-outline-conversions
triton-linear-opt kernel.ttgir --pass-pipeline='builtin.module(linear-assign-layouts)'
triton-linear-opt kernel.ttgir --canonicalize --cse --mlir-print-ir-diff
triton-linear-opt kernel.ttgir --linear-pipeline --emit=ptx -o kernel.ptx
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from triton_linear.tools.support.errors import Printer, guarded, supervised


def main(argv: Sequence[str] | None = None) -> int:
    """Run `triton-linear-opt`; the exit status is 1 after an error, 2 for a wrong command line."""
    printer = Printer()

    def run() -> int:
        tool = importlib.import_module("triton_linear.tools.opt.run")  # which may fail without MLIR
        return int(tool.run(sys.argv[1:] if argv is None else argv, printer))

    def guarded_run() -> int:
        return guarded(run, printer)

    return supervised(guarded_run) if argv is None else guarded_run()


if __name__ == "__main__":
    sys.exit(main())
