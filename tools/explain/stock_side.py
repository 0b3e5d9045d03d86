"""The results of stock Triton for a module's conversions and kernels, each in a process, because Triton may
crash."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.passes.framework.plans import DecidedConversion
from triton_linear.tools.explain.records import Figures, StockReport
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import to_triton
from triton_linear.tools.support.errors import capture_into_stderr
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify.stock import MEMORY, SECONDS, WARM, check_conversions

_WORKERS: Final = 4


def figures_of(verdict: Verdict) -> Figures:
    """The counts of a verdict as figures."""
    counts = verdict.counts
    return Figures(
        counts.wavefronts,
        counts.minimum_wavefronts,
        counts.shuffles,
        counts.alu_operations,
        counts.cta_barriers,
        counts.warp_barriers,
        counts.cluster_barriers,
        counts.bytes_stored + counts.bytes_loaded,
        verdict.wrong,
        len(verdict.races),
    )


def stock_reports(
    conversions: Iterable[DecidedConversion], warps: int, target: str
) -> dict[tuple[str, str], StockReport]:
    """The reports on stock Triton's code for conversions, by their two types."""
    distinct = list(dict.fromkeys((c.source, c.destination) for c in conversions))
    work = [(source, destination, warps, target) for source, destination in distinct]
    findings = check_conversions(work, workers=_workers())
    return {
        types: StockReport(one.status, one.detail, figures_of(one.verdict) if one.verdict else None)
        for types, one in zip(distinct, findings, strict=True)
    }


def stock_peaks(kernels: Sequence[str], target: str) -> list[int | None]:
    """The bytes of shared memory of each kernel; None if Triton cannot compile it."""
    isolation: Isolation[int] = Isolation(_peak, [__name__, *WARM], SECONDS, MEMORY)
    results = isolation.map([(text, target) for text in kernels], _workers())
    return [None if isinstance(one, Lost) else one for one in results]


def _peak(text: str, target: str) -> int:
    capture_into_stderr()
    return int(lower(to_triton(text), target, "llvm").metadata.get("shared") or 0)


def _workers() -> int:
    return min(_WORKERS, os.cpu_count() or 1)
