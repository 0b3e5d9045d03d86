"""Matrix instructions against a scalar oracle transcribed from the PTX ISA."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from simulate_cases import NVIDIA, Bits, function, random_registers, run

from triton_linear.lowering.interpreter.function import FunctionOutcome, simulate
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.target.targets import target

WARPS = 2
THREADS = 32 * WARPS
ALL = "%all = llvm.mlir.constant(-1 : i32) : i32\n"
SYNC = "nvvm.bar.warp.sync %all : i32\n"
FORMS = list(itertools.product((1, 2, 4), (False, True)))
MOVE = '"movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r"'


def name(kind: str, count: int, transposed: bool) -> str:
    """The intrinsic."""
    return f"llvm.nvvm.{kind}.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.b16"


def load(count: int, transposed: bool, pointer: str = "%p", first: int = 0) -> str:
    """Lines that load %r<first>, ... from the rows at `pointer`."""
    result = "i32" if count == 1 else f"!llvm.struct<({', '.join(['i32'] * count)})>"
    call = (
        f'llvm.call_intrinsic "{name("ldmatrix", count, transposed)}"({pointer}) : (!llvm.ptr<3>) -> {result}\n'
    )
    if count == 1:
        return f"%r{first} = {call}"
    fields = (f"%r{first + k} = llvm.extractvalue %m{first}[{k}] : {result}\n" for k in range(count))
    return f"%m{first} = {call}" + "".join(fields)


def store(values: Sequence[str], transposed: bool, pointer: str = "%p") -> str:
    """A line that stores registers to the rows at `pointer`."""
    types = ", ".join(["!llvm.ptr<3>", *["i32"] * len(values)])
    arguments = ", ".join([pointer, *values])
    return f'llvm.call_intrinsic "{name("stmatrix", len(values), transposed)}"({arguments}) : ({types}) -> ()\n'


def pointer(offsets: Sequence[int], result: str = "%p") -> str:
    """Lines that make `result` point at offsets[t] in thread t, by binary selection from constants."""
    name_, lines = result[1:], ["%tid = nvvm.read.ptx.sreg.tid.x : i32"] if result == "%p" else []
    level = []
    for k, offset in enumerate(offsets):
        lines.append(f"%{name_}c{k} = llvm.mlir.constant({offset} : i32) : i32")
        level.append(f"%{name_}c{k}")
    for bit in range((len(offsets) - 1).bit_length()):
        flag = f"%{name_}b{bit}"
        lines.append(f"{flag}k = llvm.mlir.constant({bit} : i32) : i32")
        lines.append(f"{flag}s = llvm.lshr %tid, {flag}k : i32")
        lines.append(f"{flag} = llvm.trunc {flag}s : i32 to i1")
        pairs = zip(level[::2], level[1::2], strict=True)
        level = []
        for k, (even, odd) in enumerate(pairs):
            lines.append(f"%{name_}l{bit}x{k} = llvm.select {flag}, {odd}, {even} : i1, i32")
            level.append(f"%{name_}l{bit}x{k}")
    lines.append(f"{result} = llvm.getelementptr %smem[{level[0]}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8")
    return "\n".join(lines) + "\n"


def place(lane: int, transposed: bool, half: int) -> tuple[int, int]:
    """PTX ISA: row and column of the element in that half of the lane's register."""
    row, column = lane // 4, 2 * (lane % 4) + half
    return (column, row) if transposed else (row, column)


def load_oracle(
    memory: npt.NDArray[np.uint8], offsets: Sequence[int], count: int, transposed: bool
) -> npt.NDArray[np.uint64]:
    """Registers (count, threads) that ldmatrix gives for one trial's memory."""
    result = np.zeros((count, len(offsets)), np.uint64)
    for thread, k, half in itertools.product(range(len(offsets)), range(count), range(2)):
        row, column = place(thread % 32, transposed, half)
        at = offsets[thread // 32 * 32 + 8 * k + row] + 2 * column
        element = int(memory[at]) | int(memory[at + 1]) << 8
        result[k, thread] |= np.uint64(element << (16 * half))
    return result


def store_oracle(
    memory: npt.NDArray[np.uint8], offsets: Sequence[int], registers: npt.NDArray[np.uint64], transposed: bool
) -> None:
    """What stmatrix of registers (count, threads) does to memory."""
    for thread, k, half in itertools.product(range(len(offsets)), range(len(registers)), range(2)):
        row, column = place(thread % 32, transposed, half)
        at = offsets[thread // 32 * 32 + 8 * k + row] + 2 * column
        element = int(registers[k, thread]) >> (16 * half) & 0xFFFF
        memory[at], memory[at + 1] = element & 0xFF, element >> 8


def random_rows(seed: int, count: int) -> list[int]:
    """Distinct random rows of 16 bytes for the lanes that give them; addresses out of bounds for the others."""
    rows = iter(np.random.default_rng(seed).permutation(128).tolist())
    return [16 * next(rows) if thread % 32 < 8 * count else -5 for thread in range(THREADS)]


def bytes_of(registers: Bits) -> npt.NDArray[np.uint8]:
    """The memory image of every trial's i32 registers, thread after thread."""
    return registers.astype("<u4").view(np.uint8)


def kinds(outcome: FunctionOutcome) -> list[tuple[str, str]]:
    """Scope and hazard of every race."""
    return [(race.scope, race.hazard) for race in outcome.races]


# Values


# %w0 ... %w7: where word t of each 256 bytes is, for thread t.
WORDS = """%four = llvm.mlir.constant(4 : i32) : i32
%o = llvm.mul %tid, %four : i32
%w0 = llvm.getelementptr %smem[%o] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
""" + "".join(
    f"%w{k} = llvm.getelementptr %w0[{256 * k}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8\n" for k in range(1, 8)
)


@pytest.mark.parametrize(("count", "transposed"), FORMS)
def test_load_against_the_oracle(count: int, transposed: bool) -> None:
    for seed in range(3):
        offsets = random_rows(seed, count)
        body = pointer(offsets) + WORDS
        body += "".join(f"llvm.store %a{k}, %w{k} : i32, !llvm.ptr<3>\n" for k in range(8))
        body += "nvvm.barrier0\n" + load(count, transposed)
        registers = random_registers(seed, ["i32"] * 8, THREADS)
        outcome = run(["i32"] * 8, body, ["i32"] * count, registers, shared_bytes=2048)
        assert not outcome.races
        assert not outcome.undefined.any()
        memory = np.concatenate([bytes_of(register) for register in registers], axis=1)
        for trial in range(3):
            expected = load_oracle(memory[trial], offsets, count, transposed)
            assert np.array_equal(outcome.values[:, trial], expected)


@pytest.mark.parametrize(("count", "transposed"), FORMS)
def test_store_against_the_oracle(count: int, transposed: bool) -> None:
    for seed in range(3):
        offsets = random_rows(seed, count)
        body = pointer(offsets) + WORDS + store([f"%a{k}" for k in range(count)], transposed)
        body += "nvvm.barrier0\n"
        body += "".join(f"%r{k} = llvm.load %w{k} : !llvm.ptr<3> -> i32\n" for k in range(8))
        registers = random_registers(seed, ["i32"] * count, THREADS)
        outcome = run(["i32"] * count, body, ["i32"] * 8, registers, shared_bytes=2048)
        assert not outcome.races
        written = np.zeros(2048, np.uint8)
        ones = np.full((count, THREADS), 0xFFFFFFFF, np.uint64)
        store_oracle(written, offsets, ones, transposed)
        undefined = np.concatenate([bytes_of(mask) for mask in outcome.undefined[:, :1]], axis=1)[0]
        assert np.array_equal(undefined, ~written)
        result = np.concatenate([bytes_of(value) for value in outcome.values], axis=1)
        for trial in range(3):
            expected = np.zeros(2048, np.uint8)
            store_oracle(expected, offsets, np.stack([r[trial] for r in registers]), transposed)
            assert np.array_equal(result[trial], expected)


@pytest.mark.parametrize(("count", "transposed"), FORMS)
def test_round_trip_is_the_identity(count: int, transposed: bool) -> None:
    body = pointer(random_rows(7, count)) + ALL + store([f"%a{k}" for k in range(count)], transposed)
    body += SYNC + load(count, transposed)
    registers = random_registers(1, ["i32"] * count, THREADS)
    outcome = run(["i32"] * count, body, ["i32"] * count, registers, shared_bytes=2048)
    assert np.array_equal(outcome.values, np.stack(registers))
    assert not outcome.undefined.any()
    assert not outcome.races


def test_move_transposes_like_memory() -> None:
    body = pointer(random_rows(3, 1)) + ALL + store(["%a0"], False) + SYNC + load(1, True)
    body += f"%r1 = llvm.inline_asm has_side_effects {MOVE} %a0 : (i32) -> i32"
    outcome = run(["i32"], body, ["i32"] * 2, random_registers(1, ["i32"], THREADS), shared_bytes=2048)
    assert np.array_equal(outcome.values[0], outcome.values[1])
    assert outcome.counts.shuffles == 1


def test_undefined_bits_move_with_their_element() -> None:
    body = pointer(random_rows(3, 2)) + ALL
    body += f"""%five = llvm.mlir.constant(5 : i32) : i32
    %is = llvm.icmp "eq" %tid, %five : i32
    %u = llvm.mlir.undef : i32
    %x = llvm.select %is, %u, %a0 : i1, i32
    %poison = llvm.mlir.poison : i32
    {store(["%x", "%a0"], False)}{SYNC}{load(2, True)}
    %r2 = llvm.inline_asm has_side_effects {MOVE} %x : (i32) -> i32
    %r3 = llvm.inline_asm has_side_effects {MOVE} %poison : (i32) -> i32
    """
    registers = random_registers(1, ["i32"], THREADS)
    outcome = run(["i32"], body, ["i32"] * 4, registers, shared_bytes=2048)
    # Lane 5 holds row 1, columns 2 and 3: transposed, the high halves of lanes 8 and 12.
    expected = np.zeros(THREADS, np.uint64)
    expected[[8, 12]] = 0xFFFF0000
    for index in (0, 2):
        assert np.array_equal(outcome.undefined[index, 0], expected)
    assert not outcome.undefined[1].any()
    assert (outcome.undefined[3] & np.uint64(0xFFFFFFFF) == 0xFFFFFFFF).all()


def test_memory_never_written_is_undefined() -> None:
    body = pointer(random_rows(3, 1)) + load(1, False)
    outcome = run(["i32"], body, ["i32"], random_registers(1, ["i32"], THREADS), shared_bytes=2048)
    assert (outcome.undefined == 0xFFFFFFFF).all()


def test_overloaded_spelling() -> None:
    body = pointer(random_rows(3, 1)) + ALL + store(["%a0"], True) + SYNC + load(1, True)
    registers = random_registers(1, ["i32"], THREADS)
    outcome = run(["i32"], body.replace('.b16"', '.b16.p3"'), ["i32"], registers, shared_bytes=2048)
    assert np.array_equal(outcome.values[0], registers[0])


# Races


def raced(between: str, after: str, before: str = "", shift: int = 0) -> list[tuple[str, str]]:
    """Races of `before`, a store of rows and, after `between`, another access; %q is `shift` threads on."""
    own = [16 * (t % 32) + 512 * (t // 32) for t in range(THREADS)]
    body = pointer(own) + pointer(own[shift:] + own[:shift], "%q") + ALL + before
    body += store([f"%a{k}" for k in range(4)], False) + between + after
    registers = random_registers(1, ["i32"] * 4, THREADS)
    return kinds(simulate(function(["i32"] * 4, body, []), registers, NVIDIA, WARPS, 2048))


RAW, WAR, WAW = "read after write", "write after read", "write after write"
PLAIN_LOAD = "%l = llvm.load %p : !llvm.ptr<3> -> i32\n"
PLAIN_STORE = "llvm.store %a3, %p : i32, !llvm.ptr<3>\n"


@pytest.mark.parametrize(
    ("after", "hazard"),
    [
        (load(4, False), RAW),
        (load(4, True), RAW),
        (PLAIN_LOAD, RAW),
        (PLAIN_STORE, WAW),
        (store(["%a1"], True), WAW),
    ],
)
def test_rows_need_a_warp_barrier(after: str, hazard: str) -> None:
    assert raced("", after) == [("warp", hazard)]
    assert raced(SYNC, after) == []
    assert raced("nvvm.barrier0\n", after) == []


def test_rows_of_another_warp_need_a_cta_barrier() -> None:
    assert raced(SYNC, load(4, False, "%q"), shift=32) == [("cta", RAW)]
    assert raced("nvvm.barrier0\n", load(4, False, "%q"), shift=32) == []


@pytest.mark.parametrize("before", [load(4, False, first=20), PLAIN_LOAD])
def test_store_of_rows_after_a_read(before: str) -> None:
    assert raced(SYNC, "", before) == [("warp", WAR)]
    assert raced(SYNC, "", before + SYNC) == []


def test_plain_store_then_load_of_rows() -> None:
    """Even the lane's own row: other lanes receive it."""
    assert raced(SYNC, PLAIN_STORE + load(4, False)) == [("warp", RAW)]
    assert raced(SYNC, PLAIN_STORE + SYNC + load(4, False)) == []


def test_plain_store_after_a_load_of_rows() -> None:
    assert raced(SYNC, load(4, False) + PLAIN_STORE) == [("warp", WAR)]


@pytest.mark.parametrize(("values", "expected"), [(["%a0", "%a1"], [("warp", WAW)]), (["%a0", "%a0"], [])])
def test_two_rows_at_one_address(values: list[str], expected: list[tuple[str, str]]) -> None:
    body = pointer([16 * (t % 8) + 128 * (t // 32) for t in range(THREADS)]) + store(values, False)
    body += "%r0 = llvm.bitcast %a0 : i32 to i32"
    registers = random_registers(1, ["i32"] * 2, THREADS)
    outcome = run(["i32"] * 2, body, ["i32"], registers, shared_bytes=256)
    assert kinds(outcome) == expected


# Counts


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(("pitch", "conflict"), [(16, 1), (32, 2), (64, 4), (128, 8), (144, 1)])
def test_conflicts_are_counted(count: int, pitch: int, conflict: int) -> None:
    body = pointer([pitch * (t % 32) for t in range(THREADS)]) + ALL
    body += store(["%a0"] * count, False) + "nvvm.barrier0\n" + load(count, True)
    registers = random_registers(1, ["i32"], THREADS)
    counts = run(["i32"], body, ["i32"] * count, registers, shared_bytes=32 * pitch).counts
    assert [(a.kind, a.width, a.wavefronts, a.minimum) for a in counts.accesses] == [
        (kind, 16, WARPS * count * conflict, WARPS * count) for kind in ("store", "load")
    ]
    assert counts.of_kind("store") == counts.of_kind("load") == {16: 1}
    assert counts.bytes_stored == counts.bytes_loaded == WARPS * 128 * count


# Refusals


@pytest.mark.parametrize("step", ["store", "load"])
@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (8, "by thread 3 at byte 8 is misaligned: the address is no multiple of 16"),
        (1024, "of 16 bytes by thread 3 at byte 1024 is out of bounds: scratch has 1024 bytes"),
        (-16, "of 16 bytes by thread 3 at byte -16 is out of bounds: scratch has 1024 bytes"),
    ],
)
def test_bad_rows(step: str, offset: int, message: str) -> None:
    offsets = [16 * t for t in range(THREADS)]
    offsets[3] = offset
    body = pointer(offsets) + (store(["%a0"], False) if step == "store" else load(1, False, first=5))
    body += "%r0 = llvm.bitcast %a0 : i32 to i32"
    with pytest.raises(SimulationError, match=f"llvm.call_intrinsic: {step} {message}"):
        run(["i32"], body, ["i32"], random_registers(1, ["i32"], THREADS), shared_bytes=1024)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (store(["%a0"] * 2, False).replace("x2", "x4"), "expected an address and 4 registers of type i32"),
        (load(2, False).replace("x2", "x4"), "expected a result of 4 registers of type i32"),
        (load(1, False).replace("ptr<3>", "ptr<1>").replace("%p", "%g"), "an access outside shared memory"),
        (load(1, False, "%u"), "the address of a matrix row is undefined"),
        (load(1, False, "%d"), "load address depends on the data converted"),
        (load(1, False).replace("m8n8", "m8n16"), "intrinsic '.*' is not interpreted"),
    ],
)
def test_refused(line: str, message: str) -> None:
    body = f"""%p = llvm.getelementptr %smem[0] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %g = llvm.mlir.zero : !llvm.ptr<1>
    %u = llvm.mlir.undef : !llvm.ptr<3>
    %d = llvm.getelementptr %smem[%a0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
    {line}"""
    text = function(["i32"], body, [])
    with pytest.raises(SimulationError, match=message):
        simulate(text, random_registers(1, ["i32"], THREADS), NVIDIA, WARPS, 1024)


def test_targets_without_the_instruction() -> None:
    registers = random_registers(1, ["i32"], THREADS)
    body = pointer([16 * t for t in range(THREADS)])
    stored, loaded = (function(["i32"], body + step, []) for step in (store(["%a0"], False), load(1, False)))
    simulate(loaded, registers, target("cuda:80"), WARPS, 1024)
    with pytest.raises(SimulationError, match="cuda:80 has no stmatrix"):
        simulate(stored, registers, target("cuda:80"), WARPS, 1024)
    with pytest.raises(SimulationError, match="matrix instructions need warps of 32 lanes, not 64"):
        simulate(loaded, registers, target("hip:gfx942"), 1, 1024)
