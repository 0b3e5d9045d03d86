"""Compiles the cases of the table of widths with a Triton of before linear layouts; no GPU is needed.

    python -m venv /tmp/old && /tmp/old/bin/pip install triton==3.0.0
    /tmp/old/bin/python -m bench.paper.widths_old [--output FOLDER]

Run by a Python that has that Triton, and nothing of this project but the sources. Writes widths-VERSION.json.
"""

from __future__ import annotations

from bench.harness.child import empty_cache
from bench.paper import old
from bench.paper.widths import POINTERS, ROWS, TARGET, Width, cases, widths


def ptx_of(case: Width) -> str:
    """The PTX of a case."""
    from bench.paper.widths_kernel import copied

    ptx: str = old.compiled(copied, [POINTERS[case.element]] * 2, (case.k, ROWS), TARGET, case.warps).asm["ptx"]
    return ptx


def main() -> None:
    """Compile all and write."""
    folder = old.output("widths_old")
    with empty_cache():
        found = {case.key: widths(ptx_of(case)) for case in cases()}
    print(old.write(folder, "widths", TARGET, {"widths": found}))


if __name__ == "__main__":
    main()
