"""PTX and AMDGCN: the accesses to memory of each line, how wide they are, shuffles and barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LOAD, STORE, ATOMIC = "global loads", "global stores", "global atomics"
COPY, BULK = "asynchronous copies", "bulk copies"
SHARED_LOAD, SHARED_STORE = "shared loads", "shared stores"
SHUFFLE, BARRIER = "shuffles", "barriers"
WIDE = (LOAD, STORE, COPY, SHARED_LOAD, SHARED_STORE)
"""Kinds of which it counts how many bits a thread moves at once."""
Where = tuple[str, int]
"""A file and a line; line 0 where nobody says."""


@dataclass(frozen=True)
class Instruction:
    """One instruction that is counted, where, and how many bits a thread moves by it, if that is counted."""

    where: Where
    kind: str
    bits: int = 0


_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+)\s+"(?P<first>[^"]*)"(?:\s+"(?P<second>[^"]*)")?')
_LOC = re.compile(
    r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)"
    r"(?:.*?\binlined_at\s+(?P<outer_file>\d+)\s+(?P<outer_line>\d+))?"
)
_INLINED = re.compile(r"@\[ (?P<file>[^\s:]+):(?P<line>\d+):\d+")
_INLINE = ("// begin inline asm", "// end inline asm")
LIBRARY = re.compile(r"[/\\]triton[/\\](?:language|experimental)(?:[/\\]|$)")


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a text in PTX or AMDGCN that count, each with the user's line."""
    read = _amdgcn if "amdgcn" in text[:4000] or ".amdhsa_" in text else _ptx
    for line, where in sourced(text, text):
        stripped = line.lstrip()
        if stripped and not stripped.startswith((".", "//", ";")):
            found = read(stripped)
            if found is not None:
                yield Instruction(where, *found)


def sourced(text: str, whole: str) -> Iterator[tuple[str, Where]]:
    """The lines of a text with the user's line of each, without those that only say it. `whole` has the names
    of the files, which may stand at its end."""
    files = {
        int(m["number"]): _path(m["first"], m["second"]) for m in map(_FILE.match, whole.splitlines()) if m
    }
    where: Where = ("", 0)
    inline, placed = False, False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(".loc"):
            # Some LLVMs count the lines of inline assembly on from its own, so the first of them is right.
            if not (inline and placed):
                where = _where(line, files) or where
            placed = inline
            continue
        inline = stripped == _INLINE[0] or (inline and stripped != _INLINE[1])
        placed = placed and inline
        yield line, where


def _path(first: str, second: str | None) -> str:
    return f"{first}/{second}" if second and not second.startswith("/") else second or first


def _where(line: str, files: dict[int, str]) -> Where | None:
    """The user's line of a `.loc`; of code from Triton's library, the line that calls it."""
    found = _LOC.match(line)
    if found is None or found["line"] == "0":
        return None
    file = files.get(int(found["file"]), "")
    if not LIBRARY.search(file):
        return file, int(found["line"])
    if found["outer_file"]:
        return files.get(int(found["outer_file"]), ""), int(found["outer_line"])
    for outer in _INLINED.finditer(line):
        path = next((path for path in files.values() if path.endswith(f"/{outer['file']}")), outer["file"])
        if not LIBRARY.search(path):
            return path, int(outer["line"])
    return None


_PTX_ACCESS = re.compile(
    r"\b(?P<what>ld|st)\.(?:[\w:]+\.)*?(?P<space>global|shared)(?:::\w+)?(?:\.[\w:]+)*?(?:\.v(?P<lanes>\d+))?"
    r"\.[bfsu](?P<bits>\d+)\b"
)
_PTX_MATRIX = re.compile(r"\b(?P<what>ldmatrix|stmatrix)\.\S*?\.x(?P<number>\d)")
_PTX_COPY = re.compile(
    r"\bcp\.async\.c[ag]\.shared\.global\S*\s+\[[^]]*\], \[[^]]*\], (?P<bytes>0x[0-9a-f]+|\d+)"
)


def _ptx(line: str) -> tuple[str, int] | None:
    if found := _PTX_ACCESS.search(line):
        kinds = (LOAD, STORE) if found["space"] == "global" else (SHARED_LOAD, SHARED_STORE)
        return kinds[found["what"] == "st"], int(found["lanes"] or 1) * int(found["bits"])
    if found := _PTX_MATRIX.search(line):
        return (SHARED_LOAD if found["what"] == "ldmatrix" else SHARED_STORE), 32 * int(found["number"])
    if found := _PTX_COPY.search(line):
        return COPY, 8 * int(found["bytes"], 0)
    if re.search(r"\bcp\.(?:async\.bulk|reduce\.async\.bulk)\.(?:tensor|shared|global)", line):
        return BULK, 0
    if re.search(r"\b(?:atom|red)\.\S*global", line):
        return ATOMIC, 0
    if re.search(r"\bshfl\.sync", line):
        return SHUFFLE, 0
    if re.search(r"\b(?:bar|barrier)\.(?:\w+\.)*sync|\bbar\.warp\.sync", line):
        return None if "warp" in line else (BARRIER, 0)
    return None


_NAMED = {"byte": 8, "ubyte": 8, "sbyte": 8, "short": 16, "ushort": 16, "sshort": 16, "dword": 32}
_AMD_GLOBAL = re.compile(
    r"(?:global|buffer|flat)_(?P<what>load|store)_(?P<lds>lds_)?(?:d16_)?(?:hi_)?"
    r"(?:(?P<name>dword|[us]?byte|[us]?short)(?:x(?P<lanes>\d))?|[biuf](?P<bits>\d+))"
)
_AMD_SHARED = re.compile(
    r"ds_(?P<what>read|write|load|store)(?P<pair>_2addr|2)?(?:_stride64|st64)?_[biuf](?P<bits>\d+)"
)


def _amdgcn(line: str) -> tuple[str, int] | None:
    opcode = line.split(None, 1)[0]
    if found := _AMD_GLOBAL.match(opcode):
        bits = int(found["bits"] or _NAMED[found["name"]] * int(found["lanes"] or 1))
        if found["lds"] or re.search(r"\blds\b", line):
            return COPY, bits
        return (LOAD if found["what"] == "load" else STORE), bits
    if found := _AMD_SHARED.match(opcode):
        kind = SHARED_LOAD if found["what"] in ("read", "load") else SHARED_STORE
        return kind, int(found["bits"]) * (2 if found["pair"] else 1)
    if re.match(r"(?:global|buffer|flat)_atomic", opcode):
        return ATOMIC, 0
    if opcode.startswith(("ds_bpermute", "ds_permute", "ds_swizzle", "v_permlane")) or "_dpp" in opcode:
        return SHUFFLE, 0
    return (BARRIER, 0) if opcode.startswith("s_barrier") else None
