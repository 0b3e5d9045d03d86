"""What the planners need to know of a GPU, as data.

Selects and byte permutes run on one pipe; a multiplication under a predicate, which can replace a word in
place, on another (`bench/calibrate.py`: SEL and @P IMAD in turn take as long as either half alone).

Which instructions an NVIDIA GPU has, and how many lanes share a wavefront, is in `lowering/target/tiles.py`.

Shared-memory capacities: CUDA programming guide, table of technical specifications per compute capability
(the maximum a thread block may ask for), and the CDNA ISA manuals (LDS per work-group). Banks and phases:
`lowering/target/phases.py`; one wavefront per clock, on every target listed here.

What a multiprocessor (SM, CU) has for all its CTAs: the same table, where each CTA is charged 1 KiB of shared
memory more; and the CDNA ISA manuals: 512 vector registers for each lane of four SIMDs, 8 waves on each. RDNA3
and RDNA4 (gfx1100, gfx1200; GPUOpen on occupancy, LLVM's table of registers): 1536 for each of 32 lanes of two
SIMDs, 16 waves on each. A workgroup may spread over two CUs there, each with half of the LDS; all is counted
for one.

Instruction costs are clocks per warp instruction and SM with 16 warps resident, measured on one H200
(`Target.measured`). On other NVIDIA GPUs they are the H200's, which is what the CUDA programming guide says of
them (arithmetic instructions, results per clock and SM): 32 lanes of shuffles and 64 of integer operations,
permutes and selects among them, from compute capability 8.0 to 9.0, and 128 bytes of shared memory. For 10.0
and above the guide's table was not found here; descriptions of Blackwell have 128 lanes of 32-bit integers,
which would halve `alu`, if it holds for selects and permutes. What differs is `float_alu`, with 64 lanes for
8.0 and 128 for the others, and global memory (`memory`). Waits and barriers are published for none.

Those of AMD targets follow from the issue rates of the CDNA ISA manuals: a wave of 64 takes four clocks per
vector instruction on a 16-lane SIMD, and LDS serves a wavefront per clock and CU. What those of RDNA follow
from stands beside them. What both take for global memory and arithmetic is the H200's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target import lanes, memory, phases, tiles
from triton_linear.lowering.target.clocks import H200
from triton_linear.lowering.target.memory import MemoryCosts
from triton_linear.lowering.target.phases import Service, Services
from triton_linear.lowering.target.policy import CDNA, NVIDIA, NVIDIA_UNMEASURED, RDNA, Policy


@dataclass(frozen=True, slots=True)
class InstructionCosts:
    """Clocks of one warp instruction (`shuffle`, `alu`), of one `wavefront`, of one barrier.

    Shuffles and wavefronts share a pipe; selects and permutes have one of their own, replacements another as
    fast. A warp that has its scheduler to itself issues a shuffle every `lone_shuffle` clocks, arithmetic every
    `lone_alu`, an access every `lone_access` beside its wavefronts. Of all that, `alone` and of replacements
    `alone_beside` are not hidden by one another; results take `shuffle_wait`, `memory_wait`, `barrier_wait`,
    those of vector instructions alone `select_wait`. A barrier takes `meeting` for each warp that comes to it
    with loads under way: all wait for the slowest, and no warp begins the next iteration of a loop early.
    Adding or multiplying 32-bit floats takes `float_alu`. A warp that loads from the shared memory of another
    CTA takes `far_sector` for each sector of 32 bytes that its lanes touch there.
    """

    shuffle: float
    alu: float
    wavefront: float
    warp_barrier: float
    cta_barrier: float
    lone_shuffle: float
    lone_alu: float
    lone_access: float
    shuffle_wait: float
    memory_wait: float
    barrier_wait: float
    select_wait: float
    alone: float = 0.7
    alone_beside: float = 0.3
    meeting: float = 4.0
    float_alu: float = 0.25
    far_sector: float = 0.0

    def clocks(self, memory: float, alu: float, beside: float = 0, far: float = 0) -> float:
        """Clocks of `memory` clocks on the shuffle and shared-memory pipe, with `alu` instructions, those that
        run `beside` them on another pipe, and `far` clocks between the multiprocessors of a cluster.

        Pipes that work at a time delay each other a little, the more the closer their loads are: the cubic norm
        is within 10 % of what bench/conversions measures.
        """
        cubes = memory**3 + (alu * self.alu) ** 3 + (beside * self.alu) ** 3 + far**3
        return float(cubes ** (1 / 3))


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU as the planners see it; `name` is Triton's spelling, as in `cuda:90` or `hip:gfx942`."""

    name: str
    vendor: str
    lanes: int
    max_shared_bytes: int
    costs: InstructionCosts
    services: Services = field(hash=False)
    policy: Policy = field(hash=False)
    memory: MemoryCosts = field(hash=False)
    measured: str = ""
    """The GPU whose clocks the costs are, if they were measured on this target; else they are published, or
    derived, or another GPU's."""
    banks: int = 32
    bank_bytes: int = 4
    max_access_bytes: int = 16
    load_matrix: tuple[str, ...] = ()
    store_matrix: tuple[str, ...] = ()
    """Loads and stores that transpose, of `transposing.FORMS`."""
    loads_not_taken: frozenset[int] = frozenset()
    """Widths in bytes of loads that plans do without, but where it is what stores and loads share."""
    replaces_beside_selects: bool = False
    lane_instructions: tuple[str, ...] = ()
    """Those that move words between lanes by a fixed xor (AMD's, see `lowering/target/lanes.py`)."""
    waits_before_stores: bool = False
    """Whether an exchange whose stores lie apart begins with a barrier of the warp (see `Machine.together`)."""
    scratch_grows: bool = False
    """Whether a CTA of more warps may take more, in proportion."""
    resident_warps: int = 64
    """Warps that a multiprocessor takes."""
    registers: int = 64 * 1024
    """Registers of 32 bits that a multiprocessor has."""
    reserved_shared_bytes: int = 0
    """Shared memory that a CTA is charged beyond what it asks for."""

    @property
    def likely_warps(self) -> int:
        """Warps that a multiprocessor holds while it converts, if nothing else is known."""
        return self.policy.likely_warps

    @property
    def spelled(self) -> str:
        """The text by which `target` finds this one: its name, and the thresholds that are not the table's.

        >>> with_policy(target("cuda:90"), likely_warps=16).spelled
        'cuda:90{likely_warps=16}'
        """
        usual = TARGETS.get(self.name)
        if usual is None or usual.policy is self.policy:
            return self.name
        others = [
            f"{entry.name}={value if isinstance(value, float) else int(value)}"
            for entry in fields(Policy)
            if (value := getattr(self.policy, entry.name)) != getattr(usual.policy, entry.name)
        ]
        return f"{self.name}{{{','.join(others)}}}" if others else self.name

    @property
    def has_clusters(self) -> bool:
        """Whether CTAs of a cluster can load from each other's shared memory."""
        return self.vendor == "nvidia" and int(self.name.removeprefix("cuda:")) >= _FIRST_WITH_CLUSTERS

    @property
    def shuffles_in_segments(self) -> bool:
        """Whether shuffles can take bits of the lane from the one that asks."""
        return self.vendor == "nvidia"

    @property
    def wavefront_bytes(self) -> int:
        """Bytes that shared memory serves at once at most: every bank one word."""
        return self.banks * self.bank_bytes

    def most_bytes(self, kind: str) -> int:
        """Bytes of a wavefront of the widest loads or stores."""
        return self.service(kind, self.max_access_bytes).banks * self.bank_bytes

    def scratch_limit(self, warps: int) -> int:
        """Bytes of scratch that a CTA of `warps` warps may take where nothing else is known.

        >>> target("hip:gfx942").scratch_limit(8), target("cuda:90").scratch_limit(8)
        (32768, 32768)
        """
        bytes_ = self.policy.scratch_bytes
        return bytes_ * max(4, warps) // 4 if self.scratch_grows else bytes_

    def shared_budget(self, warps: int, words: int) -> int:
        """Bytes that a CTA of `warps` warps can ask for without being what limits the CTAs of a multiprocessor.

        Its threads hold a tensor of `words` registers and a few others, and `Policy.likely_registers` at least.
        The CTAs that find registers share the memory.

        >>> target("cuda:90").shared_budget(4, 16), target("cuda:90").shared_budget(4, 128)
        (28160, 76800)
        """
        registers = max(self.policy.likely_registers, words + self.policy.registers_beside)
        resident = min(self.resident_warps, self.registers // (registers * self.lanes))
        ctas = max(1, resident // warps)
        whole = self.max_shared_bytes + self.reserved_shared_bytes
        return min(self.max_shared_bytes, whole // ctas - self.reserved_shared_bytes)

    def service(self, kind: str, access_bytes: int) -> Service:
        """How loads or stores are served, of which each lane touches `access_bytes` bytes.

        >>> [target("cuda:90").service("load", size).count for size in (1, 4, 8, 16)]
        [32, 32, 16, 8]
        """
        return self.services[kind, access_bytes]


def with_policy(gpu: Target, **thresholds: Any) -> Target:
    """A target with some other thresholds.

    >>> with_policy(target("cuda:90"), likely_warps=16).likely_warps
    16
    """
    return replace(gpu, policy=replace(gpu.policy, **thresholds))


def measured(clocks: Mapping[str, tuple[float, float, float | None]]) -> dict[str, float]:
    """The costs that bench/calibrate.py measures, from its (busy, alone, chain) by instruction."""
    trip = "st.shared.b32 + ld.shared.b32", "st.shared.b32 + bar.warp.sync + ld.shared.b32"
    return {
        "shuffle": round(clocks["shfl.bfly"][0], 2),
        "alu": round((clocks["prmt"][0] + clocks["selp"][0]) / 2, 2),
        "wavefront": round((clocks["ld.shared.v4.b32"][0] + clocks["st.shared.v4.b32"][0]) / 8, 2),
        "warp_barrier": round(max(0.0, clocks[trip[1]][0] - clocks[trip[0]][0]), 2),
        "lone_shuffle": round(clocks["shfl.bfly"][1], 1),
        "lone_alu": round(clocks["prmt"][1], 2),
    }


# The figures here were fitted to the round trips of bench/conversions on an H200. A barrier of 4 warps takes 8
# clocks when other CTAs fill in, 2 for each warp, and Triton puts one of its own before some exchanges.
# `meeting` was fitted to row softmax plus transpose: the conversion of 16 warps in its loop takes 184 clocks,
# 128 of them the exchange itself. `far_sector` was fitted to bench.gpu_random --clusters on an H100: 300
# conversions, each by stock Triton and by plans that did not look at sectors, within 15 % in the mean.
_NVIDIA = InstructionCosts(
    **measured(H200),
    cta_barrier=3.0,
    lone_access=2.0,
    shuffle_wait=24.0,
    memory_wait=26.0,
    barrier_wait=10.0,
    select_wait=24.0,
    far_sector=3.8,
)
_AMD = InstructionCosts(
    shuffle=2.0,
    alu=1.0,
    wavefront=1.0,
    warp_barrier=0.0,
    cta_barrier=4.0,
    lone_shuffle=8.0,
    lone_alu=4.0,
    lone_access=4.0,
    shuffle_wait=64.0,
    memory_wait=64.0,
    barrier_wait=20.0,
    select_wait=0.0,
)

# RDNA, derived: two SIMDs of a CU each issue a vector instruction of a wave of 32 lanes a clock (dual issue is
# not counted on), whose result takes five (LLVM's GFX10SpeedModel, Write32Bit): a wave alone is taken to have
# other words to work on for half of them. LDS: 32 banks of 4 bytes a clock, one pass for 32 lanes. Measured by
# others: reads that a wave makes in a row take 10.8 clocks each for 32 bits, and 16.0 for 128, on a Radeon RX
# 9070 XT (nod-ai/amd-shark-ai, docs/empirical-lds). Waits and barriers were found nowhere and are those of
# CDNA.
_RDNA = InstructionCosts(
    shuffle=1.0,
    alu=0.5,
    wavefront=1.0,
    warp_barrier=0.0,
    cta_barrier=4.0,
    lone_shuffle=11.0,
    lone_alu=2.5,
    lone_access=10.0,
    shuffle_wait=64.0,
    memory_wait=64.0,
    barrier_wait=20.0,
    select_wait=0.0,
)

_MEASURED = {"cuda:90": "NVIDIA H200"}
"""The targets whose costs were measured, and on which GPU."""

_FIRST_WITH_CLUSTERS = 90
"""The first compute capability whose CTAs come in clusters (PTX ISA, `mapa`)."""

_SHARED_KIB = {
    "cuda:80": 163,
    "cuda:86": 99,
    "cuda:87": 163,
    "cuda:89": 99,
    "cuda:90": 227,
    "cuda:100": 227,
    "cuda:103": 227,
    "cuda:120": 99,
    "hip:gfx90a": 64,
    "hip:gfx942": 64,
    "hip:gfx950": 160,
    "hip:gfx1100": 64,
    "hip:gfx1200": 64,
}


def _make(name: str, kib: int) -> Target:
    if name.startswith("cuda:"):
        # A conversion holds its tile in registers twice, so 256 KiB of them admit half as many bytes of tiles:
        # with 163 KiB of shared memory or more, scratch is not what limits the CTAs of an SM.
        scratch = (32 if kib > 128 else 16) * 1024
        capability = int(name.removeprefix("cuda:"))
        names = {tile.name for tile in tiles.available(capability)}
        return Target(
            name,
            "nvidia",
            32,
            kib * 1024,
            replace(_NVIDIA, float_alu=0.5) if name == "cuda:80" else _NVIDIA,
            phases.uniform(tiles.phase_lanes(capability)),
            replace(NVIDIA if name in _MEASURED else NVIDIA_UNMEASURED, scratch_bytes=scratch),
            memory.published(name),
            _MEASURED.get(name, ""),
            load_matrix=("ldmatrix",) if "ldmatrix.x4.trans" in names else (),
            store_matrix=("stmatrix",) if "stmatrix.x4.trans" in names else (),
            replaces_beside_selects="@p mul.lo" in names,
            waits_before_stores=True,
            resident_warps=64 if kib > 128 and name != "cuda:87" else 48,
            reserved_shared_bytes=1024,
        )
    rdna = name.startswith(("hip:gfx11", "hip:gfx12"))
    # Kernels with matmuls hold 128 registers and more in each lane, which leaves a CU 16 waves; one of
    # RDNA 24 of half as many lanes. Each four of them may take a quarter of 64 KiB, or an eighth, or a fifth of
    # 160 KiB: that takes none away.
    return Target(
        name,
        "amd",
        32 if rdna else 64,
        kib * 1024,
        _RDNA if rdna else _AMD,
        phases.AMD[name],
        replace(RDNA if rdna else CDNA, scratch_bytes=(32 if kib > 64 else 8 if rdna else 16) * 1024),
        memory.published(name),
        banks=max(service.banks for service in phases.AMD[name].values()),
        load_matrix=("ds_read_b64_tr_b16", "ds_read_b64_tr_b8") if name == "hip:gfx950" else (),
        # Results of conversions by contiguous ds_read_b64 were seen to vary from run to run on gfx950, with
        # LLVM at -O3 (llvm-project issue 206825, open; Triton does without them for some conversions since).
        loads_not_taken=frozenset({8} if name == "hip:gfx950" else ()),
        lane_instructions=lanes.AVAILABLE[name],
        scratch_grows=True,
        resident_warps=32,
        registers=(96 if rdna else 128) * 1024,
    )


TARGETS = {name: _make(name, kib) for name, kib in _SHARED_KIB.items()}


def target(name: str) -> Target:
    """The target called `name`, which may say other thresholds than those of its policy.

    >>> target("cuda:90{likely_warps=16}").likely_warps
    16

    Raises ValueError for a name that is not in the table, listing those that are, and for a threshold that is
    none.
    """
    plain, brace, said = name.partition("{")
    found = TARGETS.get(re.sub(r"^cuda:sm_?", "cuda:", plain))
    if found is None:
        raise ValueError(f"unknown target '{plain}'; known: {', '.join(TARGETS)}")
    if not brace:
        return found
    if not said.endswith("}"):
        raise ValueError(f"target '{name}' has no closing brace")
    return _with_thresholds(found.name, said[:-1])


@functools.lru_cache(maxsize=64)
def _with_thresholds(name: str, said: str) -> Target:
    """One object for one name: what is planned is kept by it."""
    return with_policy(TARGETS[name], **thresholds_of(said))


def thresholds_of(text: str) -> dict[str, bool | int | float]:
    """Values of thresholds, as a target's name has them.

    >>> thresholds_of("likely_warps=16, margin=0.5, splits_beside_scans=1")
    {'likely_warps': 16, 'margin': 0.5, 'splits_beside_scans': True}

    Raises ValueError for a threshold that there is not, and for what is no value of one.
    """
    known = {entry.name: type(getattr(NVIDIA, entry.name)) for entry in fields(Policy)}
    found: dict[str, bool | int | float] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, _, value = (part.strip() for part in word.partition("="))
        kind = known.get(name)
        if kind is None:
            raise ValueError(f"no threshold '{name}'; there are {', '.join(known)}")
        try:
            found[name] = kind(float(value)) if kind is float else kind(int(value))
        except ValueError as error:
            raise ValueError(f"threshold {name} takes a number, got '{value}'") from error
    return found
