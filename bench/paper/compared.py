"""Launches timed side by side: stock Triton, the plugin, and stock again (the noise).

What is compiled ahead of the run is in Triton's cache; what the plugin reported of it is kept beside that, as a
kernel from the cache has no report.
"""

from __future__ import annotations

import functools
import gc
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness.statistics import ratio
from bench.harness.turns import replay, summary
from bench.kernels import measure, modes

from .kernel_case import Work, apart

PARTS = (modes.ASSIGN, modes.LOWER)
"""The plugin's parts, each alone: layouts; lowerings."""
EFFORT = measure.Effort(turns=20, cold=0)
RATIOS = (
    (modes.STOCK, modes.OURS),
    (modes.STOCK, modes.AGAIN),
    *((modes.STOCK, part) for part in PARTS),
)
"""Which mode's time is divided by which one's."""


def _told(kernel: Any) -> Path:
    """Where what the plugin reported of a compiled kernel is kept."""
    from triton import knobs

    return Path(knobs.cache.dir) / "paper-reports" / f"{kernel.hash}.json"


def _keep(kernels: Sequence[Any], reports: Sequence[Any]) -> None:
    for kernel in kernels:
        mine = [each for each in reports if each.kernel == kernel.name]
        if mine:
            known = {
                "conversions": measure.conversions(mine, {kernel.name}),
                "fell_back": [each.error for each in mine if each.error],
            }
            path = _told(kernel)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known))


def prepare(work: Work) -> dict[str, str]:
    """Compile kernels in every mode into Triton's cache; gives what went wrong, by mode."""
    import torch

    wrong = {}
    for mode in (*modes.WAYS, *PARTS):
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


def run(work: Work, name: str) -> tuple[measure.Session, dict[str, Any]]:
    """Times, ratios, facts of the kernels and verdicts on the results, in every mode."""
    import torch

    _ready()
    session = measure.opened(work.measured(name), EFFORT)
    found = measure.judged(session, [*modes.WAYS[1:], *PARTS, modes.AGAIN])
    good = measure.timeable(found)
    for mode in good:
        found[mode] |= _reported(session.variant(mode).held, found[mode])
    times = replay({mode: session.variant(mode).several for mode in good}, EFFORT.turns)
    for mode, known in summary(times, session.calls).items():
        found[mode]["microseconds"] = known["microseconds"]
    ratios = {
        f"{slow}/{fast}": ratio(times[slow], times[fast])
        for slow, fast in RATIOS
        if slow in times and fast in times
    }
    _judge(torch, work, session, found)
    return session, {
        "calls": session.calls,
        "modes": found,
        "ratios": ratios,
        "tolerance": work.tolerance,
    }


def _reported(kernels: Sequence[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What became of conversions, and what fell back: of this compilation, or of the one that the cache has."""
    became, failed = Counter(facts["conversions"]), list(facts["fell_back"])
    if not (became or failed):
        for kernel in kernels:
            path = _told(kernel)
            if path.exists():
                known = json.loads(path.read_text())
                failed += known["fell_back"]
                became.update(known["conversions"])
    return {"conversions": dict(became), "fell_back": failed}


def _judge(torch: Any, work: Work, session: measure.Session, found: Mapping[str, dict[str, Any]]) -> None:
    """Compare every mode's results with the reference in float64."""
    names = [name for kernel in work.kernels for name in kernel.outputs]
    expected = work.expected(torch, work.given(measure.Inputs()))
    for mode in measure.timeable(found):
        if mode != modes.AGAIN:
            error = apart(expected, dict(zip(names, session.results(mode), strict=True)))
            verdict = "within tolerance" if error <= work.tolerance else "WRONG"
            found[mode] |= {"reference": verdict, "reference_apart": error}
