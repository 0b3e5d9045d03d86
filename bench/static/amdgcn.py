"""Reads AMDGCN: the instructions of the loop of `kernels.py`, by kind, and what the kernel takes as a whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .kernels import CROSS, ENTER, LEAVE

# Kinds of instructions. Reads and writes of LDS have the width of one lane in bits in their names.
READ, WRITE, READ_TRANSPOSED = "ds_read", "ds_write", "ds_read_tr"
BPERMUTE, SWIZZLE = "ds_bpermute", "ds_swizzle"
DPP, SWAP, LANE = "dpp", "v_permlane", "v_readlane"
PERM, VALU, WIDE = "v_perm_b32", "valu", "valu64"
BARRIER, WAIT, NOP, SCALAR, SPILL, OTHER_LDS = "s_barrier", "s_waitcnt", "s_nop", "salu", "memory", "ds_other"

_LABEL = re.compile(r"^(?P<label>[.\w$]+):")
_BRANCH = re.compile(r"s_c?branch\w*")
_DPP_MODIFIERS = re.compile(
    r"\b(quad_perm|row_shl|row_shr|row_ror|row_mirror|row_half_mirror|row_bcast|row_newbcast)\b"
)
_ACCESS = re.compile(r"(?P<kind>ds_read|ds_write)(?P<pair>2)?(?:st64)?_(?P<type>[biu]\d+)(?:_d16)?(?:_hi)?")
_TRANSPOSED = re.compile(r"ds_read_b(?P<bits>\d+)_tr_b\d+")
_ENCODING = re.compile(r"_(e32|e64|dpp|sdwa|e64_dpp)$")
_WIDE = re.compile(r"v_(lshlrev|lshrrev|ashrrev)_[biu]64|v_mul_(lo|hi)_[iu]32|v_mad_[iu]64_[iu]32|v_\w+_f64")


@dataclass(frozen=True)
class Loop:
    """What one round trip of the loop takes: instructions by kind (`ds_read_b128`, `dpp`, ...), those vector
    instructions that are of none by opcode, and the clocks that its `s_nop` wait."""

    kinds: Mapping[str, float]
    opcodes: Mapping[str, float]
    nop_states: float

    def less(self, base: Loop) -> Loop:
        """What is in this loop beyond `base`.

        >>> Loop({"salu": 3.0}, {}, 0).less(Loop({"salu": 2.0}, {}, 0)).kinds
        {'salu': 1.0}
        """
        return Loop(
            _difference(self.kinds, base.kinds),
            _difference(self.opcodes, base.opcodes),
            self.nop_states - base.nop_states,
        )

    def of(self, *prefixes: str) -> float:
        """Instructions whose kind begins so."""
        return sum(count for kind, count in self.kinds.items() if kind.startswith(prefixes))


def _difference(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    found = {key: a.get(key, 0) - b.get(key, 0) for key in dict.fromkeys((*a, *b))}
    return {key: count for key, count in found.items() if count}


def kind_of(line: str) -> str:
    """The kind of one instruction.

    >>> kind_of("ds_read2st64_b32 v[8:9], v2 offset1:4"), kind_of("v_mov_b32_dpp v1, v2 row_ror:8 row_mask:0xf")
    ('ds_read2_b32', 'dpp')
    >>> kind_of("v_permlane32_swap_b32_e32 v0, v1"), kind_of("ds_read_b64_tr_b16 v[0:1], v2")
    ('v_permlane', 'ds_read_tr_b64')
    """
    opcode = line.split(None, 1)[0]
    if found := _TRANSPOSED.fullmatch(opcode):
        return f"{READ_TRANSPOSED}_b{found['bits']}"
    if found := _ACCESS.fullmatch(opcode):
        return f"{found['kind']}{found['pair'] or ''}_b{found['type'][1:]}"
    if opcode.startswith(("ds_bpermute", "ds_permute")):
        return BPERMUTE
    if opcode.startswith("ds_swizzle"):
        return SWIZZLE
    if opcode.startswith("ds_"):
        return OTHER_LDS
    if opcode.startswith("v_"):
        return _vector_kind(opcode, line)
    if opcode.startswith(("buffer_", "scratch_", "global_", "flat_")):
        return SPILL
    return opcode if opcode in (BARRIER, WAIT, NOP) else SCALAR


def _vector_kind(opcode: str, line: str) -> str:
    if opcode.endswith("_dpp") or _DPP_MODIFIERS.search(line):
        return DPP
    if opcode.startswith(SWAP):
        return SWAP
    if opcode.startswith(("v_readlane", "v_writelane", "v_readfirstlane")):
        return LANE
    if opcode.startswith(PERM):
        return PERM
    return WIDE if _WIDE.match(opcode) else VALU


def loop_lines(text: str) -> tuple[list[str], int]:
    """The instructions of the loop around the conversions, and how many round trips they are.

    Raises ValueError for text without such a loop.
    """
    lines = list(_marked(text))
    at = {found["label"]: k for k, line in enumerate(lines) if (found := _LABEL.match(line))}
    enters = [k for k, line in enumerate(lines) if line == ENTER]
    loops = []
    for index, line in enumerate(lines):
        words = line.split()
        if len(words) == 2 and _BRANCH.fullmatch(words[0]) and at.get(words[1], index) < index:
            first = at[words[1]]
            trips = sum(first < k < index for k in enters)
            if trips:
                loops.append((index - first, first, index, trips))
    if not loops:
        raise ValueError("there is no loop around the conversions")
    _, first, last, trips = max(loops)
    body = [line for line in lines[first : last + 1] if line and not _LABEL.match(line)]
    return [line for line in body if line not in (ENTER, CROSS, LEAVE) and not line.startswith(".")], trips


def _marked(text: str) -> Iterable[str]:
    """The lines without comments, but for those that are assembly of the kernel's own."""
    for line in text.splitlines():
        stripped = line.strip()
        marker = next((m for m in (ENTER, CROSS, LEAVE) if stripped == m), None)
        yield marker or stripped.split(";", 1)[0].strip()


def loop(text: str) -> Loop:
    """What a round trip takes."""
    lines, trips = loop_lines(text)
    kinds: Counter[str] = Counter()
    opcodes: Counter[str] = Counter()
    states = 0
    for line in lines:
        kind = kind_of(line)
        kinds[kind] += 1
        if kind in (VALU, WIDE, SCALAR):
            opcodes[_ENCODING.sub("", line.split(None, 1)[0])] += 1
        if kind == NOP:
            states += int(line.split()[1], 0) + 1
    return Loop(
        {kind: count / trips for kind, count in sorted(kinds.items())},
        {opcode: count / trips for opcode, count in sorted(opcodes.items())},
        states / trips,
    )


def figures(text: str) -> dict[str, int]:
    """Vector registers, accumulation registers, and bytes that a thread spills, from the metadata."""
    names = {"vgprs": "vgpr_count", "agprs": "agpr_count", "spilled": "private_segment_fixed_size"}
    found = {}
    for name, field in names.items():
        match = re.search(rf"\.{field}:\s+(\d+)", text)
        if match is None:
            raise ValueError(f"the metadata do not say '{field}'")
        found[name] = int(match[1])
    return found
