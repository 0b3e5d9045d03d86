"""What of the pipeline does not do all of its work with some releases of Triton: one table.

`triton-linear version` shows it for the Triton at hand, and the plugin warns by it. An entry goes when what it
says is so no longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import (
    CLUSTERS_ORDERED,
    COPIES_NOT_HELD,
    REDUCTIONS_CONVERT,
    TENSOR_MEMORY_BY_LAYOUT,
    Release,
    Span,
)


@dataclass(frozen=True)
class Limit:
    """Something that passes do not do with the releases of some spans.

    what: what is not done, and why: why that is so, or why nothing is lost by it.
    passes: the names of those concerned. gpus: how the names of the GPUs begin that are concerned; none: all.
    told: the plugin warns of it, for stock Triton does not make up for it.
    """

    spans: tuple[Span, ...]
    what: str
    why: str
    passes: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    told: bool = False

    def concerns(self, target: str) -> bool:
        """Whether it is so for a GPU, given by Triton's name for it (`hip:gfx1100`)."""
        return not self.gpus or target.partition(":")[2].startswith(self.gpus)

    def __str__(self) -> str:
        where = f"on {' and '.join(self.gpus)}, " if self.gpus else ""
        return f"{where}{self.what}: {self.why}"


LIMITS: Final = (
    Limit(
        (Span((3, 6), CLUSTERS_ORDERED.since),),
        "in kernels with clusters, conversions through shared memory are left to Triton",
        "only its own code waits there until other CTAs have read what it stores over",
        ("linear-select-lowering",),
    ),
    Limit(
        (Span((3, 6), TENSOR_MEMORY_BY_LAYOUT.since),),
        "accesses to tensor memory keep their layouts, and epilogues stay whole",
        "fewer instructions serve there than those that are known here",
        ("linear-assign-layouts", "linear-split-epilogues"),
        ("100", "103"),
    ),
    Limit(
        (REDUCTIONS_CONVERT,),
        "reductions that round and do not commute, as Welford's, are left to Triton",
        "lanes would keep different copies, and this Triton splits reductions itself",
        ("linear-split-reductions",),
    ),
    Limit(
        (COPIES_NOT_HELD,),
        "reductions of layouts whose encoding has registers for copies are left to Triton",
        "it wants these where it reshapes, and splits reductions itself",
        ("linear-split-reductions",),
    ),
)


def limits(release: Release) -> Iterator[Limit]:
    """What is so with a release."""
    return (limit for limit in LIMITS if any(release in span for span in limit.spans))
