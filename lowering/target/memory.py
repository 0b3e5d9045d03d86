"""What global memory costs on each GPU: clocks of an SM for the sectors and instructions of an access.

The shape of the costs was measured on an H200 (`bench/accesses.py`): what an instruction takes, and how much
longer a sector takes if an instruction covers less than a line of 128 bytes. The time of a whole sector follows
from the bytes per clock and multiprocessor, which are published for all these GPUs and differ by a factor of
seven. Each GPU is assumed to reach the same part of its published bandwidth as the H200 does.
"""

from __future__ import annotations

from collections.abc import Mapping
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

        >>> round(PUBLISHED["cuda:90"].bytes_a_clock, 1)
        18.4
        """
        return self.gigabytes / (self.multiprocessors * self.gigahertz)


# One GPU of each compute capability: the server GPU with the most memory bandwidth.
PUBLISHED: Final[Mapping[str, Bandwidth]] = {
    # NVIDIA A100 datasheet (SXM, 80 GB) and Ampere architecture whitepaper: 108 SMs, 1410 MHz.
    "cuda:80": Bandwidth("A100 80 GB", 108, 1.41, 2039),
    # NVIDIA A40 datasheet: 696 GB/s; 84 SMs, 1740 MHz (GA102 whitepaper and tables of GPUs).
    "cuda:86": Bandwidth("A40", 84, 1.74, 696),
    # Jetson AGX Orin Series technical brief: 2048 CUDA cores in 16 SMs, 1.3 GHz, 204.8 GB/s.
    "cuda:87": Bandwidth("Jetson AGX Orin", 16, 1.3, 204.8),
    # NVIDIA L40S datasheet and Ada architecture whitepaper: 142 SMs, 2520 MHz, 864 GB/s.
    "cuda:89": Bandwidth("L40S", 142, 2.52, 864),
    # NVIDIA H200 datasheet: 4.8 TB/s; 132 SMs, 1980 MHz (Hopper architecture whitepaper, nvidia-smi).
    "cuda:90": Bandwidth("H200", 132, 1.98, 4800),
    # NVIDIA Blackwell architecture technical brief: 7.7 TB/s (HGX B200); 148 SMs, 1.98 GHz (tables of GPUs).
    "cuda:100": Bandwidth("B200", 148, 1.98, 7700),
    # NVIDIA on Blackwell Ultra: 160 SMs, 8 TB/s; the clock is taken to be that of the B200.
    "cuda:103": Bandwidth("B300", 160, 1.98, 8000),
    # NVIDIA GeForce RTX 5090, specifications: 170 SMs, 2407 MHz, 1792 GB/s.
    "cuda:120": Bandwidth("RTX 5090", 170, 2.407, 1792),
}

H200: Final = MemoryCosts(
    sector=1.6,
    cached_sector=0.2,
    instruction=3.0,
    loaded=(1.0, 1.1, 1.35, 1.4),
    stored=(1.0, 1.0, 1.4, 7.5),
    skipped=1.7,
)
"""Measured; `skipped` with the strided loads of a masked softmax (1.85 in all)."""


def published(name: str) -> MemoryCosts:
    """The costs of a target by its published bandwidth; those of the H200 if `PUBLISHED` lacks the target.

    >>> [published(name).sector for name in ("cuda:80", "cuda:89", "cuda:90", "hip:gfx942")]
    [2.19, 12.17, 1.6, 1.6]
    """
    found = PUBLISHED.get(name)
    if found is None:
        return H200
    ratio = PUBLISHED["cuda:90"].bytes_a_clock / found.bytes_a_clock
    return replace(H200, sector=round(H200.sector * ratio, 2))
