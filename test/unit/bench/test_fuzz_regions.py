"""`python -m bench.fuzz --only regions`: programs in warp-specialised regions, and mistakes to be found."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cluster_marks import ordered
from scope_kernels import blocked

from bench.fuzz import evaluate
from bench.fuzz.partitions import given_lines, module_of_regions, sink_lines
from bench.fuzz.program import Add, Convert, Loop, Program
from bench.fuzz.regions import conversions_of, examine_regions, regions_text
from bench.fuzz.run import REGIONS, FuzzPlan, Unit, conversions, examine, fuzz, stock, units
from bench.whole_kernels import LOWERING, lower_kernel
from triton_linear.lowering.emit import scratch
from triton_linear.lowering.emit.calls import CallWriter
from triton_linear.lowering.emit.turns import Order, Turn
from triton_linear.lowering.interpreter.warps import simulate_warps
from triton_linear.passes.assignment import assign as assignment
from triton_linear.passes.assignment import scopes
from triton_linear.tools.support.compile import DEFAULTS, compile_text
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.verify.command import check


def back_and_forth(warps: int, region: int) -> Program:
    """Sums between conversions that undo each other, in a loop."""
    rows, columns = (blocked(warps, (), rows_first) for rows_first in (True, False))
    steps = (Convert(columns), Add(3), Convert(rows), Add(5))
    return Program(
        "cuda:90", warps, (32, 32), "i32", rows, (Loop("for", 2, rows, steps), Convert(columns)), region
    )


LANES = 32
SIDES = [back_and_forth(4, 0), back_and_forth(1, 1), back_and_forth(8, 2)]


def inside_warps(warps: int, region: int) -> Program:
    """Sums between exchanges inside the warps, in a loop."""
    low, high = [[1 << n] for n in range(5)], [[32 << n] for n in range(5)]
    own = [[1024 << n] for n in range(warps.bit_length() - 1)]
    rows, columns = (
        f"#ttg.linear<{{register = {registers}, lane = {lanes}, warp = {own}, block = []}}>"
        for registers, lanes in ((low, high), (high, low))
    )
    steps = (Convert(columns), Add(3), Convert(rows), Add(5))
    loop = Loop("for", 3, rows, steps)
    return Program("cuda:90", warps, (1024 * warps,), "i32", rows, (loop, Convert(columns)), region)


def test_regions_share_no_buffer_of_the_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges inside warps in loops have one in each region; each register is compared, and no warp races."""
    owned: list[int | None] = []
    make = CallWriter.make_own

    def noted(self: CallWriter, own: Any) -> str:
        owned.append(own.partition)
        return make(self, own)

    monkeypatch.setattr(CallWriter, "make_own", noted)
    programs = [inside_warps(4, 0), inside_warps(1, 1), inside_warps(8, 2)]
    totals = examine_regions(programs, LANES, "sides.ttgir", LOWERING)
    assert totals.ok, totals.failures
    assert totals.kinds == {"warp-shared": 9} and set(owned) == {None, 0, 1}


def across_ctas(region: int, exchanges: int = 2) -> Program:
    """Sums between two or three exchanges of two CTAs, in a loop, and one behind it; or that one alone."""
    rows, columns = (
        f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, "
        f"order = {order}, CGALayout = [{ctas}]}}>"
        for sizes, lanes, warps, order, ctas in (
            ([1, 4], [8, 4], [4, 1], [1, 0], [1, 0]),
            ([4, 1], [4, 8], [1, 4], [0, 1], [0, 1]),
        )
    )
    halves = (
        "#ttg.linear<{register = [[0, 1], [0, 2], [32, 0]], lane = [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]], "
        "warp = [[4, 0], [8, 0]], block = [[16, 0]]}>"
    )
    more = (Convert(halves), Add(7)) if exchanges > 2 else ()
    loop = Loop("for", 3, rows, (Convert(columns), Add(3), *more, Convert(rows), Add(5)))
    steps = (loop, Convert(columns)) if exchanges > 1 else (Convert(columns),)
    return Program("cuda:90", 4, (64, 32), "i32", rows, steps, region, 2)


@ordered
def test_exchanges_of_a_region_take_turns() -> None:
    """Those in a loop wait for the other CTAs once each, and the region once more at its end."""
    programs = [across_ctas(0, exchanges=1), across_ctas(1), across_ctas(2, exchanges=3)]
    kernel = lower_kernel(regions_text(programs), "turns.ttgir", "cuda:90", LOWERING)
    # Of region 0 before and behind the loads. Those of region 2 alternate, as their number in the loop is odd.
    assert kernel.text.count("mbarrier.try_wait") == 2 + (2 + 1 + 1) + (3 + 1 + 1)
    totals = examine_regions(programs, LANES, "turns.ttgir", LOWERING)
    assert totals.ok, totals.failures
    assert totals.kinds == {"cluster-shared": 8}
    compilation = compile_text(regions_text(programs), "turns.ttgir", "cuda:90", "llvm", LOWERING)
    assert all(found.ok for found in check(compilation))


@ordered
def test_exchanges_with_turns_and_without_are_verified() -> None:
    """The same conversion in a region that takes turns, and alone in another one."""
    programs = [across_ctas(1), across_ctas(2, exchanges=1)]
    compilation = compile_text(regions_text(programs), "turns.ttgir", "cuda:90", "llvm", LOWERING)
    assert [found.ok for found in check(compilation)] == [True] * 4


@ordered
def test_ends_of_regions_that_are_alike_stay_apart() -> None:
    """In one block the number of the barrier, which is another one in each, would be in a register."""
    regions = (1, 2)
    sides = [across_ctas(region, exchanges=1) for region in regions]
    lines = []
    for region, side in zip(regions, sides, strict=True):
        (convert,) = side.steps
        assert isinstance(convert, Convert)
        types = f"{side.type(side.source)} -> {side.type(convert.encoding)}"
        exchanges = [
            [
                *given_lines(number, side),
                f"%y{number} = ttg.convert_layout %x{number} : {types}",
                *sink_lines(number, side, f"%y{number}", convert.encoding),
            ]
            for number in range(10 * region, 10 * region + 3)
        ]
        constants = [f"%c{region}{n} = arith.constant {n} : i32" for n in range(3)]
        loop = f"scf.for %i{region} = %c{region}0 to %c{region}2 step %c{region}1 : i32 {{"
        lines.append([*constants, *exchanges[0], loop, *exchanges[1], *exchanges[2], "}"])
    text = module_of_regions(sides, lines)
    (made,) = compile_text(text, "ends.ttgir", "cuda:90", "ptx", LOWERING).kernels
    assert re.search(r"bar\.sync\s+3, 128;", made.lowered.text("ptx"))
    assert not re.search(r"bar\.sync\s+%r", made.lowered.text("ptx"))


@ordered
@pytest.mark.parametrize("exchanges", [2, 3])
def test_regions_in_loops_take_turns(exchanges: int) -> None:
    """A region waits at its end in each iteration of the loop around it."""
    text = regions_text([across_ctas(1, exchanges)])
    before, opening, rest = text.partition("    ttg.warp_specialize()")
    loop = "".join(
        (
            *(f"    %c{n} = arith.constant {n} : i32\n" for n in range(3)),
            "    scf.for %again = %c0 to %c2 step %c1 : i32 {\n",
        )
    )
    text = before + loop + opening + rest.replace("    tt.return", "    }\n    tt.return")
    assert all(found.ok for found in check(compile_text(text, "loop.ttgir", "cuda:90", "llvm", LOWERING)))
    kernel = lower_kernel(text, "loop.ttgir", "cuda:90", LOWERING)
    given = {"0": [np.zeros((1, 256), np.uint64)] * 16}
    assert not simulate_warps(kernel.text, kernel.name, given, kernel.target, ctas=2).races


@ordered
def test_an_end_that_one_of_two_regions_does_not_wait_at_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    endings = iter(["", None])
    ending = CallWriter.ending
    monkeypatch.setattr(
        CallWriter, "ending", lambda self, *at: ending(self, *at) if next(endings) is None else ""
    )
    programs = [across_ctas(1), across_ctas(2)]
    compilation = compile_text(regions_text(programs), "turns.ttgir", "cuda:90", "llvm", LOWERING)
    assert not all(found.ok for found in check(compilation))


@ordered
@pytest.mark.parametrize("change", [{"closes": False, "piece": 0}, {"piece": 1, "closes": False}])
def test_wrong_turns_in_a_region_are_found(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    right = scratch.turns

    def wrong(order: Order) -> dict[int, Turn]:
        return {number: replace(turn, **change) for number, turn in right(order).items()}

    monkeypatch.setattr(scratch, "turns", wrong)
    programs = [across_ctas(0, exchanges=1), across_ctas(1)]
    assert examine_regions(programs, LANES, "turns.ttgir", LOWERING).races
    compilation = compile_text(regions_text(programs), "turns.ttgir", "cuda:90", "llvm", LOWERING)
    assert not all(found.ok for found in check(compilation))


@ordered
@pytest.mark.parametrize("waits", [True, False])
def test_a_region_waits_at_its_end_for_the_loads_of_others(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange behind the regions may have the same bytes."""
    if not waits:
        monkeypatch.setattr(CallWriter, "ending", lambda self, partition=None: "")
    inside, behind = across_ctas(1), across_ctas(0, exchanges=1)
    (convert,) = behind.steps
    assert isinstance(convert, Convert)
    types = f"{behind.type(behind.source)} -> {behind.type(convert.encoding)}"
    lines = [
        *given_lines(1, behind),
        f"%y1 = ttg.convert_layout %x1 : {types}",
        *sink_lines(1, behind, "%y1", convert.encoding),
    ]
    text = regions_text([inside]).replace("    tt.return", "\n".join((*lines, "    tt.return")))
    kernel = lower_kernel(text, "behind.ttgir", "cuda:90", LOWERING)
    given = {str(n): [np.zeros((1, 256), np.uint64)] * 8 for n in (0, 1)}
    outcome = simulate_warps(kernel.text, kernel.name, given, kernel.target, ctas=2)
    assert bool(outcome.races) is not waits


@pytest.mark.parametrize("gpu", ["cuda:90", "cuda:100"])
def test_drawn_modules_are_right(gpu: str) -> None:
    totals = fuzz([FuzzPlan(gpu, 5, 50, kinds=(REGIONS,))], 0)[gpu]
    assert totals.ok, totals.failures[:2]
    assert totals.conversions >= 50
    assert {"Convert", "Reduce", "Shared", "Loop", "Transposed"} <= set(totals.steps)


def test_layouts_are_assigned_in_drawn_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[str] = []
    run = assignment.Rewriter.run

    def noted(self: Any) -> None:
        assigned.append(self.graph)
        run(self)

    monkeypatch.setattr(assignment.Rewriter, "run", noted)
    drawn = list(units(FuzzPlan("cuda:90", 5, 50, kinds=(REGIONS,))))
    for unit in drawn:
        assert examine(unit).ok
    assert len(assigned) > len(drawn) // 2


def test_programs_of_three_regions_lose_what_undoes_itself() -> None:
    """Of three conversions in each region one is left; each register is compared, and no warp races."""
    assert conversions_of(SIDES) == conversions(Unit(REGIONS, 0, 0, tuple(SIDES))) == 9
    kernel = lower_kernel(regions_text(SIDES), "sides.ttgir", "cuda:90", DEFAULTS)
    assert len(kernel.conversions) == 3
    totals = examine_regions(SIDES, LANES, "sides.ttgir")
    assert totals.ok, totals.failures
    assert stock(Unit(REGIONS, 0, 0, tuple(SIDES))).ok


def test_a_region_with_the_warps_of_the_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layouts are then looked for that have too many warps, or too few, and Triton refuses the module."""
    monkeypatch.setattr(scopes, "warps_of_partitions", lambda op: [4, 4, 4])
    with pytest.raises(ToolError):
        for unit in units(FuzzPlan("cuda:90", 5, 120, kinds=(REGIONS,))):
            examine(unit)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_region_that_computes_something_else_is_found(where: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = evaluate._Evaluation.steps
    asked = iter(range(len(SIDES)))

    def wrong(self: Any, steps: Any, x: Any, iteration: Any) -> Any:
        found = run(self, steps, x, iteration)
        return found + 1 if steps in [side.steps for side in SIDES] and next(asked) == where else found

    monkeypatch.setattr(evaluate._Evaluation, "steps", wrong)
    totals = examine_regions(SIDES, LANES, "sides.ttgir")
    assert totals.wrong == 1
    assert f"region {where}" in totals.failures[0].message


def test_no_regions_are_drawn_for_amd() -> None:
    with pytest.raises(ToolError, match="has no warp-specialised regions"):
        list(units(FuzzPlan("hip:gfx942", 0, 10, kinds=(REGIONS,))))
