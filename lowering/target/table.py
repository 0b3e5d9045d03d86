"""The GPUs, one row for each: what is published of it.

Shared memory, warps and CTAs of a multiprocessor (SM, CU): CUDA programming guide, table of technical
specifications per compute capability (the maximum that a thread block may ask for), and the CDNA ISA manuals
(LDS per work-group).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target import lanes, memory, phases
from triton_linear.lowering.target.memory import Bandwidth
from triton_linear.lowering.target.phases import Services


@dataclass(frozen=True, slots=True)
class Gpu:
    """shared_kib: what a CTA may ask for. warps, ctas: the most that a multiprocessor holds. bandwidth: None if
    it is taken for the H200's. services, lane_instructions: of AMD GPUs; those of NVIDIA's follow from the
    compute capability."""

    shared_kib: int
    warps: int
    ctas: int = 32
    bandwidth: Bandwidth | None = None
    services: Services | None = None
    lane_instructions: tuple[str, ...] = ()


# The bandwidth is that of one GPU of each compute capability: the server GPU with the most of it.
GPUS: Final[Mapping[str, Gpu]] = {
    # NVIDIA A100 datasheet (SXM, 80 GB) and Ampere architecture whitepaper: 108 SMs, 1410 MHz.
    "cuda:80": Gpu(163, 64, 32, Bandwidth("A100 80 GB", 108, 1.41, 2039)),
    # NVIDIA A40 datasheet: 696 GB/s; 84 SMs, 1740 MHz (GA102 whitepaper and tables of GPUs).
    "cuda:86": Gpu(99, 48, 16, Bandwidth("A40", 84, 1.74, 696)),
    # Jetson AGX Orin Series technical brief: 2048 CUDA cores in 16 SMs, 1.3 GHz, 204.8 GB/s.
    "cuda:87": Gpu(163, 48, 16, Bandwidth("Jetson AGX Orin", 16, 1.3, 204.8)),
    # NVIDIA L40S datasheet and Ada architecture whitepaper: 142 SMs, 2520 MHz, 864 GB/s.
    "cuda:89": Gpu(99, 48, 24, Bandwidth("L40S", 142, 2.52, 864)),
    # NVIDIA H200 datasheet: 4.8 TB/s; 132 SMs, 1980 MHz (Hopper architecture whitepaper, nvidia-smi).
    "cuda:90": Gpu(227, 64, 32, memory.MEASURED),
    # NVIDIA Blackwell architecture technical brief: 7.7 TB/s (HGX B200); 148 SMs, 1.98 GHz (tables of GPUs).
    "cuda:100": Gpu(227, 64, 32, Bandwidth("B200", 148, 1.98, 7700)),
    # NVIDIA on Blackwell Ultra: 160 SMs, 8 TB/s; the clock is taken to be that of the B200.
    "cuda:103": Gpu(227, 64, 32, Bandwidth("B300", 160, 1.98, 8000)),
    # NVIDIA GeForce RTX 5090, specifications: 170 SMs, 2407 MHz, 1792 GB/s.
    "cuda:120": Gpu(99, 48, 24, Bandwidth("RTX 5090", 170, 2.407, 1792)),
    "hip:gfx90a": Gpu(64, 32, services=phases.CDNA3, lane_instructions=lanes.CDNA2),
    "hip:gfx942": Gpu(64, 32, services=phases.CDNA3, lane_instructions=lanes.CDNA2),
    "hip:gfx950": Gpu(160, 32, services=phases.CDNA4, lane_instructions=lanes.CDNA4),
}
