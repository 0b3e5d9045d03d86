"""Functions, loops and branches, and what launches give."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from triton_linear.passes.operations.record import Facts, Family, family

LOOPS_AND_BRANCHES: Final = Facts(decides_by_floats=False, multiplies="never", adds="never", writes=False)
"""What counts for control flow that is not listed; it only hands pointers on."""
JUMPS: Final = Facts(writes=False)
_AROUND: Final = Facts(multiplies="never", adds="never", writes=False)

CONTROL: Final[Family] = {
    **family(
        "scf",
        ("for", replace(LOOPS_AND_BRANCHES, roles=("bound", "bound", "bound"))),
        ("if condition", replace(LOOPS_AND_BRANCHES, roles=("condition",))),
        ("while yield", replace(LOOPS_AND_BRANCHES, roles=())),
    ),
    **family(
        "cf",
        ("br", replace(_AROUND, roles=())),
        ("cond_br", replace(_AROUND, roles=("condition",))),
    ),
    **family(
        "tt",
        ("call", Facts(hands_over=True)),
        ("return", replace(_AROUND, hands_over=True)),
        ("func", _AROUND),
        ("get_program_id get_num_programs", Facts(writes=False)),
    ),
    **family("builtin", ("module", _AROUND)),
}
