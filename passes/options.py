"""The options of the pipeline. This module imports neither MLIR nor Triton: processes that compile nothing read
it too."""

from __future__ import annotations

from dataclasses import replace

from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What the passes do; the defaults are the plugin's.

    assign: choose the layouts of all tensors together, let loads begin earlier, and widen accesses to memory.
    layouts: some layout or access may be worth changing; of `assign`, only loads of loops begin earlier if not.
    reductions: split reductions across warps. Needs `lower`: the parts are written for the lowering of this
    package.
    lower: emit code for the remaining conversions.
    scratch_limit: most bytes of shared memory that one conversion may use as scratch; None: the target's limit.
    exact: keep results bit for bit equal to stock Triton's: nothing changes that could round differently.
    distinct: loads may move in front of what a kernel writes by another argument, where the module says so
    (`ll.early`): each launch has to be checked (`Writes.passed`).
    without: for measuring: the name of a pass to leave out.
    """

    assign: bool = True
    reductions: bool = True
    lower: bool = True
    scratch_limit: int | None = None
    exact: bool = False
    distinct: bool = True
    without: str = ""
    layouts: bool = True

    @property
    def chooses_layouts(self) -> bool:
        """True if layouts are chosen."""
        return self.assign and self.layouts

    @property
    def splits_reductions(self) -> bool:
        """True if reductions across warps are split."""
        wanted = self.reductions and self.without != "linear-split-reductions"
        return wanted and self.lower

    def keeping_layouts(self) -> PipelineOptions:
        """These options without the passes that change layouts or make tensors in other layouts: conversions
        and fixes remain.

        >>> kept = PipelineOptions().keeping_layouts()
        >>> kept.assign, kept.reductions
        (False, False)
        """
        return replace(self, assign=False, reductions=False)
