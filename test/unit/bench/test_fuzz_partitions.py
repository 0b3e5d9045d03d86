"""`python -m bench.fuzz --only partitions`: warp-specialised modules, and mistakes that it must find."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.fuzz.partitions import draw_partitions, examine_partitions, partitions_text, run_partitions
from bench.fuzz.program import Convert, Program
from bench.fuzz.run import PARTITIONS, REGIONS, FuzzPlan, fuzz, units
from bench.whole_kernels import LOWERING, LoweredKernel, lower_kernel
from triton_linear.lowering.emit import calls, machines
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


@pytest.mark.parametrize("kind", [PARTITIONS, REGIONS])
def test_no_partitions_are_drawn_for_amd(kind: str) -> None:
    with pytest.raises(ToolError, match="has no warp-specialised regions"):
        list(units(FuzzPlan("hip:gfx942", 0, 10, kinds=(kind,))))


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


def test_the_number_of_the_thread_in_the_cta_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of the partition of 8 warps have numbers from 128 on; counted from the CTA's first one, they
    store where the threads of other warps should."""
    monkeypatch.setattr(calls.Partition, "write_thread", _absolute)
    totals = examine_partitions(SIDES, LANES, "sides.ttgir")
    assert totals.wrong
    assert all("region 3" in failure.message for failure in totals.failures)


def _absolute(self: calls.Partition, lines: calls.FunctionWriter, lanes: int, encoding: str) -> None:
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
