"""Choose a PTX directive on registers for a kernel of ours, and say whether its cubin is better with it.

Each kernel with a directive is assembled once more; `serves` compares the two cubins. The cases are:

One more CTA. The number of CTAs on a multiprocessor falls in steps as registers per thread rise, and ptxas does
not look at these steps: of a kernel of 8 warps, one CTA fits with 136 registers a thread, and two with 128. So
a kernel of ours slightly above a step gets a bound on its registers (`.maxnreg`: PTX ISA, performance-tuning
directives). It is taken if a warp takes hardly more clocks with it. One with warp-specialised regions gets
none if two CTAs fit: with a third, such kernels were as often slower.

`mma.sync`. ptxas does not know the shared memory, which Triton asks for at launch. So it saves registers for
CTAs that do not fit in memory, and loads operands of MMAs just before they are used. A kernel of ours with
`mma.sync` gets the number of CTAs that fit in memory (`.minnctapersm`), if more would fit by registers.

`wgmma`. These MMAs load no such operands. But to save registers, ptxas may move what an iteration computes
behind its MMAs, where nothing runs beside it; a change of the code after the loop is enough to cause that. A
kernel of ours with such a loop gets the number of CTAs that fit in memory and registers anyway, if a thread can
then have more registers than it uses. It is taken if its loops take fewer clocks. Clocks are read off the
instructions: the issue clocks of each, and those of memory where a warp waits for a load that was moved behind
the MMAs. The instructions do not show how warps wait for the unit for exponentials, which all warps of a
multiprocessor share: loops of attention with two resident CTAs took 1 to 3 % longer with 5 % fewer clocks,
while loops that unpack mxfp4 took up to 15 % less time. So with several resident CTAs, loops are left alone if
they use that unit, or if they wait for MMAs anyway, their own or those of other warps. A loop that takes hardly
more clocks than its own MMAs is always left alone, as no other order of its instructions can save those.

Serial loads. To save registers, ptxas may begin some loads from global memory only when others have arrived. A
kernel of ours that waits like this for a large part of its time (`warp_clocks`) gets the largest number of CTAs
that leaves each thread half as many registers again. So does a kernel with `wgmma` for which fewer CTAs fit in
memory than by registers. It is taken if a warp takes fewer clocks, and not more relative to the number of
resident CTAs.

Stalls. A kernel that still waits for one load after another, or for its own arithmetic, for a large part of its
time gets no directive, but is to be compared with stock Triton's (`stalls`, `Pace`, `ptxas.veto`).

Spills without need. To save registers, ptxas spills a word or two of some kernels with few registers, and most
of what large ones work on. Told of a number of CTAs, it spills only what does not fit. So a kernel that spills
though its threads can have more registers gets the largest number that leaves room for what it spills. It is
taken if less is spilled, unless the CTAs that then no longer fit are worth more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from triton_linear.dialect.records import dataclass
from triton_linear.ptxas.cubin import Loops, Usage, mma_loops
from triton_linear.ptxas.occupancy import MOST, UNIT, bound, most_registers, resident
from triton_linear.ptxas.warp_clocks import WarpClocks, arithmetic_waits, spilled_part, warp_clocks

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

MMA_CLOCKS = 64
"""Clocks of the tensor cores for an MMA of 64x128x16 in f16 (2048 multiply-adds a clock). An MMA instruction on
other elements takes as long, with its own size of K."""
MMA_COLUMNS = 128
MEMORY_CLOCKS = 200
"""The least clocks of an access to global memory that hits L2 (Luo et al., arXiv 2402.13499)."""
FAR_CLOCKS = 480
"""Clocks of an access to global memory that misses L2 (the same study, H100)."""
BOUND = ".maxnreg"
"""The directive that bounds the registers of a thread."""
CTAS = ".minnctapersm"
"""The directive that says how many CTAs registers must suffice for."""

_MMA = re.compile(r"^\s*mma\.sync\b", re.M)
_WGMMA = re.compile(r"^\s*wgmma\.mma_async\.\S*\.m64n(\d+)k", re.M)
_GROUP_WARPS = 4
_WORD = 4
_TENSOR_COLUMNS = 512
"""Columns of tensor memory of a multiprocessor (PTX ISA, tensor memory)."""


def advise(text: str, made: Assembled, limits: CtaLimits) -> Advice | None:
    """The directive to try for a kernel, or None.

    text: its PTX. made: its cubin without a directive. limits: what limits its CTAs.
    """
    gpu, policy = limits.gpu, limits.gpu.policy
    most, warps, used = limits.most, limits.warps, made.usage.registers
    if spilling := _for_spills(made, limits):
        return spilling
    memory_bound = 0 < most < resident(used, warps, gpu.registers, gpu.lanes)
    multiplies = memory_bound and _MMA.search(text) is not None
    if not multiplies and (
        waiting := _for_serial_loads(made, limits, policy.spared_registers, policy.serial_loads)
    ):
        return waiting
    limit = bound(used, warps, most, gpu)
    ctas = limits.ctas(used)
    if limit is not None and (limits.whole or ctas <= policy.bounded_beside_regions):
        return MoreCtas(f"{BOUND} {limit}", limits)
    if widths := [int(found) for found in _WGMMA.findall(text)]:
        return _for_loops(made, widths, limits) or (
            _for_serial_loads(made, limits, policy.spared_beside_wgmma) if memory_bound else None
        )
    return Advice(f"{CTAS} {most}") if multiplies else None


def limits_of(
    threads: int, metadata: Mapping[str, Any], gpu: Target, own_warps: int | None = None
) -> CtaLimits:
    """What limits the CTAs of a kernel.

    threads: those of a CTA. metadata: what Triton knows of the kernel. own_warps: warps of the kernel without
    those of warp-specialised regions; None: there are no others.
    """
    warps = max(1, threads // gpu.lanes)
    shared = (metadata.get("shared") or 0) + gpu.reserved_shared_bytes
    memory = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    most = min(gpu.resident_warps // warps, memory // shared if shared else gpu.resident_warps)
    if columns := metadata.get("tmem_size"):
        most = min(most, _TENSOR_COLUMNS // columns)
    whole = own_warps is None or warps <= own_warps  # warps of regions run only a part of the code
    return CtaLimits(most, warps, gpu, whole)


def stalls(text: str, made: Assembled, limits: CtaLimits) -> bool:
    """True if warps wait for arithmetic for the fraction `waits_for_arithmetic` of their clocks, or for one
    load after another for `still_serial`, so that the kernel is to be compared with stock Triton's.

    text: its PTX. With as many resident warps as possible, warps hide such waits. A kernel whose loops of MMAs
    take hardly more clocks than the MMAs waits for these, whatever else it does.
    """
    policy = limits.gpu.policy
    if limits.ctas(made.usage.registers) * limits.warps >= limits.gpu.resident_warps:
        return False
    warp = limits.clocks(made)
    if warp is None:
        return False
    if warp.serial >= policy.still_serial * warp.clocks:
        return True
    if widths := [int(found) for found in _WGMMA.findall(text)]:
        loops = mma_loops(made.code)
        if loops is not None and covered(loops, widths, policy.loop_near):
            return False
    part = arithmetic_waits(made.code, warp.clocks, FAR_CLOCKS, policy.unknown_trips)
    return part is not None and part >= policy.waits_for_arithmetic


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a kernel is if few of its warps are resident. clocks: those of one warp. ctas: the CTAs that are
    resident on a multiprocessor."""

    clocks: int
    ctas: int

    def is_slower(self, other: Pace, ratio: float) -> bool:
        """True if a warp takes more than `ratio` times the clocks of the other kernel's, and more for each
        resident CTA."""
        return self.clocks > ratio * other.clocks and self.clocks * other.ctas > other.clocks * self.ctas

    def is_crowded_out(self, other: Pace, ratio: float) -> bool:
        """True if more CTAs of the other kernel are resident, and a warp of this one takes more than `ratio`
        times the clocks of the other kernel's for each resident CTA."""
        return self.ctas < other.ctas and self.clocks * other.ctas > ratio * other.clocks * self.ctas


UNKNOWN_PACE = Pace(0, 0)
"""That of a kernel whose cubin does not tell: it is not slower than another, nor is another slower."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin, and the registers and stack that one thread of it uses.

    walked: the results of `clocks` so far, by what it is given.
    """

    code: object
    usage: Usage
    walked: dict[tuple[int, bool], WarpClocks | None] = field(default_factory=dict)

    def clocks(self, trips: int, regions: bool) -> WarpClocks | None:
        """The clocks of a warp; None if a walk through the code does not give them. trips: the iterations
        assumed for a loop with an unknown number of them. regions: the kernel has warp-specialised regions."""
        if (trips, regions) not in self.walked:
            self.walked[trips, regions] = warp_clocks(self.code, FAR_CLOCKS, trips, regions)
        return self.walked[trips, regions]


@dataclass(frozen=True, slots=True)
class Advice:
    """A directive that is taken if no more is spilled with it."""

    directive: str

    def serves(self, original: Assembled, candidate: Assembled) -> bool:
        """True if the cubin assembled with the directive is better than the one without it."""
        return candidate.usage.stack <= original.usage.stack


@dataclass(frozen=True, slots=True)
class ShorterLoops(Advice):
    """A directive that is taken if loops of MMAs take less than the fraction `below` of their clocks."""

    below: float

    def serves(self, original: Assembled, candidate: Assembled) -> bool:
        """True if the loops take that few clocks with as many MMAs, and no more is spilled."""
        old, new = mma_loops(original.code), mma_loops(candidate.code)
        if old is None or new is None or old.mmas != new.mmas or candidate.usage.stack > original.usage.stack:
            return False
        return _clocks_with_waits(new) < self.below * _clocks_with_waits(old)


@dataclass(frozen=True, slots=True)
class MoreCtas(Advice):
    """A bound on registers that is taken if a warp takes hardly more clocks, those of spills included. If
    clocks are not known, it is taken if no more is spilled."""

    limits: CtaLimits

    def serves(self, original: Assembled, candidate: Assembled) -> bool:
        """True if the additional CTAs are worth the clocks."""
        worth = self.limits.are_worth(candidate, original)
        return candidate.usage.stack <= original.usage.stack if worth is None else worth


@dataclass(frozen=True, slots=True)
class FewerSpills(Advice):
    """A directive that is taken if less is spilled, and the CTAs that it may cost are not worth that."""

    limits: CtaLimits

    def serves(self, original: Assembled, candidate: Assembled) -> bool:
        """True if less is spilled, and the CTAs without the directive are not worth the clocks of spills."""
        fewer = candidate.usage.stack < original.usage.stack
        return fewer and not self.limits.are_worth(original, candidate)


@dataclass(frozen=True, slots=True)
class CtaLimits:
    """What limits the CTAs of a kernel that are resident on a multiprocessor.

    most: the CTAs that fit, apart from registers. warps: those of a CTA. whole: every warp runs the whole
    kernel, so a walk through the code is one of a warp.
    """

    most: int
    warps: int
    gpu: Target
    whole: bool

    def ctas(self, used: int) -> int:
        """The CTAs that fit if each thread uses `used` registers."""
        return min(self.most, resident(used, self.warps, self.gpu.registers, self.gpu.lanes))

    def clocks(self, made: Assembled) -> WarpClocks | None:
        """The clocks of a warp; None if a walk through the code does not give them."""
        return self.summed(made) if self.whole else None

    def summed(self, made: Assembled) -> WarpClocks | None:
        """The same, and of a kernel with warp-specialised regions the clocks of one warp of each together."""
        policy = self.gpu.policy
        return made.clocks(policy.unknown_trips, not self.whole) if policy.serial_loads < 1 else None

    def pace(self, made: Assembled) -> Pace:
        """How fast a kernel is."""
        walked = self.clocks(made)
        return UNKNOWN_PACE if walked is None else Pace(walked.clocks, self.ctas(made.usage.registers))

    def spills_matter(self, cubin: object) -> bool:
        """True if at least the fraction `spills_matter` of what warps execute is for spills, or if the cubin
        does not tell."""
        policy = self.gpu.policy
        part = spilled_part(cubin, policy.unknown_trips, not self.whole)
        return part is None or part >= policy.spills_matter

    def are_worth(self, more: Assembled, fewer: Assembled) -> bool | None:
        """True if the kernel with more resident CTAs takes at most `bounded_clocks` more clocks for each
        doubling of their number; None if clocks are not known. Those of the warps of all regions count
        together."""
        clocks, least = self.summed(more), self.summed(fewer)
        if clocks is None or least is None:
            return None
        gained = self.ctas(more.usage.registers) / max(1, self.ctas(fewer.usage.registers)) - 1
        return clocks.clocks <= (1 + self.gpu.policy.bounded_clocks * gained) * least.clocks

    def ctas_leaving(self, wanted: float, used: int) -> int | None:
        """The most CTAs, at most those with `used` registers, that leave a thread `wanted` registers; None if
        there is no such number, or if that is hardly more registers."""
        if used + UNIT > wanted:
            return None
        counts = range(self.ctas(used), 0, -1)
        return next((n for n in counts if most_registers(n, self.warps, self.gpu) >= wanted), None)


@dataclass(frozen=True, slots=True)
class FewerClocks(Advice):
    """A directive that is taken if a warp takes fewer clocks with it.

    clocks: those of a warp without it. ctas: the resident CTAs without it.
    """

    limits: CtaLimits
    clocks: int
    ctas: int

    def serves(self, original: Assembled, candidate: Assembled) -> bool:
        """True if a warp takes a fraction of its clocks below `warp_left`, its clocks divided by the resident
        CTAs do not rise, and no more is spilled."""
        new = self.limits.clocks(candidate)
        if new is None or candidate.usage.stack > original.usage.stack:
            return False
        ctas = self.limits.ctas(candidate.usage.registers)
        fraction = self.limits.gpu.policy.warp_left
        return new.clocks < fraction * self.clocks and new.clocks * self.ctas <= self.clocks * ctas


def _for_spills(made: Assembled, limits: CtaLimits) -> Advice | None:
    """The directive for a kernel that spills though its threads can have more registers, or None. It leaves a
    thread those that it has and as many as it spills, or at least another unit."""
    used, stack = made.usage.registers, made.usage.stack
    needed = max(used + stack // _WORD, -(-used // UNIT) * UNIT + UNIT)
    wanted = min(needed, most_registers(1, limits.warps, limits.gpu))
    ctas = limits.ctas_leaving(wanted, used) if stack and limits.spills_matter(made.code) else None
    return FewerSpills(f"{CTAS} {ctas}", limits) if ctas else None


def _for_loops(made: Assembled, widths: Sequence[int], limits: CtaLimits) -> Advice | None:
    """The directive for a kernel with `wgmma` of these numbers of columns, or None."""
    gpu, policy, used = limits.gpu, limits.gpu.policy, made.usage.registers
    ctas = limits.ctas(used)
    if not ctas or policy.loop_registers * used > most_registers(ctas, limits.warps, gpu):
        return None
    loops = mma_loops(made.code)
    groups = ctas * limits.warps // _GROUP_WARPS
    if (
        loops is None
        or covered(loops, widths, policy.loop_near)
        or (ctas > 1 and hidden(loops, widths, groups, policy.tensor_cores_busy))
    ):
        return None
    return ShorterLoops(f"{CTAS} {ctas}", policy.loop_left)


def _for_serial_loads(made: Assembled, limits: CtaLimits, spared: int, serial: float = 0.0) -> Advice | None:
    """The directive for a kernel whose warps wait for one load after another, for at least the fraction
    `serial` of their clocks; else None. With as many resident warps as possible, warps hide such waits. A
    kernel with `spared` registers or more does not begin its loads late to save registers."""
    used = made.usage.registers
    wanted = min(MOST, limits.gpu.policy.registers_more * used)
    ctas, fewer = limits.ctas(used), limits.ctas_leaving(wanted, used)
    if fewer is None or used >= spared or ctas * limits.warps >= limits.gpu.resident_warps:
        return None
    warp = limits.clocks(made)
    if warp is None or warp.serial < serial * warp.clocks:
        return None
    return FewerClocks(f"{CTAS} {fewer}", limits, warp.clocks, ctas)


def _clocks_with_waits(loops: Loops) -> int:
    """The clocks of loops with the least clocks of their waits for memory."""
    return loops.clocks + MEMORY_CLOCKS * loops.waits


def hidden(loops: Loops, widths: Sequence[int], groups: int, busy: float) -> bool:
    """True if MMAs hide what the loops compute, or if the loops' clocks are not their time.

    widths: columns of the kernel's MMAs. groups: the resident warp groups (four warps) of a multiprocessor.
    busy: the MMAs of all groups hide the loops if they take at least `busy` times as long.

    >>> matmul = Loops(clocks=277, mmas=4, special=False)
    >>> hidden(matmul, [128], groups=4, busy=2.0), hidden(matmul, [128], groups=2, busy=2.0)
    (True, False)
    """
    mean = sum(widths) / len(widths) / MMA_COLUMNS
    clocks = MMA_CLOCKS * max(1.0, mean * groups / busy)
    return loops.special or loops.clocks <= clocks * loops.mmas


def covered(loops: Loops, widths: Sequence[int], near: float) -> bool:
    """True if loops take at most `near` times the clocks of their own MMAs, and do not wait for memory.

    >>> covered(Loops(clocks=276, mmas=4, special=False), [128], near=1.1)
    True
    >>> covered(Loops(clocks=277, mmas=2, special=False), [128], near=1.1)
    False
    """
    mean = sum(widths) / len(widths) / MMA_COLUMNS
    return not loops.waits and loops.clocks <= near * MMA_CLOCKS * mean * loops.mmas
