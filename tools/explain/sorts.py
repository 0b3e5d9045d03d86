"""Sorts, which Triton's library makes of reductions: the steps of each as one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_linear.tools.explain.records import ReductionFigures, ReductionReport


def gathered(reports: Sequence[ReductionReport]) -> list[ReductionReport]:
    """Reports in which the steps of one sort are one; the others as they are."""
    groups: dict[object, list[ReductionReport]] = {}
    for number, report in enumerate(reports):
        at = report.place.file, report.place.line, report.place.column, report.loop_depth, report.operation
        groups.setdefault(at if report.steps else number, []).append(report)
    return [_one(group) if group[0].steps else group[0] for group in groups.values()]


def _one(steps: Sequence[ReductionReport]) -> ReductionReport:
    """A sort, of its steps: the layout is that of the dearest, figures are those of all of them."""
    dearest = max(steps, key=lambda step: step.weight)
    apart = None
    if any(step.apart is not None for step in steps):
        apart = _sum([step.apart or step.figures for step in steps])
    return replace(
        dearest,
        steps=len(steps),
        spread={},
        figures=_sum([step.figures for step in steps]),
        detail=next((step.detail for step in steps if step.detail), ""),
        apart=apart,
    )


def _sum(figures: Sequence[ReductionFigures | None]) -> ReductionFigures | None:
    """Those of all; scratch is that of the step which takes most, as no two run at a time. None where one has
    none."""
    known = [one for one in figures if one is not None]
    if len(known) < len(figures):
        return None
    return ReductionFigures(
        sum(one.shuffles for one in known),
        sum(one.wavefronts for one in known),
        sum(one.minimum_wavefronts for one in known),
        sum(one.barriers for one in known),
        sum(one.bytes for one in known),
        max(one.scratch_bytes for one in known),
    )
