"""How many CTAs fit on a multiprocessor by registers, and how many registers a thread can then have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

UNIT = 8
"""Registers of a thread are allocated in multiples of this: those of a warp in multiples of 256."""
LEAST, MOST = 24, 255
"""Registers that a thread can have: ptxas raises lower bounds to the least."""


def bound(used: int, warps: int, most: int, gpu: Target) -> int | None:
    """The registers of a thread with which another CTA fits, if that is worth a try; else None.

    used: registers of a thread now. warps: those of a CTA. most: the CTAs that fit, apart from registers. The
    fewer CTAs are resident now, the more registers may be given up for another one.

    >>> from triton_linear.lowering.target.targets import target
    >>> h200 = target("cuda:90")
    >>> bound(168, 8, 2, h200), bound(128, 8, 2, h200), bound(136, 8, 1, h200), bound(192, 8, 2, h200)
    (128, None, None, None)
    """
    ctas = resident(used, warps, gpu.registers, gpu.lanes)
    if not 0 < ctas < most or ctas + 1 < gpu.policy.more_ctas * ctas:
        return None
    limit = most_registers(ctas + 1, warps, gpu)
    near = 1 + gpu.policy.registers_near / ctas
    return limit if limit >= LEAST and used <= near * limit else None


def resident(used: int, warps: int, registers: int, lanes: int = 32) -> int:
    """How many CTAs fit by registers. used: registers of a thread. warps: those of a CTA. registers: those of a
    multiprocessor.

    >>> resident(72, 4, 65536), resident(136, 8, 65536)
    (7, 1)
    """
    return registers // (-(-used // UNIT) * UNIT * lanes * warps)


def most_registers(ctas: int, warps: int, gpu: Target) -> int:
    """The most registers a thread can have if `ctas` CTAs of `warps` warps are to fit.

    >>> from triton_linear.lowering.target.targets import target
    >>> h200 = target("cuda:90")
    >>> most_registers(4, 8, h200), most_registers(1, 4, h200)
    (64, 255)
    """
    return min(MOST, gpu.registers // (ctas * gpu.lanes * warps) // UNIT * UNIT)
