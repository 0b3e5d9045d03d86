"""Stubs whose plans are to take less scratch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from triton_linear.dialect import bridge
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import SharedPlan, Stub
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.conversions.stubs import stubs_of, with_limit
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.run import run_passes

CUDA = target("cuda:90")
ROWS = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = (
    "#ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
)
SHAPE = (128, 64)


def stub(element: str = "f32") -> Stub:
    source, destination = (layout_of(text, SHAPE) for text in (ROWS, COLUMNS))
    type_ = element_type(element)
    plan = select(source, destination, type_, Situation.on(CUDA)).plan
    assert isinstance(plan, SharedPlan)
    return Stub("stub", source, destination, type_, plan)


def test_less_scratch_is_taken_where_there_is_less() -> None:
    found = stub()
    smaller = with_limit(found, Situation.on(CUDA, 0), all_warps=True)
    assert 0 < smaller.plan.scratch_bytes < found.plan.scratch_bytes
    assert with_limit(smaller, Situation.on(CUDA, 0), all_warps=True) is smaller
    assert with_limit(found, Situation.on(CUDA, found.plan.scratch_bytes), all_warps=True) is found


def test_a_barrier_of_all_warps_comes_only_where_there_may_be_one() -> None:
    found = stub()
    assert isinstance(found.plan, SharedPlan) and found.plan.scope == "cta"
    inside = replace(found, plan=replace(found.plan, scope="warp"))
    assert with_limit(inside, Situation.on(CUDA, 0), all_warps=False) is inside
    assert with_limit(found, Situation.on(CUDA, 0), all_warps=False) is not found


@pytest.mark.parametrize("element", ["i8", "f16"])
def test_plans_of_other_elements_shrink_too(element: str) -> None:
    found = stub(element)
    assert (
        with_limit(found, Situation.on(CUDA, 0), all_warps=True).plan.scratch_bytes <= found.plan.scratch_bytes
    )


SIDES = (
    "#ttg.linear<{register = [[0, 32], [8, 0], [16, 0], [0, 64], [0, 1], [0, 128], [1, 0]], "
    "lane = [[4, 0], [0, 2], [0, 16], [2, 0], [0, 4]], warp = [[32, 0], [0, 8]], block = []}>",
    "#ttg.linear<{register = [[0, 32], [2, 0], [16, 0], [0, 2], [0, 1], [0, 128], [1, 0]], "
    "lane = [[8, 0], [0, 4], [0, 64], [0, 16], [4, 0]], warp = [[32, 0], [0, 8]], block = []}>",
)
WIDE = f"tensor<64x512xf32, {SIDES[0]}>"
"""A thread holds 256 registers of it, so that conversions are priced for the warps of one CTA."""


def test_a_stub_from_a_file_has_the_plan_that_was_priced_for_few_warps() -> None:
    types = [f"tensor<64x256xi8, {layout}>" for layout in SIDES]
    text = (
        'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {\n'
        f"tt.func public @kernel(%x: {types[0]}, %w: {WIDE}) -> {types[1]} {{\n"
        f"%z = arith.addf %w, %w : {WIDE}\n"
        f"%y = ttg.convert_layout %x : {types[0]} -> {types[1]}\ntt.return %y : {types[1]}\n}}\n}}\n"
    )
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")
    run = run_passes(module, [SelectLowering("cuda:90"), OutlineConversions()])
    assert run.succeeded
    (planned,) = run.plans.stubs.values()
    priced = select(planned.source, planned.destination, planned.element, Situation.on(CUDA)).plan
    assert priced is not None and priced.kind != planned.plan.kind
    (again,) = stubs_of(operations(module.operation), CUDA, Plans()).values()
    assert again.plan.kind == planned.plan.kind
