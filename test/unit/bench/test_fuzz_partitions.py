"""`python -m bench.fuzz --only partitions`: warp-specialised modules, and mistakes that it must find."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from cluster_marks import ordered

from bench.fuzz.partitions import draw_partitions, examine_partitions, partitions_text, run_partitions
from bench.fuzz.program import Convert, Program
from bench.fuzz.run import PARTITIONS, FuzzPlan, fuzz, units
from bench.whole_kernels import LOWERING, LoweredKernel, lower_kernel
from triton_linear.lowering.emit import machines, partitions
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.target.targets import target
from triton_linear.tools.support.errors import ToolError

LANES = 32


def blocked(register: str, lanes: str, warps: str, order: str) -> str:
    shape = f"sizePerThread = [{register}], threadsPerWarp = [{lanes}], warpsPerCTA = [{warps}]"
    return f"#ttg.blocked<{{{shape}, order = [{order}]}}>"


def across(warps: int, region: int) -> Program:
    """A conversion that goes through shared memory, between all warps."""
    rows, columns = (
        blocked("1, 4", "4, 8", f"{warps}, 1", "1, 0"),
        blocked("4, 1", "8, 4", f"1, {warps}", "0, 1"),
    )
    return Program("cuda:90", warps, (32, 32), "i32", rows, (Convert(columns),), region)


SIDES = [across(4, 0), across(4, 1), across(4, 1), across(2, 2), across(8, 3), across(8, 3)]


def across_ctas(region: int) -> Program:
    """A conversion of two CTAs: what each holds in rows it wants in columns."""
    rows = blocked("1, 4", "8, 4", "4, 1", "1, 0").replace("}>", ", CGALayout = [[1, 0]]}>")
    columns = blocked("4, 1", "4, 8", "1, 4", "0, 1").replace("}>", ", CGALayout = [[0, 1]]}>")
    return Program("cuda:90", 4, (64, 32), "i32", rows, (Convert(columns),), region, 2)


CLUSTERED_SIDES = [across_ctas(0), across_ctas(1), across_ctas(1)]


def kernel(sides: list[Program] = SIDES) -> LoweredKernel:
    return lower_kernel(partitions_text(sides), "sides.ttgir", "cuda:90", LOWERING)


def changed(made: LoweredKernel, change: Callable[[str], str]) -> LoweredKernel:
    """The kernel with its LLVM dialect changed."""
    text = change(made.text)
    assert text != made.text
    return replace(made, text=text)


def constants(text: str) -> dict[str, int]:
    return {name: int(n) for name, n in re.findall(r"(%\w+) = llvm\.mlir\.constant\((-?\d+) : i32", text)}


def barriers(text: str) -> list[tuple[str, str]]:
    return re.findall(r"nvvm\.barrier id = (%\w+) number_of_threads = (%\w+)", text)


def test_conversions_that_meet_in_four_regions_are_right() -> None:
    outcome, _ = run_partitions(kernel(), SIDES, LANES)
    assert not outcome.races
    assert [len(outcome.warps[str(n)]) for n in range(len(SIDES))] == [4, 4, 4, 2, 8, 8]
    totals = examine_partitions(SIDES, LANES, "sides.ttgir")
    assert totals.ok
    assert totals.kinds["cta-shared"] == len(SIDES)


@ordered
def test_conversions_across_ctas_in_regions_are_right() -> None:
    totals = examine_partitions(CLUSTERED_SIDES, LANES, "sides.ttgir")
    assert totals.ok, totals.failures
    assert totals.kinds["cluster-shared"] == len(CLUSTERED_SIDES)
    # Stock Triton's too, by the same mbarriers.
    assert examine_partitions(CLUSTERED_SIDES, LANES, "sides.ttgir", None).ok


def without(pattern: str, text: str, which: slice = slice(None)) -> str:
    """The text without those lines with the pattern that `which` picks."""
    lines = text.splitlines(keepends=True)
    found = [n for n, line in enumerate(lines) if re.search(pattern, line)][which]
    return "".join(line for n, line in enumerate(lines) if n not in found)


WAIT, ARRIVAL = r"mbarrier\.try_wait", r"mbarrier\.arrive"


@ordered
def test_a_missing_wait_for_other_ctas_is_found() -> None:
    made = kernel(CLUSTERED_SIDES)
    for which in (slice(0, 1), slice(1, 2)):
        changed_ = changed(made, lambda text, which=which: without(WAIT, text, which))
        outcome, _ = run_partitions(changed_, CLUSTERED_SIDES, LANES)
        assert {race.hazard for race in outcome.races} & {"read after write", "write after read"}


@ordered
def test_an_arrival_that_is_left_out_is_found() -> None:
    made = kernel(CLUSTERED_SIDES)
    with pytest.raises(SimulationError, match=r"wait for others that do not come: .*phase 0 of the mbarrier"):
        run_partitions(changed(made, lambda text: without(ARRIVAL, text)), CLUSTERED_SIDES, LANES)


@ordered
def test_a_lane_that_arrives_for_others_unmet_is_found() -> None:
    """In a partition of one warp a barrier of the warp stands in front of the arrival."""
    rows = "#ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], block = [[64]]}>"
    halves = "#ttg.linear<{register = [[64]], lane = [[2], [4], [8], [16], [32]], warp = [], block = [[1]]}>"
    sides = [Program("cuda:90", 1, (128,), "i32", rows, (Convert(halves),), 1, 2)]
    made = kernel(sides)
    assert not run_partitions(made, sides, LANES)[0].races

    def change(text: str) -> str:
        return without(r"nvvm\.bar\.warp\.sync", text)

    with pytest.raises(SimulationError, match="one lane arrives at an mbarrier"):
        run_partitions(changed(made, change), sides, LANES)


@ordered
def test_a_cta_that_ends_while_others_load_is_found() -> None:
    """No wait for the loads of others, neither in a region nor at the end of the kernel."""
    made = kernel(CLUSTERED_SIDES[:1])
    waits = re.findall(WAIT, made.text)
    assert len(waits) == 2

    def change(text: str) -> str:
        ends = r".*nvvm\.cluster\.arrive \{aligned\}.*\n.*nvvm\.cluster\.wait .*\n"
        return re.sub(ends, "", without(WAIT, text, slice(1, 2)))

    outcome, _ = run_partitions(changed(made, change), CLUSTERED_SIDES[:1], LANES)
    assert {race.hazard for race in outcome.races} >= {"end after read"}


@ordered
def test_a_wrong_rank_is_found() -> None:
    """A partition asks for the rank of its CTA itself, the default region has that of the function."""
    made = kernel(CLUSTERED_SIDES)
    asked = re.compile(r'(llvm\.inline_asm .*)"mov\.u32 \$0, %cluster_ctarank;(?: // [^"]*)?"(, "=r")')
    assert len(asked.findall(made.text)) == 2

    def change(text: str) -> str:
        return asked.sub(r'\1"mov.u32 $0, 0;"\2', text)

    outcome, _ = run_partitions(changed(made, change), CLUSTERED_SIDES, LANES)
    right, _ = run_partitions(made, CLUSTERED_SIDES, LANES)
    for number in map(str, range(len(CLUSTERED_SIDES))):
        assert (outcome.sinks[number][0] != right.sinks[number][0]).any()


@pytest.mark.parametrize("gpu", ["cuda:90", "cuda:100"])
def test_drawn_modules_are_right(gpu: str) -> None:
    totals = fuzz([FuzzPlan(gpu, 11, 20, kinds=(PARTITIONS,))], 0)[gpu]
    assert totals.ok, totals.failures[:2]
    assert totals.conversions >= 20


def test_regions_of_1_to_8_warps_are_drawn() -> None:
    plan = FuzzPlan("cuda:90", 0, 200, kinds=(PARTITIONS,))
    drawn = [program for unit in units(plan) for program in unit.programs]
    assert {program.warps for program in drawn if program.region} == {1, 2, 4, 8}
    assert {program.warps for program in drawn if not program.region} == {4, 8}
    assert draw_partitions(random.Random(3), target("cuda:90"), 1)[0].region


def test_no_partitions_are_drawn_for_amd() -> None:
    with pytest.raises(ToolError, match="has no warp-specialised regions"):
        list(units(FuzzPlan("hip:gfx942", 0, 10, kinds=(PARTITIONS,))))


@pytest.mark.parametrize("threads", [False, True], ids=["of-the-kernels-own-warps", "of-all-warps"])
def test_the_barrier_of_the_cta_in_a_partition_is_found(threads: bool) -> None:
    """Barrier 0 in one partition: with the partition's threads, which are as many as the kernel's own warps
    have, or with all."""
    made = kernel()
    values = constants(made.text)
    names = {value: name for name, value in values.items()}
    own = next(n for n, t in barriers(made.text) if values[n] > 1 and values[t] == 4 * LANES)

    def change(text: str) -> str:
        pattern = rf"nvvm\.barrier id = {own} number_of_threads = (%\w+)"
        return re.sub(
            pattern,
            "nvvm.barrier0" if threads else rf"nvvm.barrier id = {names[0]} number_of_threads = \1",
            text,
        )

    message = "come to barrier 0|barrier 0 waits for|wait for others that do not come"
    with pytest.raises(SimulationError, match=message):
        run_partitions(changed(made, change), SIDES, LANES)


def test_scratch_of_a_neighbour_is_found() -> None:
    """Every buffer at the first byte: each region is right by itself, and they run at the same time."""
    made = kernel()
    places = re.findall(r"llvm\.getelementptr %\w+\[(4096|8192|12288)\] : \(!llvm\.ptr<3>\)", made.text)
    assert len(set(places)) > 1
    first = r"(llvm\.getelementptr %\w+)\[(?:4096|8192|12288)\]( : \(!llvm\.ptr<3>\))"
    outcome, _ = run_partitions(changed(made, lambda text: re.sub(first, r"\1[0]\2", text)), SIDES, LANES)
    assert {race.hazard for race in outcome.races} == {
        "read after write",
        "write after read",
        "write after write",
    }


def test_a_barrier_that_is_left_out_is_found() -> None:
    made = kernel()
    number, _ = next(pair for pair in barriers(made.text) if constants(made.text)[pair[0]] > 1)
    line = re.compile(rf"^ *nvvm\.barrier id = {number} .*\n", re.MULTILINE)
    outcome, _ = run_partitions(changed(made, lambda text: line.sub("", text)), SIDES, LANES)
    assert {race.hazard for race in outcome.races} == {"read after write", "write after read"}


def test_the_number_of_the_thread_in_the_cta_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of the partition of 8 warps have numbers from 128 on; counted from the CTA's first one, they
    store where the threads of other warps should."""
    monkeypatch.setattr(partitions.Partition, "write_thread", _absolute)
    totals = examine_partitions(SIDES, LANES, "sides.ttgir")
    assert totals.wrong
    assert all("region 3" in failure.message for failure in totals.failures)


def _absolute(self: partitions.Partition, lines: partitions.FunctionWriter, lanes: int, encoding: str) -> None:
    asm = f'llvm.inline_asm asm_dialect = att "{machines.THREAD}", "=r" : () -> i32'
    lines.define(self.thread, asm)


def test_threads_of_a_partition_are_numbered_once_where_it_begins() -> None:
    """LLVM takes no inline assembly out of a loop, nor what is computed of it."""
    lines = kernel().embedded.splitlines()
    numbered = [n for n, line in enumerate(lines) if re.match(r" *%__own_partition\d_range = ", line)]
    assert len(numbered) == 3
    assert all(lines[n - 1].endswith(("({", "}, {")) for n in numbered)
    used = {name for line in lines for name in re.findall(r"%__own_partition\d_thread", line)}
    assert len(used) == 3
