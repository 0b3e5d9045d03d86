"""Which passes of the pipeline do all of their work with a release of Triton, and which only a part.

`pipeline` gives the passes; `dialect.limits` states what they leave out.
"""

from __future__ import annotations

from typing import Literal

from triton_linear.dialect.limits import Limit, limits
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import Release
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline

State = Literal["on", "partly"]


@dataclass(frozen=True)
class Coverage:
    """A pass with a release of Triton: its summary in one line, and its limits with this release."""

    name: str
    summary: str
    limits: tuple[Limit, ...]

    @property
    def state(self) -> State:
        return "partly" if self.limits else "on"


def coverage(release: Release) -> tuple[Coverage, ...]:
    """The coverage of each pass of the pipeline, in its order, with `release`."""
    known = tuple(limits(release))
    return tuple(
        Coverage(each.name, each.summary, tuple(limit for limit in known if each.name in limit.passes))
        for each in pipeline(PipelineOptions(), None)
    )
