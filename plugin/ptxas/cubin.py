"""What a cubin says of its kernel: registers, stack, and the clocks of its loops of MMAs.

A cubin is an ELF file of 64 bits (System V ABI, object files). `.nv.info` has the attributes that NVIDIA's
cuobjdump shows as resource usage. Instructions have 16 bytes since compute capability 7.0, which nvdisasm shows
with their text; in their upper 8 is what the scheduler does after each, as published studies have it for all
since then (Jia et al., arXiv 1804.06826): four bits from bit 105 are the clocks until the warp's next one,
three from bit 110 the barrier that its result sets, six from bit 116 the barriers that it waits for. How far a
branch goes, in words of 4 bytes, is in the 48 bits from bit 34, since 9.0 with 8 more below them from bit 16.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from triton_linear.dialect.records import dataclass

_ELF = b"\x7fELF\x02"
_INFO, _CODE = b".nv.info", b".text."
_REGISTERS, _STACK = 0x2F, 0x12
"""Attributes in a cubin's section `.nv.info`: a function's registers, and its bytes of stack."""
_SIZED = 4
"""The form of attributes that say how long they are."""

_INSTRUCTION = struct.Struct("<QQ")
OPCODE, _FORM = 0x1FF, 0xFFF
_MMAS = frozenset({0x1F0, 0x1F1, 0x1F2, 0x1F3})
"""HGMMA, IGMMA, BGMMA and QGMMA: what `wgmma.mma_async` becomes."""
_SPECIAL = 0x108
"""MUFU."""
_BRANCHES = frozenset({0x547, 0x947})
"""BRA, with `.U` and without."""
_SINCE_7 = frozenset({70, 72, 75, 80, 86, 87, 88, 89})
_SINCE_9 = frozenset({90, 100, 101, 103, 110, 120, 121})
"""Compute capabilities, ten times, whose branches are known to look like this (nvdisasm)."""
_VERSION, _FLAGS = 8, 0x30
"""Where a cubin says which form its flags have, and where they are: since form 8 the capability is in the
second byte, before that in the first."""
LOAD = 0x181
"""LDG."""
_MMA_WAIT = 0x9C5
"""WARPGROUP.DEPBAR; with bit 47, as without it is WARPGROUP.ARRIVE. Eight bits from bit 72 are how many groups
of MMAs may be under way behind it."""
_NO_BARRIER = 7


@dataclass(frozen=True, slots=True)
class Usage:
    """Registers of a thread, and bytes of its stack, where what is spilled goes."""

    registers: int
    stack: int


def usage(cubin: object) -> Usage | None:
    """What the kernel of a cubin uses; None where that cannot be read, or there are several functions."""
    found: dict[int, list[int]] = {_REGISTERS: [], _STACK: []}
    try:
        for attribute, value in _attributes(dict(_sections(cubin))[_INFO]):
            if attribute in found:
                found[attribute].append(struct.unpack_from("<II", value)[1])
    except (struct.error, ValueError, LookupError, OverflowError):
        return None
    if len(found[_REGISTERS]) != 1:
        return None
    return Usage(found[_REGISTERS][0], max(found[_STACK], default=0))


@dataclass(frozen=True, slots=True)
class Loops:
    """The innermost loops of a kernel that have MMAs of warp groups.

    clocks: what a warp takes at least for one iteration, the sum of those after each of their instructions.
    mmas: how many instructions of those are MMAs. special: whether some are of the unit for
    exponentials, logarithms and roots. waits: how often a warp waits for loads from global memory that it began
    while none of its MMAs was under way: for as long as memory takes, nothing of the warp goes on then.
    """

    clocks: int
    mmas: int
    special: bool
    waits: int = 0


def code(cubin: object) -> bytes | None:
    """The instructions of a cubin's kernel; None where they cannot be read, or there are several functions."""
    try:
        (found,) = (data for name, data in _sections(cubin) if name.startswith(_CODE))
    except (struct.error, ValueError, LookupError, OverflowError):
        return None
    return found


def decoded(cubin: object) -> list[tuple[int, int]]:
    """The lower and upper halves of the instructions of a cubin's kernel; none where they cannot be read."""
    try:
        return list(_INSTRUCTION.iter_unpack(code(cubin) or b""))
    except struct.error:
        return []


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: the numbers of its first and last instruction, and the clocks that a warp takes at least to go
    through all of them once."""

    first: int
    last: int
    clocks: int


def loops(cubin: object) -> list[Loop] | None:
    """Every loop of a kernel, inner ones too, in the order of their first instructions; None where it cannot be
    read, or how the branches of its compute capability look is not known.
    """
    instructions, known = decoded(cubin), capability(cubin)
    if not instructions or known is None:
        return None
    return [
        Loop(first, last, sum(clocks_after(high) for _, high in instructions[first : last + 1]))
        for first, last in sorted(set(loops_of(instructions, known)))
        if first >= 0
    ]


def capability(cubin: object) -> int | None:
    """Ten times the compute capability that a cubin is for; None where it cannot be read, or how branches look
    is not known of it."""
    if not isinstance(cubin, bytes) or len(cubin) < _FLAGS + 4 or not cubin.startswith(_ELF):
        return None
    (flags,) = struct.unpack_from("<I", cubin, _FLAGS)
    found = flags >> 8 & 255 if cubin[_VERSION] >= 8 else flags & 255
    return found if found in _SINCE_7 | _SINCE_9 else None


def clocks_after(high: int) -> int:
    """The clocks from an instruction, whose upper half is `high`, to the warp's next one."""
    return (high >> 41) & 15


def mma_loops(cubin: object) -> Loops | None:
    """Those of a cubin; None where there are none, or they cannot be read.

    Requires: the cubin is for compute capability 9.0, the one that has such MMAs.
    """
    instructions, known = decoded(cubin), capability(cubin)
    mmas = [number for number, (low, _) in enumerate(instructions) if low & OPCODE in _MMAS]
    if not mmas or known is None:
        return None
    each = [instructions[first : last + 1] for first, last in _innermost(loops_of(instructions, known), mmas)]
    inside = [instruction for loop in each for instruction in loop]
    if not inside:
        return None
    opcodes = [low & OPCODE for low, _ in inside]
    clocks = sum(clocks_after(high) for _, high in inside)
    waits = sum(map(_waits, each))
    return Loops(clocks, sum(opcode in _MMAS for opcode in opcodes), _SPECIAL in opcodes, waits)


def _waits(loop: list[tuple[int, int]]) -> int:
    """How often an iteration waits for loads that it began where no MMA was under way."""
    ends = [number for number, (low, high) in enumerate(loop) if _ends_mmas(low, high)]
    if not ends:
        return 0
    count, pending, idle = 0, 0, True
    for low, high in (*loop[ends[-1] + 1 :], *loop[: ends[-1] + 1]):
        if low & OPCODE in _MMAS:
            idle, pending = False, 0
        elif _ends_mmas(low, high):
            idle = True
        elif idle:
            if pending & (high >> 52) & 63:
                count, pending = count + 1, pending & ~(high >> 52)
            if low & OPCODE == LOAD and (barrier := (high >> 46) & 7) != _NO_BARRIER:
                pending |= 1 << barrier
    return count


def _ends_mmas(low: int, high: int) -> bool:
    """Whether an instruction waits until no MMA of the warp is under way."""
    return low & _FORM == _MMA_WAIT and bool(low >> 47 & 1) and not high >> 8 & 255


def loops_of(instructions: list[tuple[int, int]], capability: int) -> Iterator[tuple[int, int]]:
    """The first and last instruction of each loop: where a branch goes back to, and the branch."""
    for number, (low, high) in enumerate(instructions):
        if low & _FORM in _BRANCHES:
            words = (low >> 34 | high << 30) & (1 << 48) - 1
            words -= words >> 47 << 48  # it is signed
            if capability in _SINCE_9:
                words = words << 8 | low >> 16 & 255
            target = number + 1 + words * 4 // _INSTRUCTION.size
            if target < number:
                yield target, number


def _innermost(loops: Iterator[tuple[int, int]], mmas: list[int]) -> list[tuple[int, int]]:
    """The loops that have MMAs, none of them in a loop inside."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(set(loops), key=lambda loop: loop[1] - loop[0]):
        multiplies = any(first <= number <= last for number in mmas)
        if multiplies and not any(first <= inner and end <= last for inner, end in found):
            found.append((first, last))
    return found


def _sections(cubin: object) -> Iterator[tuple[bytes, bytes]]:
    """The sections of an ELF file, with their names."""
    if not isinstance(cubin, bytes) or not cubin.startswith(_ELF):
        raise ValueError("no ELF file of 64 bits")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    strings = sections[names][4]
    for name, _, _, _, offset, length in sections:
        start = strings + name
        yield cubin[start : cubin.index(b"\0", start)], cubin[offset : offset + length]


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes that say how long they are; others have two bytes."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _SIZED:
            yield attribute, info[at : at + size]
            at += size
