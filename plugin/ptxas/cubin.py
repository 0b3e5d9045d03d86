"""Read a cubin: its kernel's registers and stack.

A cubin is an ELF file of 64 bits (System V ABI, object files). Its section `.nv.info` has the attributes that
NVIDIA's cuobjdump shows as resource usage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from triton_linear.dialect.records import dataclass

_ELF = b"\x7fELF\x02"
_INFO, _CODE = b".nv.info", b".text."
_REGISTERS, _STACK = 0x2F, 0x12
"""Attributes in `.nv.info`: the registers of a function, and its bytes of stack."""
_SIZED = 4
"""The form of attributes that state their length."""


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
