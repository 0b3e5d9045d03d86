"""What conditions of `explain --fail-on` count: `shared conversions in loops > 0`."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.tools.explain.records import ConversionReport, ModuleReport

KINDS = ("noop", "registers", "shuffle", "warp-shared", "cta-shared", "shared", "stock")
SUMS = ("wavefronts", "shuffles", "barriers", "bytes", "wrong", "races")
OTHERS = ("accesses", "conflicts", "reductions")
"""Accesses to shared memory, their wavefronts above the minimum, reductions and scans."""
MEMORY = "shared memory"
"""The largest number of bytes of shared memory of a kernel."""
_IN_LOOPS = " in loops"
_COUNTED = ("conversions", *(f"{kind} conversions" for kind in KINDS), "scratch", *SUMS, *OTHERS)
NAMES = (*_COUNTED, *(name + _IN_LOOPS for name in _COUNTED), MEMORY)
KNOWN = (
    "'shared conversions in loops > 0'; what is counted is "
    f"'conversions' ({', '.join(KINDS)} or all), 'scratch', {', '.join((*SUMS, *OTHERS, MEMORY))}"
)


def value(name: str, reports: Sequence[ModuleReport]) -> int:
    """The count of this name in reports; `scratch` is the largest of a conversion."""
    if name == MEMORY:
        return max((kernel.bytes for report in reports for kernel in report.shared_memory), default=0)
    *kind, counted = name.removesuffix(_IN_LOOPS).split(" ")
    records = {"conflicts": "accesses", **dict.fromkeys(OTHERS[::2], counted)}.get(counted, "conversions")
    found = [
        one
        for report in reports
        for one in getattr(report, records)
        if (one.loop_depth or _IN_LOOPS not in name) and (not kind or _is(one, kind[0]))
    ]
    if counted == records:
        return len(found)
    if counted == "scratch":
        return max((one.scratch_bytes for one in found), default=0)
    figures = [one.figures for one in found if one.figures is not None]
    if counted == "conflicts":
        return sum(one.wavefronts - one.minimum_wavefronts for one in figures)
    return sum(getattr(one, counted) for one in figures)


def _is(one: ConversionReport, kind: str) -> bool:
    return one.kind == kind or (kind == "shared" and one.kind.endswith("-shared"))
