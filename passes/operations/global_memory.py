"""Accesses to global memory, by pointers and by descriptors."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from triton_linear.passes.operations.record import Facts, Family, family

_ACCESS: Final = Facts(multiplies="never", adds="never")
_READS: Final = replace(_ACCESS, writes=False)
_LOADS: Final = replace(_READS, copies=True)
"""A masked load gives elements of its default."""
_POINTS: Final = Facts(writes=False, leads_on=True)
"""Descriptors lead to the memory of the pointers that they are made of."""

GLOBAL_MEMORY: Final[Family] = {
    **family(
        "tt",
        ("load", replace(_LOADS, roles=("pointer", "mask", "other"), decides_by_floats=False, hints="same")),
        ("store", replace(_ACCESS, roles=("pointer", "data", "mask"), decides_by_floats=False)),
        ("atomic_rmw", replace(_ACCESS, roles=("pointer", "data", "mask"))),
        ("atomic_cas", replace(_ACCESS, roles=("pointer", "data", "data"), hands_over=True)),
        ("descriptor_load", _READS),
        ("descriptor_store", _ACCESS),
        ("descriptor_gather", Facts(writes=False)),
        ("make_tensor_descriptor reinterpret_tensor_descriptor", _POINTS),
        ("print", replace(_ACCESS, roles=())),
    ),
    **family(
        "amdg",
        ("buffer_load", replace(_LOADS, roles=("pointer", "offset", "offset", "mask", "other"))),
        ("buffer_load_to_local", Facts(writes=False)),
        ("buffer_store", replace(_ACCESS, roles=("data", "pointer", "offset", "offset", "mask"))),
    ),
    **family(
        "ttg",
        (
            "async_copy_global_to_local",
            Facts(roles=("pointer", "memory", "mask", "other"), decides_by_floats=False, writes=False),
        ),
    ),
    **family("ttng", ("async_tma_copy_global_to_local async_tma_gather", Facts(writes=False))),
}
