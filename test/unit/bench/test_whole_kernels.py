"""Whole kernels: conversions among others, after Triton's own lowering, with and without our passes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from bench.fuzz import command
from bench.fuzz.examine import examine_program
from bench.fuzz.program import Add, Branch, Loop, Program, Reduce, Scan, program_in
from bench.fuzz.run import examine
from bench.whole_kernels import LOWERING, LoweredKernel, lower_kernel, registers_of, sink
from triton_linear.dialect import encodings
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.lowering.interpreter.function import FunctionOutcome
from triton_linear.lowering.target.targets import target as target_called

SHAPE = (32, 32)
_BARRIER = re.compile(r"^.*(?:nvvm\.barrier0?|rocdl\.barrier|rocdl\.s\.barrier)\b.*\n", re.MULTILINE)


def layouts(target: str) -> tuple[str, str]:
    """Rows and columns of 32x32, on four warps that each have others in the one than in the other."""
    across = target_called(target).lanes // 8
    rows = f"sizePerThread = [1, 4], threadsPerWarp = [{across}, 8], warpsPerCTA = [4, 1], order = [1, 0]"
    columns = f"sizePerThread = [4, 1], threadsPerWarp = [8, {across}], warpsPerCTA = [1, 4], order = [0, 1]"
    return f"#ttg.blocked<{{{rows}}}>", f"#ttg.blocked<{{{columns}}}>"


def types(target: str, element: str = "i32") -> tuple[str, str]:
    """The two tensor types."""
    first, second = (f"tensor<32x32x{element}, {layout}>" for layout in layouts(target))
    return first, second


def lowered(target: str, arguments: str, body: str, ours: bool) -> LoweredKernel:
    """A kernel with this body."""
    lanes = target_called(target).lanes
    text = (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{target}", '
        f'"ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"tt.func public @kernel({arguments}) {{\n{body}\ntt.return\n}}\n}}\n"
    )
    return lower_kernel(text, "kernel.ttgir", target, LOWERING if ours else None)


def chain(target: str, ours: bool) -> LoweredKernel:
    """A loop that doubles a tensor in another layout and returns by way of a third, and a last conversion.

    All four conversions share their scratch.
    """
    a, b = types(target)
    across = target_called(target).lanes // 4
    c = (
        f"tensor<32x32xi32, #ttg.blocked<{{sizePerThread = [2, 2], threadsPerWarp = [{across}, 4], "
        "warpsPerCTA = [2, 2], order = [1, 0]}>>"
    )
    body = f"""%c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%y = %x) -> ({a}) : i32 {{
      %1 = ttg.convert_layout %y : {a} -> {b}
      %2 = arith.addi %1, %1 : {b}
      %3 = ttg.convert_layout %2 : {b} -> {c}
      %5 = ttg.convert_layout %3 : {c} -> {a}
      scf.yield %5 : {a}
    }}
    %4 = ttg.convert_layout %r : {a} -> {b}
    {sink("%4", b, "result")}"""
    return lowered(target, f"%x: {a}, %n: i32", body, ours)


def numbers(seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """A tensor of distinct elements."""
    return np.random.default_rng(seed).permutation(1024).astype(np.uint64).reshape(1, *SHAPE)


def layout_of(text: str, shape: tuple[int, ...] = SHAPE) -> encodings.LinearLayout:  # type: ignore[name-defined]
    return encodings.layout_of(text, shape, 32)


def run_chain(kernel: LoweredKernel, target: str, turns: int) -> tuple[FunctionOutcome, bool]:
    """The outcome, and whether every register is right."""
    rows, columns = layouts(target)
    outcome = kernel.run([registers_of(numbers(), layout_of(rows), kernel), turns])
    values, undefined = outcome.sinks["result"]
    expected = registers_of(numbers() << np.uint64(turns), layout_of(columns), kernel)
    return outcome, bool((values == expected).all() and not undefined.any())


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("target", command.TARGETS)
def test_conversions_in_a_loop(target: str, ours: bool) -> None:
    kernel = chain(target, ours)
    for turns in (0, 1, 3):
        outcome, right = run_chain(kernel, target, turns)
        assert right
        assert not outcome.races


def without_barrier(kernel: LoweredKernel, number: int) -> LoweredKernel:
    """The kernel without one of its barriers."""
    found = list(_BARRIER.finditer(kernel.text))[number]
    return dataclasses.replace(kernel, text=kernel.text[: found.start()] + kernel.text[found.end() :])


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_every_barrier_that_is_removed_is_missed(target: str, ours: bool) -> None:
    """Inside a conversion, between two conversions, and at the back edge, where one turn shows nothing."""
    kernel = chain(target, ours)
    barriers = len(_BARRIER.findall(kernel.text))
    races = []
    for number in range(barriers):
        less = without_barrier(kernel, number)
        races.append(tuple(bool(run_chain(less, target, turns)[0].races) for turns in (1, 2)))
    assert barriers >= 3
    assert all(twice for _, twice in races)
    if not ours:
        assert (False, True) in races


def run_buffers(kernel: LoweredKernel, target: str) -> tuple[FunctionOutcome, bool]:
    """The outcome, and whether every register is right."""
    rows, columns = layouts(target)
    tensors = numbers(1), numbers(2)
    outcome = kernel.run([registers_of(tensor, layout_of(rows), kernel) for tensor in tensors])
    right = True
    for name, tensor in zip("xy", tensors, strict=True):
        values, undefined = outcome.sinks[name]
        right &= bool(
            (values == registers_of(tensor, layout_of(columns), kernel)).all() and not undefined.any()
        )
    return outcome, right


@pytest.mark.parametrize("target", command.TARGETS)
def test_reductions_and_scans(target: str) -> None:
    """Along an axis that lies across warps and one that does not, of 16 bits, in two branches."""
    rows, _ = layouts(target)
    sums = *(Reduce(axis, "addi", rows) for axis in (0, 1)), *(Scan(axis, rows, False) for axis in (0, 1))
    steps = (Loop("for", 2, rows, (Branch(rows, sums, (Add(7),)),)),)
    assert examine_program(Program(target, 4, SHAPE, "i16", rows, steps), "sums.ttgir", LOWERING).ok


FOUND = sorted((Path(__file__).parents[2] / "data" / "fuzz").glob("*.ttgir"))


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_what_fuzzing_once_found(path: Path) -> None:
    """`index_of_scratch`: on Triton 3.9 a mark with a constant index settles one word of the scratch only."""
    program = program_in(path.read_text())
    assert program is not None
    totals = examine(command.unit_of(program))
    assert totals.ok and totals.conversions
    assert not totals.stock


CALLS = Path(__file__).parents[2] / "data" / "stock" / "scratch_of_callee.ttgir"


@pytest.mark.parametrize("ours", [False, True])
def test_scratch_of_a_function_that_is_called(ours: bool) -> None:
    """Before 3.9 Triton gives a callee the caller's own scratch, whatever offset its allocator found.

    So the callee's conversion overwrites a buffer that the caller keeps. With the offset all is right.
    """
    kernel = lower_kernel(CALLS.read_text(), CALLS.name, None, LOWERING if ours else None)
    outcome, right = run_buffers(kernel, "cuda:90")
    assert right == (installed_release() >= (3, 9))
    if right:
        return
    tensor = registers_of(numbers(2), layout_of(layouts("cuda:90")[1]), kernel)
    assert (outcome.sinks["y"][0] != tensor).any()
    call = re.search(r"\n.*llvm\.call @turned\(%arg0, (%\w+),.*allocation\.offset = 4096.*", kernel.text)
    assert call is not None
    place = f"\n%scratch = llvm.getelementptr {call[1]}[4096] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"
    moved = place + call[0].replace(f", {call[1]},", ", %scratch,")
    fixed = dataclasses.replace(kernel, text=kernel.text.replace(call[0], moved))
    outcome, right = run_buffers(fixed, "cuda:90")
    assert right
    assert not outcome.races


MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>"
BYTES = {
    "operand 0": (f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 4}}>", (64, 64), "[0, 1]", 2),
    "operand 1": (f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 4}}>", (64, 64), "[1, 0]", 2),
    "one matrix": (
        "#ttg.linear<{register = [[1, 0], [2, 0], [0, 8]], lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]], "
        "warp = [[16, 0], [32, 0]], block = []}>",
        (64, 16),
        "[1, 0]",
        1,
    ),
}


@pytest.mark.skipif(installed_release() < (3, 8), reason="Triton takes no such load")
@pytest.mark.parametrize(("wanted", "shape", "order", "count"), BYTES.values(), ids=BYTES)
def test_bytes_are_read_transposed(wanted: str, shape: tuple[int, int], order: str, count: int) -> None:
    """Matrices of 16x16 bytes that `ldmatrix` transposes: what is loaded is what was stored, in its place."""
    given = (
        "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
    )
    size = "x".join(map(str, shape))
    memory = (
        f"!ttg.memdesc<{size}xi8, #ttg.swizzled_shared<{{vec = 16, perPhase = 1, maxPhase = 1, "
        f"order = {order}}}>, #ttg.shared_memory>"
    )
    source, loaded = f"tensor<{size}xi8, {given}>", f"tensor<{size}xi8, {wanted}>"
    body = f"""%m = ttg.local_alloc %x : ({source}) -> {memory}
    %y = ttg.local_load %m : {memory} -> {loaded}
    {sink("%y", loaded, "loaded")}"""
    kernel = lowered("cuda:100", f"%x: {source}", body, ours=False)
    assert f"num = {count} : i32, shape = #nvvm.ld_st_matrix_shape<m = 16, n = 16>" in kernel.text
    numbers = np.random.default_rng(1).integers(0, 256, (1, *shape), np.uint64)
    outcome = kernel.run([registers_of(numbers, layout_of(given, shape), kernel)])
    values, undefined = outcome.sinks["loaded"]
    assert (values == registers_of(numbers, layout_of(wanted, shape), kernel)).all()
    assert not undefined.any()
    assert not outcome.races
