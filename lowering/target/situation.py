"""What a plan depends on besides what it moves."""

from __future__ import annotations

from dataclasses import replace

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import Release, installed_release
from triton_linear.lowering.target.targets import Target


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a plan runs. `Situation.on` makes one, and passes hand it on; planning asks nothing else.

    gpu: the GPU. resident_warps: the warps that are assumed to be resident on a multiprocessor while it
    converts. scratch_limit: the most bytes of scratch of one plan, as far as rounds allow; None: the GPU's.
    release: the Triton that compiles what is emitted.
    """

    gpu: Target
    resident_warps: int
    scratch_limit: int | None
    release: Release

    @staticmethod
    def on(gpu: Target, scratch_limit: int | None = None, release: Release | None = None) -> Situation:
        """The situation of a kernel of which nothing is known. release: by default the installed one.

        >>> from triton_linear.lowering.target.targets import target
        >>> where = Situation.on(target("cuda:90"))
        >>> where.resident_warps, where.busy(4), where.busy(16), where.scratch(4)
        (8, 8, 16, 32768)
        """
        return Situation(gpu, gpu.policy.likely_warps, scratch_limit, release or installed_release())

    def with_warps(self, resident: int) -> Situation:
        """The same where so many warps are resident."""
        return self if resident == self.resident_warps else replace(self, resident_warps=resident)

    def busy(self, warps: int) -> int:
        """The warps that share a multiprocessor, if a CTA of `warps` warps converts."""
        return max(self.resident_warps, warps)

    def scratch(self, warps: int) -> int:
        """The bytes of scratch that a CTA of `warps` warps may take for one plan."""
        return self.gpu.scratch_limit(warps) if self.scratch_limit is None else self.scratch_limit
