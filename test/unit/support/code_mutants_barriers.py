"""Mistakes about what a relaxed barrier of a cluster orders, and about reductions across CTAs."""

from __future__ import annotations

from code_mutants_base import CodeMutant, emitted
from code_mutants_clusters import ACROSS, APART, cluster

CUBINS = "test/unit/bench/test_bench_cluster_cubins.py"
GATHERED = "test/unit/lowering/test_gather_across_ctas.py::test_random_gathers_are_right_in_clusters_of_2_to_16"

MUTANTS: tuple[CodeMutant, ...] = (
    cluster(
        "emit/machines",
        "_Nvidia.arrive",
        "writer.effect(f'llvm.inline_asm has_side_effects asm_dialect = att {fence} : () -> ()')",
        "pass",
        "a relaxed barrier of the cluster without a fence",
    ),
    cluster(
        "emit/shared",
        "emit_exchange",
        "plan.ranks is not None",
        "False",
        "loads from other CTAs are under way at a barrier",
    ),
    cluster(
        "emit/shared",
        "emit_exchange",
        "[part.word for part in first]",
        "[first[0].word]",
        "only the first load has returned at a barrier",
    ),
    emitted(
        "emit/machines",
        "received",
        "range(2, count)",
        "range(3, count)",
        "ptxas does not wait for the third load",
        f"{CUBINS}::test_loads_have_returned_before_the_next_barrier",
    ),
    emitted(
        "emit/gathers",
        "_through_memory",
        "plan.ranks is not None",
        "False",
        "loads of a gather from other CTAs are under way at a barrier",
        GATHERED,
    ),
    emitted(
        "interpreter/shared_memory",
        "_load",
        "build.far_loads += _is_far(build, op.operands[0])",
        "pass",
        "the interpreter does not see loads under way",
        f"{ACROSS}::test_what_a_relaxed_barrier_does_not_order_is_found",
    ),
    emitted(
        "interpreter/shared_memory",
        "_cluster_arrive",
        "not build.released",
        "False",
        "the interpreter does not ask for a fence",
        f"{ACROSS}::test_what_a_relaxed_barrier_does_not_order_is_found",
    ),
    CodeMutant(
        "passes/reductions/split.py",
        "_groups",
        "(WARP, BLOCK) if across <= lane_bits else (BLOCK, WARP)",
        "(BLOCK, WARP)",
        "partial results of warps are combined before those of CTAs",
        (f"{APART}::test_all_ctas_get_the_partial_results_of_all",),
    ),
    CodeMutant(
        "passes/reductions/split.py",
        "_groups",
        "across <= lane_bits",
        "True",
        "partial results of CTAs come first where Triton goes in two rounds",
        (f"{APART}::test_warps_come_before_ctas_where_both_are_more_than_the_lanes",),
    ),
    CodeMutant(
        "passes/reductions/split.py",
        "_groups",
        "[index for _, index in places]",
        "list(range(len(places)))",
        "partial results are combined by their coordinates",
        (f"{APART}::test_all_ctas_get_the_partial_results_of_all",),
    ),
)
