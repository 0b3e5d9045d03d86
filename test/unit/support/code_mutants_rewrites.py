"""Mistakes in gathers, and in what rewrites kernels: wide accesses, reductions, detours, products in flight."""

from __future__ import annotations

from code_mutants import CodeMutant, emitted

GATHER = "test/unit/test_gather.py"
AWAIT = "test/unit/test_await_operands.py"
OCCUPANCY = "test/unit/test_plugin_occupancy.py"
SHUFFLED = f"{GATHER}::test_code_of_random_gathers_takes_what_numpy_does[cuda:90]"
THROUGH_MEMORY = f"{GATHER}::test_code_through_memory_takes_what_numpy_does[cuda:90]"
WIDTHS = "test/unit/test_widths.py"
WIDEN = "test/unit/test_widen.py"
STORED = f"{WIDEN}::test_a_kernel_stores_what_it_did_and_promises_what_is_so"
IN_ORDER = f"{WIDEN}::test_registers_are_put_in_order"
REFUSED = f"{WIDEN}::test_promises_that_do_not_follow_are_refused"
REDUCED = "test/unit/test_reductions_values.py"
KINDS = f"{REDUCED}::test_every_kind_of_layout_gives_what_triton_gives"
AGREE = f"{REDUCED}::test_lanes_that_combine_in_different_orders_agree_before_they_store"
REDUCTION_PROOF = "test/unit/test_reductions_proof.py"
LOCAL = "test/unit/test_local.py"
FAMILY = f"{LOCAL}::test_every_layout_of_the_family_holds_the_same_elements_in_each_warp[cuda:90]"
INSIDE = f"{LOCAL}::test_a_detour_stays_inside_the_warps_and_pays[cuda:90]"
IN_WORDS = f"{LOCAL}::test_bytes_that_lie_the_other_way_are_stored_in_words"


def rewritten(file: str, old: str, new: str, breaks: str, *tests: str) -> CodeMutant:
    return CodeMutant(f"passes/{file}.py", old, new, breaks, tests)


MUTANTS: tuple[CodeMutant, ...] = (
    # --- gathers
    emitted(
        "gather", 'own_bit = 1 << bit if name == "lane" else 0', "own_bit = 0", "own lane of a gather", SHUFFLED
    ),
    emitted(
        "gather",
        "base = register ^ f2.multiply_vector(choices, flip)",
        "base = register",
        "source register that a gather's choices begin with",
        SHUFFLED,
    ),
    emitted(
        "gather",
        "    return None if seen else distance\n",
        "    return distance\n",
        "bits of an index that name registers reach its lane",
        f"{GATHER}::test_an_index_is_shifted_alone_where_no_other_bit_of_it_reaches_the_lane",
    ),
    emitted(
        "gather_plan",
        "return None if any(column & kept for column in from_index) else kept",
        "return kept",
        "lane bits that an index names are kept",
        SHUFFLED,
    ),
    emitted(
        "emit_gather",
        'f"llvm.select {condition}, {one}, {zero} : i1, {I32}"',
        'f"llvm.select {condition}, {zero}, {one} : i1, {I32}"',
        "arms of a gather's choice",
        SHUFFLED,
    ),
    emitted(
        "emit_gather",
        "machine.selector([size] * size)",
        "machine.selector([1] * size)",
        "bytes from one element of a gathered word to the next",
        SHUFFLED,
    ),
    emitted(
        "emit_gather",
        "bits = min(32, width(values.signature.element) << plan.packed)",
        "bits = width(values.signature.element)",
        "bits of a gathered word of several elements that may be set",
        SHUFFLED,
    ),
    emitted(
        "emit_gather",
        "        machine.barrier(writer, plan.scope)\n        results +=",
        "        results +=",
        "a gather loads before all have stored",
        THROUGH_MEMORY,
    ),
    emitted(
        "emit_gather",
        "values.sum((by_index, origin), fetch.offset & moving)",
        "values.sum((by_index, origin), fetch.offset)",
        "part of a fetch's offset is added twice",
        THROUGH_MEMORY,
    ),
    emitted(
        "gather_shared",
        "added = tuple(theirs ^ ours for theirs, ours in zip(beside.warp, held.warp, strict=True))",
        "added = tuple(theirs for theirs in beside.warp)",
        "warps wait for each other though each gathers of its own",
        f"{GATHER}::test_what_stays_in_its_warp_waits_for_no_other",
    ),
    emitted(
        "gather_shared",
        'return _Gathered("warp", held, replace(beside, warp=added), along, elements)',
        'return _Gathered("warp", held, beside, along, elements)',
        "what a warp has is added to where it looks for it",
        THROUGH_MEMORY,
    ),
    emitted(
        "prove_gather",
        "            if found != asked:\n",
        "            if found != asked and thread:\n",
        "what an index names is not compared",
        f"{GATHER}::test_wrong_plans_are_refuted_and_their_code_is_found_wrong",
    ),
    # --- wide accesses
    rewritten(
        "widening/claims",
        "Claim(contiguity=1 << run,",
        "Claim(contiguity=2 << run,",
        "one element too many in a wide access",
        f"{WIDEN}::test_elements_that_are_not_next_to_each_other_are_no_neighbours",
    ),
    rewritten(
        "widening/proof",
        "        if delta != access.size * place:\n",
        "        if delta is None:\n",
        "elements that are not next to each other count as neighbours",
        f"{WIDEN}::test_elements_that_are_not_next_to_each_other_are_no_neighbours",
    ),
    rewritten(
        "widening/proof",
        "        if delta != 0:\n",
        "        if delta is not None and delta != 0:\n",
        "a mask that changes inside a vector is not seen",
        REFUSED,
    ),
    rewritten(
        "widening/flat",
        "order = tuple(highest_first.index(run) for run in reversed(runs))",
        "order = tuple(highest_first.index(run) for run in runs)",
        "the bits of a vector come last in a row",
        f"{WIDTHS}::test_a_row_begins_with_the_bits_of_a_vector_and_moves_nothing",
    ),
    rewritten(
        "widening/flat",
        "back = tuple(way.order.index(axis) for axis in range(len(way.order)))",
        "back = way.order",
        "what comes back from a row is turned twice",
        f"{WIDTHS}::test_a_row_is_the_tensor_that_it_was_again",
    ),
    rewritten(
        "widen",
        " or _is_volatile(op):\n",
        ":\n",
        "a volatile access becomes wider",
        f"{STORED}",
    ),
    rewritten(
        "widen",
        "            elif index == choice.mask:\n",
        "            elif index == choice.mask and choice.constant is None:\n",
        "nothing is promised of a predicate",
        IN_ORDER,
    ),
    rewritten(
        "assignment/widths",
        "if elsewhere & place or (mask is not None and not mask[bit[0]][bit[1]]):",
        "if elsewhere & place:",
        "a vector goes over the edge of a mask",
        f"{WIDTHS}::test_vectors_are_next_to_each_other_aligned_and_masked_together",
        IN_ORDER,
    ),
    # --- reductions taken apart
    rewritten(
        "reductions/rewrite",
        "            values = self._reduce(values, found.axis)\n",
        "            values = self._reduce(values, found.axis + found.crossing - 1 - number)\n",
        "partial results are combined in the wrong order",
        KINDS,
    ),
    rewritten(
        "reductions/rewrite",
        "        if way.agree and found.copies:\n",
        "        if way.agree and not found.copies:\n",
        "lanes that combined in other orders keep what they have",
        AGREE,
    ),
    rewritten(
        "reductions/rewrite",
        "zip(level[::2], level[1::2], strict=True)",
        "zip(level[: len(level) // 2], level[len(level) // 2 :], strict=True)",
        "operands that travel together come back in another order",
        KINDS,
    ),
    rewritten(
        "reductions/split",
        "sum(b - a > 1 for a, b in pairwise(lanes[: at + 1]))",
        "0",
        "lanes with a gap between them are reduced as one run",
        f"{REDUCED}::test_lanes_with_gaps_which_triton_reduces_wrongly",
    ),
    rewritten(
        "reductions/region",
        "if maker is None or maker.name not in COMMUTATIVE:",
        "if maker is None:",
        "a region counts as commutative that is not",
        "test/unit/test_reductions.py::test_what_does_not_depend_on_who_comes_first",
    ),
    rewritten(
        "reductions/proof",
        "same = a.name == b.name and taken == list(b.operands)",
        "same = a.name == b.name",
        "another region that has the same operations is not seen",
        f"{REDUCTION_PROOF}::test_the_proof_sees_other_operands_in_a_region",
    ),
    rewritten(
        "reductions/proof",
        "same = a.name == b.name and taken",
        "same = taken",
        "another operation in a region is not seen",
        f"{REDUCTION_PROOF}::test_the_proof_sees_another_region",
    ),
    rewritten(
        "reductions/proof",
        "return bool(value.is_splat) and value.get_splat_value().value == 0",
        "return bool(value.is_splat)",
        "a gather of another element counts as none",
        REDUCTION_PROOF,
    ),
    # --- detours
    rewritten(
        "local",
        "        access.operands[0] = conversion.results[0]",
        "        access.operands[0] = conversion.operands[0]",
        "a store goes without the conversion of its detour",
        IN_WORDS,
    ),
    rewritten(
        "local",
        "registers.replace_all_uses_except(conversion.results[0], conversion)",
        "registers.replace_all_uses_except(registers, conversion)",
        "what is loaded goes without the conversion of its detour",
        f"{LOCAL}::test_operands_of_bytes_across_their_rows_are_loaded_in_words",
    ),
    rewritten(
        "local",
        "choice, Detour) and any(operand in signs for operand in access.operands)",
        "choice, Detour) and any(operand in signs for operand in access.results)",
        "accumulators with another sign take a detour",
        "test/unit/test_accumulators.py::test_a_store_of_changed_signs_makes_no_detour",
    ),
    rewritten(
        "local",
        "described[2].startswith((_PADDED, _PARTITIONED))",
        "described[2].startswith(_PARTITIONED)",
        "memory with padding counts as linear",
        f"{LOCAL}::test_memory_with_padding_stays",
    ),
    rewritten(
        "detour/choice",
        "        if selection.plan is None or selection.plan.kind not in INSIDE:\n",
        "        if selection.plan is None:\n",
        "a detour goes through shared memory",
        INSIDE,
    ),
    rewritten(
        "detour/choice",
        "        sides = (wanted, found) if local.is_store else (found, wanted)\n",
        "        sides = wanted, found\n",
        "the conversion of a detour goes the other way",
        INSIDE,
    ),
    rewritten(
        "detour/family",
        "registers = (*leading, *(basis for basis in rest if any(basis)))",
        "registers = (*leading, *(basis for basis in rest[1:] if any(basis)))",
        "a detour leaves elements out",
        FAMILY,
    ),
    rewritten(
        "detour/family",
        "        others = [self.offsets[basis] for basis in (*lanes, *self.warps)]\n",
        "        others = [self.offsets[basis] for basis in lanes]\n",
        "warps that split a vector are not seen",
        FAMILY,
    ),
    # --- products in flight
    rewritten(
        "await_operands",
        'Attribute.parse("0 : i32"',
        'Attribute.parse("1 : i32"',
        "waits leave the last product in flight",
        f"{AWAIT}::test_ptx_after_the_pass_does_not[matmul_mixed]",
    ),
    rewritten(
        "await_operands",
        "now = now[len(now) - left :] if left < len(now) else now",
        "now = []",
        "every wait is one for all products",
        f"{AWAIT}::test_a_wait_for_fewer_does_not_do",
    ),
    rewritten(
        "await_operands",
        "for number in writes.last if dot in self.flights[max(0, there[number])]]",
        "for number in writes.last]",
        "products that are waited for count as in flight",
        f"{AWAIT}::test_products_that_are_waited_for_stay_as_they_are[attention]",
    ),
    rewritten(
        "await_operands",
        "in_place = in_place and producer.name in _MOVES",
        "in_place = in_place and True",
        "what leads to an operand counts as its registers",
        f"{AWAIT}::test_products_that_are_waited_for_stay_as_they_are[attention]",
    ),
    rewritten(
        "await_operands",
        "found.append(max((found[each] for each in inside if each is not None), default=-1))",
        "found.append(number)",
        "arithmetic waits with what it stands behind",
        f"{AWAIT}::test_an_operand_that_is_there_before_the_wait_is_no_safer_behind_it[64]",
    ),
    CodeMutant(
        "plugin/cubin.py",
        "words -= words >> 47 << 48",
        "words -= words >> 48 << 48",
        "branches go forward alone",
        (f"{OCCUPANCY}::test_clocks_of_loops_are_what_nvidia_s_tool_shows[attention]",),
    ),
    CodeMutant(
        "plugin/cubin.py",
        "(high >> 41) & 15",
        "(high >> 41) & 7",
        "clocks after an instruction",
        (f"{OCCUPANCY}::test_clocks_of_loops_are_what_nvidia_s_tool_shows[attention]",),
    ),
    CodeMutant(
        "plugin/occupancy.py",
        "new.clocks < FEWER * old.clocks",
        "new.clocks <= old.clocks",
        "loops that are hardly shorter are taken",
        (f"{OCCUPANCY}::test_loops_of_group_products_are_placed_again_if_that_makes_them_shorter",),
    ),
    CodeMutant(
        "plugin/occupancy.py",
        "loops.clocks <= busy * loops.products",
        "loops.clocks <= busy",
        "loops that wait for their products are assembled again",
        (f"{OCCUPANCY}::test_loops_that_hide_behind_another_cta_stay",),
    ),
    CodeMutant(
        "plugin/occupancy.py",
        "groups = ctas * warps // _GROUP_WARPS",
        "groups = warps // _GROUP_WARPS",
        "loops that wait for the products of other warps are assembled again",
        (f"{OCCUPANCY}::test_loops_that_hide_behind_another_cta_stay",),
    ),
)
