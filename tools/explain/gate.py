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
        if self.counted == "shared memory":
            return max((kernel.bytes for report in reports for kernel in report.shared_memory), default=0)
        name = self.counted if self.counted in ("accesses", "reductions") else "conversions"
        name = "accesses" if self.counted == "conflicts" else name
        found = [one for report in reports for one in getattr(report, name) if self._includes(one)]
        if self.counted in ("conversions", "accesses", "reductions"):
            return len(found)
        if self.counted == "scratch":
            return max((one.scratch_bytes for one in found), default=0)
        figures = [one.figures for one in found if one.figures is not None]
        if self.counted == "conflicts":
            return sum(one.wavefronts - one.minimum_wavefronts for one in figures)
        return sum(getattr(one, self.counted) for one in figures)

    def _includes(self, one: ConversionReport | AccessReport | ReductionReport) -> bool:
        """Whether the condition counts something of this kind, with this loop depth."""
        kind = one.kind if isinstance(one, ConversionReport) else ""
        shared = self.kind == "shared" and kind.endswith("-shared")
        return (not self.in_loops or one.loop_depth > 0) and (not self.kind or kind == self.kind or shared)

    def holds(self, reports: Sequence[ModuleReport]) -> bool:
        """Whether the condition holds."""
        return bool(_COMPARE[self.compare](self.value(reports), self.bound))
