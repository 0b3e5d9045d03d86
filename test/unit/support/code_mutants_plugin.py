"""Mistakes in what the plugin does around the passes: what ptxas is told, what is kept between processes."""

from __future__ import annotations

from code_mutants_base import CodeMutant

CLOCKS = "test/unit/plugin/test_plugin_warp_clocks.py"
CUBIN = "test/unit/plugin/test_plugin_cubin.py"
OCCUPANCY = "test/unit/plugin/test_plugin_occupancy.py"
KNOWN = "test/unit/plugin/test_plugin_known.py"
VETO = "test/unit/plugin/test_plugin_veto.py"

MUTANTS: tuple[CodeMutant, ...] = (
    CodeMutant(
        "plugin/ptxas/cubin.py",
        "loops_of",
        "words >> 47 << 48",
        "words >> 48 << 48",
        "branches go forward alone",
        (f"{CUBIN}::test_clocks_of_loops_are_what_nvidia_s_tool_shows[attention]",),
    ),
    CodeMutant(
        "plugin/ptxas/cubin.py",
        "clocks_after",
        "(high >> 41) & 15",
        "(high >> 41) & 7",
        "clocks after an instruction",
        (f"{CUBIN}::test_clocks_of_loops_are_what_nvidia_s_tool_shows[attention]",),
    ),
    CodeMutant(
        "plugin/ptxas/cubin.py",
        "_waits",
        "idle, pending = False, 0",
        "pending = 0",
        "waits for memory while MMAs are under way count as well",
        (f"{CUBIN}::test_a_loop_waits_for_loads_that_it_began_behind_its_products",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "_clocks_with_waits",
        "MEMORY_CLOCKS * loops.waits",
        "loops.waits",
        "a wait for memory counts as a clock",
        (f"{OCCUPANCY}::test_loops_that_wait_for_memory_behind_their_products_are_placed_again",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "ShorterLoops.serves",
        "_clocks_with_waits(new) < self.below * _clocks_with_waits(old)",
        "_clocks_with_waits(new) <= _clocks_with_waits(old)",
        "loops that are hardly shorter are taken",
        (f"{OCCUPANCY}::test_loops_of_group_products_are_placed_again_if_that_makes_them_shorter",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "hidden",
        "clocks * loops.mmas",
        "clocks",
        "loops that wait for their products are assembled again",
        (f"{OCCUPANCY}::test_loops_that_hide_behind_another_cta_stay",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "covered",
        "near * MMA_CLOCKS * mean",
        "near * MMA_CLOCKS",
        "loops of narrow products count as if those were wide",
        (f"{OCCUPANCY}::test_loops_that_hide_behind_another_cta_stay",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "_for_loops",
        "ctas * limits.warps // _GROUP_WARPS",
        "limits.warps // _GROUP_WARPS",
        "loops that wait for the products of other warps are assembled again",
        (f"{OCCUPANCY}::test_loops_that_hide_behind_another_cta_stay",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "_for_loops",
        "policy.loop_registers * used",
        "used",
        "loops that have nearly all registers are assembled again",
        (f"{OCCUPANCY}::test_loops_that_have_nearly_all_registers_stay",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "_for_serial_loads",
        "used >= spared",
        "False",
        "kernels with many registers are assembled with more",
        (f"{CLOCKS}::test_loads_of_kernels_with_many_registers_are_not_begun_late",),
    ),
    CodeMutant(
        "plugin/ptxas/warp_clocks.py",
        "_Walk.waiting",
        "barriers += opcode == _BAR",
        "barriers += 0",
        "loads on both sides of a barrier of the CTA could be begun at once",
        (f"{CLOCKS}::test_loads_one_after_another_are_told_from_those_at_once",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "FewerClocks.serves",
        "new.clocks * self.ctas <= self.clocks * ctas",
        "True",
        "more registers are taken whatever CTAs they cost",
        (f"{CLOCKS}::test_it_stays_as_it_is_where_too_few_ctas_would_find_room",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "MoreCtas.serves",
        "new.clocks <= self.most * old.clocks",
        "True",
        "another CTA is taken whatever clocks it costs",
        (f"{OCCUPANCY}::test_it_is_taken_where_a_warp_takes_hardly_more_clocks",),
    ),
    CodeMutant(
        "plugin/ptxas/advice.py",
        "advise",
        "1 + policy.bounded_clocks / limits.ctas(used)",
        "1 + policy.bounded_clocks",
        "another CTA may cost as many clocks beside several as beside one",
        (f"{CLOCKS}::test_the_more_ctas_there_are_the_fewer_clocks_another_may_cost",),
    ),
    CodeMutant(
        "plugin/ptxas/cubin.py",
        "loops_of",
        "capability in _SINCE_9",
        "True",
        "branches of older GPUs are read as those of newer ones",
        (f"{CUBIN}::test_loops_are_those_that_nvidia_s_tool_shows[80]",),
    ),
    CodeMutant(
        "plugin/ptxas/warp_clocks.py",
        "spilled_part",
        "int(trips**depth)",
        "1",
        "spills in loops count once",
        (f"{CLOCKS}::test_spills_in_loops_count_as_often_as_they_run",),
    ),
    CodeMutant(
        "plugin/ptxas/veto.py",
        "Veto._better",
        "part >= policy.spills_matter",
        "True",
        "a kernel that hardly spills is compared with stock Triton's",
        (f"{VETO}::test_few_spills_are_not_compared",),
    ),
    CodeMutant(
        "plugin/ptxas/veto.py",
        "Veto._better",
        "not stock_pace.is_slower(pace, policy.stock_clocks)",
        "True",
        "what spills more goes, however few clocks its warps take",
        (f"{VETO}::test_more_spills_are_taken_where_warps_take_fewer_clocks",),
    ),
    CodeMutant(
        "plugin/wrapping.py",
        "_wrapped.assembled",
        'f"{triton_versions.found()} {ptxas_version(target)} {options!r} {others}"',
        'f"{triton_versions.found()} {ptxas_version(target)} {options!r}"',
        "what comparing has shown holds whatever others do in the stages",
        (f"{VETO}::test_what_comparing_has_shown_holds_for_stages_as_they_were",),
    ),
    CodeMutant(
        "plugin/kept/store.py",
        "_measures_folder",
        "drawn * (FOLDER_BYTES // _PARTS) < size << 32",
        "False",
        "nobody looks how large a folder has become",
        (f"{KNOWN}::test_a_store_looks_how_large_it_is_now_and_then",),
    ),
)
