"""Elementwise operations, and sources: operations without tensors among their operands.

Clocks were measured on an H200 by `python -m bench.elementwise` (bench/results/3.9.0/elementwise.json). What is
of libdevice (logarithms, sines, `erf`, `tanh`, precise division) takes a sequence of instructions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from triton_linear.passes.operations.record import Facts, Family, family

FLOATS: Final = Facts(roles=(), elementwise=True, writes=False, decides_by_floats=False, followed=True)
"""What counts for arithmetic that is not listed."""
MATH: Final = replace(FLOATS, followed=False)
_ADDS: Final = replace(FLOATS, clocks=None, multiplies="never")
_MULTIPLIES: Final = replace(FLOATS, clocks=None, adds="never", commutes=True)
_ALONE: Final = replace(FLOATS, multiplies="never", adds="never")
_EXTREME: Final = replace(_ALONE, commutes=True, extreme=True, rounds=False)
_COPIES: Final = replace(_ALONE, copies=True, rounds=False)
_SIGN: Final = replace(_COPIES, followed=False)
_INTEGERS: Final = replace(FLOATS, integers=True)
_SAME: Final = replace(_INTEGERS, hints="same")
_COMBINES: Final = replace(_SAME, commutes=True, associative=True)
_ADDRESS: Final = 0.2
"""LLVM computes most of these once for the addresses of several neighbours."""
_TO_INTEGERS: Final = replace(_ALONE, cast=True, decides_by_floats=True)
_CALLS: Final = replace(MATH, writes=True)
"""Functions of Triton's dialect."""
_POINTERS: Final = replace(_CALLS, followed=True)

ARITHMETIC: Final[Family] = {
    **family(
        "arith",
        ("constant", replace(_ALONE, clocks=0.0, rounds=False, hints="same")),
        ("addi", replace(_COMBINES, clocks=_ADDRESS)),
        ("muli andi", replace(_COMBINES, clocks=_ADDRESS)),
        ("ori xori", _COMBINES),
        ("maxsi maxui minsi minui", replace(_COMBINES, hints="more")),
        ("subi shli shrsi shrui", _SAME),
        ("divsi divui remsi remui", replace(_SAME, divides=True)),
        ("ceildivsi ceildivui floordivsi", replace(FLOATS, divides=True)),
        ("cmpi", replace(_SAME, clocks=_ADDRESS, cast=True)),
        ("extsi extui trunci", replace(_SAME, cast=True)),
        ("select", replace(_COPIES, integers=True, leads_on=True, hints="more")),
        ("bitcast", replace(_COPIES, in_place=True)),
        ("extf", replace(_COPIES, cast=True)),
        ("negf", _COPIES),
        ("addf", replace(_ADDS, commutes=True)),
        ("subf", _ADDS),
        ("mulf", _MULTIPLIES),
        ("divf", replace(FLOATS, clocks=2.3, adds="not on NVIDIA")),
        ("maximumf minimumf", _EXTREME),
        ("maxnumf minnumf", replace(_EXTREME, clocks=0.3)),
        ("truncf", replace(_ALONE, cast=True)),
        ("sitofp uitofp", replace(_ALONE, cast=True, integers=True)),
        ("cmpf fptosi fptoui", _TO_INTEGERS),
    ),
    **family(
        "math",
        ("exp exp2", replace(MATH, clocks=2.1, multiplies="not on NVIDIA", adds="not on NVIDIA")),
        ("rsqrt", replace(MATH, clocks=2.1, multiplies="not on NVIDIA", adds="not on NVIDIA")),
        ("sqrt", replace(MATH, clocks=2.1, adds="not on NVIDIA")),
        ("log", replace(MATH, clocks=7.0)),
        ("log2", replace(MATH, clocks=7.5)),
        ("erf", replace(MATH, clocks=8.3)),
        ("tanh", replace(MATH, clocks=4.9)),
        ("sin", replace(MATH, clocks=10.0)),
        ("cos", replace(MATH, clocks=10.6)),
        ("absf", _SIGN),
        ("copysign", replace(_SIGN, rounds=True)),
        ("fma", replace(MATH, multiplies="never")),
        ("isfinite isinf isnan isnormal", replace(MATH, decides_by_floats=True)),
    ),
    **family(
        "tt",
        ("make_range", Facts(elementwise=True, writes=False, hints="same")),
        ("addptr", replace(_POINTERS, clocks=_ADDRESS, writes=False, leads_on=True, hints="same")),
        ("int_to_ptr", _POINTERS),
        ("ptr_to_int", replace(_POINTERS, writes=False)),
        ("approx_divf", replace(_CALLS, clocks=2.1, adds="not on NVIDIA")),
        ("precise_divf", replace(_CALLS, clocks=12.1)),
        ("precise_sqrt", replace(_CALLS, clocks=3.4)),
        ("mulhiui", replace(_CALLS, clocks=1.2)),
        ("clampf", replace(_CALLS, multiplies="never", adds="never")),
        ("fp_to_fp", replace(_CALLS, cast=True, multiplies="not on NVIDIA", adds="not on NVIDIA")),
        # The clocks of `tanh`; which function it is does not count.
        ("extern_elementwise", replace(_CALLS, clocks=4.9, decides_by_floats=True)),
        ("map_elementwise", Facts(decides_by_floats=False)),
    ),
}
