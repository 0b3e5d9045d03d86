"""What a compiled kernel takes as a whole: registers, spills, shared memory, CTAs at a time, its loops."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triton_linear.lowering.target.targets import Target
from triton_linear.ptxas.cubin import Loop, loops, usage
from triton_linear.ptxas.occupancy import resident
from triton_linear.tools.diff.assembly import LIBRARY, Where


@dataclass(frozen=True)
class TimedLoop:
    """A loop of a cubin: where it is from, its instructions, and the clocks that a warp takes at least
    for one iteration, as its instructions say; those of loops inside count once."""

    where: Where
    instructions: int
    clocks: int


@dataclass(frozen=True)
class Resources:
    """Of a thread: registers (of an AMD GPU vector registers, accumulators among them), scalar registers, bytes
    of stack, where spills go, and registers spilled. Of a CTA: bytes of shared memory. `ctas` are as many as a
    multiprocessor takes at a time; `limited_by` says of what there is no more. None: not known."""

    registers: int | None = None
    scalar_registers: int | None = None
    stack: int | None = None
    spilled: int | None = None
    shared: int | None = None
    ctas: int | None = None
    limited_by: str = ""
    loops: tuple[TimedLoop, ...] | None = ()


def resources(
    binary: bytes | None, assembly: str, shared: int | None, warps: int | None, target: Target | None
) -> Resources:
    """Those that the cubin says, or the metadata of AMDGCN."""
    if ".amdhsa_" in assembly:
        found = _amdgcn(assembly, shared)
    else:
        used = usage(binary)
        found = Resources(
            used.registers if used else None,
            stack=used.stack if used else None,
            shared=shared,
            loops=_loops(binary) if binary else (),
        )
    if target is None or warps is None or found.registers is None or found.shared is None:
        return found
    ctas, limited_by = occupancy(found.registers, found.shared, warps, target)
    return replace(found, ctas=ctas, limited_by=limited_by)


def _amdgcn(text: str, shared: int | None) -> Resources:
    def said(name: str) -> int | None:
        found = re.search(rf"^ *(?:- )?\.{name}:\s+(\d+)", text, re.MULTILINE)
        return int(found[1]) if found else None

    spills = [said("vgpr_spill_count"), said("sgpr_spill_count")]
    return Resources(
        said("vgpr_count"),
        said("sgpr_count"),
        said("private_segment_fixed_size"),
        None if None in spills else sum(filter(None, spills)),
        shared if shared is not None else said("group_segment_fixed_size"),
    )


_MOST_CTAS = {"cuda:75": 16, "cuda:86": 16, "cuda:87": 16, "cuda:89": 24, "cuda:120": 24, "cuda:121": 24}
_USUAL_CTAS = 32
"""CTAs that a multiprocessor takes at most (CUDA programming guide, compute capabilities)."""


def occupancy(registers: int, shared: int, warps: int, target: Target) -> tuple[int, str]:
    """CTAs that a multiprocessor takes at a time, and what there is no more of."""
    whole = target.max_shared_bytes + target.reserved_shared_bytes
    room = {
        "CTAs": _MOST_CTAS.get(target.name, _USUAL_CTAS),
        "warps": target.resident_warps // warps,
        "registers": resident(max(registers, 1), warps, target.registers, target.lanes),
        "shared memory": whole // taken
        if (taken := shared + target.reserved_shared_bytes)
        else target.resident_warps,
    }
    least = min(room, key=lambda name: room[name])
    return room[least], least


_SMALL = 8
"""A loop of so few instructions waits for a barrier of memory; its clocks say nothing."""
_SOURCE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_ADDRESS = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/")


def _loops(cubin: bytes) -> tuple[TimedLoop, ...] | None:
    every = loops(cubin)
    if every is None:
        return None
    found: Sequence[Loop] = [loop for loop in every if loop.last - loop.first >= _SMALL]
    lines = _lines(cubin) if found else {}
    return tuple(TimedLoop(_most(lines, loop), loop.last - loop.first + 1, loop.clocks) for loop in found)


def _most(lines: dict[int, Where], loop: Loop) -> Where:
    """The line of a loop's last instruction, which goes back; else that most of it is from."""
    if loop.last in lines:
        return lines[loop.last]
    counted = Counter(lines[number] for number in range(loop.first, loop.last + 1) if number in lines)
    return counted.most_common(1)[0][0] if counted else ("", 0)


def _lines(cubin: bytes) -> dict[int, Where]:
    """The user's line of each instruction by its number, as nvdisasm knows; nothing where that is not there."""
    from triton import knobs

    tool: Any = getattr(knobs.nvidia, "nvdisasm", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            shown = subprocess.run(
                [tool.path, "-g", "-c", str(path)], capture_output=True, text=True, check=True, timeout=120
            ).stdout
        except (OSError, subprocess.SubprocessError, AttributeError, RuntimeError):
            return {}
    lines: dict[int, Where] = {}
    where: Where | None = None
    for line in shown.splitlines():
        if source := _SOURCE.match(line):
            user = not LIBRARY.search(source["file"])
            where = (source["file"], int(source["line"])) if user else None
        elif (address := _ADDRESS.match(line)) and where is not None:
            lines[int(address["address"], 16) // 16] = where
    return lines
