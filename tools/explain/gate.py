"""Conditions of `--fail-on`, by which continuous integration can fail: `shared conversions in loops > 0`."""

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
"""Accesses to shared memory, their wavefronts above the minimum, reductions and scans, and the largest number
of bytes of shared memory of a kernel."""
_COMPARE = {">=": operator.ge, "==": operator.eq, ">": operator.gt}
_CONDITION = re.compile(
    rf"(?:(?:(?P<kind>{'|'.join(KINDS)}) )?(?P<what>conversions)|"
    rf"(?P<sum>{'|'.join(SUMS)})|(?P<scratch>scratch)|(?P<other>{'|'.join(OTHERS)}))"
    r"(?P<loops> in loops)? ?(?P<compare>>=|==|>) ?(?P<bound>\d+)"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a count over all modules with a bound."""

    text: str
    counted: str
    kind: str
    in_loops: bool
    compare: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse `COUNT [in loops] COMPARISON BOUND`.

        COUNT is `[KIND] conversions`, `scratch` (the largest of a conversion), one of `SUMS` over
        conversions, or one of `OTHERS`. Fails on anything else, and on `shared memory in loops`, since it
        belongs to whole kernels.
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
        """The count in these reports."""
        match self.counted:
            case "shared memory":
                return max((kernel.bytes for report in reports for kernel in report.shared_memory), default=0)
            case "accesses":
                return sum(self._includes(access) for report in reports for access in report.accesses)
            case "reductions":
                return sum(self._includes(one) for report in reports for one in report.reductions)
            case "conflicts":
                return sum(
                    access.figures.wavefronts - access.figures.minimum_wavefronts
                    for report in reports
                    for access in report.accesses
                    if access.figures is not None and self._includes(access)
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
        return (kind or shared) and self._includes(conversion)

    def _includes(self, one: ConversionReport | AccessReport | ReductionReport) -> bool:
        """Whether the condition counts something with this loop depth."""
        return not self.in_loops or one.loop_depth > 0

    def holds(self, reports: Sequence[ModuleReport]) -> bool:
        """Whether the condition holds."""
        return bool(_COMPARE[self.compare](self.value(reports), self.bound))
