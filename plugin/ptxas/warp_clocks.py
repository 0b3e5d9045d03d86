"""How long one warp takes through a kernel when nothing else is in its way, by the instructions of a cubin.

A warp begins its instructions in order. After each the scheduler waits for as many clocks as the instruction
says; those whose time is not known beforehand set one of six barriers, and whoever needs their result waits for
that (`ptxas.cubin` has the fields). So a walk over the instructions adds up

    begin(i) = max(begin(i - 1) + after(i - 1), max of set(b) over the barriers b that i waits for)
    set(b)   = max of begin(i) + latency(i) over the instructions i before that set b

Loops take `trips` iterations. A warp that finds another warp's instruction in its way takes longer, so this is
what a kernel takes of which few warps run, and the least for others.

In a kernel with warp-specialised regions each warp goes through a part of the code. The walk is then one of a
warp of each region, one after the other; the loop in which such warps wait for work is none (`regions`).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence

from triton_linear.dialect.records import dataclass
from triton_linear.ptxas.cubin import (
    LOAD,
    OPCODE,
    capability,
    clocks_after,
    decoded,
    loops_of,
    without_dispatch,
)

_BARRIERS = 6
_ALL = (1 << _BARRIERS) - 1
_BAR = 0x11D
_MEMORY = frozenset({LOAD, 0x1A3, 0x1A8, 0x1AB})
"""LDG, ATOMG, ATOM and ERRBAR, which wait for global memory."""
_SHARED = frozenset({0x3B, 0x183, 0x184, 0x189, 0x18A, 0x1C4})
"""LDSM, LDL, LDS, SHFL, ATOMS and REDUX, which wait for shared memory, the first-level cache or other lanes."""
SHARED_CLOCKS = 30
"""What those take (Luo et al., arXiv 2402.13499)."""
_SPILLS = frozenset({0x183, 0x187})
"""LDL and STL, which load and store the memory of a thread alone."""
OTHER_CLOCKS = 20
"""What other instructions of unknown time take, those of the unit for exponentials, say."""
_LATENCIES = {**dict.fromkeys(_SHARED, SHARED_CLOCKS), **dict.fromkeys(_MEMORY, None)}
"""Clocks of opcodes; None: those of memory."""
_SETS = [tuple(n for n in range(_BARRIERS) if wanted >> n & 1) for wanted in range(1 << _BARRIERS)]
"""The barriers that an instruction waits for, by the six bits that say so."""
_WARM = 2
"""Iterations before the one that is looked at: what one leaves under way the next waits for."""


@dataclass(frozen=True, slots=True)
class WarpClocks:
    """clocks: of one warp through the kernel. serial: what of that it waits for loads from global memory that
    were begun one after another, though no barrier of the CTA lies between them."""

    clocks: int
    serial: int


def warp_clocks(cubin: object, memory: int, trips: int, regions: bool = False) -> WarpClocks | None:
    """Those of a cubin where loads from global memory take `memory` clocks and each loop `trips` iterations;
    None where it cannot be read. regions: the kernel has warp-specialised regions.

    Requires: the compute capability is 9.0, or one whose instructions have the same numbers.
    """
    instructions, known = decoded(cubin), capability(cubin)
    if not instructions or known is None:
        return None
    walk = _Walk(instructions, _loops(instructions, known, regions), trips)
    clocks, at_once = walk.through(memory), walk.through(0) + memory * walk.waiting()
    return WarpClocks(clocks, max(0, clocks - at_once))


def arithmetic_waits(cubin: object, clocks: int, memory: int, trips: int) -> float | None:
    """The part of a warp's clocks in which it waits neither for memory nor for other lanes: 1 - T' / T, where T
    are its `clocks` by `warp_clocks`, and T' those if each instruction began a clock after the one before it
    and instructions of unknown time took none. Most of these waits are for results of arithmetic. None where
    the cubin cannot be read.

    Requires: as `warp_clocks`.
    """
    instructions, known = decoded(cubin), capability(cubin)
    if not instructions or known is None or not clocks:
        return None
    return 1 - _Walk(instructions, loops_of(instructions, known), trips, waits=False).through(memory) / clocks


def spilled_part(cubin: object, trips: int, regions: bool = False) -> float | None:
    """The part of the instructions that a warp executes which load or store spilled values, where each loop
    takes `trips` iterations; None where the cubin cannot be read. regions: the kernel has warp-specialised
    regions. The instructions have the same numbers from compute capability 7.5 to 12.0.
    """
    instructions, known = decoded(cubin), capability(cubin)
    if not instructions or known is None:
        return None
    deeper = [0] * (len(instructions) + 1)
    for first, last in _loops(instructions, known, regions):
        deeper[first] += 1
        deeper[last + 1] -= 1
    times = [int(trips**depth) for depth in itertools.accumulate(deeper[:-1])]
    spills = sum(n for n, (low, _) in zip(times, instructions, strict=True) if low & OPCODE in _SPILLS)
    return spills / sum(times)


def _loops(instructions: list[tuple[int, int]], known: int, regions: bool) -> list[tuple[int, int]]:
    """The loops of a kernel with warp-specialised regions or without, for the compute capability `known`."""
    loops = loops_of(instructions, known)
    return without_dispatch(loops, instructions) if regions else loops


def _loops_around(loop: tuple[int, int], loops: list[tuple[int, int]]) -> int:
    """How many loops an iteration of a loop is in, that loop counted."""
    return sum(first <= loop[0] and loop[1] <= last for first, last in loops)


class _Walk:
    """The instructions of a kernel, of each what says when those behind it begin.

    at: the clocks to each instruction, and to the end, if none waited. stops: the instructions that wait for
    barriers or set one: their numbers, the barriers that they wait for, the one that they set, and their
    latency, None where it is that of memory. often: how many iterations each loop takes in all, those of loops
    around it counted. waits: instructions other than those of memory and lanes take time.
    """

    def __init__(
        self,
        instructions: Sequence[tuple[int, int]],
        loops: list[tuple[int, int]],
        trips: int,
        waits: bool = True,
    ) -> None:
        after = [clocks_after(high) or 1 for _, high in instructions] if waits else [1] * len(instructions)
        self._at = [0, *itertools.accumulate(after)]
        other = OTHER_CLOCKS if waits else 0
        self._stops = [
            (number, _SETS[high >> 52 & _ALL], high >> 46 & 7, _LATENCIES.get(low & OPCODE, other))
            for number, (low, high) in enumerate(instructions)
            if high >> 52 & _ALL or high >> 46 & 7 < _BARRIERS
        ]
        self._numbers = [stop[0] for stop in self._stops]
        self._opcodes = [low & OPCODE for low, _ in instructions]
        self._often = {loop: int(trips ** _loops_around(loop, loops)) for loop in loops}
        self._trips = trips

    def through(self, memory: int) -> int:
        """The clocks of the kernel."""
        (total,) = self._run(0, len(self._opcodes), 1, memory)
        more = {loop: often * (self._trips - 1) // self._trips for loop, often in self._often.items()}
        return total + sum(n * self._iteration(loop, memory) for loop, n in more.items())

    def waiting(self) -> int:
        """How often the kernel has to wait for loads at least: once between two barriers of the CTA, outside of
        loops and in each iteration of each."""
        # The innermost loop around each instruction.
        innermost: list[tuple[int, int] | None] = [None] * len(self._opcodes)
        for first, last in sorted(self._often, key=lambda loop: loop[0] - loop[1]):
            innermost[first : last + 1] = [(first, last)] * (last + 1 - first)
        stretches, barriers = set(), 0
        for loop, opcode in zip(innermost, self._opcodes, strict=True):
            barriers += opcode == _BAR
            if opcode in _MEMORY:
                stretches.add((loop, barriers))
        return sum(1 if loop is None else self._often[loop] for loop, _ in stretches)

    def _iteration(self, loop: tuple[int, int], memory: int) -> int:
        """The clocks of one iteration, others before it, without further ones of loops inside."""
        *_, before, now = self._run(loop[0], loop[1] + 1, _WARM + 1, memory)
        return now - before

    def _run(self, first: int, last: int, times: int, memory: int) -> list[int]:
        """The clocks to the end of these instructions, each time that they are gone through."""
        at, there = self._at, [0] * _BARRIERS
        stops = self._stops[bisect_left(self._numbers, first) : bisect_left(self._numbers, last)]
        now, ends = 0, []
        for _ in range(times):
            late = now - at[first]  # what is waited for delays all that follows
            for number, wanted, barrier, latency in stops:
                begin = late + at[number]
                for waited in wanted:
                    begin = max(begin, there[waited])
                late = begin - at[number]
                if barrier < _BARRIERS:
                    there[barrier] = max(there[barrier], begin + (memory if latency is None else latency))
            now = late + at[last]
            ends.append(now)
        return ends
