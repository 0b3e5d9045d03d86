"""Conditions on reports, for a continuous integration to fail on: `shared conversions in loops > 0`."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass

from triton_linear.tools.explain.records import AccessReport, ConversionReport, ModuleReport, ReductionReport
from triton_linear.tools.support.errors import fail

KINDS = ("noop", "registers", "shuffle", "warp-shared", "cta-shared", "cluster-shared", "shared", "stock")
SUMS = ("wavefronts", "shuffles", "barriers", "bytes", "wrong", "races")
OTHERS = ("accesses", "conflicts", "reductions", "shared memory")
"""Accesses to shared memory, their wavefronts beyond the fewest, reductions and scans, and the most bytes of
shared memory that one kernel takes."""
_COMPARE = {">=": operator.ge, "==": operator.eq, ">": operator.gt}
_CONDITION = re.compile(
    rf"(?:(?:(?P<kind>{'|'.join(KINDS)}) )?(?P<what>conversions)|"
    rf"(?P<sum>{'|'.join(SUMS)})|(?P<scratch>scratch)|(?P<other>{'|'.join(OTHERS)}))"
    r"(?P<loops> in loops)? ?(?P<compare>>=|==|>) ?(?P<bound>\d+)"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What is counted over all modules, compared with a bound; met is what a gate fails on."""

    text: str
    counted: str
    kind: str
    in_loops: bool
    compare: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> Condition:
        """`[KIND] conversions`, `scratch` (the most bytes of one), a sum over conversions or one of `OTHERS`,
        `in loops` or not, and a bound.

        Fails on anything else; `shared memory` belongs to whole kernels, so to no loop.
        """
        match = _CONDITION.fullmatch(" ".join(text.split()))
        if match is None or (match["other"] == "shared memory" and match["loops"]):
            fail(
                f"fail-on: '{text}' is no condition, as 'shared conversions in loops > 0'; what is counted is "
                f"'conversions' ({', '.join(KINDS)} or all), 'scratch', {', '.join((*SUMS, *OTHERS))}"
            )
        counted = match["what"] or match["sum"] or match["scratch"] or match["other"]
        return cls(
            text, counted, match["kind"] or "", bool(match["loops"]), match["compare"], int(match["bound"])
        )

    def value(self, reports: Sequence[ModuleReport]) -> int:
        """What is counted, in these reports."""
        match self.counted:
            case "shared memory":
                return max((kernel.peak for report in reports for kernel in report.shared_memory), default=0)
            case "accesses":
                return sum(self._around(access) for report in reports for access in report.accesses)
            case "reductions":
                return sum(self._around(one) for report in reports for one in report.reductions)
            case "conflicts":
                return sum(
                    access.figures.wavefronts - access.figures.minimum_wavefronts
                    for report in reports
                    for access in report.accesses
                    if access.figures is not None and self._around(access)
                )
        counted = [c for report in reports for c in report.conversions if self._counts(c)]
        if self.counted == "conversions":
            return len(counted)
        if self.counted == "scratch":
            return max((c.scratch_bytes for c in counted), default=0)
        return sum(getattr(c.figures, self.counted) for c in counted if c.figures is not None)

    def _counts(self, conversion: ConversionReport) -> bool:
        kind = not self.kind or conversion.kind == self.kind
        shared = self.kind == "shared" and conversion.kind.endswith("-shared")
        return (kind or shared) and self._around(conversion)

    def _around(self, one: ConversionReport | AccessReport | ReductionReport) -> bool:
        """Whether what is asked for includes something with so many loops around it."""
        return not self.in_loops or one.loop_depth > 0

    def met(self, reports: Sequence[ModuleReport]) -> bool:
        """Whether the condition holds."""
        return bool(_COMPARE[self.compare](self.value(reports), self.bound))
