"""One function through `torch.compile` in configurations that were not chosen. Runs in the GPU's process.

A place is the number of a kernel, in the order of launch, and the name of its configuration; the function's
other kernels stay as chosen. Graphs of all places take turns, so that times of different configurations compare
as well as those of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..harness.child import Failed, told
from ..harness.turns import replay
from . import measure, modes
from .measure import Effort, Session, Variant

Place = tuple[int, str]


def kernels(name: str, effort: Effort) -> list[dict[str, Any]]:
    """The kernels that the case becomes: their names, configurations, and which is chosen. Raises Failed."""
    return told(_kernels, name, effort)


def run(
    name: str, mode: str, places: Sequence[Place], chosen: Sequence[str], effort: Effort
) -> list[dict[str, Any]]:
    """What is found at each place, with stock Triton and in `mode`.

    `times` are milliseconds of a call in every turn, `facts` those of the kernel, `errors` say why a mode has
    none; of results that are no garbage, how they compare with stock's. Raises Failed where no place can be
    measured, for instance because the GPU is lost.
    """
    return told(_run, name, mode, places, chosen, effort)


def _kernels(name: str, effort: Effort) -> list[dict[str, Any]]:
    session = measure.opened(name, effort)
    stock, compiled = session.variant(modes.STOCK).facts, session.compiled
    assert compiled is not None, "only cases for torch.compile are asked for"
    return [
        {"name": kernel["name"], "chosen": chosen, "configs": configs}
        for kernel, chosen, configs in zip(stock["kernels"], stock["configs"], compiled.names(), strict=True)
    ]


def _run(
    name: str, mode: str, places: Sequence[Place], chosen: Sequence[str], effort: Effort
) -> list[dict[str, Any]]:
    session = measure.opened(name, effort, chosen)
    session.variant(modes.STOCK)  # Says how many calls are in a graph.
    found, graphs = [], {}
    for at, (number, config) in enumerate(places):
        one, made, errors = _made(session, number, config, mode)
        known: dict[str, Any] = {
            "errors": errors,
            "facts": {key: variant.facts["kernels"][number] for key, variant in made.items()},
            "fell_back": made[mode].facts["fell_back"] if mode in made else [],
        }
        if mode in made:
            known |= measure.compare(one.case, one.results(modes.STOCK), one.results(mode))
        graphs |= {f"{at} {key}": variant.several for key, variant in made.items()}
        found.append(known)
    times = replay(graphs, effort.turns)
    for at, known in enumerate(found):
        known["times"] = {
            key: [milliseconds / session.calls for milliseconds in times[f"{at} {key}"]]
            for key in known["facts"]
        }
    return found


def _made(
    session: Session, number: int, config: str, mode: str
) -> tuple[Session, dict[str, Variant], dict[str, str]]:
    """The case at a place, what it is with stock Triton and in `mode`, and why it is not."""
    one, made, errors = session, {}, {}
    for key in (modes.STOCK, mode):
        try:
            one = session.configured(number, config)
            made[key] = one.variant(key)
        except Exception as problem:
            if measure.lost(problem):
                raise
            errors[key] = Failed.of(problem).error
            break
    return one, made, errors
