"""Axes that dots contract, in another order: what is found and what is left; wrong rewritings are caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import triton
from assign_support import DATA, path_of
from bridge_kernels import TARGETS
from triton.backends.compiler import GPUTarget
from wrong_orders import WRONG_ORDERS

import triton_linear
from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.plan.plans import RegisterPlan
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.contraction import rewrite
from triton_linear.passes.contraction.contract import PermuteContraction, contracted
from triton_linear.passes.framework.layouts import LayoutTable, element_of
from triton_linear.passes.framework.run import PipelineRun, run_passes
from triton_linear.report import Outcome

pytestmark = pytest.mark.usefixtures("fresh")

FOUND = ("ampere", "gfx942_causal", "gfx950", "hopper_causal", "running_sum", "attention_fp8")
LEFT = ("running_sum_transposed", "attention", "chained_dot", "matmul_mixed")


def upstream(name: str, change: Callable[[str], str] = lambda text: text) -> Module:
    path = path_of(name)
    return bridge.text_to_upstream(change(path.read_text()), bridge.upstream_context(), path.name)


def permuted(module: Module) -> PipelineRun:
    return run_passes(module, [PermuteContraction()], verify=True)


def crossing(module: Module) -> list[str]:
    """The kinds of the conversions before dots that move elements between threads."""
    table = LayoutTable()
    kinds = []
    gpu = target(module.operation.attributes["ttg.target"].value)
    for op in contracted(operations(module.operation)):
        source, wanted = (table.of(value.type) for value in (op.operands[0], op.results[0]))
        plan = select(source, wanted, element_of(op.operands[0].type), Situation.on(gpu)).plan  # type: ignore[arg-type]
        if not isinstance(plan, RegisterPlan):
            kinds.append(plan.kind if plan is not None else "none")
    return kinds


@pytest.mark.parametrize("name", FOUND)
def test_no_element_leaves_its_thread_any_more(name: str) -> None:
    module = upstream(name)
    before = crossing(module)
    outcome = permuted(module)
    assert outcome.succeeded, outcome.diagnostics
    assert before
    assert not crossing(module)
    assert ll.PERMUTED in module.operation.attributes
    assert "is put in another order" in outcome.diagnostics[0].message
    assert run_passes(module, ["canonicalize"], verify=True).succeeded


@pytest.mark.parametrize("name", ["ampere", "gfx950", "attention_fp8"])
def test_triton_takes_the_module(name: str) -> None:
    """And compiles it, with whatever else is decided about it; strict mode raises where anything is amiss."""
    path = path_of(name)
    targets = {**TARGETS, "cuda:89": GPUTarget("cuda", 89, 32)}
    gpu = next(gpu for name, gpu in targets.items() if f'"{name}"' in path.read_text())
    # Registers are another matter: for cuda:80 one spills more than stock Triton's and would give way to it.
    with triton_linear.enabled(strict=True, occupancy=False) as reports:
        triton.compile(str(path), target=gpu)
    assert reports[-1].outcome is Outcome.CONVERTED


@pytest.mark.parametrize("name", LEFT)
def test_modules_that_gain_nothing_stay_as_they_are(name: str) -> None:
    module = upstream(name)
    before = str(module)
    assert permuted(module).succeeded
    assert str(module) == before


def test_what_comes_after_finds_nothing_to_undo() -> None:
    module = upstream("attention_fp8")
    assert permuted(module).succeeded
    assert run_passes(module, [AssignLayouts()]).succeeded
    assert not crossing(module)


def test_rows_that_are_loaded_along_vectors_keep_their_order() -> None:
    outcome = permuted(upstream("running_sum_transposed"))
    (remark,) = outcome.diagnostics
    assert "before it 'tt.scan' needs the order" in remark.message
    assert (
        "behind it the vectors that 'ttg.async_copy_global_to_local' says it has would be others"
        in remark.message
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("= arith.maxnumf", "= arith.subf", "'tt.reduce' needs the order"),
        ("{end = 64 : i32, start = 0 : i32}", "{end = 128 : i32, start = 64 : i32}", "does not begin at zero"),
    ],
)
def test_what_needs_its_order_keeps_it(old: str, new: str, why: str) -> None:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    module = upstream("hopper_causal", change)
    before = str(module)
    outcome = permuted(module)
    assert outcome.succeeded
    assert why in outcome.diagnostics[0].message
    assert str(module) == before


TWIN = rewrite.Permuter._make_twin


def _another_value(self: rewrite.Permuter, value: Any) -> Any:
    made = TWIN(self, value)
    op = made.owner
    if op.name == "arith.muli":
        op.operands[1] = op.operands[0]
    return made


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [*WRONG_ORDERS, (rewrite.Permuter, "_make_twin", _another_value)],
)
@pytest.mark.parametrize("module", ["ampere", "gfx942_causal"])
def test_a_wrong_rewriting_is_caught(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, wrong: Any, module: str
) -> None:
    monkeypatch.setattr(place, name, wrong)
    outcome = permuted(upstream(module))
    assert not outcome.succeeded
    assert "NotEquivalent" in outcome.diagnostics[-1].message


def test_the_data_is_what_the_tests_take_it_for() -> None:
    assert {path.stem for path in (DATA / "attention").iterdir()} <= {*FOUND, *LEFT}
