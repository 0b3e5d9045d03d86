"""Operations that give elements other coordinates, registers or threads, and change none."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from triton_linear.passes.operations.record import Facts, Family, family

COPIES: Final = Facts(
    roles=(), decides_by_floats=False, copies=True, multiplies="never", adds="never", writes=False
)
_VIEW: Final = replace(COPIES, view=True, leads_on=True, loads_pass=True)
_FOLLOWED: Final = replace(_VIEW, followed=True, hints="same", recomputed=True, clocks=0.0)

VIEWS: Final[Family] = {
    **family(
        "tt",
        ("broadcast", _FOLLOWED),
        ("expand_dims", replace(_FOLLOWED, in_place=True)),
        ("splat", replace(_FOLLOWED, view=False, elementwise=True, recomputed=False)),
        ("trans", replace(_VIEW, in_place=True, followed=True)),
        ("reshape", replace(_VIEW, in_place=True)),
        ("cat join split unsplat", _VIEW),
        (
            "bitcast",
            replace(_FOLLOWED, view=False, recomputed=False, in_place=True, elementwise=True, loads_pass=False),
        ),
        ("gather", replace(COPIES, roles=("data", "index"), loads_pass=True)),
        ("histogram", Facts(writes=False)),
    ),
    **family(
        "ttg",
        ("convert_layout", replace(COPIES, leads_on=True, loads_pass=True, followed=True, hints="same")),
    ),
}
