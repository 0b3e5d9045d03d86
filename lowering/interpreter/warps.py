"""Runs a whole function for independent warps of a CTA, or of all CTAs of a cluster: warp-specialised kernels.

    outcome = simulate_warps(text, "kernel", {"x": registers}, target)

The warps run one after the other, each to its next barrier with other warps. Only barriers and mbarriers order
the accesses of two warps. Each warp has a clock, and a barrier merges the clocks of its warps. An access to
bytes that another warp accessed without a barrier in between is a race. So an overlap of the scratch of two
concurrent partitions is found in whatever order the warps run. A CTA whose last warp returns while another may
still load from its memory is in a race too.

A barrier of a CTA has a number and a count of threads. Between two barriers of all warps of the CTA Triton
uses one number for the same warps always. A partition that waits at the barrier of other warps is refused, and
so is a barrier at which too few warps arrive. At the barrier of the cluster all warps of all CTAs have to
arrive.

Tensors are given by inline assembly of the text `// given NAME`, which returns one register after the other
each time it runs, and are handed over by `// sink NAME`. In each CTA the first warp that reads a given tensor
gets the first of the CTA's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from triton_linear.lowering.interpreter.blocks import Compiler, FunctionProgram
from triton_linear.lowering.interpreter.function import STEP_LIMIT, Run
from triton_linear.lowering.interpreter.meetings import Clock, Mbarrier, Meeting, Phase, Place
from triton_linear.lowering.interpreter.memory import (
    OF_CLUSTER,
    Bits,
    Flags,
    Indices,
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
    each place and hazard once. Warps are numbered through all CTAs, those of the first one first."""

    sinks: Mapping[str, tuple[Bits, Bits]]
    warps: Mapping[str, tuple[int, ...]]
    races: tuple[Race, ...]


def simulate_warps(
    module_text: str,
    name: str,
    given: Mapping[str, Sequence[Bits]],
    target: Target,
    *,
    ctas: int = 1,
    step_limit: int = STEP_LIMIT,
) -> WarpsOutcome:
    """Run the function `name` of a module for all warps of a cluster of `ctas` CTAs; the module has the number
    of warps of each.

    Requires: `given` has registers of shape (trials, threads of the warps that read them), by name, the threads
    of all CTAs one after the other. Ensures: deterministic; every warp has returned.

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
        return _Warps(program, given, trials, number, shared, step_limit, ctas).outcome()


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
    clock: Clock
    scope: str = "cta"
    agent: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def forget(self) -> None:
        raise SimulationError("a barrier of lockstep threads is not interpreted for independent warps")

    def release(self) -> Clock:
        """What the warp is ordered behind, its own accesses included; later ones are not."""
        released: Clock = self.clock.copy()
        self.clock[self.warp] += 1
        return released

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
    """The warps of a cluster, each a run of the same program; `number` of each CTA."""

    def __init__(
        self,
        program: FunctionProgram,
        given: Mapping[str, Sequence[Bits]],
        trials: int,
        number: int,
        shared: int,
        step_limit: int,
        ctas: int,
    ) -> None:
        build = program.build
        lanes = build.target.lanes
        self.program, self.given, self.first = program, given, dict[tuple[int, str], int]()
        self.number, self.ctas = number, ctas
        self.members: dict[tuple[int, int], tuple[int, ...]] = {}
        self.mbarriers: dict[Place, Mbarrier] = {}
        whole = SharedMemory(trials, lanes, lanes, shared, SHARED_BASE, build.granule, ctas=ctas)
        self.granules = -(-shared // 8) * 8 // build.granule
        self.history = _History(self.granules * ctas, number * ctas)
        self.clocks = np.zeros((number * ctas, number * ctas), np.int64)
        self.runs: list[Run] = []
        for warp in range(number * ctas):
            self.clocks[warp, warp] = 1
            level = _Level(self.history, warp, self.clocks[warp], agent=np.zeros(lanes, np.int32))
            memory = whole.of_warp(level, number, warp // number, self.mbarriers)
            run = Run(program, (), trials, memory, step_limit)
            run.machine.first = warp % number * lanes
            run.machine.ask = self._giver(warp, lanes)
            self.runs.append(run)
        self._run_all()
        self._end()

    def _giver(self, warp: int, lanes: int) -> Callable[[str], Bits]:
        counts: dict[str, int] = {}

        def ask(name: str) -> Bits:
            if name not in self.given:
                raise SimulationError(f"nobody has given '{name}'")
            at = counts.setdefault(name, 0)
            counts[name] += 1
            cta = warp // self.number
            start = (warp - self.first.setdefault((cta, name), warp)) * lanes
            registers = self.given[name]
            each = registers[at].shape[1] // self.ctas if at < len(registers) else 0
            if not 0 <= start < each:
                raise SimulationError(f"warp {warp} asks for register {at} of '{name}', which it has not")
            start += cta * each
            return np.asarray(registers[at][:, start : start + lanes], np.uint64)

        return ask

    def _run_all(self) -> None:
        """Run each warp to where it has to wait, and on when it no longer has to, until all have returned."""
        going = [run.steps(0, -1) for run in self.runs]
        awake, waiting = list(range(len(going))), dict[int, Meeting | Phase]()
        while awake:
            for warp in awake:
                for met in going[warp]:
                    waiting[warp] = met
                    break
            awake = self._complete(waiting)
        if waiting:
            listed = "; ".join(f"warp {warp} at {met}" for warp, met in sorted(waiting.items()))
            raise SimulationError(f"warps wait for others that do not come: {listed}")

    def _complete(self, waiting: dict[int, Meeting | Phase]) -> list[int]:
        """The warps that need not wait any more, with their clocks merged; they leave `waiting`."""
        awake: list[int] = []
        meetings: dict[tuple[int, int], dict[int, Meeting]] = {}
        for warp, met in sorted(waiting.items()):
            if isinstance(met, Meeting):
                cta = OF_CLUSTER if met.number == OF_CLUSTER else warp // self.number
                meetings.setdefault((cta, met.number), {})[warp] = met
            elif self.mbarriers[met.place].is_complete(met.parity):
                self._acquire(warp, self.mbarriers[met.place].released, lanes=False)
                awake.append(warp)
        for place, here in sorted(meetings.items()):
            if self._have_met(place, here):
                ordered = [warp for warp, met in here.items() if not met.relaxed]
                latest = self.clocks[ordered].max(axis=0, initial=0)
                for warp in here:
                    self._acquire(warp, latest)
                awake += here
        for warp in awake:
            del waiting[warp]
        return sorted(awake)

    def _acquire(self, warp: int, latest: Clock, lanes: bool = True) -> None:
        """Order what a warp does from now on behind what `latest` is ordered behind; lanes: and what its own
        lanes did."""
        clock = self.clocks[warp]
        np.maximum(clock, latest, out=clock)
        clock[warp] += 1
        if lanes:
            self.runs[warp].memory.forget_lanes()

    def _have_met(self, place: tuple[int, int], here: Mapping[int, Meeting]) -> bool:
        """True if all warps of a barrier have come: (CTA, its number)."""
        counts, number = {met.warps for met in here.values()}, place[1]
        if len(counts) > 1:
            raise SimulationError(f"barrier {number} waits for {min(counts)} and for {max(counts)} warps")
        (count,) = counts
        known = self.members.get(place)
        if len(here) > count or (known is not None and not set(here) <= set(known)):
            raise SimulationError(
                f"warps {_listed(here)} come to barrier {number} of {_listed(known) if known else count}"
            )
        if len(here) < count:
            return False
        self.members[place] = tuple(here)
        if count == self.number:  # the regions that run next may use numbers for other warps
            cta = place[0]
            self.members = {known: warps for known, warps in self.members.items() if known[0] != cta}
        return True

    def _end(self) -> None:
        """Report a race where the last warp of a CTA may return while another CTA still loads from it."""
        for cta in range(self.ctas if self.ctas > 1 else 0):
            mine = slice(cta * self.number, (cta + 1) * self.number)
            read = self.history.read[:, cta * self.granules : (cta + 1) * self.granules]
            late = read > self.clocks[mine].max(axis=0)[:, None]
            late[mine] = False
            if late.any():
                offset = int(np.argmax(late.any(axis=0))) * self.program.build.granule
                run = self.runs[cta * self.number]
                run.memory.races.append(Race("cluster", "end after read", self.program.returns, offset))

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
