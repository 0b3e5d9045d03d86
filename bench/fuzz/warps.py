"""Runs a whole function for the independent warps of a CTA: warp-specialised kernels.

    outcome = simulate_warps(text, "kernel", {"x": registers}, target)

The warps run one after the other, each to its next barrier with other warps. Only barriers order the accesses
of two warps. Each warp has a clock, which says for each warp up to which of its accesses others are ordered
behind it; a barrier merges the clocks of its warps. An access to bytes that another warp accessed without a
barrier in between is a race. So an overlap of the scratch of two concurrent partitions is found in whatever
order the warps run.

A barrier of a CTA has a number and a count of threads. Between two barriers of all warps of the CTA Triton
uses one number for the same warps always. A partition that waits at the barrier of other warps is refused, and
so is a barrier at which too few warps arrive.

Tensors are given by inline assembly of the text `// given NAME`, which returns one register after the other
each time it runs, and are handed over by `// sink NAME`. The first warp that reads a given tensor gets the
first of its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from triton_linear.lowering.interpreter.blocks import Compiler, FunctionProgram
from triton_linear.lowering.interpreter.function import STEP_LIMIT, Run
from triton_linear.lowering.interpreter.memory import (
    Bits,
    Flags,
    Indices,
    Meeting,
    Race,
    SharedMemory,
    SimulationError,
)
from triton_linear.lowering.interpreter.parsing import SHARED_BASE, interpreter_context, parsed
from triton_linear.lowering.target.targets import Target

__all__ = ["WarpsOutcome", "simulate_warps"]

_NOBODY: Final = -1
_TOTAL: Final = "ttg.total-num-warps"


@dataclass(frozen=True, slots=True, eq=False)
class WarpsOutcome:
    """The values that each sink received, with shape (registers, trials, threads of `warps`), and the races,
    each place and hazard once."""

    sinks: Mapping[str, tuple[Bits, Bits]]
    warps: Mapping[str, tuple[int, ...]]
    races: tuple[Race, ...]


def simulate_warps(
    module_text: str,
    name: str,
    given: Mapping[str, Sequence[Bits]],
    target: Target,
    *,
    step_limit: int = STEP_LIMIT,
) -> WarpsOutcome:
    """Run the function `name` of a module for all warps of a CTA; the module has their number.

    Requires: `given` has registers of shape (trials, threads of the warps that read them), by name. Ensures:
    deterministic; every warp has returned.

    Raises SimulationError as `simulate_function` does, and for barriers at which the wrong warps arrive, or too
    few.
    """
    with interpreter_context():
        module = parsed(module_text)
        attributes = module.operation.attributes
        number = attributes[_TOTAL if _TOTAL in attributes else "ttg.num-warps"].value
        shared = attributes["ttg.shared"].value if "ttg.shared" in attributes else 0
        compiler = Compiler(module, target, target.lanes, "overflow<" in module_text, independent=True)
        program = compiler.compile(name, 0)
        trials = max((len(r) for registers in given.values() for r in registers), default=1)
        return _Warps(program, given, trials, number, shared, step_limit).outcome()


class _History:
    """The last writer of each granule and the times of the last write and reads, by the clocks of the warps."""

    def __init__(self, granules: int, warps: int) -> None:
        self.writer = np.full(granules, _NOBODY, np.int32)
        self.written = np.zeros(granules, np.int64)
        self.read = np.zeros((warps, granules), np.int64)


@dataclass(slots=True)
class _Level:
    """The accesses of other warps as one warp is ordered with them; has the interface of `memory._Agents`."""

    history: _History
    warp: int
    clock: npt.NDArray[np.int64]
    scope: str = "cta"
    agent: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def forget(self) -> None:
        raise SimulationError("a barrier of lockstep threads is not interpreted for independent warps")

    def read(self, granules: Indices, agent: npt.NDArray[np.int32]) -> Flags:
        """Record a read; return flags of granules that another warp wrote without a barrier in between."""
        self.history.read[self.warp, granules] = self.clock[self.warp]
        return self._unordered(granules)

    def write(self, granules: Indices, agent: npt.NDArray[np.int32]) -> tuple[Flags, Flags, Flags]:
        """Record a write; return flags of granules that another warp read, and that another warp wrote, without
        a barrier in between; the third flags are false."""
        history = self.history
        later = history.read[:, granules] > self.clock[:, None]
        later[self.warp] = False
        before = self._unordered(granules)
        history.writer[granules], history.written[granules] = self.warp, self.clock[self.warp]
        return np.asarray(later.any(axis=0)), before, np.zeros(len(granules), np.bool_)

    def _unordered(self, granules: Indices) -> Flags:
        writer = self.history.writer[granules]
        late = self.history.written[granules] > self.clock[writer]
        return np.asarray((writer != _NOBODY) & (writer != self.warp) & late)


class _Warps:
    """The `number` warps of a CTA, each a run of the same program."""

    def __init__(
        self,
        program: FunctionProgram,
        given: Mapping[str, Sequence[Bits]],
        trials: int,
        number: int,
        shared: int,
        step_limit: int,
    ) -> None:
        build = program.build
        lanes = build.target.lanes
        self.program, self.given, self.first = program, given, dict[str, int]()
        self.number = number
        self.members: dict[int, tuple[int, ...]] = {}
        whole = SharedMemory(trials, lanes, lanes, shared, SHARED_BASE, build.granule)
        history = _History(-(-shared // 8) * 8 // build.granule, number)
        self.clocks = np.zeros((number, number), np.int64)
        self.runs: list[Run] = []
        for warp in range(number):
            self.clocks[warp, warp] = 1
            level = _Level(history, warp, self.clocks[warp], agent=np.zeros(lanes, np.int32))
            run = Run(program, (), trials, whole.of_warp(level, number), step_limit)
            run.machine.first = warp * lanes
            run.machine.ask = self._giver(warp, lanes)
            self.runs.append(run)
        self._run_all()

    def _giver(self, warp: int, lanes: int) -> Callable[[str], Bits]:
        counts: dict[str, int] = {}

        def ask(name: str) -> Bits:
            if name not in self.given:
                raise SimulationError(f"nobody has given '{name}'")
            at = counts.setdefault(name, 0)
            counts[name] += 1
            start = (warp - self.first.setdefault(name, warp)) * lanes
            registers = self.given[name]
            if at >= len(registers) or not 0 <= start < registers[at].shape[1]:
                raise SimulationError(f"warp {warp} asks for register {at} of '{name}', which it has not")
            return np.asarray(registers[at][:, start : start + lanes], np.uint64)

        return ask

    def _run_all(self) -> None:
        """Run each warp to where it has to wait, and on when it no longer has to, until all have returned."""
        going = [run.steps(0, -1) for run in self.runs]
        awake, waiting = list(range(len(going))), dict[int, Meeting]()
        while awake:
            for warp in awake:
                for met in going[warp]:
                    waiting[warp] = met
                    break
            awake = self._complete(waiting)
        if waiting:
            listed = "; ".join(f"warp {warp} at {met}" for warp, met in sorted(waiting.items()))
            raise SimulationError(f"warps wait for others that do not come: {listed}")

    def _complete(self, waiting: dict[int, Meeting]) -> list[int]:
        """The warps that need not wait any more, with their clocks merged; they leave `waiting`."""
        awake: list[int] = []
        meetings: dict[int, dict[int, Meeting]] = {}
        for warp, met in sorted(waiting.items()):
            meetings.setdefault(met.number, {})[warp] = met
        for number, here in sorted(meetings.items()):
            if self._have_met(number, here):
                latest = self.clocks[list(here)].max(axis=0)
                for warp in here:
                    clock = self.clocks[warp]
                    np.maximum(clock, latest, out=clock)
                    clock[warp] += 1
                    self.runs[warp].memory.forget_lanes()
                awake += here
        for warp in awake:
            del waiting[warp]
        return sorted(awake)

    def _have_met(self, number: int, here: Mapping[int, Meeting]) -> bool:
        """True if all warps of a barrier have come."""
        counts = {met.warps for met in here.values()}
        if len(counts) > 1:
            raise SimulationError(f"barrier {number} waits for {min(counts)} and for {max(counts)} warps")
        (count,) = counts
        known = self.members.get(number)
        if len(here) > count or (known is not None and not set(here) <= set(known)):
            raise SimulationError(
                f"warps {_listed(here)} come to barrier {number} of {_listed(known) if known else count}"
            )
        if len(here) < count:
            return False
        self.members[number] = tuple(here)
        if count == self.number:  # the regions that run next may use numbers for other warps
            self.members.clear()
        return True

    def outcome(self) -> WarpsOutcome:
        """The outcome of all runs."""
        names = dict.fromkeys(name for run in self.runs for name in run.machine.sinks)
        sinks, warps = {}, {}
        for name in names:
            holders = [n for n, run in enumerate(self.runs) if name in run.machine.sinks]
            parts = [self.runs[n].stacked(self.runs[n].machine.sinks[name]) for n in holders]
            if len({part[0].shape for part in parts}) > 1:
                raise SimulationError(f"warps hand different numbers of registers to '{name}'")
            sinks[name] = (
                np.concatenate([values for values, _ in parts], axis=2),
                np.concatenate([undefined for _, undefined in parts], axis=2),
            )
            warps[name] = tuple(holders)
        races = {
            (race.hazard, place): replace(race, location=place)
            for run in self.runs
            for race in run.memory.races
            for place in [self.program.where(race.operation)]
        }
        return WarpsOutcome(sinks, warps, tuple(races.values()))


def _listed(warps: Iterable[int]) -> str:
    return ", ".join(map(str, warps))
