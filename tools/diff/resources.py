"""The resources of a whole compiled kernel: registers, spills, shared memory, occupancy, and its loops."""

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
    """A loop of a cubin.

    where: its source line. instructions: their number. clocks: a lower bound for one iteration of a warp,
    from the stall counts of the instructions; the body of an inner loop counts once.
    """

    where: Where
    instructions: int
    clocks: int


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel; None if a value is not known.

    Of a thread: registers (on AMD GPUs vector registers, including accumulators), scalar registers, bytes of
    stack, which holds the spills, and spilled registers. shared: bytes of shared memory of a CTA. ctas: CTAs
    that fit on a multiprocessor at a time. limited_by: the resource that limits them.
    """

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
    """The resources that the cubin states, or the metadata in AMDGCN, and the occupancy."""
    if ".amdhsa_" in assembly:
        stated = _amdgcn(assembly, shared)
    else:
        used = usage(binary)
        stated = Resources(
            used.registers if used else None,
            stack=used.stack if used else None,
            shared=shared,
            loops=_loops(binary) if binary else (),
        )
    if target is None or warps is None or stated.registers is None or stated.shared is None:
        return stated
    ctas, limited_by = occupancy(stated.registers, stated.shared, warps, target)
    return replace(stated, ctas=ctas, limited_by=limited_by)


def _amdgcn(text: str, shared: int | None) -> Resources:
    def value(name: str) -> int | None:
        match = re.search(rf"^ *(?:- )?\.{name}:\s+(\d+)", text, re.MULTILINE)
        return int(match[1]) if match else None

    spills = [value("vgpr_spill_count"), value("sgpr_spill_count")]
    return Resources(
        value("vgpr_count"),
        value("sgpr_count"),
        value("private_segment_fixed_size"),
        None if None in spills else sum(filter(None, spills)),
        shared if shared is not None else value("group_segment_fixed_size"),
    )


_MOST_CTAS = {"cuda:75": 16, "cuda:86": 16, "cuda:87": 16, "cuda:89": 24, "cuda:120": 24, "cuda:121": 24}
_USUAL_CTAS = 32
"""The most CTAs that a multiprocessor can hold (CUDA programming guide, compute capabilities)."""


def occupancy(registers: int, shared: int, warps: int, target: Target) -> tuple[int, str]:
    """CTAs that a multiprocessor can hold at a time, and the resource that limits them."""
    whole = target.max_shared_bytes + target.reserved_shared_bytes
    limits = {
        "CTAs": _MOST_CTAS.get(target.name, _USUAL_CTAS),
        "warps": target.resident_warps // warps,
        "registers": resident(max(registers, 1), warps, target.registers, target.lanes),
        "shared memory": whole // taken
        if (taken := shared + target.reserved_shared_bytes)
        else target.resident_warps,
    }
    lowest = min(limits, key=lambda name: limits[name])
    return limits[lowest], lowest


_SMALL = 8
"""A loop with fewer instructions only waits for a barrier in memory; its clocks mean nothing."""
_SOURCE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_ADDRESS = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/")


def _loops(cubin: bytes) -> tuple[TimedLoop, ...] | None:
    every = loops(cubin)
    if every is None:
        return None
    timed: Sequence[Loop] = [loop for loop in every if loop.last - loop.first >= _SMALL]
    lines = _lines(cubin) if timed else {}
    return tuple(TimedLoop(_line_of(loop, lines), loop.last - loop.first + 1, loop.clocks) for loop in timed)


def _line_of(loop: Loop, lines: dict[int, Where]) -> Where:
    """The line of a loop's last instruction, the backward branch; if not known, the line of most
    instructions.
    """
    if loop.last in lines:
        return lines[loop.last]
    counted = Counter(lines[number] for number in range(loop.first, loop.last + 1) if number in lines)
    return counted.most_common(1)[0][0] if counted else ("", 0)


def _lines(cubin: bytes) -> dict[int, Where]:
    """The user's line of each instruction number, from nvdisasm; empty if nvdisasm is not installed."""
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
