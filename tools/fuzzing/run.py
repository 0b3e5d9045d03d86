"""The units of a seed, each a module in a process of its own, and what became of them.

A unit is drawn from the seed, the target and its number alone. So the same seed gives
the same modules, however many processes there are, and any unit can be had again by itself.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED, installed_release
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.fuzzing import pairs
from triton_linear.tools.fuzzing.draw import draw_program
from triton_linear.tools.fuzzing.examine import examine_program, title
from triton_linear.tools.fuzzing.partitions import draw_partitions, examine_partitions, partitions_text
from triton_linear.tools.fuzzing.program import Program
from triton_linear.tools.fuzzing.regions import conversions_of, draw_regions, examine_regions, regions_text
from triton_linear.tools.fuzzing.tensor_memory import check_tensor_memory, draw_tensor_program
from triton_linear.tools.fuzzing.totals import Totals
from triton_linear.tools.fuzzing.write import write
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import DEFAULTS, to_triton
from triton_linear.tools.support.errors import ToolError, fail
from triton_linear.tools.support.isolated import Isolation, Lost

SECONDS = 60
MEMORY = 8 << 30
MODULES = ("triton_linear.tools.fuzzing.warm", __name__)

SINGLES, PROGRAMS, PARTITIONS, CLUSTERS = "singles", "programs", "partitions", "clusters"
REGIONS = "regions"
"""Modules with a program in each warp-specialised region."""
TENSOR = "tensor"
"""Programs that go through tensor memory."""
WHOLE = (PROGRAMS, TENSOR)
"""Kinds whose units are one program, which is run as a whole."""
OF_STEPS = (*WHOLE, REGIONS)
"""Kinds whose programs have steps that stock Triton may fail on."""
KINDS = (SINGLES, PROGRAMS)
"""What is drawn by default."""
EVERY_KIND = (SINGLES, CLUSTERS, PROGRAMS, TENSOR, PARTITIONS, REGIONS)
CTAS = (2, 4, 8, 16)
"""Sizes of clusters."""
PROGRAMS_EACH = 2
CLUSTERED = 4
"""Of so many modules of partitions one is in clusters."""


@dataclass(frozen=True)
class Unit:
    """One module: single conversions, one program, or conversions or programs in warp-specialised regions."""

    kind: str
    number: int
    seed: int
    programs: tuple[Program, ...]
    assembled: bool = False
    options: PipelineOptions = DEFAULTS
    """What of the pipeline programs are compiled with; single conversions are lowered, and nothing else."""

    @property
    def target(self) -> str:
        """What it is compiled for."""
        return self.programs[0].target

    @property
    def name(self) -> str:
        """A file name for it."""
        kind = f"{CLUSTERS}-" if self.kind == PROGRAMS and self.programs[0].ctas > 1 else ""
        return f"{self.target.replace(':', '-')}-{self.seed}-{kind}{self.kind}-{self.number:04}.ttgir"

    def text(self) -> str:
        """Its TTGIR."""
        if self.kind in WHOLE:
            return write(self.programs[0]).text
        if self.kind == PARTITIONS:
            return partitions_text(self.programs)
        if self.kind == REGIONS:
            return regions_text(self.programs)
        return pairs.pairs_text(self.programs, target_called(self.target).lanes, self.assembled)


@dataclass(frozen=True)
class FuzzPlan:
    """What to draw: `count` conversions for one target; each `assembly`-th module of singles is assembled."""

    target: str
    seed: int
    count: int
    assembly: int = 0
    kinds: tuple[str, ...] = KINDS
    options: PipelineOptions = DEFAULTS


def units(plan: FuzzPlan) -> Iterator[Unit]:
    """The units of a plan: to each module of single conversions, PROGRAMS_EACH programs."""
    left = plan.count
    for number in itertools.count():
        if SINGLES in plan.kinds and left > 0:
            unit = _singles(plan, number, left)
            left -= conversions(unit)
            yield unit
        if CLUSTERS in plan.kinds and left > 0:
            unit = _singles(plan, number, left, CLUSTERS)
            left -= conversions(unit)
            yield unit
            if left > 0:
                unit = _program(plan, number, in_cluster=True)
                left -= conversions(unit)
                yield unit
        if PROGRAMS in plan.kinds:
            for other in range(number * PROGRAMS_EACH, (number + 1) * PROGRAMS_EACH):
                if left > 0:
                    unit = _program(plan, other)
                    left -= conversions(unit)
                    yield unit
        if TENSOR in plan.kinds and left > 0:
            unit = _tensor(plan, number)
            left -= conversions(unit)
            yield unit
        if PARTITIONS in plan.kinds and left > 0:
            unit = _partitions(plan, number, left)
            left -= conversions(unit)
            yield unit
        if REGIONS in plan.kinds and left > 0:
            unit = _regions(plan, number)
            left -= conversions(unit)
            yield unit
        if left <= 0:
            return


def conversions(unit: Unit) -> int:
    """How many conversions a unit holds."""
    if unit.kind == REGIONS:
        return conversions_of(unit.programs)
    if unit.kind in WHOLE:
        return write(unit.programs[0]).conversions
    return len(unit.programs)


def _program(plan: FuzzPlan, number: int, in_cluster: bool = False) -> Unit:
    clusters = f" {CLUSTERS}" if in_cluster else ""
    rng = random.Random(f"{plan.seed} {PROGRAMS}{clusters} {plan.target} {number}")
    ctas = rng.choice(CTAS) if in_cluster else 1
    return Unit(PROGRAMS, number, plan.seed, (draw_program(rng, plan.target, ctas),), options=plan.options)


def _tensor(plan: FuzzPlan, number: int) -> Unit:
    check_tensor_memory(plan.target)
    rng = random.Random(f"{plan.seed} {TENSOR} {plan.target} {number}")
    return Unit(TENSOR, number, plan.seed, (draw_tensor_program(rng, plan.target),), options=plan.options)


def _regions(plan: FuzzPlan, number: int) -> Unit:
    target = _specialised(plan, REGIONS)
    rng = random.Random(f"{plan.seed} {REGIONS} {target.name} {number}")
    return Unit(REGIONS, number, plan.seed, tuple(draw_regions(rng, target.name)), options=plan.options)


def _specialised(plan: FuzzPlan, kind: str) -> Target:
    """The target of a plan, if it has warp-specialised regions."""
    target = target_called(plan.target)
    if target.vendor != "nvidia":
        fail(f"{kind}: '{plan.target}' has no warp-specialised regions")
    return target


def _partitions(plan: FuzzPlan, number: int, most: int) -> Unit:
    target = _specialised(plan, PARTITIONS)
    rng = random.Random(f"{plan.seed} {PARTITIONS} {target.name} {number}")
    in_cluster = number % CLUSTERED == CLUSTERED - 1 and target.has_clusters
    ctas = rng.choice(CTAS) if in_cluster and installed_release() in CLUSTERS_ORDERED else 1
    return Unit(PARTITIONS, number, plan.seed, tuple(draw_partitions(rng, target, most, ctas)))


def _singles(plan: FuzzPlan, number: int, most: int, kind: str = SINGLES) -> Unit:
    target = target_called(plan.target)
    assembled = plan.assembly > 0 and number % plan.assembly == plan.assembly - 1
    rng = random.Random(f"{plan.seed} {kind} {target.name} {number}")
    ctas = rng.choice(CTAS) if kind == CLUSTERS else 1
    warps, drawn = pairs.draw_pairs(rng, target, min(pairs.PAIRS_PER_MODULE, most), assembled, ctas)
    singles = tuple(pairs.as_program(pair, warps, target.name, ctas=ctas) for pair in drawn)
    return Unit(kind, number, plan.seed, singles, assembled)


def examine(unit: Unit) -> Totals:
    """Run a unit in this process; raises, crashes or hangs where Triton or the interpreter does."""
    if unit.kind in WHOLE:
        return examine_program(unit.programs[0], unit.name, unit.options)
    if unit.kind == PARTITIONS:
        return examine_partitions(unit.programs, target_called(unit.target).lanes, unit.name)
    if unit.kind == REGIONS:
        return examine_regions(unit.programs, target_called(unit.target).lanes, unit.name, unit.options)
    return pairs.examine_pairs(unit.programs, target_called(unit.target).lanes, unit.assembled, unit.name)


def stock(unit: Unit) -> Totals:
    """The same through stock Triton: a program is run, single conversions are compiled as far as ours."""
    if unit.kind in WHOLE:
        return examine_program(unit.programs[0], unit.name, None)
    if unit.kind == PARTITIONS:
        return examine_partitions(unit.programs, target_called(unit.target).lanes, unit.name, None)
    if unit.kind == REGIONS:
        return examine_regions(unit.programs, target_called(unit.target).lanes, unit.name, None)
    lower(to_triton(unit.text()), unit.target, pairs.last_stage(unit.target, unit.assembled))
    return Totals()


class Caller(Protocol):
    """How a function is called on a unit."""

    def __call__(self, function: Callable[[Unit], Any], unit: Unit) -> Any | Lost: ...


def in_this_process(function: Callable[[Unit], Any], unit: Unit) -> Any | Lost:
    """For tests: nothing survives a crash, but what they changed is in force."""
    try:
        return function(unit)
    except (ToolError, ValueError, RuntimeError) as error:
        return Lost(f"{type(error).__name__}: {error}")


class InProcesses:
    """Each call in a process of its own."""

    def __init__(self, seconds: int = SECONDS) -> None:
        self._isolations: dict[Callable[[Unit], Any], Isolation[Totals]] = {
            function: Isolation(function, MODULES, seconds, MEMORY) for function in (examine, stock)
        }

    def __call__(self, function: Callable[[Unit], Any], unit: Unit) -> Any | Lost:
        return self._isolations[function].call(unit)


def outcome(unit: Unit, call: Caller) -> Totals:
    """What became of a unit, and where that is wrong or its process did not survive, whose fault it is."""
    found = call(examine, unit)
    if isinstance(found, Totals) and (unit.kind not in OF_STEPS or found.ok):
        return found
    if len(unit.programs) > 1:
        # Which of them was it?
        totals = Totals()
        for program in unit.programs:
            totals.add(outcome(replace(unit, programs=(program,)), call))
        return totals
    program = unit.programs[0]
    alone = call(stock, unit)
    if unit.kind in OF_STEPS and (isinstance(alone, Lost) or not alone.ok):
        # What is not ours to do is in the way: the rest of the program says nothing about us.
        return Totals(modules=1, programs=1, stock=Counter([_stock_fails(alone)]))
    if isinstance(found, Totals):
        return found
    if unit.assembled and isinstance(alone, Lost):
        # LLVM cannot assemble the module, whoever makes it: what comes before is still to be right.
        totals = outcome(replace(unit, assembled=False), call)
        totals.stock[f"not assembled: {_stock_fails(alone)}"] += 1
        return totals
    whose = "stock Triton alone does not"
    if isinstance(alone, Lost):
        whose = f"stock Triton alone fails too: {alone.reason}"
    totals = Totals(modules=1, programs=int(unit.kind in OF_STEPS), conversions=conversions(unit), broken=1)
    what = title(program) if unit.kind in OF_STEPS else pairs.title(program)
    totals.fail(how_lost(found), f"{what}: {found.reason}; {whose}", program)
    return totals


def _stock_fails(alone: Totals | Lost) -> str:
    """How stock Triton fails, in general words."""
    if isinstance(alone, Totals):
        return f"is {alone.failures[0].kind}"
    return re.sub(r"\S+\.ttgir:\d+:\d+: |/proc/\S+ |\d+:\d+", "", alone.reason)[:120]


def how_lost(lost: Lost) -> str:
    """The kind of failure: crash, slow or error."""
    if lost.reason.startswith("took more than"):
        return "slow"
    return "crash" if lost.reason.startswith("ended") else "error"


def fuzz(
    plans: Sequence[FuzzPlan],
    jobs: int,
    seconds: float | None = None,
    save: Path | None = None,
    advance: Callable[[str, int], None] = lambda target, conversions: None,
) -> dict[str, Totals]:
    """Run all units of all plans; the totals by target. No unit is begun after `seconds`.

    `jobs` processes at a time; 0: in this process. `advance` is told after each unit how many conversions are
    done; `save` gets the modules.
    """
    for plan in plans:
        check_target(plan.target)
    begun = time.monotonic()
    call: Caller = InProcesses() if jobs else in_this_process
    totals = {plan.target: Totals() for plan in plans}
    # Targets take turns, so that each has its share when time runs out.
    streams = [units(plan) for plan in plans]
    turns = (unit for round_ in itertools.zip_longest(*streams) for unit in round_ if unit is not None)

    def done(unit: Unit, found: Totals) -> None:
        totals[unit.target].add(found)
        advance(unit.target, conversions(unit))

    def timely() -> Iterator[Unit]:
        for unit in turns:
            if seconds is not None and time.monotonic() - begun >= seconds:
                return
            if save is not None:
                (save / unit.name).write_text(unit.text())
            yield unit

    if not jobs:
        for unit in timely():
            done(unit, outcome(unit, call))
        return totals
    with ThreadPoolExecutor(jobs) as pool:
        running: dict[Future[Totals], Unit] = {}
        # Failures are listed in the order of the units, whatever ends first.
        finished: list[tuple[Unit, Totals]] = []
        for unit in timely():
            running[pool.submit(outcome, unit, call)] = unit
            if len(running) >= jobs:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    finished.append((running.pop(future), future.result()))
                    advance(unit.target, conversions(finished[-1][0]))
        for future, unit in running.items():
            finished.append((unit, future.result()))
            advance(unit.target, conversions(unit))
    finished.sort(key=lambda each: (EVERY_KIND.index(each[0].kind), each[0].number))
    for unit, found in finished:
        totals[unit.target].add(found)
    return totals


def check_target(name: str) -> None:
    """Fail unless the target is known."""
    try:
        target_called(name)
    except ValueError as error:
        fail(str(error))
