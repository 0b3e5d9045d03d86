"""How stock Triton lowers conversions: each is lowered alone, in a process, and its code is run and counted."""

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
    """The kinds of lowerings of conversions, by their types, in the words of the plugin's reports; nothing for
    those that Triton does not lower, or whose code the interpreter does not run."""
    distinct = list(dict.fromkeys(types))
    if not distinct:
        return {}
    found = check_conversions([(*one, warps, target) for one in distinct])
    kinds = zip(distinct, found, strict=True)
    return {one: _kind(finding.verdict.counts) for one, finding in kinds if finding.verdict is not None}


def _kind(counts: Counts) -> str:
    if counts.wavefronts:
        return CTA_SHARED if counts.cta_barriers else WARP_SHARED
    return SHUFFLE if counts.shuffles else REGISTERS
