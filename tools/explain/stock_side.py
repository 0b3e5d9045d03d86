"""What stock Triton makes of the same conversions and kernels: each in a process, as Triton may end it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.passes.framework.plans import DecidedConversion
from triton_linear.tools.explain.ledger import peak
from triton_linear.tools.explain.records import Figures, StockReport
from triton_linear.tools.support.errors import keep_captured
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify.stock import MEMORY, SECONDS, WARM, check_conversions

_WORKERS: Final = 4


def figures_of(verdict: Verdict) -> Figures:
    """What was counted when the code of a conversion ran."""
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
    """What stock Triton emits for each conversion, by its two types."""
    distinct = list(dict.fromkeys((c.source, c.destination) for c in conversions))
    work = [(source, destination, warps, target) for source, destination in distinct]
    found = check_conversions(work, workers=_workers())
    return {
        types: StockReport(f.status, f.detail, figures_of(f.verdict) if f.verdict else None)
        for types, f in zip(distinct, found, strict=True)
    }


def stock_peaks(kernels: Sequence[str], target: str) -> list[int | None]:
    """Bytes of shared memory that each kernel takes; None where Triton does not get so far."""
    isolation: Isolation[int] = Isolation(_peak, [__name__, *WARM], SECONDS, MEMORY)
    found = isolation.map([(text, target) for text in kernels], _workers())
    return [None if isinstance(one, Lost) else one for one in found]


def _peak(text: str, target: str) -> int:
    keep_captured()
    return peak(text, target)


def _workers() -> int:
    return min(_WORKERS, os.cpu_count() or 1)
