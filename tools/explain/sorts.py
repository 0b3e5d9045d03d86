"""Merge the reductions by which Triton's library implements a sort into one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_linear.tools.explain.records import ReductionFigures, ReductionReport


def merge_sorts(reports: Sequence[ReductionReport]) -> list[ReductionReport]:
    """The reports with the steps of each sort merged into one report."""
    groups: dict[object, list[ReductionReport]] = {}
    for number, report in enumerate(reports):
        at = report.place.file, report.place.line, report.place.column, report.loop_depth, report.operation
        groups.setdefault(at if report.steps else number, []).append(report)
    return [_merged(group) if group[0].steps else group[0] for group in groups.values()]


def _merged(steps: Sequence[ReductionReport]) -> ReductionReport:
    """The report about a sort: the layout of its most expensive step, and the sums of the figures."""
    most_expensive = max(steps, key=lambda step: step.weight)
    apart = None
    if any(step.apart is not None for step in steps):
        apart = _sum([step.apart or step.figures for step in steps])
    return replace(
        most_expensive,
        steps=len(steps),
        spread={},
        figures=_sum([step.figures for step in steps]),
        detail=next((step.detail for step in steps if step.detail), ""),
        apart=apart,
    )


def _sum(figures: Sequence[ReductionFigures | None]) -> ReductionFigures | None:
    """The sums of the figures, with the maximum of the scratch, because steps run one after another.

    None if a step has no figures.
    """
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
