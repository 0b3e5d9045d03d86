"""Read a cubin: its kernel's registers and stack, and the clocks of its loops.

A cubin is an ELF file of 64 bits (System V ABI, object files). Its section `.nv.info` has the attributes that
NVIDIA's cuobjdump shows as resource usage. Instructions have 16 bytes since compute capability 7.0; nvdisasm
shows them with their text. Some bits control the scheduler (Jia et al., arXiv 1804.06826). Counted from the
lowest bit of an instruction:

- 4 bits from bit 105: the clocks until the warp's next instruction;
- 48 bits from bit 34: the distance of a branch in words of 4 bytes; since compute capability 9.0, 8 lower bits
  of the distance are in the bits from bit 16.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator

from triton_linear.dialect.records import dataclass

_ELF = b"\x7fELF\x02"
_INFO, _CODE = b".nv.info", b".text."
_REGISTERS, _STACK = 0x2F, 0x12
"""Attributes in `.nv.info`: the registers of a function, and its bytes of stack."""
_SIZED = 4
"""The form of attributes that state their length."""

_INSTRUCTION = struct.Struct("<QQ")
_FORM = 0xFFF
_BRANCHES = frozenset({0x547, 0x947})
"""BRA, with `.U` and without."""
_LEAVES = frozenset({0x7947, 0x794D, 0x7950})
"""BRA, EXIT and RET without a guard predicate. With `_UNCONDITIONAL` in `_CONDITION`, no other condition guards
them, so the next instruction does not follow."""
_CONDITION, _UNCONDITIONAL = 0x7FFFFF << 18, 0xE0 << 18
"""Bits of the upper half with the second predicate of a branch and modifiers such as `.DIV`."""
_SINCE_7 = frozenset({70, 72, 75, 80, 86, 87, 88, 89})
_SINCE_9 = frozenset({90, 100, 101, 103, 110, 120, 121})
"""Ten times the compute capabilities whose branches were checked to have this form (nvdisasm)."""
_VERSION, _FLAGS = 8, 0x30
"""Offsets of the version of the flags, and of the flags: the compute capability is in their second byte since
version 8, and in their first byte before."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The registers of a thread, and the bytes of its stack, which holds spilled values."""

    registers: int
    stack: int


def usage(cubin: object) -> Usage | None:
    """The registers and stack of a cubin's kernel; None if they cannot be read, or for several functions."""
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


def code(cubin: object) -> bytes | None:
    """The code of a cubin's kernel; None if it cannot be read, or if there are several functions."""
    try:
        (found,) = (data for name, data in _sections(cubin) if name.startswith(_CODE))
    except (struct.error, ValueError, LookupError, OverflowError):
        return None
    return found


def decoded(cubin: object) -> list[tuple[int, int]]:
    """The instructions of a cubin's kernel, each as lower and upper 8 bytes; empty if they cannot be read."""
    try:
        return list(_INSTRUCTION.iter_unpack(code(cubin) or b""))
    except struct.error:
        return []


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: the numbers of its first and last instruction, and the least clocks of a warp for all of them."""

    first: int
    last: int
    clocks: int


def loops(cubin: object) -> list[Loop] | None:
    """All loops of a kernel, inner ones included, in the order of their first instructions.

    None if the cubin cannot be read, or if the form of branches is not known for its compute capability.
    """
    instructions, known = decoded(cubin), capability(cubin)
    if not instructions or known is None:
        return None
    return [
        Loop(first, last, sum(clocks_after(high) for _, high in instructions[first : last + 1]))
        for first, last in loops_of(instructions, known)
    ]


def capability(cubin: object) -> int | None:
    """Ten times the compute capability of a cubin; None if that, or the form of its branches, is not known."""
    if not isinstance(cubin, bytes) or len(cubin) < _FLAGS + 4 or not cubin.startswith(_ELF):
        return None
    (flags,) = struct.unpack_from("<I", cubin, _FLAGS)
    found = flags >> 8 & 255 if cubin[_VERSION] >= 8 else flags & 255
    return found if found in _SINCE_7 | _SINCE_9 else None


def clocks_after(high: int) -> int:
    """The clocks from an instruction with the upper half `high` to the warp's next instruction."""
    return (high >> 41) & 15


def loops_of(instructions: list[tuple[int, int]], capability: int) -> list[tuple[int, int]]:
    """The numbers of the first and last instruction of each loop, sorted: the target of a backward branch, and
    the branch, if it is reached from its target by the instructions between them.

    Others are no loops. ptxas moves code that seldom runs behind the end of the kernel, and from there branches
    back to where it was: the iterations of a wait for an mbarrier, and shuffles of threads that diverge.
    """
    branches = dict(_branches(instructions, capability))
    leaving = [n for n, (low, high) in enumerate(instructions) if _leaves(low, high)]
    back = ((to, number) for number, to in branches.items() if 0 <= to < number)
    return sorted(loop for loop in back if _leads(*loop, branches, leaving))


def _leads(first: int, last: int, branches: dict[int, int], leaving: list[int]) -> bool:
    """True if code from instruction `first` leads to `last` by instructions between them.

    branches: the target of each branch. leaving: the instructions that the next one never follows. Both are in
    the order of the instructions.
    """
    numbers = list(branches)
    earliest: dict[int, int] = {}  # the first reached instruction of the code that each of `leaving` ends
    reached = [first]
    while reached:
        start = reached.pop()
        end = bisect_left(leaving, start)
        if end == len(leaving) or leaving[end] >= last:
            return True
        known = earliest.get(end, leaving[end] + 1)
        if start < known:
            earliest[end] = start
            new = numbers[bisect_left(numbers, start) : bisect_left(numbers, known)]
            reached += [branches[number] for number in new if first <= branches[number] <= last]
    return False


def _branches(instructions: list[tuple[int, int]], capability: int) -> Iterator[tuple[int, int]]:
    """The number of each branch, and that of its target."""
    for number, (low, high) in enumerate(instructions):
        if low & _FORM in _BRANCHES:
            words = (low >> 34 | high << 30) & (1 << 48) - 1
            words -= words >> 47 << 48  # sign-extend
            if capability in _SINCE_9:
                words = words << 8 | low >> 16 & 255
            yield number, number + 1 + words * 4 // _INSTRUCTION.size


def _leaves(low: int, high: int) -> bool:
    """True if the next instruction never follows this one."""
    return low & 0xFFFF in _LEAVES and high & _CONDITION == _UNCONDITIONAL


def _sections(cubin: object) -> Iterator[tuple[bytes, bytes]]:
    """The name and content of each section of an ELF file. Raises ValueError if it is none."""
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
    """The key and value of each attribute that states its length; the others have values of two bytes."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _SIZED:
            yield attribute, info[at : at + size]
            at += size
