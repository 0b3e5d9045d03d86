"""Reads AMDGCN: the instructions of the loop of `kernels.py`, by kind, and what the kernel takes as a whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .kernels import CROSS, ENTER, LEAVE

# Kinds of instructions; those of accesses to LDS go on with the bits of a lane, `ds_read2_b32`.
READ, WRITE, READ_TRANSPOSED = "ds_read", "ds_write", "ds_read_tr"
BPERMUTE, SWIZZLE = "ds_bpermute", "ds_swizzle"
DPP, SWAP, LANE, PERM, VALU = "dpp", "v_permlane", "v_readlane", "v_perm_b32", "valu"
BARRIER, WAIT, NOP, SCALAR = "s_barrier", "s_waitcnt", "s_nop", "salu"

_MARKS = (ENTER, CROSS, LEAVE)
_LABEL = re.compile(r"(?P<label>[.\w$]+):")
_BRANCH = re.compile(r"s_c?branch\w* (?P<label>[.\w$]+)")
_ACCESS = re.compile(r"(?P<kind>ds_read|ds_write)(?P<pair>2?)(?:st64)?_[biu](?P<bits>\d+)(?:_d16)?(?:_hi)?")
_TRANSPOSED = re.compile(r"ds_read_b(?P<bits>\d+)_tr_b\d+")
_DPP = re.compile(
    r"\b(?:quad_perm|row_(?:shl|shr|ror|mirror|half_mirror|bcast|newbcast)|wave_(?:shl|shr|rol|ror))\b"
)
_ENCODING = re.compile(r"(?:_e32|_e64)?(?:_dpp|_sdwa)?$")
_MEMORY = ("buffer_", "scratch_", "global_", "flat_")


@dataclass(frozen=True)
class Loop:
    """What one round trip of the loop takes.

    kinds: instructions by kind; opcodes: the plain vector and scalar ones by opcode; nop_states: clocks that
    `s_nop` waits; setup: vector instructions before the loop, such as those that make addresses; unrolled:
    round trips in an iteration of the loop as it was compiled.
    """

    kinds: Mapping[str, float]
    opcodes: Mapping[str, float]
    nop_states: float = 0.0
    setup: int = 0
    unrolled: int = 1

    def less(self, base: Loop) -> Loop:
        """What is in this loop beyond `base`, which is there once an iteration, whatever is unrolled into it.

        >>> Loop({"salu": 1.5, "dpp": 1.0}, {}, unrolled=2).less(Loop({"salu": 3.0}, {})).kinds
        {'dpp': 1.0}
        """
        share = base.unrolled / self.unrolled
        return Loop(
            _difference(self.kinds, base.kinds, share),
            _difference(self.opcodes, base.opcodes, share),
            self.nop_states - base.nop_states * share,
            self.setup - base.setup,
            self.unrolled,
        )

    @property
    def bytes_accessed(self) -> float:
        """Bytes of LDS that a lane reads and writes."""
        return sum(count * access_bytes(kind) for kind, count in self.kinds.items())


def _difference(a: Mapping[str, float], b: Mapping[str, float], share: float) -> dict[str, float]:
    found = {key: a.get(key, 0) - b.get(key, 0) * share for key in dict.fromkeys((*a, *b))}
    return {key: count for key, count in found.items() if count}


def access_bytes(kind: str) -> int:
    """Bytes of LDS that a lane reads or writes by an instruction of this kind.

    >>> access_bytes("ds_write2_b64"), access_bytes("ds_read_b8"), access_bytes("ds_bpermute")
    (16, 1, 0)
    """
    name, _, bits = kind.rpartition("_b")
    if not name.startswith((READ, WRITE)):
        return 0
    return int(bits) // 8 * (2 if name.endswith("2") else 1)


def kind_of(line: str) -> str:
    """The kind of one instruction.

    Raises ValueError for accesses to memory other than LDS: a loop that has some spills.

    >>> kind_of("ds_read2st64_b32 v[8:9], v2 offset1:4"), kind_of("v_mov_b32_dpp v1, v2 row_ror:8 row_mask:0xf")
    ('ds_read2_b32', 'dpp')
    >>> kind_of("v_permlane32_swap_b32_e32 v0, v1"), kind_of("ds_read_b64_tr_b16 v[0:1], v2")
    ('v_permlane', 'ds_read_tr_b64')
    """
    opcode = line.split(None, 1)[0]
    if found := _TRANSPOSED.fullmatch(opcode):
        return f"{READ_TRANSPOSED}_b{found['bits']}"
    if found := _ACCESS.fullmatch(opcode):
        return f"{found['kind']}{found['pair']}_b{found['bits']}"
    if opcode.startswith("ds_"):
        known = {"ds_bpermute_b32": BPERMUTE, "ds_swizzle_b32": SWIZZLE}
        if opcode not in known:
            raise ValueError(f"an instruction of LDS that is not counted: '{line}'")
        return known[opcode]
    if opcode.startswith(_MEMORY):
        raise ValueError(f"the loop accesses memory: '{line}'")
    if opcode.startswith("v_"):
        return _vector_kind(opcode, line)
    return opcode if opcode in (BARRIER, WAIT, NOP) else SCALAR


def _vector_kind(opcode: str, line: str) -> str:
    if opcode.endswith("_dpp") or _DPP.search(line):
        return DPP
    if opcode.startswith(SWAP):
        return SWAP
    if opcode.startswith(("v_readlane", "v_writelane", "v_readfirstlane")):
        return LANE
    return PERM if opcode.startswith(PERM) else VALU


def _lines(text: str) -> Iterator[str]:
    """Instructions and labels, without comments but for the kernel's own marks."""
    for line in map(str.strip, text.splitlines()):
        bare = line if line in _MARKS else line.split(";", 1)[0].strip()
        if _LABEL.match(bare) or (bare and not bare.startswith(".")):
            yield bare


def loop(text: str) -> Loop:
    """What a round trip takes: what is from a label to the last branch back to it, by turns that were unrolled.

    LLVM takes assembly for instructions of which later ones may have to wait a state. The kernel's marks have
    none, so a state that is waited behind a mark is not counted.

    Raises ValueError for text without a loop around the conversions.
    """
    lines = list(_lines(text))
    at = {found["label"]: index for index, line in enumerate(lines) if (found := _LABEL.match(line))}
    loops = []
    for index, line in enumerate(lines):
        found = _BRANCH.fullmatch(line)
        first = at.get(found["label"], index) if found else index
        if turns := lines[first:index].count(ENTER):
            loops.append((index - first, first, index, turns))
    if not loops:
        raise ValueError("there is no loop around the conversions")
    _, first, last, turns = max(loops)
    kinds: Counter[str] = Counter()
    opcodes: Counter[str] = Counter()
    states = 0
    behind_mark = False
    for line in lines[first : last + 1]:
        if line in _MARKS or _LABEL.match(line):
            behind_mark |= line in _MARKS
            continue
        waits_for_mark = behind_mark and line == "s_nop 0"
        behind_mark = False
        if waits_for_mark:
            continue
        kind = kind_of(line)
        kinds[kind] += 1
        if kind in (VALU, SCALAR):
            opcodes[_ENCODING.sub("", line.split(None, 1)[0])] += 1
        if kind == NOP:
            states += int(line.split()[1], 0) + 1
    return Loop(
        {kind: count / turns for kind, count in sorted(kinds.items())},
        {opcode: count / turns for opcode, count in sorted(opcodes.items())},
        states / turns,
        sum(line.startswith("v_") for line in lines[:first]),
        turns,
    )


def figures(text: str) -> dict[str, int]:
    """Vector registers, accumulation registers, and bytes of scratch of a thread, from the metadata.

    Raises ValueError where they are not there.
    """
    fields = {"vgprs": "vgpr_count", "agprs": "agpr_count", "spilled": "private_segment_fixed_size"}
    found = {}
    for name, field in fields.items():
        match = re.search(rf"^ *(?:- )?\.{field}:\s+(\d+)", text, re.MULTILINE)
        if match is None:
            raise ValueError(f"the metadata do not say '{field}'")
        found[name] = int(match[1])
    return found
