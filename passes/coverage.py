"""Which passes of the pipeline do all of their work with a release of Triton, and which a part.

The passes are those that `pipeline` gives; what they leave out is said by `dialect.limits`.
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
    """A pass with a release: what it does in one line, and what it does not do."""

    name: str
    summary: str
    limits: tuple[Limit, ...]

    @property
    def state(self) -> State:
        return "partly" if self.limits else "on"


def coverage(release: Release) -> tuple[Coverage, ...]:
    """The passes of the pipeline, in its order, as they are with `release`."""
    known = tuple(limits(release))
    return tuple(
        Coverage(each.name, each.summary, tuple(limit for limit in known if each.name in limit.passes))
        for each in pipeline(PipelineOptions(), None)
    )
