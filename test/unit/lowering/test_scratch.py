"""Where scratch lives: within the budget, no shorter than it must, and each warp in its own part."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.emit import scratch
from triton_linear.lowering.emit.bodies import emit_body, structs
from triton_linear.lowering.emit.calls import Partition, partitions_of
from triton_linear.lowering.emit.machines import MACHINES
from triton_linear.lowering.emit.scratch import Home, ScratchUse, alternate, shortest
from triton_linear.lowering.emit.text import SHARED, FunctionWriter
from triton_linear.lowering.interpreter.function import simulate
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import MemorySide, SharedPlan
from triton_linear.lowering.planners.conversion import conversion
from triton_linear.lowering.planners.shared import plan_warp_shared
from triton_linear.lowering.target.limits import SCRATCH_PIECES
from triton_linear.lowering.target.targets import TARGETS, Target, target

CUDA = target("cuda:90")
arrange = functools.partial(scratch.arrange, pieces=SCRATCH_PIECES)


# The budget


@pytest.mark.parametrize("gpu", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("words", [1, 32, 64, 128, 255])
def test_the_budget_leaves_room_for_every_cta_that_finds_registers(gpu: Target, warps: int, words: int) -> None:
    budget = gpu.shared_budget(warps, words)
    registers = max(gpu.policy.likely_registers, words) * gpu.lanes * warps
    ctas = min(gpu.registers // registers, gpu.resident_warps // warps)
    assert 0 < budget <= gpu.max_shared_bytes
    assert ctas * (budget + gpu.reserved_shared_bytes) <= gpu.max_shared_bytes + gpu.reserved_shared_bytes


def test_the_budget_grows_with_what_registers_take() -> None:
    assert [CUDA.shared_budget(4, words) // 1024 for words in (1, 32, 64, 128, 255)] == [27, 27, 27, 56, 113]
    assert [CUDA.shared_budget(warps, 1) // 1024 for warps in (1, 4, 8, 32)] == [6, 27, 56, 227]


@pytest.mark.parametrize("gpu", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("share", [1, 2, 3, 5])
def test_the_budget_leaves_room_for_every_cta_that_finds_memory(gpu: Target, share: int) -> None:
    whole = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    needed = whole // share - gpu.reserved_shared_bytes
    budget = gpu.shared_budget(1, 1, needed)
    assert share * (budget + gpu.reserved_shared_bytes) <= whole
    assert budget == max(min(needed, gpu.max_shared_bytes), gpu.shared_budget(1, 1))


# Lives


def use(place: int, size: int, *, block: int = 100, nesting: int = 2, warp: bool = False) -> ScratchUse:
    return ScratchUse(place, place + 1, block, nesting, size, warp, split=warp)


def test_what_fits_lives_to_the_end_of_its_block() -> None:
    uses = [use(10, 100), use(20, 100), use(30, 100)]
    assert arrange(uses, 50, 350) == ((Home(100),) * 3, 350)


def test_what_does_not_fit_lives_until_the_next_is_done() -> None:
    uses = [use(10, 100), use(20, 100), use(30, 100)]
    assert arrange(uses, 50, 350)[0] != arrange(uses, 50, 349)[0]
    homes, _ = arrange(uses, 50, 250)
    assert homes == (Home(21), Home(31), Home(31))


def test_regions_share_no_bytes() -> None:
    first = [use(10, 100), use(12, 64, warp=True)]
    second = [use(20, 100), use(30, 100), use(32, 64, warp=True)]
    in_regions = functools.partial(scratch.in_regions, [first, second], 50, pieces=64, small=0)
    extended = in_regions(budget=50 + 164 + 264)
    lent = Home(13, lent=True, waits=True), Home(33, lent=True, waits=True)
    assert [extended[n] for n in (10, 20, 30)] == [Home(100)] * 3
    assert (extended[12], extended[32]) == lent
    less = in_regions(budget=50 + 164 + 263)
    assert [less[n] for n in (10, 12)] == [Home(100), lent[0]]
    assert [less[n] for n in (20, 30, 32)] == [Home(21), Home(31), lent[1]]
    assert in_regions(budget=0) == {n: Home(n + 1) for n in (10, 12, 20, 30, 32)}


def test_inner_loops_come_first() -> None:
    uses = [use(10, 100, nesting=1), use(20, 100, block=40), use(30, 100, block=40), use(50, 100, nesting=1)]
    homes, _ = arrange(uses, 0, 200)
    assert homes == (Home(11), Home(40), Home(40), Home(51))


@pytest.mark.parametrize("others", [0, 1000])
def test_without_room_everything_shares_its_bytes(others: int) -> None:
    uses = [use(10, 100), use(20, 100), use(30, 60, warp=True)]
    homes, room = arrange(uses, others, 50)
    assert homes == shortest(uses) == (Home(11), Home(21), Home(31))
    assert room == (50 if others else 100)


def test_warps_have_a_buffer_for_each_size() -> None:
    uses = [use(10, 64, warp=True, nesting=1), use(20, 64, warp=True, nesting=1), use(30, 128, warp=True)]
    homes, _ = arrange(uses, 8, 200)
    assert homes == (Home(11, lent=True), Home(21, lent=True, waits=True), Home(31, lent=True, waits=True))


def test_small_buffers_come_first() -> None:
    uses = [use(10, 256, warp=True), use(20, 128, warp=True), use(30, 64, warp=True)]
    assert [home.lent for home in arrange(uses, 0, 448)[0]] == [True, True, True]
    assert [home.lent for home in arrange(uses, 0, 447)[0]] == [False, False, True]
    assert [home.lent for home in arrange(uses, 0, 319)[0]] == [False, False, False]


def test_a_buffer_that_takes_no_more_than_there_was_is_lent_beyond_the_budget() -> None:
    uses = [use(10, 64, warp=True), use(20, 64, warp=True)]
    assert [home.lent for home in arrange(uses, 0, 10)[0]] == [True, True]
    assert [home.lent for home in arrange(uses, 1, 10)[0]] == [False, False]


def test_scratch_lives_until_the_next_is_done_if_one_of_them_is_small() -> None:
    uses = [use(10, 64), use(20, 32), use(30, 2048), use(40, 64), use(50, 64, block=60), use(70, 64)]
    homes = alternate(uses, shortest(uses), small=1024, room=2048 + 64)
    assert homes == (Home(21), Home(31), Home(41), Home(71), Home(51), Home(71))
    both = alternate(uses, shortest(uses), small=1024, room=2048 + 63)
    assert both == (Home(21), Home(21), Home(31), Home(71), Home(51), Home(71))
    assert alternate(uses, shortest(uses), small=31, room=4096) == shortest(uses)
    between = [use(10, 2048), use(20, 2048, block=30), use(40, 64)]
    assert alternate(between, shortest(between), small=1024, room=8192) == shortest(between), (
        "that takes 2048 more"
    )
    large = [use(10, 2048), use(20, 1025)]
    assert alternate(large, shortest(large), small=1024, room=4096) == shortest(large)


def test_small_scratch_lives_no_longer_than_memory_allows() -> None:
    uses = [use(10, 64), use(20, 64), use(30, 64, warp=True), use(40, 64)]
    assert alternate(uses, shortest(uses), small=64, room=127) == shortest(uses)
    assert alternate(uses, shortest(uses), small=64, room=128) == (Home(21), Home(41), Home(31), Home(41))
    held = (Home(90), *shortest(uses)[1:])
    assert alternate(uses, held, small=64, room=128)[0] == Home(90)


@given(
    st.lists(st.tuples(st.sampled_from([16, 64, 256]), st.booleans(), st.integers(0, 3)), max_size=8),
    st.integers(0, 300),
    st.integers(1, 2000),
)
def test_lives_stay_within_budget_and_block(
    drawn: list[tuple[int, bool, int]], others: int, budget: int
) -> None:
    uses, at = [], 0
    for size, warp, block in sorted(drawn, key=lambda one: one[2]):
        at = max(at, 1000 * block) + 10
        uses.append(use(at, size, block=1000 * block + 900, warp=warp))
    homes, room = arrange(uses, others, budget)
    least = max((use.bytes for use in uses), default=0)
    assert room == (budget if others else max(budget, least))
    alive = [
        others
        + sum({u.bytes for u, home in zip(uses, homes, strict=True) if home.lent})
        + sum(
            u.bytes
            for u, home in zip(uses, homes, strict=True)
            if not home.lent and u.start <= point < home.freed
        )
        for point in (u.start for u in uses)
    ]
    for u, home in zip(uses, homes, strict=True):
        assert u.end <= home.freed <= u.block_end
        assert u.split or not home.lent
    assert homes == shortest(uses) or max(alive) <= room


# Warps in their own parts


@functools.cache
def transpose(bits: int, warps: int, gpu: Target) -> tuple[SharedPlan, SharedPlan]:
    """Plans inside the warps that turn a square of the lanes, and back; the warps change places with nobody."""
    lanes = gpu.lanes.bit_length() - 1
    low, high = [[1 << i] for i in range(lanes)], [[1 << i] for i in range(lanes, 2 * lanes)]
    warp = [[1 << i] for i in range(2 * lanes, 2 * lanes + warps)]
    rows, columns = (
        LinearLayout.from_bases({"register": first, "lane": second, "warp": warp}, ["dim0"])
        for first, second in ((low, high), (high, low))
    )
    plans = []
    for source, result in ((rows, columns), (columns, rows)):
        plan = plan_warp_shared(conversion(source, result), element_type(f"i{bits}"), gpu, 1 << 20)
        assert isinstance(plan, SharedPlan)
        plans.append(plan)
    return plans[0], plans[1]


def addresses(side: MemorySide, threads: int) -> np.ndarray:
    """The byte addresses of each thread's accesses."""
    base = np.zeros(threads, np.int64)
    for bit, column in enumerate(side.columns):
        base ^= np.where(np.arange(threads) >> bit & 1, column, 0)
    offsets = [access.offset for round_ in side.rounds for access in round_]
    return base[:, None] ^ np.array(offsets)[None, :]


@pytest.mark.parametrize("gpu", [CUDA, target("hip:gfx942")], ids=["nvidia", "amd"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("warps", [0, 1, 2, 3])
def test_warps_keep_to_their_parts(gpu: Target, bits: int, warps: int) -> None:
    for plan in transpose(bits, warps, gpu):
        assert scratch.keeps_to_own_part(plan, gpu, 1 << warps)
        part = plan.scratch_bytes >> warps
        for side in (plan.store, plan.load):
            found = addresses(side, gpu.lanes << warps)
            own = np.arange(gpu.lanes << warps)[:, None] // gpu.lanes
            assert (found // part == own).all()
            assert ((found + side.access_bytes - 1) // part == own).all()


def test_a_plan_whose_warps_have_other_parts_is_known() -> None:
    plan, _ = transpose(32, 2, CUDA)
    lanes = CUDA.lanes.bit_length() - 1
    *inside, first, second = plan.load.columns
    assert len(inside) == lanes
    crossed = replace(plan, load=replace(plan.load, columns=(*inside, second, first)))
    assert not scratch.keeps_to_own_part(crossed, CUDA, 4)
    beyond = replace(plan, load=replace(plan.load, columns=(inside[0] ^ first, *inside[1:], first, second)))
    assert not scratch.keeps_to_own_part(beyond, CUDA, 4)
    together = replace(plan, load=replace(plan.load, columns=(*inside, first, 0)))
    assert not scratch.keeps_to_own_part(together, CUDA, 4)


@pytest.mark.parametrize(("name", "together"), [("cuda:90", True), ("cuda:80", False), ("hip:gfx942", False)])
def test_words_of_halves_share_a_vector_where_llvm_looks_for_long_ones(name: str, together: bool) -> None:
    gpu, element = target(name), element_type("i16")
    lanes = [[8 << bit] for bit in range(gpu.lanes.bit_length() - 1)]
    sides = [
        LinearLayout.from_bases({"register": [[1], [2], [4]], "lane": order, "warp": []}, ["dim0"])
        for order in (lanes, lanes[1:] + lanes[:1])
    ]
    plan = plan_warp_shared(conversion(*sides), element, gpu, 1 << 20)
    assert isinstance(plan, SharedPlan)
    writer = FunctionWriter()
    emit_body(plan, element, gpu, writer, "%source", "%scratch")
    packed = [line for line in writer.body().splitlines() if "insertelement" in line and "i16>" in line]
    assert packed and {line.rpartition(" ")[2] for line in packed} == {f"vector<{8 if together else 2}xi16>"}


@pytest.mark.parametrize("waits", [True, False])
def test_the_next_exchange_in_a_part_waits_for_the_loads_of_the_last(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not waits:
        monkeypatch.setattr(MACHINES["nvidia"], "keep_loads_in_flight", lambda writer: None)
    there, _ = transpose(32, 1, CUDA)
    writer = FunctionWriter()
    element = element_type("i32")
    type_, _ = structs(there, element)
    middle = emit_body(there, element, CUDA, writer, "%source", "%scratch")
    # A square that is turned twice is as it was. The way back would store where each thread itself has loaded.
    result = emit_body(there, element, CUDA, writer, middle, "%scratch")
    writer.effect(f"llvm.return {result} : {type_}")
    arguments = f"%source: {type_}, %scratch: {SHARED}"
    text = f"  llvm.func @twice({arguments}) -> {type_} {{\n{writer.body()}  }}\n"
    registers = [np.arange(64, dtype=np.uint64)[None, :] + np.uint64(64 * i) for i in range(32)]
    outcome = simulate(text, registers, CUDA, num_warps=2, shared_bytes=there.scratch_bytes)
    assert (outcome.values == np.stack(registers)).all()
    assert bool(outcome.races) is not waits


# The operations of a module

MODULE = """\
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({
    %0 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %1 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x64x32xf16, #a, #ttg.shared_memory, mutable>
    "scf.for"(%0, %0, %0) ({
    ^bb0(%arg1: i32):
      %3:3 = "test.call"() : () -> (tensor<64x!tt.ptr<f32>, #a>, tensor<16x64xf32, #a>, tensor<64xf32, #a>)
      %4 = "ttg.convert_layout"(%3#0) : (tensor<64x!tt.ptr<f32>, #a>) -> tensor<64x!tt.ptr<f32>, #a>
      %5 = "tt.reduce"(%3#1) <{axis = 1 : i32}> ({
      ^bb0(%arg2: f32, %arg3: f32):
        "tt.reduce.return"(%arg2) : (f32) -> ()
      }) : (tensor<16x64xf32, #a>) -> tensor<16xf32, #ttg.slice<{dim = 1, parent = #a}>>
      %6 = "tt.reduce"(%3#2) <{axis = 0 : i32}> ({
      ^bb0(%arg2: f32, %arg3: f32):
        "tt.reduce.return"(%arg2) : (f32) -> ()
      }) : (tensor<64xf32, #a>) -> f32
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


@functools.cache
def parsed(text: str) -> Module:
    """A module, which lives on: operations do not keep theirs."""
    return bridge.text_to_upstream(text, bridge.upstream_context())


def program(text: str = MODULE) -> scratch.NumberedModule:
    return scratch.NumberedModule(operations(parsed(text).operation))


def place(of: scratch.NumberedModule, name: str) -> int:
    """The number of the only operation of this name."""
    (found,) = (n for n, op in enumerate(of.ops) if op.name == name)
    return found


def test_a_use_knows_its_block() -> None:
    plan, _ = transpose(32, 2, CUDA)
    whole = program()
    start = place(whole, "test.call")
    for framed in (True, False):
        found = whole.use(start, plan, CUDA, 4, framed)
        block_end = place(whole, "scf.yield")
        assert found == ScratchUse(start, start + 1, block_end, 2, plan.scratch_bytes, True, framed)
        assert found.may_repeat
    outside = place(whole, "ttg.local_alloc")
    found = whole.use(outside, plan, CUDA, 4, framed=True)
    assert found == ScratchUse(
        outside, outside + 1, place(whole, "tt.return"), 1, plan.scratch_bytes, True, True
    )
    assert not found.may_repeat


def test_the_ends_of_blocks_and_the_beginnings_of_partitions() -> None:
    calls = 3
    body = '%{0}_{1} = "tt.call"() <{{callee = @f}}> : () -> i32\n"test.call"() : () -> ()\n'
    first, second = ("".join(body.format(region, n) for n in range(calls)) for region in "ab")
    text = f"""
      "ttg.warp_specialize"() <{{partitionNumWarps = array<i32: 4, 8>}}> ({{
        "ttg.warp_yield"() : () -> () }}, {{
        "ttg.warp_specialize.partitions"() ({{ {first} "ttg.warp_return"() : () -> () }},
          {{ {second} "ttg.warp_return"() : () -> () }}) : () -> ()
      }}) : () -> ()
    """
    text = MODULE.replace('    "tt.return"', f'{text}    "tt.return"')
    ops = operations(parsed(text).operation)
    whole = scratch.NumberedModule(ops)
    found = partitions_of(whole)
    numbers = [n for n, name in enumerate(whole.names) if name == "tt.call"]
    assert list(found) == numbers and len(numbers) == 2 * calls
    for region, warps in enumerate((4, 8)):
        members = numbers[region * calls : (region + 1) * calls]
        end = next(n for n in range(members[0], len(ops)) if whole.names[n] == "ttg.warp_return")
        assert {found[n] for n in members} == {Partition(region, members[0], warps, end)}
    plan, _ = transpose(32, 2, CUDA)
    uses = [whole.use(n, plan, CUDA, 4, framed=False) for n in numbers]
    assert not any(each.may_repeat for each in uses), "a region alone is no loop"
    lasts = [each.block_end for each in uses]
    assert lasts == [n for n, name in enumerate(whole.names) if name == "ttg.warp_return" for _ in range(calls)]


def test_the_frame_of_a_function() -> None:
    whole = program()
    found = whole.frame()
    assert found is not None
    assert (whole.names[found.begin], whole.names[found.end]) == ("arith.constant", "tt.return")
    branch = '    "cf.br"()[^bb1] : () -> ()\n  ^bb1:\n    "tt.return"'
    two_blocks = MODULE.replace('    "tt.return"', branch)
    other = '"tt.func"() <{function_type = () -> (), sym_name = "other"}> ({\n  }) : () -> ()\n'
    two_functions = MODULE.replace('  "tt.func"', f'  {other}  "tt.func"')
    assert program(two_blocks).frame() is program(two_functions).frame() is None


def test_what_other_operations_take() -> None:
    whole = program()
    assert whole.buffer_bytes() == 2 * 64 * 32 * 2
    convert, rows, all_ = whole.momentary_uses(4)
    assert (convert.bytes, rows.bytes, all_.bytes) == (64 * 8, 4 * 16 * 4, 4 * 8)
    assert whole.names[convert.start] == "ttg.convert_layout"
    assert convert.end == convert.start + 1
    assert whole.names[all_.end] == "scf.yield"
    assert rows.end == all_.start
    assert not any(use.split for use in (convert, rows, all_))


def test_the_scratch_of_others_counts_while_they_run() -> None:
    one, two = use(10, 100), use(30, 100)
    between = use(20, 50, warp=True)
    between = replace(between, split=False, block_end=between.end)
    assert arrange([one, two], 0, 240)[0] == (Home(100), Home(100))
    assert arrange([one, between, two], 0, 240)[0] == (Home(100), Home(21), Home(100))
    assert arrange([one, between, two], 0, 140)[0] == (Home(11), Home(21), Home(31))
