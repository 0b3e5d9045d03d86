"""Conversions inside a thread: registers are renamed, if at all."""

from __future__ import annotations

from triton_linear.dialect import f2
from triton_linear.lowering.plan.plans import RegisterPlan, Rejected
from triton_linear.lowering.planners.conversion import Conversion, Reach


def plan_registers(conv: Conversion) -> RegisterPlan | Rejected:
    """A renaming of registers, the same in every thread.

    Ensures: destination register i is source register sources[i] of the same thread.
    """
    if conv.reach > Reach.THREAD:
        return Rejected("registers", conv.witness(Reach.THREAD))
    for name, origins in (("lane", conv.lane), ("warp", conv.warp)):
        for bit, origin in enumerate(origins):
            if origin.register:
                held = f"source register={origin.register} of the same thread"
                return Rejected("registers", f"destination {name}={1 << bit} is held by {held}")
    columns = tuple(origin.register for origin in conv.register)
    sources = tuple(f2.multiply_vector(columns, r) for r in range(1 << len(columns)))
    return RegisterPlan(1 << len(conv.src.register), sources)
