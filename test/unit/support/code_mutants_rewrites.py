"""Mistakes in gathers, and in what rewrites kernels: accesses, reductions, dots in flight."""

from __future__ import annotations

from code_mutants_base import CodeMutant, emitted, rewritten

GATHER = "test/unit/lowering/test_gather.py"
AWAIT = "test/unit/passes/test_await_operands.py"
DECISIONS = "test/unit/passes/assignment/test_assign_decisions.py"
EPILOGUES = "test/unit/passes/epilogues/test_split_epilogues.py"
PRICED = "test/unit/passes/test_priced_choices.py"
SHUFFLED = f"{GATHER}::test_code_of_random_gathers_takes_what_numpy_does[cuda:90]"
THROUGH_MEMORY = f"{GATHER}::test_code_through_memory_takes_what_numpy_does[cuda:90]"
WIDTHS = "test/unit/passes/widening/test_widths.py"
WIDEN = "test/unit/passes/widening/test_widen.py"
STORED = f"{WIDEN}::test_a_kernel_stores_what_it_did_and_promises_what_is_so"
IN_ORDER = f"{WIDEN}::test_registers_are_put_in_order"
REFUSED = f"{WIDEN}::test_promises_that_do_not_follow_are_refused"
REDUCED = "test/unit/passes/reductions/test_reductions_values.py"
DEFER = "test/unit/passes/reductions/test_defer.py"
DEFERRED = f"{DEFER}::test_a_whole_kernel_gives_what_stock_triton_s_gives"
KINDS = f"{REDUCED}::test_every_kind_of_layout_gives_what_triton_gives"
TOGETHER = f"{REDUCED}::test_each_of_four_operands_that_travel_together_comes_back_as_itself"
AGREE = f"{REDUCED}::test_lanes_that_combine_in_different_orders_agree_before_they_store"
REDUCTION_PROOF = "test/unit/passes/reductions/test_reductions_proof.py"
LOCAL = "test/unit/passes/test_local.py"
FAMILY = f"{LOCAL}::test_every_layout_of_the_family_holds_the_same_elements_in_each_warp[cuda:90]"
INSIDE = f"{LOCAL}::test_a_staged_access_stays_inside_the_warps_and_pays[cuda:90]"
IN_WORDS = f"{LOCAL}::test_bytes_that_lie_the_other_way_are_stored_in_words"

MUTANTS: tuple[CodeMutant, ...] = (
    # --- prices
    rewritten(
        "assignment/costs",
        "AssignmentCosts._fetching",
        "cost.shuffles + cost.alu + cost.beside + accesses",
        "cost.shuffles + cost.alu + cost.beside",
        "accesses to shared memory are fetched for nothing",
        f"{PRICED}::test_every_instruction_of_a_conversion_is_fetched",
    ),
    # --- gathers
    emitted(
        "gather/shuffles",
        "_Planner.plan",
        '1 << bit if name == "lane" else 0',
        "0",
        "own lane of a gather",
        SHUFFLED,
    ),
    emitted(
        "gather/shuffles",
        "_Planner._assembled",
        "register ^ f2.multiply_vector(choices, flip)",
        "register",
        "source register that a gather's choices begin with",
        SHUFFLED,
    ),
    emitted(
        "gather/shuffles",
        "lane_shift",
        "None if seen else distance",
        "distance",
        "bits of an index that name registers reach its lane",
        f"{GATHER}::test_an_index_is_shifted_alone_where_no_other_bit_of_it_reaches_the_lane",
    ),
    emitted(
        "plan/gathers",
        "GatherPlan.kept_lanes",
        "None if any(column & kept for column in from_index) else kept",
        "kept",
        "lane bits that an index names are kept",
        SHUFFLED,
    ),
    emitted(
        "emit/gathers",
        "_Gather._choose_word",
        'f"{one.word}, {zero.word} : i1"',
        'f"{zero.word}, {one.word} : i1"',
        "arms of a gather's choice",
        SHUFFLED,
    ),
    emitted(
        "emit/gathers",
        "_Gather._extract",
        "machine.selector([size] * size)",
        "machine.selector([1] * size)",
        "bytes from one element of a gathered word to the next",
        SHUFFLED,
    ),
    emitted(
        "emit/gathers",
        "_Gather._result",
        "min(32, width(values.signature.element) << plan.packed)",
        "width(values.signature.element)",
        "bits of a gathered word of several elements that may be set",
        SHUFFLED,
    ),
    emitted(
        "emit/gathers",
        "_through_memory",
        "machine.barrier(writer, plan.scope)\n"
        "found = [fetcher.load(fetch, round_, number) for number, fetch in enumerate(fetches)]",
        "found = [fetcher.load(fetch, round_, number) for number, fetch in enumerate(fetches)]",
        "a gather loads before all have stored",
        THROUGH_MEMORY,
    ),
    emitted(
        "emit/gathers",
        "_Fetcher.load",
        "fetch.offset & moving",
        "fetch.offset",
        "part of a fetch's offset is added twice",
        THROUGH_MEMORY,
    ),
    emitted(
        "gather/request",
        "Request.of",
        "theirs ^ ours",
        "theirs",
        "warps wait for each other though each gathers of its own",
        f"{GATHER}::test_what_stays_in_its_warp_waits_for_no_other",
    ),
    emitted(
        "gather/request",
        "Request.of",
        "replace(beside, warp=added)",
        "beside",
        "what a warp has is added to where it looks for it",
        THROUGH_MEMORY,
    ),
    emitted(
        "prove/gathers",
        "_refuted_shuffles",
        "found != asked",
        "found != asked and thread",
        "what an index names is not compared",
        f"{GATHER}::test_wrong_plans_are_refuted_and_their_code_is_found_wrong",
    ),
    # --- wide accesses
    rewritten(
        "widening/claims",
        "of_addresses",
        "1 << run",
        "2 << run",
        "one element too many in a wide access",
        f"{WIDEN}::test_elements_that_are_not_next_to_each_other_are_no_neighbours",
    ),
    rewritten(
        "widening/proof",
        "_check_claims",
        "delta != access.size * place",
        "delta is None",
        "elements that are not next to each other count as neighbours",
        f"{WIDEN}::test_elements_that_are_not_next_to_each_other_are_no_neighbours",
    ),
    rewritten(
        "widening/proof",
        "_check_claims",
        "if delta != 0: ...",
        "if delta is not None and delta != 0: ...",
        "a mask that changes inside a vector is not seen",
        REFUSED,
    ),
    rewritten(
        "widening/flat",
        "flat",
        "reversed(runs)",
        "runs",
        "the bits of a vector come last in a row",
        f"{WIDTHS}::test_a_row_begins_with_the_bits_of_a_vector_and_moves_nothing",
    ),
    rewritten(
        "widening/flat",
        "unflattened",
        "tuple(way.order.index(axis) for axis in range(len(way.order)))",
        "way.order",
        "what comes back from a row is turned twice",
        f"{WIDTHS}::test_a_row_is_the_tensor_that_it_was_again",
    ),
    rewritten(
        "widening/widen",
        "_decided",
        "is_volatile(op)",
        "False",
        "a volatile access becomes wider",
        f"{STORED}",
    ),
    rewritten(
        "widening/widen",
        "_rewritten",
        "index == choice.mask",
        "index == choice.mask and choice.constant is None",
        "nothing is promised of a predicate",
        IN_ORDER,
    ),
    rewritten(
        "analysis/widths",
        "widest",
        "elsewhere & place or (mask is not None and not mask[bit[0]][bit[1]])",
        "elsewhere & place",
        "a vector goes over the edge of a mask",
        f"{WIDTHS}::test_vectors_are_next_to_each_other_aligned_and_masked_together",
        IN_ORDER,
    ),
    # --- reductions behind a loop
    rewritten(
        "reductions/defer",
        "_defer",
        "user.operands[number] = total",
        "user.operands[number] = whole",
        "what a loop began with is lost",
        DEFERRED,
    ),
    rewritten(
        "reductions/defer",
        "_is_sum",
        "inside[0].name != combination.name",
        "False",
        "a loop that adds up maxima is taken for one that looks for one",
        f"{DEFER}::test_what_stays[another region]",
    ),
    rewritten(
        "reductions/defer",
        "identity",
        "-0.0",
        "0.0",
        "a sum of negative zeros is a positive one",
        f"{DEFER}::test_identities_change_no_bit[arith.addf]",
    ),
    # --- reductions taken apart
    rewritten(
        "reductions/rewrite",
        "ReductionWriter.write",
        "self.reduced(values, found.axis)",
        "self.reduced(values, found.axis + found.crossing - 1 - number)",
        "partial results are combined in the wrong order",
        KINDS,
    ),
    rewritten(
        "reductions/rewrite",
        "ReductionWriter.write",
        "found.copies",
        "not found.copies",
        "lanes that combined in other orders keep what they have",
        AGREE,
    ),
    rewritten(
        "reductions/rewrite",
        "ReductionWriter._gather",
        "zip(level[::2], level[1::2], strict=True)",
        "zip(level[: len(level) // 2], level[len(level) // 2 :], strict=True)",
        "operands that travel together come back in another order",
        TOGETHER,
    ),
    rewritten(
        "reductions/split",
        "_groups",
        "sum(b - a > 1 for a, b in pairwise(lanes[: at + 1]))",
        "0",
        "lanes with a gap between them are reduced as one run",
        f"{REDUCED}::test_lanes_with_gaps_which_triton_reduces_wrongly",
    ),
    rewritten(
        "reductions/region",
        "commutes",
        "maker is None or not named(maker.name).commutes",
        "maker is None",
        "a region counts as commutative that is not",
        "test/unit/passes/reductions/test_reductions.py::test_what_does_not_depend_on_who_comes_first",
    ),
    rewritten(
        "reductions/proof",
        "_same_region",
        "a.name == b.name and taken == list(b.operands)",
        "a.name == b.name",
        "another region that has the same operations is not seen",
        f"{REDUCTION_PROOF}::test_the_proof_sees_other_operands_in_a_region",
    ),
    rewritten(
        "reductions/proof",
        "_same_region",
        "a.name == b.name and taken == list(b.operands)",
        "taken == list(b.operands)",
        "another operation in a region is not seen",
        f"{REDUCTION_PROOF}::test_the_proof_sees_another_region",
    ),
    rewritten(
        "reductions/proof",
        "_takes_element_zero",
        "bool(value.is_splat) and value.get_splat_value().value == 0",
        "bool(value.is_splat)",
        "a gather of another element counts as none",
        REDUCTION_PROOF,
    ),
    # --- staged accesses
    rewritten(
        "staging/local",
        "_reroute",
        "access.operands[0] = conversion.results[0]",
        "access.operands[0] = conversion.operands[0]",
        "a store goes without the conversion of its staged access",
        IN_WORDS,
    ),
    rewritten(
        "staging/local",
        "_reroute",
        "registers.replace_all_uses_except(conversion.results[0], conversion)",
        "registers.replace_all_uses_except(registers, conversion)",
        "what is loaded goes without the conversion of its staged access",
        f"{LOCAL}::test_operands_of_bytes_across_their_rows_are_loaded_in_words",
    ),
    rewritten(
        "staging/local",
        "LowerLocal.__call__",
        "access.operands",
        "access.results",
        "accumulators with another sign take a staged access",
        "test/unit/passes/test_accumulators.py::test_a_store_of_changed_signs_is_not_staged",
    ),
    rewritten(
        "staging/local",
        "LowerLocal.decide",
        "(_PADDED, _PARTITIONED)",
        "_PARTITIONED",
        "memory with padding counts as linear",
        f"{LOCAL}::test_memory_with_padding_stays",
    ),
    rewritten(
        "staging/choice",
        "_staging",
        "selection.plan.kind not in INSIDE",
        "False",
        "a staged access goes through shared memory",
        INSIDE,
    ),
    rewritten(
        "staging/choice",
        "_staging",
        "(wanted, found) if local.is_store else (found, wanted)",
        "(wanted, found)",
        "the conversion of a staged access goes the other way",
        INSIDE,
    ),
    rewritten(
        "staging/family",
        "_Making._left",
        "(*self.registers, *self.lanes)",
        "(*self.registers[1:], *self.lanes)",
        "a staged access leaves elements out",
        FAMILY,
    ),
    rewritten(
        "staging/family",
        "_Making.of",
        "[offsets[basis] for basis in warps]",
        "[]",
        "warps that split a vector are not seen",
        FAMILY,
    ),
    # --- products in flight
    rewritten(
        "fixes/await_operands",
        "_wait",
        '"0 : i32"',
        '"1 : i32"',
        "waits leave the last product in flight",
        f"{AWAIT}::test_ptx_after_the_pass_does_not[matmul_mixed]",
    ),
    rewritten(
        "fixes/await_operands",
        "_flown",
        "now[len(now) - left :] if left < len(now) else now",
        "[]",
        "every wait is one for all products",
        f"{AWAIT}::test_a_wait_for_fewer_does_not_do",
    ),
    rewritten(
        "fixes/await_operands",
        "_Body.hazard",
        "[there[number] for number in writes.last if dot in self.flights[max(0, there[number])]]",
        "[there[number] for number in writes.last]",
        "products that are waited for count as in flight",
        f"{AWAIT}::test_products_that_are_waited_for_stay_as_they_are[attention]",
    ),
    rewritten(
        "fixes/await_operands",
        "_Body._writes",
        "in_place and _moves(producer.name)",
        "in_place",
        "what leads to an operand counts as its registers",
        f"{AWAIT}::test_products_that_are_waited_for_stay_as_they_are[attention]",
    ),
    rewritten(
        "fixes/await_operands",
        "_Body._there",
        "max((found[each] for each in inside if each is not None), default=-1)",
        "number",
        "arithmetic waits with what it stands behind",
        f"{AWAIT}::test_an_operand_that_is_there_before_the_wait_is_no_safer_behind_it[64]",
    ),
    # --- epilogues in parts
    rewritten(
        "analysis/effects",
        "is_pure",
        "pure and named(op.name).elementwise and (not len(op.regions))",
        "named(op.name).elementwise and (not len(op.regions))",
        "functions of others are called for parts, and later",
        f"{EPILOGUES}::test_what_functions_of_others_may_do_is_done_once_and_in_its_place",
    ),
    # --- new conversions beside dots
    rewritten(
        "assignment/plan",
        "_charge",
        "policy.new_beside_dots if beside_dots and edge.frequency <= 1 else policy.new_conversion",
        "policy.new_conversion",
        "a conversion beside dots is charged as others",
        f"{DECISIONS}::test_an_epilogue_converts_nothing_that_it_did_not",
    ),
    rewritten(
        "assignment/plan",
        "_charge",
        "beside_dots and edge.frequency <= 1",
        "beside_dots",
        "a conversion in a loop of dots is charged as one that is done once",
        f"{DECISIONS}::test_a_load_that_is_waited_for_keeps_whole_lines",
    ),
)
