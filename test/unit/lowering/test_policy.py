"""Thresholds: all are fields of `Policy`, and those that no module of ours shows decide what they say."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from triton_linear.dialect.encodings import layout_of
from triton_linear.lowering.emit.scratch import Home, ScratchUse, arrange
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.policy import FAMILIES, Policy, thresholds
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import TARGETS, Target, target

ROOT = Path(__file__).resolve().parents[3]
ROOMS = (
    "passes/assignment",
    "passes/analysis",
    "passes/reductions",
    "passes/widening",
    "passes/conversions",
    "lowering/planners",
    "plugin/ptxas",
)
ELSEWHERE = {
    "assignment/assign.py": {"_EQUAL"},
    "assignment/costs.py": {"INFINITE", "_UNKNOWN"},
    "assignment/explain.py": {"_CANDIDATES_SHOWN", "_LEAST_CLOCKS"},
    "assignment/solve.py": {"MOST_ENTRIES"},
    "analysis/accumulators.py": {"_WORD"},
    "analysis/addressing.py": {"MAX_DIVISOR"},
    "analysis/axis_hints.py": {"MOST"},
    "analysis/flow.py": {"BOUNDS"},
    "analysis/global_memory.py": {"LEAST_LINE_BYTES", "SECTOR"},
    "analysis/influence.py": {"_EXCHANGE"},
    "analysis/registers.py": {"BESIDE", "_PREDICATE", "_WORD"},
    "analysis/residency.py": {"_WARP_GROUP"},
    "analysis/shared_memory.py": {"LEAST_COPY", "_WORD"},
    "planners/shared_access.py": {"_ROW_BYTES", "_LANE_BITS", "_WORD"},
    "analysis/widths.py": {"VECTOR"},
    "reductions/costs.py": {"_VECTOR", "_LEAST_ROUND"},
    "planners/transposing.py": {"WORD"},
    "widening/claims.py": {"MOST_DIVISOR"},
    "planners/bound.py": {"_LEAST_IN_ROWS"},
    "ptxas/cubin.py": {"_SIZED"},
    "ptxas/occupancy.py": {"MORE", "UNIT", "_TENSOR_COLUMNS", "_WORD"},
}
"""Numbers that have names: of hardware and encodings, prices, lower bounds with proof, and what is shown."""
H200 = target("cuda:90")


def test_fields_are_few_and_each_has_a_unit_and_a_neutral_value() -> None:
    known = thresholds()
    assert len(known) <= 20
    assert list(known) == [entry.name for entry in fields(Policy)]
    assert all(threshold.unit for threshold in known.values())


@pytest.mark.parametrize("gpu", TARGETS.values(), ids=TARGETS)
def test_more_must_be_saved_where_clocks_were_not_measured(gpu: Target) -> None:
    measured = FAMILIES["NVIDIA"]
    assert bool(gpu.measured) == (gpu.name == "cuda:90")
    assert (gpu.policy.margin > measured.margin) == (not gpu.measured)


def _is_number(value: ast.expr | None) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def test_no_number_with_a_name_decides_elsewhere() -> None:
    found: dict[str, set[str]] = {}
    for path in (path for room in ROOMS for path in (ROOT / room).glob("*.py")):
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_number(statement.value):
                goals = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = {goal.id for goal in goals if isinstance(goal, ast.Name)}
                found.setdefault(f"{path.parent.name}/{path.name}", set()).update(names)
    assert found == ELSEWHERE


def _rows(rows: int, size: int, each: int, lanes: tuple[int, int]) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [1, {each}], threadsPerWarp = {list(lanes)}, warpsPerCTA = [1, 1], "
        "order = [1, 0]}>"
    )


def test_conversions_of_too_many_registers_are_left_to_triton() -> None:
    sides = [layout_of(_rows(32, 16384, 1, lanes), (32, 16384)) for lanes in ((32, 1), (16, 2))]
    (rejected,) = select(*sides, element_type("i8"), Situation.on(H200)).rejected
    assert "8192 at most" in str(rejected)


def test_scratch_of_many_exchanges_is_arranged_simply() -> None:
    """There is room for the first beside the second, not for all three."""
    uses = [
        ScratchUse(10 * at, 10 * at + 1, 100, 6, size, False, False)
        for at, size in ((1, 100), (2, 10), (3, 100))
    ]
    assert arrange(uses, 1, 111, pieces=3)[0] == (Home(21), Home(31), Home(31))
    assert arrange(uses, 1, 111, pieces=2)[0] == (Home(11), Home(21), Home(31))
