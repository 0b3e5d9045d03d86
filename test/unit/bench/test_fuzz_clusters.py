"""`python -m bench.fuzz --only clusters`: single conversions and whole programs in clusters, and mistakes that
it must find."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cluster_marks import ordered
from fuzz_support import break_code

from bench.fuzz.examine import examine_program
from bench.fuzz.run import CLUSTERS, CTAS, PARTITIONS, PROGRAMS, FuzzPlan, examine, in_this_process, units
from bench.fuzz.totals import Totals
from triton_linear.lowering.emit import scratch
from triton_linear.lowering.emit.turns import Order, Turn
from triton_linear.tools.support.compile import DEFAULTS


@ordered
def test_the_fuzzer_draws_regions_in_clusters() -> None:
    plan = FuzzPlan("cuda:90", 0, 160, kinds=(PARTITIONS,))
    drawn = [unit for unit in units(plan) if unit.programs[0].ctas > 1]
    assert len({unit.programs[0].ctas for unit in drawn}) > 1
    found = in_this_process(examine, drawn[0])
    assert isinstance(found, Totals), found
    assert found.ok and found.conversions == len(drawn[0].programs)


def fuzzed(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str] = lambda code: code) -> Totals:
    """A module or two of conversions in clusters, with changed code."""
    break_code(monkeypatch, change)
    plan = FuzzPlan("cuda:90", 1, 32, kinds=(CLUSTERS,))
    totals = Totals()
    for unit in units(plan):
        assert {program.ctas for program in unit.programs} <= set(CTAS) - {1}
        found = in_this_process(examine, unit)
        assert isinstance(found, Totals), found
        totals.add(found)
    return totals


@ordered
def test_the_fuzzer_draws_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = fuzzed(monkeypatch)
    assert totals.ok and totals.conversions == 32
    assert totals.kinds["cluster-shared"] > 8


@ordered
def test_clusters_of_2_to_16_ctas_are_drawn_with_1_to_8_warps() -> None:
    plan = FuzzPlan("cuda:90", 0, 800, kinds=(CLUSTERS,))
    for kind in (CLUSTERS, PROGRAMS):
        drawn = [program for unit in units(plan) if unit.kind == kind for program in unit.programs]
        assert {program.ctas for program in drawn} == {2, 4, 8, 16}
        assert {program.warps for program in drawn} == {1, 2, 4, 8}


@ordered
@pytest.mark.parametrize(
    ("wrong", "right"),
    [(r"^ *nvvm\.cluster\.(arrive|wait).*\n", ""), (r"(= nvvm\.mapa %\w+, )%\w+", r"\1%__ll_none")],
)
def test_the_fuzzer_finds_mistakes(monkeypatch: pytest.MonkeyPatch, wrong: str, right: str) -> None:
    """A missing barrier of the cluster, and a rank that is always that of CTA 0."""

    def change(code: str) -> str:
        changed = re.sub(wrong, right, code, flags=re.MULTILINE)
        if "%__ll_none" not in changed:
            return changed
        name = "%__ll_none" + re.search(r"%__ll_(\d+)_", code)[1]  # type: ignore[index]
        zero = re.search(r"^.*llvm\.mlir\.constant.*\n", code, re.MULTILINE)
        assert zero is not None
        line = re.sub(r"%\w+ = llvm\.mlir\.constant\(-?\d+", f"{name} = llvm.mlir.constant(0", zero[0])
        return line + changed.replace("%__ll_none", name)

    totals = fuzzed(monkeypatch, change)
    assert not totals.ok
    assert (totals.races if right == "" else totals.wrong) > 4


def programs(count: int = 400) -> Totals:
    """Programs in clusters, each run as a whole by all CTAs."""
    totals = Totals()
    for unit in units(FuzzPlan("cuda:90", 3, count, kinds=(CLUSTERS,))):
        if unit.kind == PROGRAMS:
            found = in_this_process(examine, unit)
            assert isinstance(found, Totals), found
            totals.add(found)
    return totals


@ordered
def test_programs_of_exchanges_that_take_turns_are_right() -> None:
    totals = programs()
    assert totals.ok, totals.failures[:2]
    assert totals.kinds["cluster-shared"] > 10 and totals.steps["Loop"] > 1 and totals.steps["Branch"] > 0
    assert totals.kinds["gather-shared"] > 10
    assert totals.kinds["gather-shared"] + totals.kinds["gather"] == totals.steps["Gather"]


@ordered
@pytest.mark.parametrize("change", [{"closes": False}, {"piece": 0, "closes": False}])
def test_wrong_turns_in_programs_are_found(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    right = scratch.turns

    def wrong(order: Order) -> dict[int, Turn]:
        return {number: replace(turn, **change) for number, turn in right(order).items()}

    monkeypatch.setattr(scratch, "turns", wrong)
    assert programs(200).races


@ordered
@pytest.mark.parametrize(("target", "seed"), [("cuda:90", 8), ("cuda:100", 7), ("cuda:100", 9)])
def test_where_bits_stay_nothing_races(target: str, seed: int) -> None:
    """What is left to Triton loads from other CTAs, and would do so while barriers of ours are arrived at. In
    each of these programs one did."""
    plan = FuzzPlan(target, seed, 40, kinds=(CLUSTERS, PROGRAMS))
    drawn = [unit for unit in units(plan) if unit.kind == PROGRAMS]
    programs = [program for unit in drawn for program in unit.programs if program.ctas > 1]
    assert programs
    for number, program in enumerate(programs):
        totals = examine_program(program, f"{number}.ttgir", replace(DEFAULTS, exact=True))
        assert totals.wrong == totals.races == 0
