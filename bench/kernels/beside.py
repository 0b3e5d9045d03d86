"""Kernels written by hand, measured one after another in this process: `bench.tiles`, `bench.operands`.

A case that fails costs no other, unless it takes the GPU along.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..harness import results
from ..harness.cases import Run, say
from . import measure, modes
from .case import TRITON, Case
from .kernel import Kernel

Described = tuple[str, dict[str, Any], Kernel]
"""A case: its name, what it is made of, and the kernel."""


def case(name: str, kernel: Kernel) -> Case:
    """A kernel as a case of the suite."""
    return Case(
        name, "dot", TRITON, kernel.make, sources=lambda target: {name: (kernel.source(), kernel.options)}
    )


def measured(
    name: str, kernel: Kernel, ways: Sequence[str], turns: int
) -> tuple[dict[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """What every record has of a kernel in some ways beside stock Triton; times and facts by way."""
    session = measure.Session(case(name, kernel), measure.Effort(turns=turns, cold=0))
    expected = session.results(modes.STOCK)
    identical = all(measure.same(expected, session.results(way)) for way in ways)
    warm, _ = measure.timed(session, (modes.STOCK, *ways), lambda: None)
    facts = {way: session.variant(way).facts for way in (modes.STOCK, *ways)}
    record = {
        "identical": identical,
        "microseconds": warm[modes.STOCK]["microseconds"],
        "fell_back": facts[modes.OURS]["fell_back"],
    }
    return record, warm, facts


def execute(
    stem: str,
    cases: Iterable[Described],
    compare: Callable[[str, Kernel, int], tuple[dict[str, Any], float]],
    markdown: results.Markdown,
    options: argparse.Namespace,
) -> tuple[str, int]:
    """The page of a run, and how many cases failed or differ; `compare` gives a record and its ratio."""
    import torch

    run = Run(lambda report: results.save(options.output, stem, markdown, report), options.budget)
    run.heading({"device": torch.cuda.get_device_name(), **results.versions()})
    failures = 0
    wanted = [case for case in cases if re.search(options.only, case[0])]
    for name, described, kernel in run.each(wanted, lambda case: case[0]):
        try:
            record, ratio = compare(name, kernel, options.turns)
        except Exception as error:
            failures += 1
            say(f"{name}: {type(error).__name__}: {error}")
            continue
        failures += not record["identical"] or bool(record["fell_back"])
        run.add(described | record, f"{name}: {ratio:.3f}")
    run.save()
    return markdown(run.report), failures
