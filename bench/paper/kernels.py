"""The figure of whole kernels: those that TritonBench has, each at a few sizes, with and without the plugin.

Every kernel is written here, as its author would for one GPU, in one sensible configuration. `stock` is Triton
as installed, `ours` the plugin, and `again` stock once more, which is the noise.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from bench.kernels import modes

from . import compared
from .kernel_case import Case, cases
from .kernels_report import report
from .table import Record, Table

COUNTED = {
    "load": r"\bttg\.local_load\b",
    "store": r"\bttg\.local_store\b|\bttg\.local_alloc %",
    "convert": r"\bttg\.convert_layout\b",
}
"""What is counted of TTGIR: loads from shared memory, stores to it (allocations of values too), conversions."""


def counts(modules: Sequence[str]) -> dict[str, int]:
    """How often TTGIR modules have each operation that the paper counts.

    >>> counts(["%1 = ttg.local_alloc %0\\n%2 = ttg.local_alloc : ()\\n%3 = ttg.local_load %1"])
    {'load': 1, 'store': 1, 'convert': 0}
    """
    return {name: sum(len(re.findall(pattern, text)) for text in modules) for name, pattern in COUNTED.items()}


def prepare(case: Case) -> dict[str, str]:
    """Compile a case's kernels in every mode into Triton's cache; gives what went wrong, by mode."""
    return compared.prepare(case.work())


def run(case: Case) -> Record:
    """Times, ratios, facts of the kernels and verdicts on the results of one case, in every mode."""
    begun = time.perf_counter()
    session, found = compared.run(case.work(), case.key)
    return {
        "kernel": case.kernel,
        "size": dict(case.size),
        **found,
        "counts": counts([kernel.asm["ttgir"] for kernel in session.variant(modes.STOCK).held]),
        "seconds": round(time.perf_counter() - begun, 2),
    }


TABLE = Table(name="kernels", timed=True, gpu=True, cases=cases, run=run, report=report, prepare=prepare)
