"""How long a warp takes through a kernel, by its cubin, and the assembly with more registers that follows."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import triton_linear
from bench import gpu_partitions
from bench.harness.child import empty_cache
from bench.reported import dry
from bench.reported.cases import CASES
from triton_linear.lowering.target.policy import UNBOUNDED
from triton_linear.lowering.target.targets import target, with_policy
from triton_linear.ptxas import advice, registers, warp_clocks
from triton_linear.ptxas.cubin import Loops, Usage, decoded, loops_of, usage, without_dispatch
from triton_linear.ptxas.occupancy import most_registers, resident
from triton_linear.ptxas.warp_clocks import OTHER_CLOCKS, SHARED_CLOCKS, WarpClocks

LOAD, SHARED, BAR, SPECIAL, ADD, BRANCH = 0x981, 0x984, 0xB1D, 0x308, 0x221, 0x947
LOAD_LOCAL, STORE_LOCAL = 0x983, 0x387
NONE = 7
H200 = target("cuda:90")


def instruction(opcode: int, after: int = 1, sets: int = NONE, waits: tuple[int, ...] = ()) -> tuple[int, int]:
    return opcode, after << 41 | sets << 46 | sum(1 << number for number in waits) << 52


def back(instructions: int, after: int = 1) -> tuple[int, int]:
    """A branch so many instructions back, counted from the one behind it."""
    words, byte = divmod(-4 * instructions, 256)
    return BRANCH | byte << 16 | words % (1 << 30) << 34, after << 41 | (words >> 30) % (1 << 18)


def clocks(
    monkeypatch: pytest.MonkeyPatch, *code: tuple[int, int], memory: int = 500, trips: int = 8
) -> WarpClocks:
    monkeypatch.setattr(warp_clocks, "decoded", lambda _: list(code))
    monkeypatch.setattr(warp_clocks, "capability", lambda _: 90)
    found = warp_clocks.warp_clocks(b"", memory, trips)
    assert found is not None
    return found


@pytest.mark.parametrize(("opcode", "latency"), [(LOAD, 500), (SHARED, SHARED_CLOCKS), (SPECIAL, OTHER_CLOCKS)])
def test_a_result_is_there_after_its_latency(
    monkeypatch: pytest.MonkeyPatch, opcode: int, latency: int
) -> None:
    first, second = instruction(opcode, 2, sets=3), instruction(ADD, 5, waits=(3,))
    assert clocks(monkeypatch, first, second) == WarpClocks(latency + 5, 0)
    assert clocks(monkeypatch, first, instruction(ADD, 5, waits=(2,))) == WarpClocks(7, 0)


def test_loads_one_after_another_are_told_from_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = instruction(LOAD, sets=0), instruction(LOAD, sets=1)
    use, other = instruction(ADD, waits=(0,)), instruction(ADD, waits=(1,))
    assert clocks(monkeypatch, one, two, use, other).serial == 0
    assert clocks(monkeypatch, one, use, two, other) == WarpClocks(1002, 500 - 2)
    between = clocks(monkeypatch, one, use, instruction(BAR), two, other)
    assert between.serial == 0 and between.clocks == 1003


def test_what_waits_for_arithmetic_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for memory and for other lanes are not among it."""

    def part(*code: tuple[int, int]) -> float:
        found = warp_clocks.arithmetic_waits(b"", clocks(monkeypatch, *code).clocks, 500, 8)
        assert found is not None
        return found

    one, last = instruction(ADD, 4), instruction(ADD)
    assert part(one, one, last) == 1 - 3 / 9
    assert part(instruction(SPECIAL, sets=0), instruction(ADD, waits=(0,))) == 1 - 2 / (OTHER_CLOCKS + 1)
    for opcode in (LOAD, SHARED):
        assert part(instruction(opcode, sets=0), instruction(ADD, waits=(0,))) == 0
    looped = part(instruction(SPECIAL, 2, sets=0), instruction(ADD, 5, waits=(0,)), back(3, 5))
    assert looped == 1 - 3 / (OTHER_CLOCKS + 10)
    monkeypatch.setattr(warp_clocks, "decoded", lambda _: [])
    assert warp_clocks.arithmetic_waits(b"", 100, 500, 8) is None


@given(st.lists(st.tuples(st.sampled_from([LOAD, SHARED, SPECIAL, ADD]), st.integers(1, 15)), min_size=1))
def test_a_part_is_a_part(code: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        each = (instruction(opcode, after, sets=0, waits=(0,)) for opcode, after in code)
        part = warp_clocks.arithmetic_waits(b"", clocks(monkeypatch, *each).clocks, 500, 8)
    assert part is not None and 0 <= part < 1


def test_a_loop_is_gone_through_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    body = instruction(LOAD, 10, sets=0), instruction(ADD, 10, waits=(0,)), back(3, 10)
    for trips in (1, 8):
        assert clocks(monkeypatch, *body, trips=trips) == WarpClocks(520 * trips, 0)
    nested = (*body, back(4, 10))
    assert clocks(monkeypatch, *nested, trips=4).clocks == 520 * 16 + 10 * 4


def test_many_loops_do_not_take_the_square_of_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processor time: ten times as many loops take 15 times as long, and took 70 times."""

    def seconds(loops: int) -> float:
        code = [instruction(LOAD, sets=0), instruction(ADD, waits=(0,))] * 8 + [back(17)]
        begun = time.process_time()
        clocks(monkeypatch, *code * loops)
        return time.process_time() - begun

    assert min(seconds(1000) for _ in range(2)) < 40 * min(seconds(100) for _ in range(5))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([LOAD, SHARED, SPECIAL, ADD]),
            st.integers(1, 15),
            st.integers(0, 7),
            st.integers(0, 5),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_it_takes_the_clocks_of_all_instructions_and_no_more_than_all_latencies(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    code = [instruction(opcode, after, sets, (waits,)) for opcode, after, sets, waits in drawn]
    with pytest.MonkeyPatch.context() as patch:
        found = clocks(patch, *code)
        slower = clocks(patch, *code, memory=900)
    issued = sum(after for _, after, _, _ in drawn)
    assert issued <= found.clocks <= slower.clocks <= issued + 900 * len(drawn)


def test_a_kernel_with_regions_has_one_loop_in_which_they_wait() -> None:
    """What is left are the loops around conversions, of which some releases unroll one."""
    case = gpu_partitions.partition_cases(1, 2)[1]
    cubin = gpu_partitions.build(case, "stock", "cuda:90").cubin
    loops = loops_of(decoded(cubin), 90)
    left = without_dispatch(loops, decoded(cubin))
    assert left and len({first for first, _ in set(loops) - set(left)}) == 1


def test_spills_in_loops_count_as_often_as_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def part(*code: tuple[int, int], trips: int = 8) -> float | None:
        clocks(monkeypatch, *code)  # reads this code from now on
        return warp_clocks.spilled_part(b"", trips)

    add, load, store = (instruction(opcode) for opcode in (ADD, LOAD_LOCAL, STORE_LOCAL))
    assert part(add, instruction(LOAD), instruction(SHARED)) == 0
    assert part(add, store, add, load) == 1 / 2
    assert part(store, add, back(3), add, trips=4) == 4 / 13
    assert part(store, add, back(3), add, trips=1) == 1 / 4
    assert part(store, load, back(2), add, back(5), trips=4) == (4 + 16) / (4 + 32 + 8)


@pytest.mark.parametrize(
    ("first_always", "last_always", "waits"),
    [(True, True, True), (False, True, True), (None, True, False), (False, False, False)],
)
def test_the_loop_in_which_regions_wait_for_work_is_none(
    monkeypatch: pytest.MonkeyPatch, first_always: bool | None, last_always: bool, waits: bool
) -> None:
    """Two branches lead back to its beginning, one at least without a condition. In it is a region's loop."""

    def backward(instructions: int, always: bool | None) -> tuple[int, int]:
        low, high = back(instructions)
        return (low | 0x7000, high | 0xE0 << 18) if always else (low, high)

    skip, add, store = back(-1), instruction(ADD), instruction(STORE_LOCAL)
    first = add if first_always is None else backward(2, first_always)
    code = skip, first, store, add, back(3), backward(6, last_always)
    once, often = clocks(monkeypatch, *code, trips=1), clocks(monkeypatch, *code, trips=4)
    assert once.clocks == 6
    regions = warp_clocks.warp_clocks(b"", 500, 4, regions=True)
    assert regions is not None and (regions != often) == waits
    assert not waits or regions.clocks == 3 + 3 * 4
    part = warp_clocks.spilled_part(b"", 4, regions=True)
    assert part == (4 / (3 + 3 * 4) if waits else warp_clocks.spilled_part(b"", 4))


@pytest.mark.parametrize(
    ("part", "own_warps", "matter"),
    [(0.0029, 4, False), (0.003, 4, True), (0.0029, 2, False), (0.003, 2, True)],
)
def test_few_spills_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, part: float, own_warps: int, matter: bool
) -> None:
    """Of a kernel of four warps, with regions and without."""
    monkeypatch.setattr(advice, "spilled_part", lambda *_: part)
    limits = advice.limits_of(128, {"shared": 1024}, H200, own_warps)
    assert limits.spills_matter(b"cubin") == matter


@pytest.mark.parametrize("broken", [b"", b"\x7fELF\x02" + bytes(100), "text", None])
def test_what_is_no_cubin_has_no_clocks(broken: object) -> None:
    assert warp_clocks.warp_clocks(broken, 500, 8) is None
    assert warp_clocks.spilled_part(broken, 8) is None


# The assembly with more registers

SUM = next(case.kernel for case in CASES if case.name == "reduced_then_stored")
"""Eight warps that add up rows, each with several loads; ptxas begins some of them when others have come."""


def compiled(**options: Any) -> Any:
    with empty_cache(), triton_linear.enabled(strict=True, **options):
        return dry.compiled(SUM, "cuda:90")


def directives(kernel: Any) -> list[str]:
    return re.findall(r"^\.(?:minnctapersm|maxnreg).*", kernel.asm["ptx"], re.M)


def time_of(kernel: Any) -> WarpClocks:
    found = warp_clocks.warp_clocks(kernel.asm["cubin"], advice.FAR_CLOCKS, H200.policy.unknown_trips)
    assert found is not None
    return found


def test_a_kernel_that_waits_for_one_load_after_another_gets_more_registers() -> None:
    before, after = compiled(occupancy=False), compiled()
    serial = time_of(before).serial / time_of(before).clocks
    if serial < H200.policy.serial_loads:
        pytest.skip("this ptxas begins its loads at once")
    assert [each.split()[0] for each in directives(after)] == [".minnctapersm"]
    assert not directives(before)
    assert time_of(after).clocks < H200.policy.warp_left * time_of(before).clocks
    used = [usage(kernel.asm["cubin"]) for kernel in (before, after)]
    assert used[0] is not None and used[1] is not None
    assert used[0].registers < used[1].registers and not used[1].stack


def test_it_stays_as_it_is_where_too_few_ctas_would_find_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warp gains less than what the CTAs are fewer: no kernel gains by that. Where eight of them ran, nothing
    would be tried."""
    before = compiled(occupancy=False)
    used_before = usage(before.asm["cubin"])
    assert used_before is not None
    if time_of(before).serial < H200.policy.serial_loads * time_of(before).clocks:
        pytest.skip("this ptxas begins its loads at once")
    monkeypatch.setattr(advice.CtaLimits, "ctas", lambda _, used: 7 if used <= used_before.registers else 1)
    assert not directives(compiled())


@given(st.integers(16, 255), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 32))
def test_a_thread_may_have_half_as_many_registers_again(used: int, warps: int, most: int) -> None:
    room = advice.CtaLimits(most, warps, H200, whole=True)
    wanted = min(255, 1.5 * used)
    ctas, found = room.ctas(used), room.ctas_leaving(wanted, used)
    enough = [n for n in range(1, ctas + 1) if most_registers(n, warps, H200) >= wanted]
    assert found == (max(enough) if enough and used <= 247 else None)


def test_clocks_are_not_known_where_they_were_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "warp_clocks", lambda *_: WarpClocks(100, 50))
    off = with_policy(H200, serial_loads=UNBOUNDED)
    for gpu, known in ((H200, True), (target("cuda:100"), False), (off, False)):
        limits = advice.limits_of(128, {"shared": 1024}, gpu)
        assert (limits.clocks(advice.Assembled(b"cubin", Usage(64, 0))) is not None) == known


def test_where_as_many_warps_run_as_can_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    before = time_of(compiled(occupancy=False))
    if before.serial < H200.policy.serial_loads * before.clocks:
        pytest.skip("this ptxas begins its loads at once")
    monkeypatch.setattr(advice.CtaLimits, "ctas", lambda room, used: H200.resident_warps // room.warps)
    assert not directives(compiled())


def test_what_cannot_be_taken_is_not_walked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where clocks were not measured, and where warps of regions run a part of the code each."""
    walked: list[object] = []

    def walk(cubin: object, memory: int, trips: int, regions: bool) -> None:
        walked.append(cubin)

    monkeypatch.setattr(advice, "warp_clocks", walk)

    def advised(gpu: str, own_warps: int | None) -> object:
        made = advice.Assembled(b"cubin", Usage(40, 0))
        limits = advice.limits_of(128, {"shared": 20 * 1024}, target(gpu), own_warps)
        assert not advice.stalls("ptx", made, limits)
        return advice.advise("ptx", made, limits)

    for gpu, own_warps in (("cuda:100", 4), ("cuda:90", 2)):
        assert advised(gpu, own_warps) is None
    assert not walked
    for known in (4, None):
        assert advised("cuda:90", known) is None
    assert len(walked) == 2


@pytest.mark.parametrize(
    ("registers", "serial", "shared", "tried"),
    [(144, 50, 1, True), (160, 50, 1, False), (112, 0, 60, True), (120, 0, 60, False), (120, 50, 60, True)],
)
def test_loads_of_kernels_with_many_registers_are_not_begun_late(
    monkeypatch: pytest.MonkeyPatch, registers: int, serial: int, shared: int, tried: bool
) -> None:
    """Of 100 clocks of a kernel of four warps with `wgmma`; three CTAs find 60 KiB."""
    monkeypatch.setattr(advice, "warp_clocks", lambda *_: WarpClocks(100, serial))
    made, text = advice.Assembled(b"cubin", Usage(registers, 0)), "wgmma.mma_async.sync.aligned.m64n32k16"
    found = advice.advise(text, made, advice.limits_of(128, {"shared": shared * 1024}, H200))
    assert isinstance(found, advice.FewerClocks) == tried


@pytest.mark.parametrize(("registers", "ctas", "most"), [(136, 1, 107), (88, 2, 103)])
def test_the_more_ctas_there_are_the_fewer_clocks_another_may_cost(
    monkeypatch: pytest.MonkeyPatch, registers: int, ctas: int, most: int
) -> None:
    """Of 100, to a kernel of eight warps."""
    assert resident(registers, 8, H200.registers) == ctas
    taken: list[int] = []
    for clocks_now in range(95, 120):
        before = advice.Assembled("before", Usage(registers, 0))
        now = advice.Assembled("now", Usage(128 if registers == 136 else 80, 0))
        times = {"before": WarpClocks(100, 0), "now": WarpClocks(clocks_now, 0)}
        monkeypatch.setattr(advice, "warp_clocks", lambda cubin, *_, times=times: times[cubin])
        found = advice.advise("ptx", before, advice.limits_of(256, {"shared": 1024}, H200))
        assert found is not None and found.directive.startswith(".maxnreg")
        taken += [clocks_now] * found.serves(before, now)
    assert taken == list(range(95, most + 1))


@pytest.mark.parametrize(("registers", "taken"), [(136, [105, 106, 107]), (88, None)])
def test_beside_regions_a_second_cta_may_cost_as_many_clocks_and_a_third_is_not_tried(
    monkeypatch: pytest.MonkeyPatch, registers: int, taken: list[int] | None
) -> None:
    """Of 100, to a kernel of eight warps, four of them its own, and whatever it spills."""
    limits = advice.limits_of(256, {"shared": 1024}, H200, 4)
    before, now = advice.Assembled("before", Usage(registers, 0)), advice.Assembled("now", Usage(128, 8))
    found = advice.advise("ptx", before, limits)
    if taken is None:
        assert resident(registers, 8, H200.registers) == 2 and found is None
        assert advice.advise("ptx", before, replace(limits, whole=True)) is not None
        return
    assert found is not None
    served = []
    for clocks_now in range(105, 110):
        times = {"before": WarpClocks(100, 0), "now": WarpClocks(clocks_now, 0)}
        monkeypatch.setattr(advice, "warp_clocks", lambda cubin, *_, times=times: times[cubin])
        before, now = replace(before, walked={}), replace(now, walked={})
        served += [clocks_now] * found.serves(before, now)
    assert served == taken


@pytest.mark.parametrize(
    ("part", "serial", "registers", "stalls"),
    [
        (0.5, 0, 128, True),
        (0.2, 0, 128, False),
        (0.2, 50, 128, True),
        (0.2, 40, 128, False),
        (None, 0, 128, False),
        (0.5, 50, 32, False),
    ],
)
def test_warps_stall_where_few_are_resident(
    monkeypatch: pytest.MonkeyPatch, part: float | None, serial: int, registers: int, stalls: bool
) -> None:
    """Of 100 clocks. With 32 registers a multiprocessor has all warps that it can have."""
    monkeypatch.setattr(advice, "arithmetic_waits", lambda *_: part)
    monkeypatch.setattr(advice, "warp_clocks", lambda *_: WarpClocks(100, serial))
    made = advice.Assembled(b"cubin", Usage(registers, 0))
    limits = advice.limits_of(128, {"shared": 1024}, H200)
    assert (limits.ctas(registers) * 4 == H200.resident_warps) == (registers == 32)
    assert advice.stalls("ptx", made, limits) == stalls
    monkeypatch.setattr(advice, "warp_clocks", lambda *_: None)
    assert not advice.stalls("ptx", advice.Assembled(b"cubin", Usage(registers, 0)), limits)


@pytest.mark.parametrize(
    ("columns", "clocks_of_four", "waits", "stalls"),
    [
        (128, 280, 0, False),
        (128, 290, 0, True),
        (128, 280, 1, True),
        (32, 70, 0, False),
        (32, 280, 0, True),
        (256, 560, 0, False),
    ],
)
def test_loops_that_only_multiply_do_not_stall(
    monkeypatch: pytest.MonkeyPatch, columns: int, clocks_of_four: int, waits: int, stalls: bool
) -> None:
    """An MMA of 128 columns takes 64 clocks."""
    monkeypatch.setattr(advice, "arithmetic_waits", lambda *_: 0.5)
    monkeypatch.setattr(advice, "warp_clocks", lambda *_: WarpClocks(1000, 0))
    monkeypatch.setattr(advice, "mma_loops", lambda _: Loops(clocks_of_four, 4, special=False, waits=waits))
    limits = advice.limits_of(128, {"shared": 1024}, H200)
    made = advice.Assembled(b"cubin", Usage(128, 0))
    assert advice.stalls(f"\twgmma.mma_async.sync.aligned.m64n{columns}k16", made, limits) == stalls


def test_a_pace_is_slower_by_its_clocks_and_by_those_for_each_cta() -> None:
    stock = advice.Pace(100, ctas=2)
    assert advice.Pace(111, 2).is_slower(stock, 1.1) and advice.Pace(111, 1).is_slower(stock, 1.1)
    assert not advice.Pace(110, 2).is_slower(stock, 1.1)
    assert not advice.Pace(111, 3).is_slower(stock, 1.1) and advice.Pace(151, 3).is_slower(stock, 1.1)


def test_warps_of_regions_are_told_by_how_many_the_kernel_was_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int | None] = []
    made = registers.Assembler.__init__

    def seen(self: registers.Assembler, *arguments: Any) -> None:
        given.append(arguments[-1])
        made(self, *arguments)

    monkeypatch.setattr(registers.Assembler, "__init__", seen)
    assert given == [compiled().metadata.num_warps]
