"""How stock Triton lowers conversions: each is lowered alone, in a child process, and the interpreter runs
it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from triton_linear.lowering.interpreter.counts import Counts
from triton_linear.tools.verify.stock import check_conversions

REGISTERS: Final = "registers"
SHUFFLE: Final = "shuffle"
WARP_SHARED: Final = "warp-shared"
CTA_SHARED: Final = "cta-shared"


def lowerings(types: Sequence[tuple[str, str]], warps: int, target: str) -> Mapping[tuple[str, str], str]:
    """For each pair of types, the kind of stock Triton's lowering, named as in the plugin's reports.

    Conversions that Triton cannot lower, or whose code the interpreter cannot run, are left out.
    """
    distinct = list(dict.fromkeys(types))
    if not distinct:
        return {}
    findings = zip(distinct, check_conversions([(*one, warps, target) for one in distinct]), strict=True)
    return {one: _kind(finding.verdict.counts) for one, finding in findings if finding.verdict is not None}


def _kind(counts: Counts) -> str:
    if counts.wavefronts:
        return CTA_SHARED if counts.cta_barriers else WARP_SHARED
    return SHUFFLE if counts.shuffles else REGISTERS
