"""How far searches go. These bound work, so that a compile stays short; none foresees what is fast.

With ten of these unbounded no module of 1,197 was another one, and with each of the others at most fourteen
(docs/builders/policy.md).
"""

from __future__ import annotations

from typing import Final

# Assignment (passes/assignment)

CANDIDATES: Final = 12
"""Layouts that a group chooses from."""
CARRIED_EDGES: Final = 3
"""Edges of the graph of values across which a layout is propagated as a candidate."""
MEETING_PAIRS: Final = 6
"""Pairs of a load and a store for which layouts are made between which a conversion stays inside warps."""
LOCAL_PARTNERS: Final = 3
"""Accesses to global memory that an access to shared memory is paired with."""
SPREAD_STARTS: Final = 3
"""Candidates that spread the result of a reduction over lanes with copies: from the first register on, from the
second, and so on."""
PLANNED_CONVERSIONS: Final = 64
"""Pairs of layouts that are planned for one assignment; pairs that are not planned are not chosen."""

# Plans (lowering/planners)

MOST_REGISTERS: Final = 8192
"""The most elements of a tensor that a thread holds, copies included, for a conversion to be planned; its 255
registers are 1,020 bytes."""
EXCHANGE_PERMUTES: Final = 3
"""The search for an exchange of lanes with registers before or after shared memory ends with one that takes at
most so many permutes for each shuffle, and one for each word."""
SMALL_SCRATCH: Final = 1024
"""Bytes of scratch outside loops that keep their place until the next exchange is done, which saves a barrier:
as many as NVIDIA GPUs reserve for a CTA."""
SCRATCH_PIECES: Final = 64
"""A kernel with more exchanges gets the simplest arrangement of scratch, and no other is tried."""
