"""What spares planning changes no plan: the least cost of each way to convert is below that of its plan, and
near it where only shared memory serves; the best of all plans is selected although some are not made; of
exchanges the first of the cheapest is found."""

import functools
import statistics

import pytest

from bench.fuzz.pairs import drawn_layout
from bench.stock import random_pairs
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.bound import BoundedSide, least_cost, relation
from triton_linear.lowering.planners.conversion import Hardware, between, reach_between
from triton_linear.lowering.planners.exchange import cheapest, exchange_plans, work_of_exchange
from triton_linear.lowering.planners.placement import Exchange
from triton_linear.lowering.planners.select import candidates, select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target

TARGETS = ["cuda:80", "cuda:90", "hip:gfx942", "hip:gfx950"]


@functools.cache
def drawn(gpu):
    """Random conversions: source, destination, element."""
    return [
        (
            *(drawn_layout(pair, encoding) for encoding in (pair.source, pair.destination)),
            element_type(pair.element),
        )
        for _, pairs in random_pairs(11, 120, gpu.lanes)
        for pair in pairs
    ]


@pytest.mark.parametrize("name", TARGETS)
def test_no_plan_is_cheaper(name):
    gpu = target(name)
    shares = []
    for source, destination, element in drawn(gpu):
        selection = select(source, destination, element, Situation.on(gpu))
        least = least_cost(source, destination, element, gpu)
        for warps in (1, 4, 8, 32):
            found = selection.cost.expected(warps)
            assert least.expected(warps) <= found * (1 + 1e-9), (source, destination, element)
        if selection.plan.kind == "cta-shared":
            shares.append(least.expected(8) / selection.cost.expected(8))
    assert len(shares) > 20 and statistics.median(shares) > 0.6


@pytest.mark.parametrize("name", TARGETS)
def test_no_way_is_cheaper(name):
    gpu = target(name)
    compared = {"shuffle": [], "warp-shared": [], "cta-shared": []}
    for source, destination, element in drawn(gpu):
        least = least_cost(source, destination, element, gpu)
        for cost, plan in candidates(source, destination, element, Situation.on(gpu)):
            # Selects within threads are a plan of the planner of shuffles.
            kind = "shuffle" if plan.kind == "registers" and cost.clocks else plan.kind
            if kind in compared and "registers" not in least.by_planner:
                for warps in (1, 8, 32):
                    assert least.by_planner[kind].expected(warps) <= cost.expected(warps) * (1 + 1e-9)
                compared[kind].append(least.by_planner[kind].expected(8) / cost.expected(8))
    # What lanes exchange without the crossbar takes almost nothing at best, and much with copies.
    near = 0.3 if name == "hip:gfx942" else 0.15 if gpu.vendor == "amd" else 0.5
    for kind, shares in compared.items():
        assert len(shares) > 20 and statistics.median(shares) > (near if kind == "shuffle" else 0.5), kind


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_not_planned_was_not_the_best(name):
    gpu = target(name)
    spared = 0
    for source, destination, element in drawn(gpu):
        selection = select(source, destination, element, Situation.on(gpu))
        spared += any(rejected.reason.startswith("at least") for rejected in selection.rejected)
        cost, plan = candidates(source, destination, element, Situation.on(gpu))[0]
        warps = Situation.on(gpu).busy(1 << source.in_dim_bits("warp"))
        if selection.plan != plan:
            assert selection.cost.expected(warps) <= cost.expected(warps)
    assert spared > 20


@pytest.mark.parametrize("name", TARGETS)
def test_reach_is_that_of_the_conversion(name):
    seen = set()
    for source, destination, _ in drawn(target(name)):
        sides = Hardware.of(source), Hardware.of(destination)
        seen.add(reach_between(*sides))
        assert reach_between(*sides) == between(*sides).reach
        assert relation(BoundedSide.of(source), BoundedSide.of(destination)).reach == reach_between(*sides)
    assert len(seen) == 3


@pytest.mark.parametrize("name", ["cuda:80", "cuda:90", "hip:gfx942"])
def test_the_exchange_chosen_is_the_first_of_the_cheapest(name):
    gpu = target(name)
    several = 0
    for source, destination, element in drawn(gpu):
        a, b = Hardware.of(source), Hardware.of(destination)
        exchange = Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
        plans = list(exchange_plans("cta", exchange, element, gpu, gpu.scratch_bytes))
        several += len(plans) > 1
        words = [{plan.load.matrix, plan.store.matrix} & {"ldmatrix", "stmatrix"} for plan in plans]
        clocks = [work_of_exchange(plan, gpu).clocks(gpu.costs) for plan in plans]
        best = plans[min(range(len(plans)), key=lambda number: (clocks[number], not words[number]))]
        assert cheapest(iter(plans), gpu) == (best, work_of_exchange(best, gpu))
        assert cheapest(iter(plans), gpu, min(clocks)) is None
        assert cheapest(iter(plans), gpu, min(clocks) * 1.001)[0] == best
    assert several or not gpu.load_matrix
