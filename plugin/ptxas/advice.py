"""Which directive of PTX is worth a try for a kernel of ours, and when it is taken.

A multiprocessor takes as many CTAs as find registers, and ptxas does not look where that number jumps: a kernel
of 8 warps with 136 registers a thread has a multiprocessor to itself, with 128 it shares it with another. So a
kernel of ours that is a little above such a jump is assembled once more, with a bound on its registers
(`.maxnreg`: PTX ISA, performance-tuning directives), and that is taken if a warp takes hardly more clocks then.

Nor does it know of shared memory, which Triton asks for at launch. So it spares registers for CTAs that will
find no memory, and loads operands of MMAs just before they are used. A kernel of ours that
multiplies by `mma.sync` and finds memory for fewer CTAs than registers is assembled once more with the number
for which there is memory (`.minnctapersm`).

MMAs by `wgmma` load no such operands, but where ptxas spares registers it may put what an iteration
computes behind them, where nothing goes on beside it, and a change after the loop is enough for that.
A kernel of ours that has such a loop is assembled once more with the number of CTAs that find memory and
registers anyway, if these leave a thread more registers than it has, and that is taken if its loops have fewer
clocks. The instructions say those: what each takes, and that of memory where it waits for a load that was put
behind the MMAs. They do not say how warps wait for the unit for exponentials that all of a multiprocessor
share: loops of attention, of which two CTAs are resident, took 1 to 3 % longer with 5 % fewer clocks, while
loops that unpack mxfp4 took up to 15 % less time. So loops with such instructions, and those that wait for MMAs
anyway, their own or those of other warps, stay where several CTAs are; and a loop that takes hardly more clocks
than its own MMAs stays everywhere, as no other order of its instructions spares those.

Elsewhere, where it spares registers, it begins some loads from global memory only when others have come. A
kernel of ours that so waits for a large part of its time (`warp_clocks`) is assembled once more for no more
CTAs than leave each thread half as many registers again; so is one with MMAs by `wgmma` that finds memory for
fewer CTAs than registers. That is taken if a warp takes fewer clocks, by itself and for each of the CTAs that
find room then.

And of a large kernel without barriers it may make one of 32 registers that spills most of what it works on,
with 255 at hand. Told that it may have them (`.maxnreg` too), it spills what has to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from triton_linear.dialect.records import dataclass
from triton_linear.ptxas.cubin import Loops, Usage, mma_loops
from triton_linear.ptxas.occupancy import MOST, UNIT, bound, most_registers, resident
from triton_linear.ptxas.warp_clocks import WarpClocks, warp_clocks

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

MMA_CLOCKS = 64
"""For how many the tensor cores are at an MMA of 64x128x16 in f16 (2048 multiplications and additions a clock);
of other elements, what one instruction multiplies takes as long."""
MMA_COLUMNS = 128
MEMORY_CLOCKS = 200
"""What an access to global memory takes at least, where L2 has it (Luo et al., arXiv 2402.13499)."""
FAR_CLOCKS = 480
"""What it takes where L2 does not have it (the same, H100)."""
BOUND = ".maxnreg"
"""The directive that bounds the registers of a thread."""
CTAS = ".minnctapersm"
"""The directive that says how many CTAs are to find registers."""

_MMA = re.compile(r"^\s*mma\.sync\b", re.M)
_WGMMA = re.compile(r"^\s*wgmma\.mma_async\.\S*\.m64n(\d+)k", re.M)
_GROUP_WARPS = 4
_TENSOR_COLUMNS = 512
"""Columns of tensor memory that a multiprocessor has (PTX ISA, tensor memory)."""


def advise(
    text: str,
    made: Assembled,
    threads: int,
    metadata: Mapping[str, Any],
    gpu: Target,
    own_warps: int | None = None,
) -> Advice | None:
    """A directive for a kernel that uses so much, if one is worth a try.

    text: its PTX. made: what that became. own_warps: those that the kernel was to have; where there are more,
    they are of warp-specialised regions.
    """
    policy = gpu.policy
    warps = max(1, threads // gpu.lanes)
    shared = (metadata.get("shared") or 0) + gpu.reserved_shared_bytes
    memory = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    most = min(gpu.resident_warps // warps, memory // shared if shared else gpu.resident_warps)
    if columns := metadata.get("tmem_size"):
        most = min(most, _TENSOR_COLUMNS // columns)
    used = made.usage.registers
    if made.usage.stack >= policy.given_up_stack and used <= policy.given_up_registers:
        return Advice(f"{BOUND} {min(MOST, gpu.registers // threads // UNIT * UNIT)}")
    alike = own_warps is None or warps <= own_warps  # warps of regions run a part of the code
    room = Room(most, warps, gpu, alike and policy.serial_loads < 1)
    apart = 0 < most < resident(used, warps, gpu.registers, gpu.lanes)
    multiplies = apart and _MMA.search(text) is not None
    if not multiplies and (waiting := _sooner(made, room, policy.serial_loads)):
        return waiting
    limit = bound(used, warps, most, gpu)
    if limit is not None:
        return MoreCtas(f"{BOUND} {limit}", room, 1 + policy.bounded_clocks / room.ctas(used))
    if widths := [int(found) for found in _WGMMA.findall(text)]:
        return _for_loops(made, widths, room) or (_sooner(made, room) if apart else None)
    return Advice(f"{CTAS} {most}") if multiplies else None


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin, and the registers and stack that one thread of it uses.

    walked: the clocks of a warp by the iterations of loops whose number is not known, once they are asked for.
    """

    code: object
    usage: Usage
    walked: dict[int, WarpClocks | None] = field(default_factory=dict)

    def clocks(self, trips: int) -> WarpClocks | None:
        """The clocks of a warp; None if the code cannot be walked."""
        if trips not in self.walked:
            self.walked[trips] = warp_clocks(self.code, FAR_CLOCKS, trips)
        return self.walked[trips]


@dataclass(frozen=True, slots=True)
class Advice:
    """A directive that is taken where nothing more is spilled with it."""

    directive: str

    def serves(self, before: Assembled, now: Assembled) -> bool:
        """Whether what was assembled with it is better than what was before."""
        return now.usage.stack <= before.usage.stack


@dataclass(frozen=True, slots=True)
class ShorterLoops(Advice):
    """A directive that is taken where loops of MMAs have less than the part `below` of their clocks left."""

    below: float

    def serves(self, before: Assembled, now: Assembled) -> bool:
        """Whether they have, and as many MMAs, and nothing more is spilled."""
        old, new = mma_loops(before.code), mma_loops(now.code)
        if old is None or new is None or old.mmas != new.mmas or now.usage.stack > before.usage.stack:
            return False
        return _with_waits(new) < self.below * _with_waits(old)


@dataclass(frozen=True, slots=True)
class MoreCtas(Advice):
    """A bound on registers that is taken where a warp takes hardly more clocks, what is spilled among them;
    where clocks cannot be told, nothing more may be spilled.

    most: how many times the clocks a warp may take.
    """

    room: Room
    most: float

    def serves(self, before: Assembled, now: Assembled) -> bool:
        """Whether it takes no more."""
        old, new = (self.room.clocks(each) for each in (before, now))
        if old is None or new is None:
            return now.usage.stack <= before.usage.stack
        return new.clocks <= self.most * old.clocks


@dataclass(frozen=True, slots=True)
class Room:
    """The CTAs of a kernel that find room but for registers, of so many warps each, on a GPU. walked: whether a
    walk through its code is what each warp does."""

    most: int
    warps: int
    gpu: Target
    walked: bool

    def ctas(self, used: int) -> int:
        """Those that find registers too, where each thread uses so many."""
        return min(self.most, resident(used, self.warps, self.gpu.registers, self.gpu.lanes))

    def clocks(self, made: Assembled) -> WarpClocks | None:
        """Those of a warp; None where a walk does not tell."""
        return made.clocks(self.gpu.policy.unknown_trips) if self.walked else None

    def fewer(self, used: int) -> int | None:
        """As many of them, or the most below, as leave a thread so many more registers, or all that it can
        have; None if none do."""
        wanted = min(MOST, self.gpu.policy.registers_more * used)
        if used + UNIT > wanted:
            return None
        counts = range(self.ctas(used), 0, -1)
        return next((n for n in counts if most_registers(n, self.warps, self.gpu) >= wanted), None)


@dataclass(frozen=True, slots=True)
class Sooner(Advice):
    """A directive that is taken where a warp comes to the end sooner.

    clocks: of a warp without it. ctas: those that find room then.
    """

    room: Room
    clocks: int
    ctas: int

    def serves(self, before: Assembled, now: Assembled) -> bool:
        """Whether a warp takes that much less, not more for each CTA that is there, and spills no more."""
        found = self.room.clocks(now)
        if found is None or now.usage.stack > before.usage.stack:
            return False
        left = self.room.ctas(now.usage.registers)
        part = self.room.gpu.policy.warp_left
        return found.clocks < part * self.clocks and found.clocks * self.ctas <= self.clocks * left


def _for_loops(made: Assembled, widths: Sequence[int], room: Room) -> Advice | None:
    """The number of CTAs for a kernel with MMAs of warp groups, of so many columns each."""
    gpu, policy, used = room.gpu, room.gpu.policy, made.usage.registers
    ctas = room.ctas(used)
    if not ctas or used + UNIT > most_registers(ctas, room.warps, gpu):
        return None
    loops = mma_loops(made.code)
    groups = ctas * room.warps // _GROUP_WARPS
    if (
        loops is None
        or covered(loops, widths, policy.loop_near)
        or (ctas > 1 and hidden(loops, widths, groups, policy.tensor_cores_busy))
    ):
        return None
    return ShorterLoops(f"{CTAS} {ctas}", policy.loop_left)


def _sooner(made: Assembled, room: Room, serial: float = 0.0) -> Advice | None:
    """A number of CTAs for a kernel whose warps wait for one load after another, for so large a part of their
    clocks. Where as many warps run as can, they hide such waits."""
    used = made.usage.registers
    now, fewer = room.ctas(used), room.fewer(used)
    if fewer is None or now * room.warps >= room.gpu.resident_warps:
        return None
    found = room.clocks(made)
    if found is None or found.serial < serial * found.clocks:
        return None
    return Sooner(f"{CTAS} {fewer}", room, found.clocks, now)


def _with_waits(loops: Loops) -> int:
    """The clocks of loops, and what they wait for memory at least."""
    return loops.clocks + MEMORY_CLOCKS * loops.waits


def hidden(loops: Loops, widths: Sequence[int], groups: int, busy: float) -> bool:
    """Whether what loops compute goes on beside MMAs, their own or others', or their clocks do not tell.

    widths: columns of the kernel's MMAs. groups: how many of four warps a multiprocessor has. busy: the
    loops stay where the MMAs of all take so many times as long as theirs.

    >>> matmul = Loops(clocks=277, mmas=4, special=False)
    >>> hidden(matmul, [128], groups=4, busy=2.0), hidden(matmul, [128], groups=2, busy=2.0)
    (True, False)
    """
    mean = sum(widths) / len(widths) / MMA_COLUMNS
    clocks = MMA_CLOCKS * max(1.0, mean * groups / busy)
    return loops.special or loops.clocks <= clocks * loops.mmas


def covered(loops: Loops, widths: Sequence[int], near: float) -> bool:
    """Whether loops take hardly more clocks than their own MMAs, up to so many times as many, and wait for
    nothing else.

    >>> covered(Loops(clocks=276, mmas=4, special=False), [128], near=1.1)
    True
    >>> covered(Loops(clocks=277, mmas=2, special=False), [128], near=1.1)
    False
    """
    mean = sum(widths) / len(widths) / MMA_COLUMNS
    return not loops.waits and loops.clocks <= near * MMA_CLOCKS * mean * loops.mmas
