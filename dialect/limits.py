"""The table of what passes leave out with some releases of Triton.

`triton-linear status` prints the entries for the installed Triton.
Remove an entry as soon as it no longer holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import (
    CLUSTERS_ORDERED,
    COPIES_NOT_HELD,
    REDUCTIONS_CONVERT,
    Release,
    Span,
)


@dataclass(frozen=True)
class Limit:
    """Something that passes leave out with the releases in `spans`.

    what: what is left out. why: the reason, or why nothing is lost.
    passes: the names of the passes.
    """

    spans: tuple[Span, ...]
    what: str
    why: str
    passes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


LIMITS: Final = (
    Limit(
        (Span((3, 6), CLUSTERS_ORDERED.since),),
        "in kernels with clusters, conversions through shared memory are left to Triton",
        "only its own code waits there until other CTAs have read what it stores over",
        ("linear-select-lowering",),
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
    """The limits that hold with a release."""
    return (limit for limit in LIMITS if any(release in span for span in limit.spans))
