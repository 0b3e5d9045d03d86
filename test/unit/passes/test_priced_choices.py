"""Choices that measurements decided: each fails where the rule behind it is taken away."""

from __future__ import annotations

import re

import pytest
from assign_support import path_of
from plan_cases import blocked

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.encodings import layout_of
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.planners.swizzle import Side, optimal_swizzle
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import TARGETS, target, with_policy
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.assignment.costs import AssignmentCosts
from triton_linear.passes.framework.run import run_passes

GPU = "cuda:90"


def test_banks_come_in_the_order_of_the_threads_bits() -> None:
    """Warps alone hold different elements; by themselves banks come as the algebra leaves them."""
    warps = (8, 4, 2)
    loads = Side((1,), tuple(reversed(warps)), 5)
    found = optimal_swizzle((), warps, Side((), (), 5), loads, 0, (*warps, 1))
    assert (found.low, found.bank) == ((1,), warps)


def test_instructions_of_a_conversion_are_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matmul stores its result in Triton's layout, to which shared memory leads in few instructions. Another
    one is near by shuffles, in more: fewer clocks if these cost nothing before they run."""

    def layouts() -> bool:
        root = bridge.text_to_upstream(path_of("matmul_mixed").read_text(), bridge.upstream_context())
        assert run_passes(root, [AssignLayouts(GPU)]).succeeded
        return ll.ASSIGNED in root.operation.attributes

    gpu = target(GPU)
    assert not layouts()
    monkeypatch.setitem(TARGETS, gpu.name, with_policy(gpu, fetch_clocks=0.0))
    assert layouts()


def test_every_instruction_of_a_conversion_is_fetched() -> None:
    """Stores, loads and permutes of a plan through shared memory; shuffles and selects of one inside warps."""
    costs = AssignmentCosts(Situation.on(target(GPU)), 4)
    rows = layout_of(blocked([1, 8], [4, 8], [4, 1], [1, 0]), (64, 64))
    for columns, kind in (
        (blocked([8, 1], [8, 4], [1, 4], [0, 1]), "cta-shared"),
        (blocked([1, 4], [4, 8], [4, 1], [1, 0]), "shuffle"),
    ):
        given = layout_of(columns, (64, 64)), rows, element_type("f32")
        found = select(*given, costs.situation)
        cost, accesses = found.cost, 0
        assert found.plan is not None and found.plan.kind == kind
        if isinstance(found.plan, SharedPlan):
            text = emit(found.plan, given[2], costs.target)
            accesses = len(re.findall(r"llvm\.(?:load|store) |\b(?:ld|st)\.shared|(?:ld|st)matrix", text))
            assert accesses
        assert costs._fetching(*given) == cost.shuffles + cost.alu + cost.beside + accesses > 0
