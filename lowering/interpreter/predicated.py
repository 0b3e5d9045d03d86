"""Instructions with a predicate, which some threads do not execute."""

from __future__ import annotations

import numpy as np

from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.program import Machine


class Predicated:
    """Makes the threads with a false predicate inactive, within a `with` block."""

    def __init__(self, machine: Machine, predicate: int | None) -> None:
        self.memory, self.before = machine.memory, machine.memory.active
        holds = np.ones(machine.threads, np.bool_)
        if predicate is not None:
            machine.refuse_undefined(predicate, "the predicate")
            value = machine.values[predicate]
            if (machine.executing(value) != machine.executing(value)[:1]).any():
                raise SimulationError("the predicate depends on the data of the trial")
            holds = np.broadcast_to(value[0] != 0, (machine.threads,))
        self.threads = holds if self.before is None else holds & self.before
        self.any_active, self.all_active = bool(self.threads.any()), bool(self.threads.all())

    def __enter__(self) -> Predicated:
        self.memory.active = None if self.all_active else self.threads
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.active = self.before
