"""The stages `ptx` and `cubin` with an eye on registers.

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

Where ptxas cannot do with so few (the operands of an instruction of a warp group alone can be more), Triton's
stage prints its error and all of the PTX; and its log wherever that is asked for. An attempt that comes to
nothing is nobody's concern, so what it prints is held back.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from triton_linear.dialect.records import dataclass
from triton_linear.kept.registers import KeptDirective, KeptDirectives
from triton_linear.ptxas.cubin import Loops, Usage, mma_loops, usage
from triton_linear.ptxas.warp_clocks import WarpClocks, warp_clocks

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

Metadata = MutableMapping[str, Any]
Stage = Callable[[object, Metadata], object]

UNIT = 8
"""Registers of a thread are given out in multiples of this: a warp gets multiples of 256."""
MOST = 255
"""Registers that a thread can have (CUDA programming guide, compute capabilities)."""
MMA_CLOCKS = 64
"""For how many the tensor cores are at an MMA of 64x128x16 in f16 (2048 multiplications and additions a clock);
of other elements, what one instruction multiplies takes as long."""
MMA_COLUMNS = 128
MEMORY_CLOCKS = 200
"""What an access to global memory takes at least, where L2 has it (Luo et al., arXiv 2402.13499)."""
FAR_CLOCKS = 480
"""What it takes where L2 does not have it (the same, H100)."""

_THREADS = re.compile(r"^\.reqntid (\d+)[ \t]*$", re.M)
_BOUND = ".maxnreg"
_CTAS = ".minnctapersm"
_MMA = re.compile(r"^\s*mma\.sync\b", re.M)
_WGMMA = re.compile(r"^\s*wgmma\.mma_async\.\S*\.m64n(\d+)k", re.M)
_GROUP_WARPS = 4
_REGISTER_OPTIONS = ("maxrregcount", "register-usage-level", "regUsageLevel", "minnctapersm", "opt-level", "-O")
"""What ptxas is told about registers on its command line; `.maxnreg` would count more."""
_TENSOR_COLUMNS = 512
"""Columns of tensor memory that a multiprocessor has (PTX ISA, tensor memory)."""


def bound(used: int, warps: int, most: int, gpu: Target) -> int | None:
    """The registers of a thread with which another CTA fits, if that is worth a try; else None.

    `used`: registers of a thread now. `most`: CTAs that there is room for otherwise. The more a CTA adds, the
    more registers may go for it.

    >>> from triton_linear.lowering.target.targets import target
    >>> h200 = target("cuda:90")
    >>> bound(168, 8, 2, h200), bound(128, 8, 2, h200), bound(136, 8, 1, h200), bound(192, 8, 2, h200)
    (128, None, None, None)
    """
    ctas = resident(used, warps, gpu.registers, gpu.lanes)
    if not 0 < ctas < most or ctas + 1 < gpu.policy.more_ctas * ctas:
        return None
    limit = gpu.registers // ((ctas + 1) * gpu.lanes * warps) // UNIT * UNIT
    near = 1 + gpu.policy.registers_near / ctas
    return limit if used <= near * limit else None


def resident(used: int, warps: int, registers: int, lanes: int = 32) -> int:
    """The CTAs of `warps` warps that find registers, where each thread uses so many.

    >>> resident(72, 4, 65536), resident(136, 8, 65536)
    (7, 1)
    """
    return registers // (-(-used // UNIT) * UNIT * lanes * warps)


def most_registers(ctas: int, warps: int, gpu: Target) -> int:
    """The registers that a thread can have where so many CTAs of `warps` warps are to find some.

    >>> from triton_linear.lowering.target.targets import target
    >>> h200 = target("cuda:90")
    >>> most_registers(4, 8, h200), most_registers(1, 4, h200)
    (64, 255)
    """
    return min(MOST, gpu.registers // (ctas * gpu.lanes * warps) // UNIT * UNIT)


def has_say(options: object) -> bool:
    """Whether options of a compile tell ptxas what to do about registers, or not to optimise."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    given = str(getattr(options, "ptx_options", None) or "")
    return bool(knobs.nvidia.disable_ptxas_opt) or any(word in given for word in _REGISTER_OPTIONS)


class _Apart:
    """Standard output to all threads but one, whose text is kept."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._thread = threading.get_ident()
        self.kept = io.StringIO()

    def write(self, text: str) -> int:
        mine = threading.get_ident() == self._thread
        return int((self.kept if mine else self._stream).write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_one_apart = threading.RLock()


def _forked() -> None:
    """In a child process: nobody is left to release the lock that another thread held."""
    global _one_apart  # noqa: PLW0603
    _one_apart = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def held_back() -> Iterator[io.StringIO]:
    """Within the block, what this thread prints is not shown; it is in what the block gets."""
    with _one_apart:  # each puts back what it found
        found = sys.stdout
        apart: Any = _Apart(found)
        sys.stdout = apart
        try:
            yield apart.kept
        finally:
            sys.stdout = found


def _raised(error: Exception, metadata: Metadata) -> None:
    raise error


@dataclass(frozen=True, slots=True)
class _Cubin:
    """What PTX became, and what a thread of it takes."""

    code: object
    usage: Usage


@dataclass(frozen=True, slots=True)
class _Advice:
    """A directive that is taken where nothing more is spilled with it."""

    directive: str

    def serves(self, before: _Cubin, now: _Cubin) -> bool:
        """Whether what was assembled with it is better than what was before."""
        return now.usage.stack <= before.usage.stack


@dataclass(frozen=True, slots=True)
class _ShorterLoops(_Advice):
    """A directive that is taken where loops of MMAs have less than the part `below` of their clocks left."""

    below: float

    def serves(self, before: _Cubin, now: _Cubin) -> bool:
        """Whether they have, and as many MMAs, and nothing more is spilled."""
        old, new = mma_loops(before.code), mma_loops(now.code)
        if old is None or new is None or old.mmas != new.mmas or now.usage.stack > before.usage.stack:
            return False
        return _with_waits(new) < self.below * _with_waits(old)


@dataclass(frozen=True, slots=True)
class _MoreCtas(_Advice):
    """A bound on registers that is taken where a warp takes hardly more clocks, what is spilled among them;
    where clocks cannot be told, nothing more may be spilled.

    most: how many times the clocks a warp may take.
    """

    room: _Room
    most: float

    def serves(self, before: _Cubin, now: _Cubin) -> bool:
        """Whether it takes no more."""
        old, new = (self.room.clocks(each) for each in (before, now))
        if old is None or new is None:
            return now.usage.stack <= before.usage.stack
        return new.clocks <= self.most * old.clocks


@dataclass(frozen=True, slots=True)
class _Room:
    """The CTAs of a kernel that find room but for registers, of so many warps each, on a GPU. walked: whether a
    walk through its code is what each warp does."""

    most: int
    warps: int
    gpu: Target
    walked: bool

    def ctas(self, used: int) -> int:
        """Those that find registers too, where each thread uses so many."""
        return min(self.most, resident(used, self.warps, self.gpu.registers, self.gpu.lanes))

    def clocks(self, made: _Cubin) -> WarpClocks | None:
        """Those of a warp; None where a walk does not tell."""
        return warp_clocks(made.code, FAR_CLOCKS, self.gpu.policy.unknown_trips) if self.walked else None

    def fewer(self, used: int) -> int | None:
        """As many of them, or the most below, as leave a thread so many more registers, or all that it can
        have; None if none do."""
        wanted = min(MOST, self.gpu.policy.registers_more * used)
        if used + UNIT > wanted:
            return None
        counts = range(self.ctas(used), 0, -1)
        return next((n for n in counts if most_registers(n, self.warps, self.gpu) >= wanted), None)


@dataclass(frozen=True, slots=True)
class _Sooner(_Advice):
    """A directive that is taken where a warp comes to the end sooner.

    clocks: of a warp without it. ctas: those that find room then.
    """

    room: _Room
    clocks: int
    ctas: int

    def serves(self, before: _Cubin, now: _Cubin) -> bool:
        """Whether a warp takes that much less, not more for each CTA that is there, and spills no more."""
        found = self.room.clocks(now)
        if found is None or now.usage.stack > before.usage.stack:
            return False
        left = self.room.ctas(now.usage.registers)
        part = self.room.gpu.policy.warp_left
        return found.clocks < part * self.clocks and found.clocks * self.ctas <= self.clocks * left


def _for_loops(made: _Cubin, widths: Sequence[int], room: _Room) -> _Advice | None:
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
    return _ShorterLoops(f"{_CTAS} {ctas}", policy.loop_left)


def _sooner(made: _Cubin, room: _Room, serial: float = 0.0) -> _Advice | None:
    """A number of CTAs for a kernel whose warps wait for one load after another, for so large a part of their
    clocks. Where as many warps run as can, they hide such waits."""
    used = made.usage.registers
    now, fewer = room.ctas(used), room.fewer(used)
    if fewer is None or now * room.warps >= room.gpu.resident_warps:
        return None
    found = room.clocks(made)
    if found is None or found.serial < serial * found.clocks:
        return None
    return _Sooner(f"{_CTAS} {fewer}", room, found.clocks, now)


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


def _with(directive: str, text: str, threads: re.Match[str]) -> str:
    """PTX with a directive behind that of its number of threads."""
    return f"{text[: threads.end()]}\n{directive}{text[threads.end() :]}"


class Assembler:
    """Both stages of one compile, over those that were there.

    applies: tells whether the kernel is ours. gpu: what it is for, with the thresholds that count for it.
    fails: is given what went wrong here, and raises it if it should; otherwise the kernel is assembled as ever.
    again: counts the time of what is assembled once more.
    decisions: those of other compiles, which spare this one what is not taken; None: they do not count.
    own_warps: those that the kernel was to have; where there are more, they are of warp-specialised regions.
    """

    def __init__(
        self,
        ptx: Stage,
        cubin: Stage,
        applies: Callable[[], bool],
        gpu: Callable[[], Target],
        fails: Callable[[Exception, Metadata], None] = _raised,
        again: Callable[[], AbstractContextManager[None]] = nullcontext,
        decisions: KeptDirectives | None = None,
        own_warps: int | None = None,
    ) -> None:
        self._ptx = ptx
        self._cubin = cubin
        self._applies = applies
        self._gpu = gpu
        self._fails = fails
        self._again = again
        self._decisions = decisions
        self._made: tuple[object, object] | None = None  # PTX and its cubin
        self._own_warps = own_warps
        self._failed: tuple[object, Exception] | None = None
        self.granted = 0
        """Bytes that a thread of the kernel spills so that more CTAs find room, which is faster."""

    def ptx(self, src: object, metadata: Metadata) -> object:
        """PTX, with a bound on registers or the number of CTAs there is memory for, where that may help."""
        self.granted = 0
        text = self._ptx(src, metadata)
        if not isinstance(text, str):
            return text
        try:
            return self._advised(text, metadata)
        except Exception as error:
            self._made = self._failed = None
            self._fails(error, metadata)
            return text

    def _advised(self, text: str, metadata: Metadata) -> str:
        if not self._applies() or _BOUND in text or _CTAS in text:
            return text
        threads = _THREADS.search(text)
        if threads is None:
            return text
        if self._decisions is None:
            return self._tried(text, threads, metadata)[0]
        facts = metadata.get("shared"), metadata.get("tmem_size")
        name = self._decisions.name(text, str(metadata.get("name")), *facts)
        decided = self._decisions.read(name)
        if decided is not None and not decided.directive:
            self._assembled(text, metadata)
            return text
        if decided is not None:
            bounded = _with(decided.directive, text, threads)
            with held_back() as printed:
                now = self._assembled(bounded, metadata)
            if now is not None and now.usage.stack <= decided.stack:
                print(printed.getvalue(), end="")
                self.granted = decided.granted
                return bounded
            self._failed = None
        taken, found = self._tried(text, threads, metadata)
        if found is not None:
            self._decisions.write(name, found)
        return taken

    def _tried(self, text: str, threads: re.Match[str], metadata: Metadata) -> tuple[str, KeptDirective | None]:
        """The better of both PTX, and what that decides; None where nothing could be found out."""
        before = self._assembled(text, metadata)
        if before is None:
            return text, None
        stays = KeptDirective("", before.usage.stack)
        advice = self._advice(text, before, int(threads[1]), metadata)
        if advice is None:
            return text, stays
        bounded = _with(advice.directive, text, threads)
        with self._again(), held_back() as printed:
            now = self._assembled(bounded, metadata)
        if now is None or not advice.serves(before, now):
            self._made, self._failed = (text, before.code), None
            return text, stays
        print(printed.getvalue(), end="")
        self.granted = max(0, now.usage.stack - before.usage.stack)
        return bounded, KeptDirective(advice.directive, now.usage.stack, self.granted)

    def cubin_of(self, text: object) -> object:
        """The cubin of PTX that was assembled to look at it; None if it was not."""
        return self._made[1] if self._made is not None and self._made[0] == text else None

    def cubin(self, src: object, metadata: Metadata) -> object:
        """The cubin of PTX, which may be there already."""
        made, self._made = self._made, None
        failed, self._failed = self._failed, None
        if failed is not None and failed[0] == src:
            raise failed[1]
        return made[1] if made is not None and made[0] == src else self._cubin(src, metadata)

    def _assembled(self, text: str, metadata: Metadata) -> _Cubin | None:
        """None where that fails, or what a thread takes cannot be told."""
        try:
            code = self._cubin(text, metadata)
        except Exception as error:
            self._failed = text, error  # it is the stage `cubin` that is to fail
            return None
        self._made = text, code
        found = usage(code)
        return _Cubin(code, found) if found is not None else None

    def _advice(self, text: str, made: _Cubin, threads: int, metadata: Metadata) -> _Advice | None:
        """A directive for a kernel that uses so much, if one is worth a try."""
        gpu = self._gpu()
        policy = gpu.policy
        warps = max(1, threads // gpu.lanes)
        shared = (metadata.get("shared") or 0) + gpu.reserved_shared_bytes
        memory = gpu.max_shared_bytes + gpu.reserved_shared_bytes
        most = min(gpu.resident_warps // warps, memory // shared if shared else gpu.resident_warps)
        if columns := metadata.get("tmem_size"):
            most = min(most, _TENSOR_COLUMNS // columns)
        used = made.usage.registers
        if made.usage.stack >= policy.given_up_stack and used <= policy.given_up_registers:
            return _Advice(f"{_BOUND} {min(MOST, gpu.registers // threads // UNIT * UNIT)}")
        alike = self._own_warps is None or warps <= self._own_warps  # warps of regions run a part of the code
        room = _Room(most, warps, gpu, alike and policy.serial_loads < 1)
        apart = 0 < most < resident(used, warps, gpu.registers, gpu.lanes)
        multiplies = apart and _MMA.search(text) is not None
        if not multiplies and (waiting := _sooner(made, room, policy.serial_loads)):
            return waiting
        limit = bound(used, warps, most, gpu)
        if limit is not None:
            return _MoreCtas(f"{_BOUND} {limit}", room, 1 + policy.bounded_clocks / room.ctas(used))
        if widths := [int(found) for found in _WGMMA.findall(text)]:
            return _for_loops(made, widths, room) or (_sooner(made, room) if apart else None)
        return _Advice(f"{_CTAS} {most}") if multiplies else None
