"""Conversions that Triton lowers as this package does: with the same accesses, barriers and wavefronts.

Triton swizzles a conversion through shared memory so that no access has bank conflicts. It has these ways to
move 16 bytes with each instruction:

    way                     log2 of the elements that stay     lane bits of the matrix side that must select
                            together                           registers on the other side
    stores and loads        log2(16 bytes / element)
    ldmatrix or stmatrix    log2(4 bytes / element)            0, 1
    the same with .trans    0, for elements of two bytes       2, 3, 4

A way is open if the lanes fit and as many bits, or more, select registers on both sides. Each further such bit
doubles the rounds. Of the open ways Triton takes the one with the most rounds, which takes the least scratch.
So it takes a single round if every open way keeps all bits together that select registers on both sides.
(Matrix instructions on both sides are two more ways; plans with them are not compared.)

Source: `lib/Tools/GenericSwizzling.cpp` of Triton 3.6 to 3.9, and the code that Triton emits
(`triton-linear explain --stock` counts it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from triton_linear.dialect import f2
from triton_linear.lowering.plan.plans import Plan, SharedPlan
from triton_linear.lowering.planners.conversion import Hardware, between
from triton_linear.lowering.planners.transposing import WORD
from triton_linear.lowering.target.targets import Target

_WHOLE: Final = 16
"""Bytes of the widest access to shared memory."""
_ROWS: Final = (0, 1)
_COLUMNS: Final = (2, 3, 4)
"""The lane bits of a matrix instruction that number the units of a row, without `.trans` and with it."""


def is_alike(plan: Plan, src: Hardware, dst: Hardware, target: Target) -> bool:
    """True if Triton's lowering is known to take as many accesses, wavefronts and barriers as `plan`.

    Requires: `plan` converts from `src` to `dst`, in a kernel with one CTA and without warp-specialised
    regions; `target` is an NVIDIA GPU.
    """
    if not isinstance(plan, SharedPlan) or plan.scope != "cta" or plan.stages != (plan,):
        return False
    if plan.barriers > 1 or _has_copies(src) or _has_copies(dst):
        return False
    sides = plan.store, plan.load
    if any(side.slots * plan.element_bytes != _WHOLE for side in sides) or all(side.matrix for side in sides):
        return False
    common = len(set(src.register) & set(dst.register))
    ways = _ways(plan.element_bytes, src, dst, target)
    return min((bits for bits, lanes_fit in ways if lanes_fit and bits <= common), default=-1) == common


def _ways(element_bytes: int, src: Hardware, dst: Hardware, target: Target) -> Iterator[tuple[int, bool]]:
    """For each way: how many register bits an instruction keeps together, and whether the lanes fit."""
    yield (_WHOLE // element_bytes).bit_length() - 1, True
    for forms, matrix, other in ((target.store_matrix, src, dst), (target.load_matrix, dst, src)):
        origins = between(other, matrix).lane
        if forms and element_bytes <= WORD:
            yield (WORD // element_bytes).bit_length() - 1, all(origins[lane].register for lane in _ROWS)
        if forms and element_bytes == 2:
            yield 0, all(origins[lane].register for lane in _COLUMNS)


def _has_copies(side: Hardware) -> bool:
    """True if several registers or threads hold the same element."""
    columns = (*side.register, *side.lane, *side.warp)
    return f2.rank(columns) < len(columns)
