"""Mistakes where CTAs of a cluster, or warp-specialised regions, run at the same time; and in what is to see
them."""

from __future__ import annotations

from code_mutants_base import CodeMutant, emitted, planned

ACROSS = "test/unit/lowering/test_across_ctas.py"
APART = "test/unit/passes/reductions/test_reductions_apart.py"
CLUSTERS = "test/unit/tools/test_clusters.py"
TURNS = "test/unit/lowering/test_turns.py"
PARTITIONS = "test/unit/bench/test_fuzz_partitions.py"
SCOPES = "test/unit/passes/assignment/test_assign_scopes.py"
RUN_ACROSS = f"{ACROSS}::test_random_conversions_are_right_in_clusters_of_2_to_16"
PROVED_ACROSS = f"{ACROSS}::test_random_conversions_are_proved_in_clusters_of_2_to_16"
FUZZED = "test/unit/bench/test_fuzz_clusters.py"
FUZZ_CLUSTERS = f"{FUZZED}::test_the_fuzzer_draws_clusters"
PROGRAMS = f"{FUZZED}::test_programs_of_exchanges_that_take_turns_are_right"
SIMULATED = "test/unit/lowering/interpreter/test_simulate_clusters.py"
BY_RANK = f"{CLUSTERS}::test_in_regions_of_a_cluster_what_depends_on_the_rank_asks_for_it"
SOUND_TURNS = f"{TURNS}::test_every_path_of_drawn_programs_is_sound"
TAKE_TURNS = f"{CLUSTERS}::test_exchanges_of_a_loop_take_turns"
SECTORS = f"{ACROSS}::test_sectors_of_other_ctas_are_counted"
SIDE_BY_SIDE = f"{ACROSS}::test_lanes_that_load_from_one_cta_lie_side_by_side"
MEETING = f"{PARTITIONS}::test_conversions_that_meet_in_four_regions_are_right"
FUZZ_PARTITIONS = f"{PARTITIONS}::test_drawn_modules_are_right"


def crossing(function: str, old: str, new: str, breaks: str, file: str) -> CodeMutant:
    """A plan across CTAs that is wrong."""
    return planned(file, function, old, new, breaks, RUN_ACROSS, FUZZ_CLUSTERS, proof=PROVED_ACROSS)


def cluster(file: str, function: str, old: str, new: str, breaks: str) -> CodeMutant:
    return emitted(file, function, old, new, breaks, RUN_ACROSS, FUZZ_CLUSTERS)


def region(file: str, function: str, old: str, new: str, breaks: str) -> CodeMutant:
    return emitted(file, function, old, new, breaks, MEETING, FUZZ_PARTITIONS)


def scope(file: str, function: str, old: str, new: str, breaks: str, *tests: str) -> CodeMutant:
    """Layouts that are assigned wrongly in a region, or in a cluster."""
    return CodeMutant(f"passes/{file}.py", function, old, new, breaks, tests)


MUTANTS: tuple[CodeMutant, ...] = (
    # --- layouts in regions and clusters
    scope(
        "assignment/scopes",
        "scopes_of",
        "Scope(warps[number], f'partition {number}', arguments=region.blocks[0].arguments)",
        "Scope(home.warps, f'partition {number}', arguments=region.blocks[0].arguments)",
        "layouts of a partition have its warps",
        f"{SCOPES}::test_each_region_is_assigned_with_its_warps",
    ),
    scope(
        "analysis/axis",
        "AxisAnalysis._argument",
        "self.of(captured(owner)[index])",
        "Affine.unknown(shape)",
        "what a partition captures is known in it",
        f"{SCOPES}::test_a_partition_is_assigned_as_the_kernel_by_itself",
    ),
    scope(
        "assignment/candidates",
        "Candidates._add",
        "self._in_cluster and blocks_of(layout) != blocks_of(known[0].layout)",
        "False",
        "each CTA keeps its part",
        f"{SCOPES}::test_what_crosses_ctas_crosses_as_before",
    ),
    scope(
        "assignment/candidates",
        "Candidates._add_part",
        "around(part, self.of[group][0].layout) if self._in_cluster else part",
        "part",
        "layouts that are looked for in a cluster have its CTAs",
        f"{SCOPES}::test_a_layout_that_no_operation_had_is_put_into_the_cluster",
    ),
    scope(
        "analysis/clusters",
        "part_of",
        "sizes[axis] //= 2",
        "pass",
        "CTAs split what a tensor has",
        f"{SCOPES}::test_what_a_cta_has_is_a_tensor_of_its_own",
    ),
    # --- barriers of a cluster
    cluster(
        "emit/machines",
        "_Nvidia.barrier",
        "self.arrive(writer)\nself.wait(writer)",
        "pass",
        "no barrier of the cluster between stores and loads",
    ),
    cluster(
        "emit/shared",
        "emit_exchange",
        "if closing: ...\n"
        "program = WordWriter(writer, machine, plan.per_word, loaded, loading.given, half)"
        ".run(loading.steps)\n"
        "words_loaded = [program.word(number) for number in loading.outputs]\n"
        "if closing: ...",
        "program = WordWriter(writer, machine, plan.per_word, loaded, loading.given, half)"
        ".run(loading.steps)\n"
        "words_loaded = [program.word(number) for number in loading.outputs]",
        "no barrier of the cluster behind the last loads",
    ),
    cluster(
        "emit/machines",
        "_Nvidia.barrier",
        "scope == CLUSTER",
        "scope == ''",
        "the CTA's barrier in place of the cluster's",
    ),
    emitted(
        "emit/words",
        "WordWriter.__init__",
        "in_cluster(writer, machine, thread_bits) if thread_bits else machine.thread(writer)",
        "machine.thread(writer)",
        "shuffles that depend on the CTA's rank do not ask for it",
        f"{ACROSS}::test_what_stays_in_its_warp_is_shuffled",
        RUN_ACROSS,
    ),
    emitted(
        "prove/plans",
        "_after_stage",
        "threads.bits if stage.thread_bits else threads.own_bits",
        "threads.bits",
        "the proof lets steps see the CTA's rank that the code does not give them",
        f"{ACROSS}::test_what_stays_in_its_warp_is_shuffled",
    ),
    # --- turns with pieces of scratch
    emitted(
        "emit/calls",
        "CallWriter._alternate",
        "lines.binary('sub', lines.constant(turn.half), offset)",
        "offset",
        "exchanges that alternate have the first half always",
        "test/unit/bench/test_fuzz_regions.py::test_exchanges_of_a_region_take_turns",
        PROGRAMS,
    ),
    emitted(
        "emit/turns",
        "Turn.bytes",
        "2 * self.half + WORD_BYTES * self.threads",
        "2 * self.half",
        "the words of threads that alternate lie where other buffers do",
        f"{TURNS}::test_exchanges_alternate_where_one_would_close",
    ),
    emitted(
        "emit/embed",
        "embed.in_front",
        "[writer.ending(left[n])] if left[n] in open_ else []",
        "[]",
        "a partition ends while other CTAs load, after exchanges that take turns",
        "test/unit/bench/test_fuzz_regions.py::test_exchanges_of_a_region_take_turns",
    ),
    emitted(
        "emit/embed",
        "embed.in_front",
        "[writer.ending()] if None in open_ else []",
        "[]",
        "a CTA of the cluster ends while others load, after exchanges that take turns",
        f"{CLUSTERS}::test_exchanges_of_a_loop_take_turns",
    ),
    emitted(
        "emit/turns",
        "turns",
        "any((pieces[following] == piece for following in order.follow[number]))",
        "False",
        "exchanges of one piece follow each other without a barrier of the cluster",
        SOUND_TURNS,
        TAKE_TURNS,
    ),
    emitted(
        "emit/turns",
        "order_of",
        "choice.repeated() if step.repeats else choice",
        "choice",
        "exchanges of a loop that take turns are taken to run once",
        TAKE_TURNS,
    ),
    emitted(
        "emit/turns",
        "order_of",
        "choice.repeated() if step.repeats else choice",
        "choice.repeated()",
        "one of two branches is taken to follow the other",
        f"{TURNS}::test_turns",
    ),
    emitted(
        "emit/turns",
        "Order.then",
        "self.first | other.first if self.may_be_empty else self.first",
        "self.first",
        "what follows a loop that runs no iteration is not the first that may come",
        SOUND_TURNS,
        PROGRAMS,
    ),
    emitted(
        "emit/turns",
        "Order.then",
        "other.last | self.last if other.may_be_empty else other.last",
        "other.last",
        "an exchange before a branch without any is not the last that may have come",
        SOUND_TURNS,
        PROGRAMS,
    ),
    emitted(
        "emit/turns",
        "Order.repeated",
        "True",
        "self.may_be_empty",
        "a loop is taken to run one iteration at least",
        SOUND_TURNS,
    ),
    emitted(
        "emit/turns",
        "_of_block",
        "op.operation.name != _CHOICE",
        "op.operation.name == 'scf.for'",
        "the body of any loop but `scf.for` is taken to run once",
        f"{TURNS}::test_regions_are_ways_and_all_but_those_of_branches_repeat",
    ),
    emitted(
        "emit/scratch",
        "affordable",
        "Turn(0, True)",
        "Turn(0, False)",
        "exchanges with one piece of scratch for all go without a barrier behind their loads",
        f"{TURNS}::test_one_piece_serves_where_two_are_too_many",
    ),
    emitted(
        "emit/calls",
        "CallWriter.code",
        "turn is None or turn.closes",
        "turn is None",
        "no exchange that takes turns has a barrier behind its loads",
        f"{CLUSTERS}::test_exchanges_with_one_piece_keep_both_barriers",
    ),
    emitted(
        "emit/calls",
        "Call.piece",
        "(self.partition, turn.piece)",
        "(self.partition, 0)",
        "all exchanges that take turns have the first piece of scratch",
        PROGRAMS,
    ),
    emitted(
        "emit/embed",
        "embed.in_front",
        "map(writer.free_own, owned(None))",
        "[]",
        "pieces of scratch are not reserved to the end of the function",
        f"{CLUSTERS}::test_pieces_are_reserved_to_the_end",
    ),
    emitted(
        "emit/scratch",
        "pieces",
        "max(sizes.get(turn.piece, 0), turn.bytes or uses[number].bytes)",
        "uses[number].bytes",
        "a piece of scratch is as large as the last that takes its turn",
        f"{TURNS}::test_pieces_hold_the_largest_of_their_exchanges",
    ),
    # --- whose memory it is
    cluster(
        "emit/machines",
        "_Nvidia.memory_of",
        'f"nvvm.mapa {base}, {rank} :"',
        'f"nvvm.mapa {base}, {writer.constant(0)} :"',
        "`mapa` names CTA 0 of the cluster",
    ),
    cluster(
        "emit/shared",
        "_load_pointers.memory_of",
        'writer.binary("xor", rank, writer.constant(flipped))',
        "rank",
        "`mapa` names one CTA of the cluster for all registers",
    ),
    cluster(
        "emit/words",
        "in_cluster",
        "writer.constant(bits)",
        "writer.constant(bits - 1)",
        "the rank in the cluster among the bits of warps",
    ),
    crossing(
        "_Builder.plan",
        "Ranks(sharing.thread_ranks, ranks)",
        "Ranks(sharing.thread_ranks[1:], ranks)",
        "thread bits by which the CTA of the cluster is told",
        "planners/exchange",
    ),
    crossing(
        "_reads_own_cta",
        "any((_changes_rank(*place) for place in conv.bits()))",
        "False",
        "an exchange in the cluster is taken for one in each CTA",
        "planners/shared",
    ),
    crossing(
        "_changes_rank",
        "1 << bit if name == 'block' else 0",
        "origin.block",
        "no bit leads to another CTA of the cluster",
        "planners/shared",
    ),
    # --- what loads from other CTAs take
    emitted(
        "planners/placement",
        "_placed",
        "exchange.is_far",
        "False",
        "lanes that load from one CTA lie as they are stored",
        SIDE_BY_SIDE,
    ),
    emitted(
        "plan/plans",
        "SharedPlan.far_sectors",
        "column // SECTOR",
        "column",
        "each lane is taken to read a sector of its own",
        SECTORS,
    ),
    emitted(
        "plan/plans",
        "SharedPlan.far_sectors",
        "elsewhere if rank in span else 1.0",
        "1.0",
        "what is loaded from the own CTA counts as another's",
        SECTORS,
    ),
    # --- regions
    emitted(
        "emit/calls",
        "CallWriter.__init__",
        "ALL_WARPS_BARRIER if specialized else ''",
        "''",
        "warps of a partition do not come to the barrier of the cluster outside of regions",
        f"{CLUSTERS}::test_beside_regions_all_warps_come_to_the_barriers_of_an_exchange",
    ),
    region(
        "emit/calls",
        "CallWriter.__init__",
        "self._barrier = BARRIER",
        'self._barrier = \'llvm.inline_asm has_side_effects asm_dialect = att "bar.sync 0;", "" : () -> ()\'',
        "the CTA's barrier in a partition",
    ),
    region(
        "emit/buffers",
        "Buffers.of",
        "Buffer.of(size, self._lanes, warps, sparse=self._sparse)",
        "Buffer.of(size // 2, self._lanes, warps, sparse=self._sparse)",
        "scratch reaches into that of a neighbour partition",
    ),
    region(
        "emit/shared",
        "emit_exchange",
        "machine.barrier(writer, plan.scope)\nfor number, access in enumerate(loads): ...",
        "machine.barrier(writer, 'warp')\nfor number, access in enumerate(loads): ...",
        "warps of a partition do not wait for each other",
    ),
    CodeMutant(
        "passes/conversions/select.py",
        "SelectLowering.decide",
        "selection.plan.scope == CLUSTER",
        "selection.plan.scope == ''",
        "exchanges across CTAs are ours beside regions and calls",
        ("test/unit/passes/test_select_partial.py",),
    ),
    CodeMutant(
        "passes/reductions/split_reductions.py",
        "_Run.visit",
        "partition_warps(op) or self.warps",
        "self.warps",
        "a reduction in a partition is priced for the warps of the kernel",
        (f"{APART}::test_the_warps_are_those_of_the_partition",),
    ),
    emitted(
        "emit/calls",
        "CallWriter.code",
        "body.rank = call.partition.rank",
        "pass",
        "a partition takes the CTA's rank from where it does not see it",
        BY_RANK,
    ),
    # --- what is to see such mistakes
    emitted(
        "interpreter/function",
        "simulate_function",
        "run.memory.end(program.returns)",
        "pass",
        "the interpreter lets a CTA end a whole function while others load",
        f"{SIMULATED}::test_a_missing_barrier_or_piece_is_found",
    ),
    emitted(
        "interpreter/program",
        "Machine.__init__",
        "self.thread // memory.cta_threads + memory.home",
        "self.thread // memory.cta_threads",
        "the interpreter runs partitions of all CTAs with rank 0",
        BY_RANK,
    ),
    emitted(
        "interpreter/warps",
        "_Warps._end",
        "late.any()",
        "False",
        "the interpreter lets a CTA end while warps of another load from it",
        f"{PARTITIONS}::test_a_cta_that_ends_while_others_load_is_found",
    ),
    emitted(
        "interpreter/warps",
        "_Warps._complete",
        "self._acquire(warp, self.mbarriers[met.place].released, lanes=False)",
        "pass",
        "the interpreter orders nothing by an mbarrier",
        f"{PARTITIONS}::test_conversions_across_ctas_in_regions_are_right",
    ),
    emitted(
        "interpreter/meetings",
        "Mbarrier.is_complete",
        "self.complete % 2 != parity",
        "True",
        "the interpreter has no warp wait at an mbarrier",
        f"{PARTITIONS}::test_an_arrival_that_is_left_out_is_found",
    ),
    emitted(
        "prove/exchange",
        "_check_ranks",
        "rank >> threads.cta_bits",
        "False",
        "the proof takes any rank for one of the cluster",
        f"{ACROSS}::test_plans_that_name_a_wrong_cta_are_refuted",
    ),
    emitted(
        "prove/exchange",
        "_rank_columns",
        'name == "load" and plan.ranks is not None',
        "False",
        "the proof has all loads in a cluster from the own CTA",
        f"{ACROSS}::test_plans_that_name_a_wrong_cta_are_refuted",
        PROVED_ACROSS,
    ),
    emitted(
        "interpreter/memory",
        "SharedMemory.cta_barrier",
        "self._levels[-2:]",
        "self._levels",
        "the interpreter takes the CTA's barrier for the cluster's",
        f"{ACROSS}::test_a_barrier_of_the_cta_is_not_enough",
    ),
    emitted(
        "interpreter/memory",
        "SharedMemory.end",
        "left.any()",
        "False",
        "the interpreter lets a CTA of the cluster end while others load",
        f"{ACROSS}::test_a_missing_barrier_of_the_cluster_is_found",
    ),
    emitted(
        "interpreter/memory",
        "SharedMemory.far",
        "(rank >= np.uint64(self.ctas)).any()",
        "False",
        "the interpreter has memory of CTAs that the cluster lacks",
        f"{ACROSS}::test_a_wrong_rank_in_mapa_is_found",
    ),
    emitted(
        "interpreter/warps",
        "_Warps._have_met",
        "len(here) > count or (known is not None and not set(here) <= set(known))",
        "False",
        "the interpreter lets a partition wait at the barrier of others",
        f"{PARTITIONS}::test_the_barrier_of_the_cta_in_a_partition_is_found",
    ),
    emitted(
        "interpreter/warps",
        "_Level._unordered",
        "(writer != _NOBODY) & (writer != self.warp) & late",
        "late & False",
        "the interpreter does not see stores of a neighbour partition",
        f"{PARTITIONS}::test_scratch_of_a_neighbour_is_found",
        f"{PARTITIONS}::test_a_barrier_that_is_left_out_is_found",
    ),
    CodeMutant(
        "tools/verify/turns.py",
        "spares_barrier",
        "takes_turns(lines) and WAIT not in simulated(lines[last:])",
        "False",
        "exchanges that take turns are counted with the barrier that they spare",
        (TAKE_TURNS,),
    ),
)
