"""Accesses to shared and tensor memory, and views of buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from triton_linear.passes.operations.record import Facts, Family, family

_ACCESS: Final = Facts(multiplies="never", adds="never")
_SHARED: Final = replace(_ACCESS, roles=(), decides_by_floats=False, loads_pass=True)
_VIEW: Final = Facts(decides_by_floats=False, loads_pass=True)

CHIP_MEMORY: Final[Family] = {
    **family(
        "ttg",
        ("local_alloc", replace(_SHARED, roles=("data",), fills=True)),
        ("local_store", replace(_SHARED, roles=("data", "memory"), fills=True)),
        ("local_load", replace(_SHARED, roles=("memory",))),
        ("local_dealloc", Facts(roles=("memory",), decides_by_floats=False)),
        ("memdesc_index memdesc_reshape memdesc_subslice memdesc_trans", _VIEW),
    ),
    **family(
        "ttng",
        ("tmem_alloc", replace(_ACCESS, roles=("data",), fills=True)),
        ("tmem_store", replace(_ACCESS, fills=True)),
        ("tmem_load", _ACCESS),
        ("tmem_subslice", replace(_VIEW, loads_pass=False)),
    ),
}
