"""The figure of whole kernels: those that TritonBench has, each at a few sizes, under three ways to compile.

Every kernel is written here, as its author would for one GPU, in one sensible configuration. `stock` is Triton
as installed, `ours` the plugin, `legacy` conversions as Triton lowered them before it had linear layouts, and
`again` stock once more, which is the noise.
"""

from __future__ import annotations

import functools
import gc
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.kernels import measure, modes
from bench.kernels.statistics import interval

from .kernel_case import Case, Work, apart, cases
from .kernels_report import report
from .table import Record, Table

COMPILED = (modes.STOCK, modes.OURS, modes.BASELINE)
PARTS = (modes.ASSIGN, modes.LOWER, modes.BOUND)
"""The plugin's parts, each alone: layouts; lowerings; bounds on registers."""
MODES = (*COMPILED, *PARTS)
EFFORT = measure.Effort(turns=20, cold=0)
RATIOS = (
    (modes.STOCK, modes.OURS),
    (modes.BASELINE, modes.OURS),
    (modes.BASELINE, modes.STOCK),
    (modes.STOCK, modes.AGAIN),
    *((modes.STOCK, part) for part in PARTS),
)
"""Which mode's time is divided by which one's."""
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


def _told(kernel: Any) -> Path:
    """Where what the plugin reported of a compiled kernel is kept: a kernel from the cache has no report."""
    from triton import knobs

    return Path(knobs.cache.dir) / "paper-reports" / f"{kernel.hash}.json"


def _keep(kernels: Sequence[Any], reports: Sequence[Any]) -> None:
    for kernel in kernels:
        mine = [each for each in reports if each.kernel == kernel.name]
        if mine:
            failed = [each.error for each in mine if each.error]
            known = {"conversions": measure.conversions(mine, {kernel.name}), "fell_back": failed}
            path = _told(kernel)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known))


def prepare(case: Case) -> dict[str, str]:
    """Compile a case's kernels in every mode into Triton's cache; gives what went wrong, by mode."""
    import torch

    work, wrong = case.work(), {}
    for mode in MODES:
        try:
            with modes.context(mode) as reports, measure.loaded() as kernels:
                work.warm(torch)
            _keep(kernels, reports)
        except Exception as problem:
            wrong[mode] = f"{type(problem).__name__}: {problem}"[:300]
    return wrong


@functools.cache
def _ready() -> None:
    """Each capture of a graph collects garbage: what is there before the first is none."""
    gc.collect()
    gc.freeze()


def run(case: Case) -> Record:
    """Times, ratios, facts of the kernels and verdicts on the results of one case, in every mode."""
    import torch

    begun = time.perf_counter()
    _ready()
    work = case.work()
    session = measure.opened(work.measured(case.key), EFFORT)
    found = measure.judged(session, [mode for mode in (*MODES, modes.AGAIN) if mode != modes.STOCK])
    good = measure.timeable(found)
    for mode in good:
        kernels = session.variant(mode).held
        found[mode] |= _reported(kernels, found[mode])
    times = measure.replay({mode: session.variant(mode).several for mode in good}, EFFORT.turns)
    for mode, known in measure.summary(times, session.calls).items():
        found[mode]["microseconds"] = known["microseconds"]
    ratios = {
        f"{slow}/{fast}": [round(each, 5) for each in _ratio(times[slow], times[fast])]
        for slow, fast in RATIOS
        if slow in times and fast in times
    }
    _judge(torch, work, session, found)
    return {
        "kernel": case.kernel,
        "size": dict(case.size),
        "calls": session.calls,
        "modes": found,
        "ratios": ratios,
        "counts": counts([kernel.asm["ttgir"] for kernel in session.variant(modes.STOCK).held]),
        "tolerance": work.tolerance,
        "seconds": round(time.perf_counter() - begun, 2),
    }


def _ratio(slow: Sequence[float], fast: Sequence[float]) -> tuple[float, float, float]:
    return interval([a / b for a, b in zip(slow, fast, strict=True)])


def _reported(kernels: Sequence[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What became of conversions, and what fell back: of this compilation, or of the one that the cache has."""
    became, failed = dict(facts["conversions"]), list(facts["fell_back"])
    if became or failed:
        return {"conversions": became, "fell_back": failed}
    for kernel in kernels:
        path = _told(kernel)
        if path.exists():
            known = json.loads(path.read_text())
            failed += known["fell_back"]
            for kind, count in known["conversions"].items():
                became[kind] = became.get(kind, 0) + count
    return {"conversions": became, "fell_back": failed}


def _judge(torch: Any, work: Work, session: measure.Session, found: Mapping[str, dict[str, Any]]) -> None:
    """Compare every mode's results with the reference in float64."""
    names = [name for kernel in work.kernels for name in kernel.outputs]
    expected = work.expected(torch, work.given(measure.Inputs()))
    for mode in measure.timeable(found):
        if mode != modes.AGAIN:
            error = apart(expected, dict(zip(names, session.results(mode), strict=True)))
            verdict = "within tolerance" if error <= work.tolerance else "WRONG"
            found[mode] |= {"reference": verdict, "reference_apart": error}


TABLE = Table(name="kernels", timed=True, gpu=True, cases=cases, run=run, report=report, prepare=prepare)
