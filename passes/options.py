"""What the pipeline is asked to do. Needs neither MLIR nor Triton: processes that may compile nothing read
it."""

from __future__ import annotations

from dataclasses import replace

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.strategies import LINEAR, STRATEGIES, Strategy


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What the passes are asked to do; the defaults are the plugin's.

    assign: choose the layouts of all tensors together, and make accesses as wide as they then are.
    reductions: take reductions across warps apart. What that makes is for our lowering, so not without `lower`.
    lower: emit code for the conversions, gathers and staged accesses that are left.
    lowering: how they are lowered, one of `STRATEGIES`.
    scratch_limit: most bytes of shared memory that one conversion may use as scratch; None: the target's.
    exact: results have the bits that stock Triton's have: what decides about those stays as it is.
    staged: accesses to shared memory may go by way of another layout, with `lower`.
    free: for measuring: conversions of floats cost nothing and give garbage, and nothing else is done.
    free_only: the number of the only conversion that is free; None for all.
    without: for measuring: the name of a pass that is left out.
    rank: which assignment of layouts is taken, by modelled cost: 0 the best, if it pays; above, whether it does
    or not.
    """

    assign: bool = True
    reductions: bool = True
    lower: bool = True
    lowering: str = LINEAR
    scratch_limit: int | None = None
    exact: bool = False
    staged: bool = True
    free: bool = False
    free_only: int | None = None
    without: str = ""
    rank: int = 0

    def __post_init__(self) -> None:
        if self.lowering not in STRATEGIES:
            raise ValueError(f"lowering takes {' or '.join(STRATEGIES)}, got {self.lowering!r}")

    @property
    def strategy(self) -> Strategy:
        """In what the way of lowering differs from others."""
        return STRATEGIES[self.lowering]

    @property
    def splits_reductions(self) -> bool:
        """Whether reductions are taken apart."""
        wanted = self.reductions and self.without != "linear-split-reductions"
        return wanted and self.lower and self.strategy.splits_reductions and not self.free

    @property
    def stages_accesses(self) -> bool:
        """Whether accesses to shared memory may go by way of another layout."""
        wanted = self.staged and self.lower and self.without != "linear-lower-local"
        return wanted and self.strategy.stages_accesses and not self.free

    def keeping_layouts(self) -> PipelineOptions:
        """The same, less what changes layouts or makes tensors in others: conversions, gathers and fixes are
        left.

        >>> PipelineOptions().keeping_layouts() == PipelineOptions(assign=False, reductions=False, staged=False)
        True
        """
        return replace(self, assign=False, reductions=False, staged=False)
