"""`python -m bench.fuzz --only clusters`: single conversions in clusters."""

from __future__ import annotations

from cluster_marks import ordered

from bench.fuzz.run import CLUSTERS, CTAS, PARTITIONS, FuzzPlan, examine, in_this_process, units
from bench.fuzz.totals import Totals


@ordered
def test_the_fuzzer_draws_regions_in_clusters() -> None:
    plan = FuzzPlan("cuda:90", 0, 160, kinds=(PARTITIONS,))
    drawn = [unit for unit in units(plan) if unit.programs[0].ctas > 1]
    assert len({unit.programs[0].ctas for unit in drawn}) > 1
    found = in_this_process(examine, drawn[0])
    assert isinstance(found, Totals), found
    assert found.ok and found.conversions == len(drawn[0].programs)


@ordered
def test_the_fuzzer_draws_clusters() -> None:
    """A module or two of conversions in clusters."""
    plan = FuzzPlan("cuda:90", 1, 32, kinds=(CLUSTERS,))
    totals = Totals()
    for unit in units(plan):
        assert {program.ctas for program in unit.programs} <= set(CTAS) - {1}
        found = in_this_process(examine, unit)
        assert isinstance(found, Totals), found
        totals.add(found)
    assert totals.ok and totals.conversions == 32
    assert min(totals.kinds[kind] for kind in ("cta-shared", "warp-shared", "shuffle")) > 2


@ordered
def test_clusters_of_2_to_16_ctas_are_drawn_with_1_to_8_warps() -> None:
    plan = FuzzPlan("cuda:90", 0, 800, kinds=(CLUSTERS,))
    drawn = [program for unit in units(plan) for program in unit.programs]
    assert {program.ctas for program in drawn} == {2, 4, 8, 16}
    assert {program.warps for program in drawn} == {1, 2, 4, 8}
