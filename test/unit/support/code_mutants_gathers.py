"""Mistakes in gathers that ask other CTAs of a cluster, and in their proof."""

from __future__ import annotations

from code_mutants_base import CodeMutant, emitted, planned
from code_mutants_clusters import PROGRAMS

ASKING = "test/unit/lowering/test_gather_across_ctas.py"
RUN_ASKING = f"{ASKING}::test_random_gathers_are_right_in_clusters_of_2_to_16"
PROVED_ASKING = f"{ASKING}::test_random_gathers_are_proved_in_clusters_of_2_to_16"
REFUTED_ASKING = f"{ASKING}::test_plans_that_name_a_wrong_cta_are_refuted"
GATHER_PASS = "test/unit/passes/test_gather_pass.py"


def asking(function: str, old: str, new: str, breaks: str) -> CodeMutant:
    """A plan of a gather across CTAs that is wrong."""
    return planned("gather/request", function, old, new, breaks, RUN_ASKING, proof=PROVED_ASKING)


def gathered(function: str, old: str, new: str, breaks: str) -> CodeMutant:
    return emitted("emit/gathers", function, old, new, breaks, RUN_ASKING, PROGRAMS)


MUTANTS: tuple[CodeMutant, ...] = (
    emitted(
        "gather/request",
        "_stays",
        "held.block == beside.block and all((column in own for column in asked))",
        "all((column in own for column in asked))",
        "CTAs that hold the same rows and want others gather as if they wanted the same",
        f"{ASKING}::test_what_the_own_cta_has_at_a_place_of_its_rank_is_loaded_from_it",
    ),
    emitted(
        "gather/request",
        "_stays",
        "held.block == beside.block and all((column in own for column in asked))",
        "held.block == beside.block",
        "lanes that want rows of another CTA gather from their own memory",
        f"{ASKING}::test_rows_of_another_cta_may_be_those_of_a_lane",
    ),
    asking(
        "_across",
        "GatherRanks(by_axis, by_register, (*by_lane, *by_warp, *by_block))",
        "GatherRanks((0,) * len(by_axis), by_register, (*by_lane, *by_warp, *by_block))",
        "no bit of an index leads to another CTA",
    ),
    asking(
        "_across",
        "rank(wanted ^ own) ^ 1 << bit",
        "rank(wanted ^ own)",
        "what the own CTA has is gathered from CTA 0",
    ),
    emitted(
        "gather/memory",
        "_Planner._plan",
        "ranks[round_].append(rank)",
        "ranks[round_].append(0)",
        "registers of a gather tell no CTAs apart",
        f"{ASKING}::test_registers_tell_ctas_apart",
    ),
    gathered(
        "_through_memory",
        "machine.barrier(writer, plan.scope)\n"
        "found = [fetcher.load(fetch, round_, number) for number, fetch in enumerate(fetches)]",
        "found = [fetcher.load(fetch, round_, number) for number, fetch in enumerate(fetches)]",
        "no barrier of the cluster between the stores and the loads of a gather",
    ),
    gathered(
        "_through_memory",
        "machine.barrier(writer, plan.scope)\n"
        "found = [fetcher.load(fetch, round_, number) for number, fetch in enumerate(fetches)]",
        "machine.barrier(writer, 'cta')\n"
        "found = [fetcher.load(fetch, round_, number) for number, fetch in enumerate(fetches)]",
        "the CTA's barrier in place of the cluster's in a gather",
    ),
    gathered(
        "_through_memory",
        "closes and plan.scope == CLUSTER",
        "False",
        "no barrier of the cluster behind the last loads of a gather",
    ),
    gathered(
        "_Fetcher._memory",
        "(by_index, self._rank)",
        "(None, self._rank)",
        "`mapa` names one CTA of the cluster for all indices",
    ),
    gathered(
        "_Fetcher._by_thread",
        "any(columns[self._own_bits:])",
        "False",
        "a gather in the cluster does not ask for the rank of its CTA",
    ),
    gathered(
        "_Fetcher.load",
        "plan.ranks is not None",
        "False",
        "a gather loads from the own CTA where another has the element",
    ),
    emitted(
        "emit/embed",
        "_turns",
        "SharedPlan | GatherSharedPlan",
        "SharedPlan",
        "gathers from other CTAs take no turns",
        f"{GATHER_PASS}::test_gathers_of_a_loop_take_turns",
    ),
    emitted(
        "emit/calls",
        "CallWriter.code",
        "self._ranked |= {call.partition.number} if body.uses_rank else set()",
        "pass",
        "no partition asks for the rank of its CTA",
        "test/unit/bench/test_fuzz_partitions.py::test_a_wrong_rank_is_found",
    ),
    emitted(
        "prove/gathers",
        "_Memory._other_ctas",
        "any((rank >> self._ctas for rank in named))",
        "False",
        "the proof of gathers takes any rank for one of the cluster",
        REFUTED_ASKING,
    ),
    emitted(
        "prove/gathers",
        "_Memory._enter_columns",
        "here if ranks is None else ranks.columns",
        "here",
        "the proof of gathers has all loads from the own CTA",
        REFUTED_ASKING,
        PROVED_ASKING,
    ),
    emitted(
        "prove/gathers",
        "_Memory._other_ctas",
        "(ranks is not None) != (plan.scope == CLUSTER)",
        "False",
        "the proof of gathers lets the CTA's barrier stand for the cluster's",
        REFUTED_ASKING,
    ),
)
