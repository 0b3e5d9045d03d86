"""Compiles the cases of the mixed-precision table with a Triton of before linear layouts; no GPU is needed.

    python -m venv /tmp/old && /tmp/old/bin/pip install triton==3.0.0
    /tmp/old/bin/python -m bench.paper.mixed_old [--output FOLDER]

Run by a Python that has that Triton, and nothing of this project but the sources. Each case is a process of its
own, as a compiler that does not know a layout may abort. Writes mixed-VERSION.json: the cases that compile to a
cubin, and how many there are of each error.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from bench.harness.child import empty_cache
from bench.paper import old
from bench.paper.mixed import DEPTH, POINTERS, PRODUCTS, WARPS, Mixed, cases, first_line

TARGET = "cuda:90"


def compiled(case: Mixed) -> None:
    """Compile to a cubin, or raise."""
    import triton.language as tl

    from bench.paper.mixed_kernel import mixed_matmul

    pointers = [POINTERS[type_] for type_ in (case.integer, case.floating, case.result)]
    constants = (case.m, case.n, DEPTH, getattr(tl, PRODUCTS[case.floating]))
    old.compiled(mixed_matmul, pointers, constants, TARGET, WARPS)


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
    folder = old.output("mixed_old")
    with empty_cache():
        compiled(Mixed("i8", "f16", 64, 64))  # What that imports, the children have.
        found = {case.key: apart(case) for case in cases()}
    good = [key for key, error in found.items() if error is None]
    errors = Counter(error for error in found.values() if error is not None)
    path = old.write(folder, "mixed", TARGET, {"compiled": good, "errors": dict(errors)})
    print(f"{len(good)} of {len(found)} compile; {path}")


if __name__ == "__main__":
    main()
