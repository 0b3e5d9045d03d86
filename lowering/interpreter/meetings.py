"""What independent warps wait for each other at: barriers, and mbarriers.

An mbarrier is a word of shared memory that counts arrivals (PTX ISA, mbarrier). When as many threads have
arrived as it was made for, a phase is complete, and the next one begins. A thread waits for a phase by its
parity, and sees what those who arrived in it did before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Clock = npt.NDArray[np.int64]
"""For each warp, up to which of its accesses others are ordered behind it."""
Place = tuple[int, int]
"""The rank of a CTA, and an address in its memory."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """`warps` warps come to barrier `number` (`memory.OF_CLUSTER`: that of the cluster). relaxed: coming to it
    orders nothing."""

    number: int
    warps: int
    relaxed: bool = False

    def __str__(self) -> str:
        return f"barrier {self.number} for {self.warps}"


@dataclass(frozen=True, slots=True)
class Phase:
    """The phase with this parity of the mbarrier at `place` is complete."""

    place: Place
    parity: int

    def __str__(self) -> str:
        return f"phase {self.parity} of the mbarrier at address {self.place[1]} of CTA {self.place[0]}"


@dataclass(slots=True)
class Mbarrier:
    """An mbarrier at which `count` threads arrive in each phase.

    complete: the number of phases that are. released: what is ordered before the end of the last of them.
    """

    count: int
    complete: int = 0
    arrived: int = 0
    arriving: Clock | None = None
    released: Clock = field(default_factory=lambda: np.zeros(1, np.int64))

    def arrive(self, clock: Clock) -> None:
        """A thread arrives; what `clock` is ordered behind will be ordered before the end of the phase."""
        self.arriving = clock.copy() if self.arriving is None else np.maximum(self.arriving, clock)
        self.arrived += 1
        if self.arrived == self.count:
            self.released = np.maximum(self.released, self.arriving)
            self.complete, self.arrived, self.arriving = self.complete + 1, 0, None

    def is_complete(self, parity: int) -> bool:
        """True if the phase under way has the other parity."""
        return self.complete % 2 != parity
