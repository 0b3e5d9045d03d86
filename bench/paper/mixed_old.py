"""Compiles the cases of the mixed-precision table with a Triton of before linear layouts; no GPU is needed.

    python -m venv /tmp/old && /tmp/old/bin/pip install triton==3.0.0
    /tmp/old/bin/python -m bench.paper.mixed_old [--output bench/results]

Run by a Python that has that Triton, and nothing of this project but the sources. Each case is a process of its
own, as a compiler that does not know a layout may abort. Writes mixed-VERSION.json: the cases that compile to a
cubin, and how many there are of each error.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bench.paper.mixed import DEPTH, POINTERS, PRODUCTS, WARPS, Mixed, cases, first_line

TARGET = "cuda:90"


def compiled(case: Mixed) -> None:
    """Compile to a cubin, or raise."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, AttrsDescriptor

    from bench.paper.mixed_kernel import mixed_matmul

    types = (case.integer, case.floating, case.result)
    constants = (case.m, case.n, DEPTH, getattr(tl, PRODUCTS[case.floating]))
    versioned: Any = ASTSource  # of 3.0, where arguments go by number
    source = versioned(
        mixed_matmul,
        signature={number: POINTERS[type_] for number, type_ in enumerate(types)},
        constants=dict(enumerate(constants, len(types))),
        attrs=AttrsDescriptor({0, 1, 2}, set()),
    )
    capability = int(TARGET.partition(":")[2])
    triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": WARPS})


def apart(case: Mixed) -> str | None:
    """Compile in a child: None, or what went wrong."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        message = ""
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            compiled(case)
        except Exception as problem:
            message = first_line(problem)
        os.write(writing, message.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        message = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"the compiler ends with {signal.Signals(os.WTERMSIG(status)).name}"
    return message or None


def main() -> None:
    """Compile all and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.paper.mixed_old")
    parser.add_argument("--output", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    import triton

    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        compiled(Mixed("i8", "f16", 64, 64))  # What that imports, the children have.
        found = {case.key: apart(case) for case in cases()}
    good = [key for key, error in found.items() if error is None]
    errors = Counter(error for error in found.values() if error is not None)
    result = {"triton": triton.__version__, "target": TARGET, "compiled": good, "errors": dict(errors)}
    path = options.output / f"mixed-{triton.__version__}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(good)} of {len(found)} compile; {path}")


if __name__ == "__main__":
    main()
