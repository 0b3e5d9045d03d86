"""Read PTX and AMDGCN: the memory accesses of each source line with their widths, the shuffles and barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LOAD, STORE, ATOMIC = "global loads", "global stores", "global atomics"
COPY, BULK = "asynchronous copies", "bulk copies"
SHARED_LOAD, SHARED_STORE = "shared loads", "shared stores"
SHUFFLE, BARRIER = "shuffles", "barriers"
WIDE = (LOAD, STORE, COPY, SHARED_LOAD, SHARED_STORE)
"""The kinds whose width is counted: the bits that a thread moves by one instruction."""
Where = tuple[str, int]
"""A file and a line; line 0 if the line is not known."""


@dataclass(frozen=True)
class Instruction:
    """An instruction: its source line, its kind, and the bits that a thread moves by it, 0 if not counted."""

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
    """The memory accesses, shuffles and barriers in a text in PTX or AMDGCN, each with the user's line."""
    read = _amdgcn if "amdgcn" in text[:4000] or ".amdhsa_" in text else _ptx
    for line, where in sourced(text):
        stripped = line.lstrip()
        if stripped and not stripped.startswith((".", "//", ";")):
            kind_and_bits = read(stripped)
            if kind_and_bits is not None:
                yield Instruction(where, *kind_and_bits)


def sourced(text: str) -> Iterator[tuple[str, Where]]:
    """The lines of an assembly with the user's line of each, without `.loc` directives."""
    # The `.file` directives may be at the end.
    files = {int(m["number"]): _path(m["first"], m["second"]) for m in map(_FILE.match, text.splitlines()) if m}
    where: Where = ("", 0)
    inline, placed = False, False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(".loc"):
            # Some versions of LLVM give each further line of inline assembly the next line number of the
            # source, so only the first `.loc` in it is right.
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
    """The user's line of a `.loc`; for code of Triton's library, the line that calls it; None if not known."""
    match = _LOC.match(line)
    if match is None or match["line"] == "0":
        return None
    file = files.get(int(match["file"]), "")
    if not LIBRARY.search(file):
        return file, int(match["line"])
    if match["outer_file"]:
        return files.get(int(match["outer_file"]), ""), int(match["outer_line"])
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
    """The kind and the width of an instruction in PTX; None if it is not counted."""
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


_BITS_OF = {"byte": 8, "ubyte": 8, "sbyte": 8, "short": 16, "ushort": 16, "sshort": 16, "dword": 32}
_AMD_GLOBAL = re.compile(
    r"(?:global|buffer|flat)_(?P<what>load|store)_(?P<lds>lds_)?(?:d16_)?(?:hi_)?"
    r"(?:(?P<name>dword|[us]?byte|[us]?short)(?:x(?P<lanes>\d))?|[biuf](?P<bits>\d+))"
)
_AMD_SHARED = re.compile(
    r"ds_(?P<what>read|write|load|store)(?P<pair>_2addr|2)?(?:_stride64|st64)?_[biuf](?P<bits>\d+)"
)


def _amdgcn(line: str) -> tuple[str, int] | None:
    """The kind and the width of an instruction in AMDGCN; None if it is not counted."""
    opcode = line.split(None, 1)[0]
    if found := _AMD_GLOBAL.match(opcode):
        bits = int(found["bits"] or _BITS_OF[found["name"]] * int(found["lanes"] or 1))
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
