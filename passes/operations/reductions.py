"""Reductions, scans and dots."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from triton_linear.passes.operations.record import Facts, Family, family

_COMBINES: Final = Facts(roles=(), decides_by_floats=False, multiplies="never", adds="never", writes=False)
"""Through memory, or by an instruction of its own: nothing is fused with it."""
_DOT: Final = replace(_COMBINES, decides_by_floats=True)

REDUCTIONS: Final[Family] = {
    **family(
        "tt",
        ("reduce scan", replace(_COMBINES, loads_pass=True)),
        ("reduce.return scan.return", _COMBINES),
        ("dot", replace(_DOT, loads_pass=True)),
        ("dot_scaled", _DOT),
    ),
    **family(
        "ttng",
        ("warp_group_dot", _DOT),
        ("warp_group_dot_wait", replace(_DOT, copies=True)),
    ),
}
