"""Choices that measurements decided: each fails where the rule behind it is taken away."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from assign_support import path_of
from plan_cases import blocked

from triton_linear.dialect import bridge
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
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.framework.run import run_passes

GPU = "cuda:90"


def test_banks_come_in_the_order_of_the_threads_bits() -> None:
    """Warps alone hold different elements; by themselves banks come as the algebra leaves them."""
    warps = (8, 4, 2)
    loads = Side((1,), tuple(reversed(warps)), 5)
    found = optimal_swizzle((), warps, Side((), (), 5), loads, 0, (*warps, 1))
    assert (found.low, found.bank) == ((1,), warps)


def test_instructions_of_a_conversion_are_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention keeps fewer instructions by shared memory, if shuffles cost something before they run."""

    def kinds() -> Counter[str]:
        root = bridge.text_to_upstream(path_of("attention").read_text(), bridge.upstream_context())
        done = run_passes(root, [AssignLayouts(GPU), SelectLowering(GPU)])
        assert done.succeeded
        return Counter(selection.plan.kind for selection in done.plans.selections.values())

    gpu = target(GPU)
    fetched = kinds()
    monkeypatch.setitem(TARGETS, gpu.name, with_policy(gpu, fetch_clocks=0.0))
    free = kinds()
    print(fetched, free)
    assert fetched["shuffle"] < free["shuffle"]


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
        assert costs._fetching(*given) == cost.shuffles + cost.alu + accesses > 0
