"""Handlers of mbarriers, by which the warps of a partition wait for those of the other CTAs of a cluster.

Triton lowers its barrier of the cluster so in a warp-specialised region. It finds the mbarrier of another CTA
by changing the rank in an address of its own: bits from `WINDOW_BITS` on say by what the rank changes.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter.meetings import Place
from triton_linear.lowering.interpreter.memory import WINDOW_BITS, SimulationError
from triton_linear.lowering.interpreter.predicated import Predicated
from triton_linear.lowering.interpreter.program import Builder, Machine

_MAKE: Final = re.compile(r"@\$0 mbarrier\.init\.shared::cta\.b64 \[\$1\], (\d+);")
_FENCE: Final = "@$0 fence.mbarrier_init.release.cluster ;"
_ARRIVE: Final = "@$0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [$1];"
_SPACE: Final = r"(?:\s|\\0A|\\09)*"  # as MLIR prints line feeds and tabs
_WAIT: Final = re.compile(
    _SPACE.join(
        (
            r"\{",
            r"\.reg \.pred complete;",
            r"waitLoop:",
            r"mbarrier\.try_wait\.parity\.acquire\.cluster\.shared::cta\.b64 complete, \[\$0\], \$1;",
            r"@!complete bra\.uni waitLoop;",
            r"\}",
        )
    )
    + _SPACE
)


def assembly(build: Builder, op: ir.Operation, text: str) -> bool:
    """Add what inline assembly on an mbarrier does; return False if it is something else."""
    if text == _FENCE:
        return True
    made, waits = _MAKE.fullmatch(text), _WAIT.fullmatch(text)
    if made is None and waits is None and text != _ARRIVE:
        return False
    first, second = (build.scalar(tree) for tree in build.operands(op))

    def wait(machine: Machine) -> None:
        (place,) = set(_places(machine, first))
        machine.refuse_undefined(second, "the parity of a phase")
        parities = {int(parity) for parity in machine.executing(machine.values[second]).ravel()}
        if len(parities) > 1:
            raise SimulationError("threads of a warp wait for phases of different parity")
        machine.memory.wait_for(place, *parities)

    def execute(machine: Machine) -> None:
        with Predicated(machine, first) as predicated:
            for place in _places(machine, second) if predicated.any_active else ():
                if made is not None:
                    machine.memory.make_mbarrier(place, int(made[1]))
                else:
                    machine.memory.arrive_at(place)

    build.emit(execute if waits is None else wait)
    return True


def _places(machine: Machine, slot: int) -> list[Place]:
    """The place that each executing thread addresses."""
    machine.refuse_undefined(slot, "the address")
    addresses = np.broadcast_to(machine.values[slot], (len(machine.values[slot]), machine.threads))
    active = machine.memory.active
    if (addresses != addresses[:1]).any():
        raise SimulationError("the address of an mbarrier depends on the data of the trial")
    mine = addresses[0] if active is None else addresses[0][active]
    inside = (1 << WINDOW_BITS) - 1
    return [(machine.memory.home ^ int(one) >> WINDOW_BITS, int(one) & inside) for one in mine]
