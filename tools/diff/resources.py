"""The resources of a whole compiled kernel: registers, spills, shared memory, occupancy, and its loops."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from triton_linear.lowering.target.targets import Target
from triton_linear.ptxas.cubin import loops, usage
from triton_linear.ptxas.occupancy import resident


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel; None if a value is not known.

    Of a thread: registers (on AMD GPUs vector registers, including accumulators), scalar registers, bytes of
    stack, which holds the spills, and spilled registers. shared: bytes of shared memory of a CTA. occupancy:
    CTAs that fit on a multiprocessor at a time. limited_by: the resource that limits them. loops: for each loop
    of a cubin, a lower bound of the clocks of one iteration of a warp, from the stall counts of the
    instructions; the body of an inner loop counts once.
    """

    registers: int | None = None
    scalar_registers: int | None = None
    stack: int | None = None
    spilled: int | None = None
    shared: int | None = None
    occupancy: int | None = None
    limited_by: str = ""
    loops: tuple[int, ...] | None = ()


def resources(binary: bytes, assembly: str, shared: int, warps: int, target: Target) -> Resources:
    """The resources that the cubin states, or the metadata in AMDGCN, and the occupancy."""
    if ".amdhsa_" in assembly:
        stated = _amdgcn(assembly, shared)
    else:
        used = usage(binary)
        registers, stack = (used.registers, used.stack) if used else (None, None)
        stated = Resources(registers, stack=stack, shared=shared, loops=_loops(binary))
    if stated.registers is None:
        return stated
    ctas, limited_by = occupancy(stated.registers, shared, warps, target)
    return replace(stated, occupancy=ctas, limited_by=limited_by)


def _amdgcn(text: str, shared: int) -> Resources:
    def value(name: str) -> int | None:
        match = re.search(rf"^ *(?:- )?\.{name}:\s+(\d+)", text, re.MULTILINE)
        return int(match[1]) if match else None

    spills = [value("vgpr_spill_count"), value("sgpr_spill_count")]
    return Resources(
        value("vgpr_count"),
        value("sgpr_count"),
        value("private_segment_fixed_size"),
        None if None in spills else sum(filter(None, spills)),
        shared,
    )


def occupancy(registers: int, shared: int, warps: int, target: Target) -> tuple[int, str]:
    """CTAs that a multiprocessor can hold at a time, and the resource that limits them."""
    whole = target.max_shared_bytes + target.reserved_shared_bytes
    limits = {
        "CTAs": target.resident_ctas,
        "warps": target.resident_warps // warps,
        "registers": resident(max(registers, 1), warps, target.registers, target.lanes),
        "shared memory": whole // taken
        if (taken := shared + target.reserved_shared_bytes)
        else target.resident_warps,
    }
    lowest = min(limits, key=lambda name: limits[name])
    return limits[lowest], lowest


_SMALL = 8
"""A loop with fewer instructions only waits for a barrier in memory; its clocks mean nothing."""


def _loops(cubin: bytes) -> tuple[int, ...] | None:
    every = loops(cubin)
    if every is None:
        return None
    return tuple(loop.clocks for loop in every if loop.last - loop.first >= _SMALL)
