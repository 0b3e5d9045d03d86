"""Which passes of the pipeline do all of their work with a release of Triton, and which only a part."""

from __future__ import annotations

from typing import Final, Literal

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import (
    CLUSTERS_ORDERED,
    COPIES_NOT_HELD,
    REDUCTIONS_CONVERT,
    Release,
    Span,
)
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline


@dataclass(frozen=True)
class Limit:
    """What a pass, by its name, leaves out with the releases in `span`; and the reason, or why nothing is
    lost."""

    span: Span
    by: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


LIMITS: Final = (
    Limit(
        Span((3, 6), CLUSTERS_ORDERED.since),
        "linear-select-lowering",
        "in kernels with clusters, conversions through shared memory are left to Triton",
        "only its own code waits there until other CTAs have read what it stores over",
    ),
    Limit(
        REDUCTIONS_CONVERT,
        "linear-split-reductions",
        "reductions that round and do not commute, as Welford's, are left to Triton",
        "lanes would keep different copies, and this Triton splits reductions itself",
    ),
    Limit(
        COPIES_NOT_HELD,
        "linear-split-reductions",
        "reductions of layouts whose encoding has registers for copies are left to Triton",
        "it wants these where it reshapes, and splits reductions itself",
    ),
)


@dataclass(frozen=True)
class Coverage:
    """A pass with a release of Triton: its summary in one line, and its limits with this release."""

    name: str
    summary: str
    limits: tuple[Limit, ...]

    @property
    def state(self) -> Literal["on", "partly"]:
        return "partly" if self.limits else "on"


def coverage(release: Release) -> tuple[Coverage, ...]:
    """The coverage of each pass of the pipeline, in its order, with `release`."""
    known = [limit for limit in LIMITS if release in limit.span]
    return tuple(
        Coverage(each.name, each.summary, tuple(limit for limit in known if limit.by == each.name))
        for each in pipeline(PipelineOptions(), None)
    )
