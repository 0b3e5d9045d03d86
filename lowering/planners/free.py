"""What a conversion would be if it cost nothing: registers renamed, whatever they hold.

The value is garbage, but everything around the conversion is as much work as before. Where a thread holds as
many elements before as after, that takes no instruction. Where it holds more before, none of them may go
unused, or compilers drop what computes them; where it holds more after, no two may be equal, or compilers
compute with one of them only. Neither is had for nothing: an empty piece of assembly keeps a register alive for
LLVM but leaves no trace in PTX. So registers that are left over join others by a bitwise `and`, which makes no
NaN of finite floats, and registers that are missing are others with low bits of the mantissa flipped.
"""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.plan.plans import FreePlan, FreeRegister
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.planners.registers import place_of_copies


def plan_free(src: LinearLayout, dst: LinearLayout) -> FreePlan:
    """Source registers named as destination registers.

    Ensures: every distinct source register is in a destination register; no two distinct destination
    registers are made alike (of fewer than 256 times as many).
    """
    sides = [place_of_copies(Hardware.of(layout).register) for layout in (src, dst)]
    given, wanted = (list(dict.fromkeys(side)) for side in sides)
    made: dict[int, FreeRegister] = {}
    for index, register in enumerate(wanted):
        joined = given[index :: len(wanted)] if index < len(given) else [given[index % len(given)]]
        made[register] = FreeRegister(tuple(joined), index // len(given) % 256)
    return FreePlan(len(sides[0]), tuple(made[register] for register in sides[1]))
