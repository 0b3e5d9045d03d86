"""Stand-ins for conversions, to measure a kernel without their cost: registers are renamed, whatever they hold.

The result is garbage, but the code around the conversion does the same work. If a thread has the same number of
source and destination elements, the stand-in takes no instruction. If it has more source elements, all must be
used, or compilers remove the code that computes them. If it has more destination elements, no two may be equal,
or compilers compute with one of them only. Both take instructions: empty inline assembly keeps a register alive
for LLVM but leaves no trace in PTX. So surplus source registers join others by a bitwise `and`, which makes no
NaN of finite floats, and missing destination registers are others with low bits of the mantissa flipped.
"""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.plan.plans import FreePlan, FreeRegister
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.planners.registers import first_copies


def plan_free(src: LinearLayout, dst: LinearLayout) -> FreePlan:
    """The stand-in for the conversion from `src` to `dst`.

    Ensures: every distinct source register is used by a destination register; no two distinct destination
    registers are equal, if there are at most 256 times as many as distinct source registers.
    """
    sides = [first_copies(Hardware.of(layout).register) for layout in (src, dst)]
    given, wanted = (list(dict.fromkeys(side)) for side in sides)
    made: dict[int, FreeRegister] = {}
    for index, register in enumerate(wanted):
        joined = given[index :: len(wanted)] if index < len(given) else [given[index % len(given)]]
        made[register] = FreeRegister(tuple(joined), index // len(given) % 256)
    return FreePlan(len(sides[0]), tuple(made[register] for register in sides[1]))
