"""`python -m bench.fuzz --only regions`: programs in warp-specialised regions, and mistakes to be found."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz_support import inside_warps
from scope_kernels import blocked

from bench.fuzz import evaluate
from bench.fuzz.program import Add, Convert, Loop, Program
from bench.fuzz.regions import conversions_of, examine_regions, regions_text
from bench.fuzz.run import REGIONS, FuzzPlan, Unit, conversions, examine, fuzz, stock, units
from bench.whole_kernels import LOWERING, lower_kernel
from triton_linear.lowering.emit.calls import CallWriter
from triton_linear.passes.assignment import assign as assignment
from triton_linear.passes.assignment import scopes
from triton_linear.tools.support.compile import DEFAULTS
from triton_linear.tools.support.errors import ToolError


def back_and_forth(warps: int, region: int) -> Program:
    """Sums between conversions that undo each other, in a loop."""
    rows, columns = (blocked(warps, (), rows_first) for rows_first in (True, False))
    steps = (Convert(columns), Add(3), Convert(rows), Add(5))
    return Program(
        "cuda:90", warps, (32, 32), "i32", rows, (Loop("for", 2, rows, steps), Convert(columns)), region
    )


LANES = 32
SIDES = [back_and_forth(4, 0), back_and_forth(1, 1), back_and_forth(8, 2)]


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
    assert totals.kinds == {"warp-shared": 6} and set(owned) == {None, 0, 1}


@pytest.mark.parametrize("gpu", ["cuda:90", "cuda:100"])
def test_drawn_modules_are_right_and_get_other_layouts(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[str] = []
    run = assignment.Rewriter.run

    def noted(self: Any) -> None:
        assigned.append(self.graph)
        run(self)

    monkeypatch.setattr(assignment.Rewriter, "run", noted)
    totals = fuzz([FuzzPlan(gpu, 5, 50, kinds=(REGIONS,))], 0)[gpu]
    assert totals.ok, totals.failures[:2]
    assert totals.conversions >= 50 and len(assigned) > totals.modules // 2
    assert {"Convert", "Reduce", "Shared", "Loop", "Transposed"} <= set(totals.steps)


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
