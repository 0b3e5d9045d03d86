"""What global memory costs on each GPU: clocks of an SM for the sectors and instructions of an access.

The shape of the costs was measured on an H200 (`bench/accesses.py`): what an instruction takes, and how much
longer a sector takes if an instruction covers less than a line of 128 bytes. The time of a whole sector follows
from the bytes per clock and multiprocessor, which are published for all these GPUs and differ by a factor of
seven. Each GPU is assumed to reach the same part of its published bandwidth as the H200 does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class MemoryCosts:
    """Clocks of an SM for the accesses of one warp to global memory.

    sector: 32 bytes of DRAM (half of that from the second-level cache), if a warp's instruction covers whole
    lines. cached_sector: a sector that the first-level cache holds. instruction: issuing one. loaded, stored:
    factors on a sector if an instruction covers 128, 64, 32 or fewer bytes of each line; to store part of a
    sector, DRAM has to read the rest of it. skipped: the factor if an instruction skips sectors that only later
    instructions of the thread access: its accesses are spread over more pages.
    """

    sector: float
    cached_sector: float
    instruction: float
    loaded: tuple[float, float, float, float]
    stored: tuple[float, float, float, float]
    skipped: float

    def part(self, run: int, is_store: bool) -> float:
        """The factor on a sector if one instruction covers `run` bytes of a line, 128 at most."""
        return (self.stored if is_store else self.loaded)[3 if run < 32 else 7 - (run.bit_length() - 1)]


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Published figures of a GPU: multiprocessors, their highest clock in GHz, and bandwidth in GB per
    second."""

    gpu: str
    multiprocessors: int
    gigahertz: float
    gigabytes: float

    @property
    def bytes_a_clock(self) -> float:
        """Bytes per multiprocessor and clock.

        >>> round(MEASURED.bytes_a_clock, 1)
        18.4
        """
        return self.gigabytes / (self.multiprocessors * self.gigahertz)


MEASURED: Final = Bandwidth("H200", 132, 1.98, 4800)
H200: Final = MemoryCosts(
    sector=1.6,
    cached_sector=0.2,
    instruction=3.0,
    loaded=(1.0, 1.1, 1.35, 1.4),
    stored=(1.0, 1.0, 1.4, 7.5),
    skipped=1.7,
)
"""Measured; `skipped` with the strided loads of a masked softmax (1.85 in all)."""


def published(found: Bandwidth | None) -> MemoryCosts:
    """The costs of a GPU by its published bandwidth; those of the H200 if there is none.

    >>> published(Bandwidth("A100 80 GB", 108, 1.41, 2039)).sector, published(None).sector
    (2.19, 1.6)
    """
    if found is None:
        return H200
    ratio = MEASURED.bytes_a_clock / found.bytes_a_clock
    return replace(H200, sector=round(H200.sector * ratio, 2))
