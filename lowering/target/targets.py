"""What the planners need to know of a GPU, as data.

What is published of each GPU: `lowering/target/table.py`. Banks and phases: `lowering/target/phases.py`; one
wavefront per clock, on every target.

The CUDA programming guide charges each CTA 1 KiB of shared memory more. CDNA has 512 vector registers for each
lane of four SIMDs (ISA manuals).

Instruction costs are clocks per warp instruction and SM with 16 warps resident, measured on one H200
(`Target.measured`). On other NVIDIA GPUs they are the H200's, which is what the CUDA programming guide says of
them (arithmetic instructions, results per clock and SM): 32 lanes of shuffles and 64 of integer operations,
permutes and selects among them, from compute capability 8.0 to 9.0, and 128 bytes of shared memory. For 10.0
and above the guide's table was not found here; descriptions of Blackwell have 128 lanes of 32-bit integers,
which would halve `alu`, if it holds for selects and permutes. Two costs differ from the H200's: `float_alu`,
with 64 lanes for 8.0 and 128 for the others, and global memory (`memory`). NVIDIA publishes neither waits nor
the time of barriers.

The costs of AMD targets follow from the issue rates of the CDNA ISA manuals: a wave of 64 takes four clocks per
vector instruction on a 16-lane SIMD, and LDS serves a wavefront per clock and CU. For global memory and float
arithmetic they have the H200's costs.
"""

from __future__ import annotations

import functools
import re
from dataclasses import field, fields, replace
from typing import Any

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target import memory, phases
from triton_linear.lowering.target.memory import MemoryCosts
from triton_linear.lowering.target.phases import BANK_BYTES, LOAD, STORE, WIDEST, Service, Services
from triton_linear.lowering.target.policy import CDNA, NVIDIA, NVIDIA_UNMEASURED, Policy
from triton_linear.lowering.target.table import GPUS, Gpu


@dataclass(frozen=True, slots=True)
class InstructionCosts:
    """Clocks of one warp instruction (`shuffle`, `alu`), of one `wavefront`, of one barrier.

    Shuffles and wavefronts share a pipe; selects and permutes have another.

    lone_shuffle, lone_alu, lone_access: clocks between two instructions of a warp that has its scheduler to
    itself; an access takes its wavefronts on top.
    alone: the part of these issue times that the warp's other instructions do not hide.
    shuffle_wait, memory_wait, barrier_wait, select_wait: latency of a result; `select_wait` if only vector
    instructions made it.
    meeting: what a barrier takes for each warp that comes to it with loads in flight, because all warps wait
    for the slowest and none begins the next iteration of a loop early.
    float_alu: one addition or multiplication of 32-bit floats.
    """

    shuffle: float
    alu: float
    wavefront: float
    cta_barrier: float
    lone_shuffle: float
    lone_alu: float
    lone_access: float
    shuffle_wait: float
    memory_wait: float
    barrier_wait: float
    select_wait: float
    alone: float = 0.7
    meeting: float = 4.0
    float_alu: float = 0.25

    @property
    def word(self) -> float:
        """The most that moving a word to another thread takes, barriers apart: a store to shared memory, a
        load, and two permutes on each side."""
        return 2 * self.wavefront + 4 * self.alu

    def clocks(self, memory: float, alu: float) -> float:
        """Clocks that both pipes take together.

        memory: clocks of the shuffle and shared-memory pipe. alu: selects and permutes.

        Pipes that work at the same time delay each other a little, and most if they are equally busy. The cubic
        norm is within 10 % of what bench/conversions measures.
        """
        return float((memory**3 + (alu * self.alu) ** 3) ** (1 / 3))


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
    """The GPU on which the costs of this target were measured. Empty if they are published, derived or another
    GPU's."""
    banks: int = 32
    load_matrix: tuple[str, ...] = ()
    store_matrix: tuple[str, ...] = ()
    """Names of matrix instructions that load and store, from `transposing.FORMS`."""
    loads_not_taken: frozenset[int] = frozenset()
    """Widths in bytes of loads that plans avoid, unless it is the widest vector of both stores and loads."""
    lane_instructions: tuple[str, ...] = ()
    """Instructions that move words between lanes by a fixed xor (AMD's, see `lowering/target/lanes.py`)."""
    waits_before_stores: bool = False
    """True if an exchange whose stores lie apart begins with a barrier of the warp (see
    `InstructionWriter.keep_loads_in_flight`)."""
    scratch_bytes: int = 16 * 1024
    """The most scratch of a conversion of four warps or fewer; one that needs more goes in several rounds."""
    scratch_grows: bool = False
    """True if the scratch limit of a CTA grows in proportion to its warps."""
    resident_warps: int = 64
    resident_ctas: int = 32
    """The most warps, and the most CTAs, that a multiprocessor holds."""
    registers: int = 64 * 1024
    """Registers of 32 bits that a multiprocessor has."""
    reserved_shared_bytes: int = 0
    """Shared memory that a CTA is charged beyond what it asks for."""
    vector_words: int = 1
    """Words of two elements of 16 bits that are packed in one LLVM vector. Triton optimises without a target on
    NVIDIA GPUs, so LLVM makes two additions of halves one instruction only where it finds those of 128 bits
    together (`slp-min-reg-size`)."""

    def __hash__(self) -> int:
        return hash(self.name)  # caches ask for it often

    @property
    def spelled(self) -> str:
        """The text from which `target` returns this target: its name, and the thresholds that were changed.

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
    def serves_alike(self) -> bool:
        """True if loads from shared memory take the phases of stores (where none are joined), and plans take
        loads of every width."""
        return not self.loads_not_taken and all(
            (service.lanes, service.banks) == (load.lanes, load.banks)
            for (kind, width), service in self.services.items()
            if kind == STORE and (load := self.services[LOAD, width])
        )

    @property
    def wavefront_bytes(self) -> int:
        """The most bytes of one wavefront: one word of every bank."""
        return self.banks * BANK_BYTES

    def most_bytes(self, kind: str) -> int:
        """Bytes of one wavefront of the widest loads or stores (`kind`)."""
        return self.service(kind, WIDEST).banks * BANK_BYTES

    def scratch_limit(self, warps: int) -> int:
        """Bytes of scratch that a CTA of `warps` warps may take, if nothing else is known.

        >>> target("hip:gfx942").scratch_limit(8), target("cuda:90").scratch_limit(8)
        (32768, 32768)
        """
        return self.scratch_bytes * max(4, warps) // 4 if self.scratch_grows else self.scratch_bytes

    def shared_budget(self, warps: int, words: int, needed: int = 0) -> int:
        """Bytes of shared memory that a CTA of `warps` warps can take without lowering the occupancy.

        Registers decide how many CTAs are resident, and the `needed` bytes that a CTA takes in any case: a
        thread holds a tensor of `words` registers, and `Policy.likely_registers` at least. Those CTAs share the
        memory equally.

        >>> target("cuda:90").shared_budget(4, 16), target("cuda:90").shared_budget(4, 128)
        (28160, 57344)
        >>> target("cuda:90").shared_budget(4, 16, needed=50000)
        57344
        """
        registers = max(self.policy.likely_registers, words)
        resident = min(self.resident_warps, self.registers // (registers * self.lanes))
        whole = self.max_shared_bytes + self.reserved_shared_bytes
        ctas = max(1, min(resident // warps, whole // max(1, needed + self.reserved_shared_bytes)))
        return min(self.max_shared_bytes, whole // ctas - self.reserved_shared_bytes)

    def service(self, kind: str, access_bytes: int) -> Service:
        """The phases of loads or stores (`kind`) of `access_bytes` bytes a lane.

        >>> [target("cuda:90").service("load", size).count for size in (1, 4, 8, 16)]
        [32, 32, 16, 8]
        """
        return self.services[kind, access_bytes]


def with_policy(gpu: Target, **thresholds: Any) -> Target:
    """Return `gpu` with the given fields of its policy changed.

    >>> with_policy(target("cuda:90"), likely_warps=16).policy.likely_warps
    16
    """
    return replace(gpu, policy=replace(gpu.policy, **thresholds))


# The first five are of bench/results/calibration.json (`bench.calibrate`), the others were fitted to the round
# trips of bench/conversions on an H200. A barrier of 4 warps takes 8
# clocks, 2 for each warp, while other CTAs fill in, and Triton puts one of its own before some exchanges.
# `meeting` was fitted to row softmax plus transpose: the conversion of 16 warps in its loop takes 184 clocks,
# 128 of them the exchange itself.
_NVIDIA = InstructionCosts(
    shuffle=1.0,
    alu=0.51,
    wavefront=1.0,
    lone_shuffle=4.3,
    lone_alu=2.17,
    cta_barrier=3.0,
    lone_access=2.0,
    shuffle_wait=24.0,
    memory_wait=26.0,
    barrier_wait=10.0,
    select_wait=24.0,
)
_AMD = InstructionCosts(
    shuffle=2.0,
    alu=1.0,
    wavefront=1.0,
    cta_barrier=4.0,
    lone_shuffle=8.0,
    lone_alu=4.0,
    lone_access=4.0,
    shuffle_wait=64.0,
    memory_wait=64.0,
    barrier_wait=20.0,
    select_wait=0.0,
)

_MEASURED = {"cuda:90": "NVIDIA H200"}
"""The GPU on which the costs of a target were measured, by target; targets without measurements are absent."""


def _make(name: str, gpu: Gpu) -> Target:
    kib = gpu.shared_kib
    if name.startswith("cuda:"):
        # A conversion holds its tile in registers twice, so 256 KiB of them admit half as many bytes of tiles:
        # with 163 KiB of shared memory or more, scratch is not what limits the CTAs of an SM.
        scratch = (32 if kib > 128 else 16) * 1024
        capability = int(name.removeprefix("cuda:"))
        policy = NVIDIA if name in _MEASURED else NVIDIA_UNMEASURED
        return Target(
            name,
            "nvidia",
            32,
            kib * 1024,
            replace(_NVIDIA, float_alu=0.5) if name == "cuda:80" else _NVIDIA,
            phases.nvidia(joins=name in _MEASURED),
            policy,
            memory.published(gpu.bandwidth),
            _MEASURED.get(name, ""),
            load_matrix=("ldmatrix.trans", "ldmatrix") if capability >= 75 else (),
            store_matrix=("stmatrix.trans", "stmatrix") if capability >= 90 else (),
            waits_before_stores=True,
            scratch_bytes=scratch,
            # Triton 3.9 does not vectorise for capability 8.0, as ptxas rejects some of the code.
            vector_words=1 if capability == 80 else 4,
            resident_warps=gpu.warps,
            resident_ctas=gpu.ctas,
            reserved_shared_bytes=1024,
        )
    services = gpu.services or phases.CDNA3
    # Kernels with matmuls hold 128 registers and more in each lane, so that a CU holds 16 waves. For each four
    # waves a CTA may take 16 KiB of 64, and 32 of 160 on gfx950: that does not lower the occupancy.
    return Target(
        name,
        "amd",
        64,
        kib * 1024,
        _AMD,
        services,
        CDNA,
        memory.published(gpu.bandwidth),
        banks=max(service.banks for service in services.values()),
        load_matrix=("ds_read_b64_tr_b16", "ds_read_b64_tr_b8") if name == "hip:gfx950" else (),
        # On gfx950, with LLVM at -O3, results of conversions by contiguous ds_read_b64 were seen to vary from
        # run to run (llvm-project issue 206825, open; Triton avoids them for some conversions since).
        loads_not_taken=frozenset({8} if name == "hip:gfx950" else ()),
        lane_instructions=gpu.lane_instructions,
        scratch_bytes=(32 if kib > 64 else 16) * 1024,
        scratch_grows=True,
        resident_warps=gpu.warps,
        registers=128 * 1024,
    )


TARGETS = {name: _make(name, gpu) for name, gpu in GPUS.items()}


def target(name: str) -> Target:
    """The target called `name`, with the thresholds that stand in braces behind its name.

    >>> target("cuda:90{likely_warps=16}").policy.likely_warps
    16

    Raises ValueError for a name that is not in the table, with a list of the known ones, and for a threshold
    that does not exist.
    """
    plain, brace, changed = name.partition("{")
    found = TARGETS.get(re.sub(r"^cuda:sm_?", "cuda:", plain))
    if found is None:
        raise ValueError(f"unknown target '{plain}'; known: {', '.join(TARGETS)}")
    if not brace:
        return found
    if not changed.endswith("}"):
        raise ValueError(f"target '{name}' has no closing brace")
    return _with_thresholds(found.name, changed[:-1])


@functools.lru_cache(maxsize=64)
def _with_thresholds(name: str, changed: str) -> Target:
    """Equal text gives the same object, which is the key of the planners' caches."""
    return with_policy(TARGETS[name], **thresholds_of(changed))


def thresholds_of(text: str) -> dict[str, bool | int | float]:
    """Parse the thresholds that stand in braces behind a target's name.

    >>> thresholds_of("likely_warps=16, margin=0.5, spares_shared_memory=1")
    {'likely_warps': 16, 'margin': 0.5, 'spares_shared_memory': True}

    Raises ValueError for a threshold that does not exist, and for a value that is not of its type.
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
