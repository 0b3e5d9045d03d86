"""Modelled clocks of one wave's round trip on a CU that other waves keep busy, from what was counted.

The same table of costs and the same combination of pipes as the planners' (`lowering/targets.py`); what it lacks
is here. All constants go into the result, each with its source.
"""

from __future__ import annotations

from dataclasses import dataclass

from triton_linear.lowering.targets import Target

from .amdgcn import (
    BARRIER,
    BPERMUTE,
    DPP,
    LANE,
    OTHER_LDS,
    PERM,
    SPILL,
    SWAP,
    SWIZZLE,
    VALU,
    WIDE,
    Loop,
)

ISA = "CDNA2, CDNA3 and CDNA4 ISA manuals"
WIDE_RATE = 4.0
SPILL_CLOCKS = 4.0


@dataclass(frozen=True)
class Constant:
    """A constant of the model: what it is of, in clocks of a CU, and where it is from."""

    name: str
    clocks: float
    source: str


def constants(target: Target) -> tuple[Constant, ...]:
    """Everything that `clocks` multiplies with."""
    costs = target.costs
    return (
        Constant(
            "LDS wavefront (128 bytes)",
            costs.wavefront,
            f"{ISA}: 32 banks of 4 bytes, 128 bytes a clock and CU; wavefronts are counted by the interpreter",
        ),
        Constant(
            "ds_bpermute, ds_swizzle",
            costs.shuffle,
            f"{ISA}: through the LDS crossbar, 64 lanes of 4 bytes in two passes of 128 bytes",
        ),
        Constant(
            "vector instruction of a wave (DPP, v_perm, v_permlane swap, moves, selects, ...)",
            costs.alu,
            f"{ISA}: 64 lanes on a SIMD of 16 take four clocks, four SIMDs work at a time",
        ),
        Constant(
            "vector instruction on 64 bits or a full multiplication",
            WIDE_RATE * costs.alu,
            "quarter rate: LLVM, llvm/lib/Target/AMDGPU/SISchedule.td (WriteQuarterRate32, Write64Bit)",
        ),
        Constant("s_barrier", costs.cta_barrier, "an estimate, as lowering/targets.py has it for the planners"),
        Constant(
            "s_nop, s_waitcnt, scalar instructions",
            0.0,
            "they hold up one wave, which others fill in for; listed, not charged",
        ),
        Constant(
            "access of scratch or global memory (spills)",
            SPILL_CLOCKS,
            f"{ISA}: 64 lanes of 4 bytes at 64 bytes a clock and CU of the first-level cache",
        ),
    )


def clocks(loop: Loop, wavefronts: float, target: Target) -> float:
    """Clocks of a CU: LDS and vector pipes beside one another as `Costs.clocks` has it, then barriers and spills.

    `wavefronts` are those of the loads and stores of one wave.
    """
    costs = target.costs
    memory = wavefronts * costs.wavefront + loop.of(BPERMUTE, SWIZZLE, OTHER_LDS) * costs.shuffle
    return costs.clocks(memory, vector_instructions(loop)) + (
        loop.kinds.get(BARRIER, 0) * costs.cta_barrier + loop.kinds.get(SPILL, 0) * SPILL_CLOCKS
    )


def vector_instructions(loop: Loop) -> float:
    """Slots of the vector pipe that a round trip takes."""
    kinds = loop.kinds
    single = sum(kinds.get(kind, 0) for kind in (DPP, PERM, SWAP, LANE, VALU))
    return single + WIDE_RATE * kinds.get(WIDE, 0)


def ratio(stock: float, ours: float) -> float:
    """How many times more clocks stock takes; two that take under a clock are equal.

    >>> ratio(30.0, 10.0), ratio(0.0, 0.5)
    (3.0, 1.0)
    """
    return max(stock, 1.0) / max(ours, 1.0)
