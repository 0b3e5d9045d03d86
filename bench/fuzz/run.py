"""Run the units of a seed, each a module in its own process.

A unit depends only on the seed, the target and its number. So the same seed gives the same modules with any
number of processes, and any unit can be reproduced alone.
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

from bench.fuzz import pairs
from bench.fuzz.draw import draw_program
from bench.fuzz.examine import examine_program, title
from bench.fuzz.partitions import draw_partitions, examine_partitions, partitions_text
from bench.fuzz.program import Program
from bench.fuzz.regions import conversions_of, draw_regions, examine_regions, regions_text
from bench.fuzz.totals import Totals
from bench.fuzz.write import write
from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED, installed_release
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import DEFAULTS, to_triton
from triton_linear.tools.support.errors import ToolError, fail
from triton_linear.tools.support.isolated import Isolation, Lost

SECONDS = 60
MEMORY = 8 << 30
MODULES = ("bench.fuzz.warm", __name__)

SINGLES, PROGRAMS, PARTITIONS, CLUSTERS = "singles", "programs", "partitions", "clusters"
REGIONS = "regions"
"""Modules with a program in each warp-specialised region."""
OF_STEPS = (PROGRAMS, REGIONS)
"""Kinds whose programs have steps that stock Triton may fail on."""
KINDS = (SINGLES, PROGRAMS)
"""The kinds that are drawn by default."""
EVERY_KIND = (SINGLES, CLUSTERS, PROGRAMS, PARTITIONS, REGIONS)
CTAS = (2, 4, 8, 16)
"""Sizes of clusters."""
FIRST_WITH_CLUSTERS = 90
"""The compute capability."""
PROGRAMS_EACH = 2
CLUSTERED = 4
"""Every CLUSTERED-th module with partitions is in clusters."""


@dataclass(frozen=True)
class Unit:
    """One module: single conversions, one program, or conversions or programs in warp-specialised regions."""

    kind: str
    number: int
    seed: int
    programs: tuple[Program, ...]
    assembled: bool = False
    options: PipelineOptions = DEFAULTS
    """The options of the pipeline for programs. Single conversions are only lowered."""

    @property
    def target(self) -> str:
        """The target that it is compiled for."""
        return self.programs[0].target

    @property
    def name(self) -> str:
        """A file name for it."""
        return f"{self.target.replace(':', '-')}-{self.seed}-{self.kind}-{self.number:04}.ttgir"

    def text(self) -> str:
        """Its TTGIR."""
        if self.kind == PROGRAMS:
            return write(self.programs[0]).text
        if self.kind == PARTITIONS:
            return partitions_text(self.programs)
        if self.kind == REGIONS:
            return regions_text(self.programs)
        return pairs.pairs_text(self.programs, target_called(self.target).lanes, self.assembled)


@dataclass(frozen=True)
class FuzzPlan:
    """A request for `count` conversions for one target. Every `assembly`-th module of singles is assembled."""

    target: str
    seed: int
    count: int
    assembly: int = 0
    kinds: tuple[str, ...] = KINDS
    options: PipelineOptions = DEFAULTS


def units(plan: FuzzPlan) -> Iterator[Unit]:
    """The units of a plan: for each module of single conversions there are PROGRAMS_EACH programs."""
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
        if PROGRAMS in plan.kinds:
            for other in range(number * PROGRAMS_EACH, (number + 1) * PROGRAMS_EACH):
                if left > 0:
                    unit = _program(plan, other)
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
    """The number of conversions in a unit."""
    if unit.kind == REGIONS:
        return conversions_of(unit.programs)
    if unit.kind == PROGRAMS:
        return write(unit.programs[0]).conversions
    return len(unit.programs)


def _program(plan: FuzzPlan, number: int) -> Unit:
    rng = random.Random(f"{plan.seed} {PROGRAMS} {plan.target} {number}")
    return Unit(PROGRAMS, number, plan.seed, (draw_program(rng, plan.target),), options=plan.options)


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
    in_cluster = number % CLUSTERED == CLUSTERED - 1 and has_clusters(target)
    ctas = rng.choice(CTAS) if in_cluster and installed_release() in CLUSTERS_ORDERED else 1
    return Unit(PARTITIONS, number, plan.seed, tuple(draw_partitions(rng, target, most, ctas)))


def has_clusters(target: Target) -> bool:
    """True if CTAs of a GPU may be in clusters."""
    return target.vendor == "nvidia" and int(target.name.removeprefix("cuda:")) >= FIRST_WITH_CLUSTERS


def _singles(plan: FuzzPlan, number: int, most: int, kind: str = SINGLES) -> Unit:
    target = target_called(plan.target)
    assembled = plan.assembly > 0 and number % plan.assembly == plan.assembly - 1
    rng = random.Random(f"{plan.seed} {kind} {target.name} {number}")
    ctas = rng.choice(CTAS) if kind == CLUSTERS else 1
    warps, drawn = pairs.draw_pairs(rng, target, min(pairs.PAIRS_PER_MODULE, most), assembled, ctas)
    singles = tuple(pairs.as_program(pair, warps, target.name, ctas=ctas) for pair in drawn)
    return Unit(kind, number, plan.seed, singles, assembled)


def examine(unit: Unit) -> Totals:
    """Run a unit in this process. It raises, crashes or hangs if Triton or the interpreter does."""
    if unit.kind == PROGRAMS:
        return examine_program(unit.programs[0], unit.name, unit.options)
    if unit.kind == PARTITIONS:
        return examine_partitions(unit.programs, target_called(unit.target).lanes, unit.name)
    if unit.kind == REGIONS:
        return examine_regions(unit.programs, target_called(unit.target).lanes, unit.name, unit.options)
    return pairs.examine_pairs(unit.programs, target_called(unit.target).lanes, unit.assembled, unit.name)


def stock(unit: Unit) -> Totals:
    """The same with stock Triton: programs are compiled and run, single conversions are only compiled."""
    if unit.kind == PROGRAMS:
        return examine_program(unit.programs[0], unit.name, None)
    if unit.kind == PARTITIONS:
        return examine_partitions(unit.programs, target_called(unit.target).lanes, unit.name, None)
    if unit.kind == REGIONS:
        return examine_regions(unit.programs, target_called(unit.target).lanes, unit.name, None)
    lower(to_triton(unit.text()), unit.target, pairs.last_stage(unit.target, unit.assembled))
    return Totals()


class Caller(Protocol):
    """Calls a function with a unit, maybe in another process."""

    def __call__(self, function: Callable[[Unit], Any], unit: Unit) -> Any | Lost: ...


def in_this_process(function: Callable[[Unit], Any], unit: Unit) -> Any | Lost:
    """Call the function in this process. For tests: a crash ends the process, but their patches are in
    effect.
    """
    try:
        return function(unit)
    except (ToolError, ValueError, RuntimeError) as error:
        return Lost(f"{type(error).__name__}: {error}")


class InProcesses:
    """Makes each call in its own process."""

    def __init__(self, seconds: int = SECONDS) -> None:
        self._isolations: dict[Callable[[Unit], Any], Isolation[Totals]] = {
            function: Isolation(function, MODULES, seconds, MEMORY) for function in (examine, stock)
        }

    def __call__(self, function: Callable[[Unit], Any], unit: Unit) -> Any | Lost:
        return self._isolations[function].call(unit)


def outcome(unit: Unit, call: Caller) -> Totals:
    """The totals of a unit. If it fails or its process dies, stock Triton is tried too, to know who is
    responsible.
    """
    found = call(examine, unit)
    if isinstance(found, Totals) and (unit.kind not in OF_STEPS or found.ok):
        return found
    if len(unit.programs) > 1:
        # Find out which of them failed.
        totals = Totals()
        for program in unit.programs:
            totals.add(outcome(replace(unit, programs=(program,)), call))
        return totals
    program = unit.programs[0]
    alone = call(stock, unit)
    if unit.kind in OF_STEPS and (isinstance(alone, Lost) or not alone.ok):
        # Code that is not ours fails, so the result says nothing about ours.
        return Totals(modules=1, programs=1, stock=Counter([_stock_fails(alone)]))
    if isinstance(found, Totals):
        return found
    if unit.assembled and isinstance(alone, Lost):
        # LLVM cannot assemble the module even from stock Triton; check the stages before.
        totals = outcome(replace(unit, assembled=False), call)
        totals.stock[f"not assembled: {_stock_fails(alone)}"] += 1
        return totals
    stock_result = "stock Triton alone does not"
    if isinstance(alone, Lost):
        stock_result = f"stock Triton alone fails too: {alone.reason}"
    totals = Totals(modules=1, programs=int(unit.kind in OF_STEPS), conversions=conversions(unit), broken=1)
    what = title(program) if unit.kind in OF_STEPS else pairs.title(program)
    totals.fail(failure_kind(found), f"{what}: {found.reason}; {stock_result}", program)
    return totals


def _stock_fails(alone: Totals | Lost) -> str:
    """How stock Triton fails, without names and numbers of the unit."""
    if isinstance(alone, Totals):
        return f"is {alone.failures[0].kind}"
    return re.sub(r"\S+\.ttgir:\d+:\d+: |/proc/\S+ |\d+:\d+", "", alone.reason)[:120]


def failure_kind(lost: Lost) -> str:
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
    """Run all units of all plans; return the totals by target. No unit is started after `seconds`.

    jobs: the number of processes at a time; 0: this process. advance: called after each unit with its target
    and number of conversions. save: a folder for the modules.
    """
    for plan in plans:
        check_target(plan.target)
    start = time.monotonic()
    call: Caller = InProcesses() if jobs else in_this_process
    totals = {plan.target: Totals() for plan in plans}
    # Targets alternate, so that each has its share when time runs out.
    streams = [units(plan) for plan in plans]
    turns = (unit for round_ in itertools.zip_longest(*streams) for unit in round_ if unit is not None)

    def done(unit: Unit, found: Totals) -> None:
        totals[unit.target].add(found)
        advance(unit.target, conversions(unit))

    def timely() -> Iterator[Unit]:
        for unit in turns:
            if seconds is not None and time.monotonic() - start >= seconds:
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
        # Failures are listed in the order of the units, not in the order in which they finish.
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
