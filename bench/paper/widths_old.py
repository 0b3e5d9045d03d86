"""Compiles the cases of the table of widths with a Triton of before linear layouts; no GPU is needed.

    python -m venv /tmp/old && /tmp/old/bin/pip install triton==3.0.0
    /tmp/old/bin/python -m bench.paper.widths_old [--output bench/results]

Run by a Python that has that Triton, and nothing of this project but the sources. Writes widths-VERSION.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from bench.paper.widths import POINTERS, ROWS, TARGET, Width, cases, widths


def ptx_of(case: Width) -> str:
    """The PTX of a case."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, AttrsDescriptor

    from bench.paper.widths_kernel import copied

    pointer = POINTERS[case.element]
    versioned: Any = ASTSource  # of 3.0, where arguments go by number
    source = versioned(
        copied,
        signature={0: pointer, 1: pointer},
        constants={2: case.k, 3: ROWS},
        attrs=AttrsDescriptor({0, 1}, set()),
    )
    capability = int(TARGET.partition(":")[2])
    options = {"num_warps": case.warps}
    ptx: str = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"]
    return ptx


def main() -> None:
    """Compile all and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.paper.widths_old")
    parser.add_argument("--output", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    import triton

    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        found = {case.key: widths(ptx_of(case)) for case in cases()}
    path = options.output / f"widths-{triton.__version__}.json"
    path.write_text(
        json.dumps({"triton": triton.__version__, "target": TARGET, "widths": found}, indent=1) + "\n"
    )
    print(path)


if __name__ == "__main__":
    main()
