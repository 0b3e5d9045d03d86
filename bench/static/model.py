"""Modelled clocks of one wave's round trip on a CU that other waves keep busy, from what was counted.

The table of costs and the way of combining pipes are the planners' (`lowering/target/targets.py`), what they
lack is here. All constants go into the result, each with its source, and so does what others would make of it:
some were measured by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from triton_linear.lowering.target.targets import InstructionCosts, Target

from .amdgcn import BARRIER, BPERMUTE, DPP, LANE, PERM, SWAP, SWIZZLE, VALU

Counts = Mapping[str, float]
OVERLAPS = ("cubic norm", "longer of both", "sum")


@dataclass(frozen=True)
class Constant:
    """A constant of the model: what it is of, in clocks of a CU, and where it is from."""

    name: str
    clocks: float
    source: str


@dataclass(frozen=True)
class Model:
    """Constants: those of the planners, slots of the vector pipe that a swap of rows takes, clocks that a state
    of `s_nop` takes, and how long the LDS and vector pipes take together."""

    costs: InstructionCosts
    swap: float = 1.0
    nop: float = 0.0
    overlap: str = OVERLAPS[0]

    def clocks(self, kinds: Counts, wavefronts: float, nop_states: float = 0.0) -> float:
        """Clocks of a CU for the instructions of one wave, by kind, and the wavefronts of its LDS accesses."""
        costs = self.costs
        exchanged = kinds.get(BPERMUTE, 0) + kinds.get(SWIZZLE, 0)
        memory = wavefronts * costs.wavefront + exchanged * costs.shuffle
        vector = vector_instructions(kinds) + (self.swap - 1) * kinds.get(SWAP, 0)
        waits = kinds.get(BARRIER, 0) * costs.cta_barrier + nop_states * self.nop
        if self.overlap == OVERLAPS[0]:
            return costs.clocks(memory, vector) + waits
        return (max if self.overlap == OVERLAPS[1] else _sum)(memory, vector * costs.alu) + waits


def _sum(a: float, b: float) -> float:
    return a + b


def vector_instructions(kinds: Counts) -> float:
    """Vector instructions of a round trip."""
    return sum(kinds.get(kind, 0) for kind in (DPP, PERM, SWAP, LANE, VALU))


def constants(target: Target) -> tuple[Constant, ...]:
    """Everything that `Model.clocks` multiplies with, for people."""
    costs = target.costs
    return (
        Constant(
            "LDS wavefront",
            costs.wavefront,
            "CDNA ISA manuals: each bank of LDS serves 4 bytes a clock; the interpreter counts wavefronts by "
            "the banks and phases of the target (`lowering/target/phases.py`)",
        ),
        Constant(
            "ds_bpermute, ds_swizzle",
            costs.shuffle,
            "CDNA ISA manuals: they take the crossbar of LDS, 64 lanes of 4 bytes in two passes of 128 bytes; "
            "no measurement on CDNA was found",
        ),
        Constant(
            "vector instruction (moves, selects, v_perm_b32, DPP)",
            costs.alu,
            "CDNA ISA manuals: 64 lanes on a SIMD of 16 take four clocks, and four SIMDs work at a time",
        ),
        Constant(
            "v_permlane16_swap, v_permlane32_swap",
            costs.alu,
            "taken to be a vector instruction as others; no measurement was found",
        ),
        Constant(
            "s_barrier",
            costs.cta_barrier,
            "an estimate (`lowering/target/targets.py`); no measurement was found",
        ),
        Constant(
            "s_nop, s_waitcnt, scalar instructions",
            0.0,
            "they hold up one wave while others run; those that the compiler needs are counted and listed",
        ),
    )


def variations(target: Target) -> dict[str, Model]:
    """The model with other constants, by what is other."""
    costs = target.costs
    model = Model(costs)
    return {
        "as above": model,
        "s_barrier 0": replace(model, costs=replace(costs, cta_barrier=0.0)),
        "s_barrier 16": replace(model, costs=replace(costs, cta_barrier=16.0)),
        "ds_bpermute, ds_swizzle 1": replace(model, costs=replace(costs, shuffle=1.0)),
        "ds_bpermute, ds_swizzle 4": replace(model, costs=replace(costs, shuffle=4.0)),
        "permlane swaps 2": replace(model, swap=2.0),
        "permlane swaps 4": replace(model, swap=4.0),
        "each state of s_nop 1": replace(model, nop=1.0),
        "pipes: the longer of both": replace(model, overlap=OVERLAPS[1]),
        "pipes: the sum of both": replace(model, overlap=OVERLAPS[2]),
    }


def ratio(stock: float, ours: float) -> float:
    """How many times more clocks stock takes; two that take under a clock are equal.

    >>> ratio(30.0, 10.0), ratio(0.0, 0.5)
    (3.0, 1.0)
    """
    return max(stock, 1.0) / max(ours, 1.0)
