"""Whole functions in the interpreter: control flow, calls, and what Triton emits around conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from simulate_cases import AMD, NVIDIA, Bits

from triton_linear.lowering.interpreter.function import Argument, FunctionOutcome, simulate_function
from triton_linear.lowering.interpreter.memory import IllegalAccess, SimulationError
from triton_linear.lowering.target.targets import target

WORDS = "llvm.mlir.global external @global_smem() {addr_space = 3 : i32} : !llvm.array<0 x i8>\n"
THREAD = "%tid = nvvm.read.ptx.sreg.tid.x : i32"
AMD_THREAD = "%tid = rocdl.workitem.id.x : i32"
# Every thread's word of shared memory, and that of thread t ^ 32 (64 on AMD): in another warp.
PLACES = """%smem = llvm.mlir.addressof @global_smem : !llvm.ptr<3>
%own = llvm.getelementptr %smem[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
%lanes = llvm.mlir.constant({lanes} : i32) : i32
%partner = llvm.xor %tid, %lanes : i32
%theirs = llvm.getelementptr %smem[%partner] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32"""


def run(
    arguments: str,
    body: str,
    result: str,
    given: Sequence[Argument] = (),
    *,
    amd: bool = False,
    gpu: str = "",
    shared_bytes: int = 1024,
    before: str = "",
    **limits: int,
) -> FunctionOutcome:
    """Run `body`, which ends with its return, on two warps; %tid, %own and %theirs are there."""
    places = PLACES.format(lanes=64 if amd else 32)
    returned = f" -> {result}" if result else ""
    text = (
        f"{WORDS}{before}\nllvm.func @f({arguments}){returned} {{\n"
        f"{AMD_THREAD if amd else THREAD}\n{places}\n{body}\n}}\n"
    )
    machine = target(gpu) if gpu else AMD if amd else NVIDIA
    return simulate_function(text, "f", given, machine, 2, shared_bytes, **limits)


def threads(amd: bool = False) -> Bits:
    """The number of each thread of two warps."""
    return np.arange(128 if amd else 64, dtype=np.uint64)


LOOP = """%zero = llvm.mlir.constant(0 : i32) : i32
%one = llvm.mlir.constant(1 : i32) : i32
llvm.br ^head(%zero, %x, %y : i32, i32, i32)
^head(%i: i32, %a: i32, %b: i32):
%more = llvm.icmp "slt" %i, %n : i32
llvm.cond_br %more, ^body, ^exit
^body:
%sum = llvm.add %a, %b : i32
%next = llvm.add %i, %one : i32
llvm.br ^head(%next, %b, %sum : i32, i32, i32)
^exit:
llvm.return %a : i32"""


@pytest.mark.parametrize(("turns", "expected"), [(0, 1), (1, 2), (5, 13)])
def test_loops_hand_values_over_at_once(turns: int, expected: int) -> None:
    """Fibonacci: of (a, b) becomes (b, a + b), which one assignment after the other would spoil."""
    outcome = run("%x: i32, %y: i32, %n: i32", LOOP, "i32", [1, 2, turns])
    assert (outcome.values == expected).all()
    assert not outcome.undefined.any()


def test_a_run_is_limited() -> None:
    with pytest.raises(SimulationError, match="more than 1000 operations"):
        run("%x: i32, %y: i32, %n: i32", LOOP, "i32", [1, 2, 1 << 30], step_limit=1000)


def test_what_was_undefined_in_one_turn_is_not_in_the_next() -> None:
    """The first turn selects an undefined value, all others do not."""
    body = """%zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %bad = llvm.mlir.undef : i32
    llvm.br ^head(%zero, %zero : i32, i32)
    ^head(%i: i32, %kept: i32):
    %more = llvm.icmp "slt" %i, %n : i32
    llvm.cond_br %more, ^body, ^exit
    ^body:
    %first = llvm.icmp "eq" %i, %zero : i32
    %chosen = llvm.select %first, %bad, %i : i1, i32
    %value = llvm.add %chosen, %one : i32
    %next = llvm.add %i, %one : i32
    llvm.br ^head(%next, %value : i32, i32)
    ^exit:
    llvm.return %kept : i32"""
    assert run("%n: i32", body, "i32", [1]).undefined.all()
    outcome = run("%n: i32", body, "i32", [4])
    assert not outcome.undefined.any()
    assert (outcome.values == 4).all()


DIAMOND = """%limit = llvm.mlir.constant({limit} : i32) : i32
%low = llvm.icmp "ult" %tid, %limit : i32
%seven = llvm.mlir.constant(7 : i32) : i32
llvm.store %seven, %own : i32, !llvm.ptr<3>
llvm.cond_br %low, ^yes, ^no
^yes:
{yes}
llvm.br ^join(%tid : i32)
^no:
llvm.br ^join(%seven : i32)
^join(%r: i32):
%there = llvm.load %own : !llvm.ptr<3> -> i32
%sum = llvm.add %r, %there : i32
llvm.return %sum : i32"""


@pytest.mark.parametrize("amd", [False, True])
def test_threads_part_ways_and_meet(amd: bool) -> None:
    """Threads below 5 store their number, and only they do."""
    body = DIAMOND.format(limit=5, yes="llvm.store %tid, %own : i32, !llvm.ptr<3>")
    outcome = run("", body, "i32", amd=amd)
    thread = threads(amd)
    assert (outcome.values[0, 0] == np.where(thread < 5, 2 * thread, 14)).all()
    assert not outcome.races


@pytest.mark.parametrize(
    ("limit", "inside", "message"),
    [
        (5, "nvvm.barrier0", "not all threads reach a barrier of the CTA"),
        (32, "nvvm.barrier0", "not all threads reach a barrier of the CTA"),
        (5, "%m = llvm.mlir.constant(-1 : i32) : i32\nnvvm.bar.warp.sync %m : i32", "a barrier of the warp"),
        (
            5,
            "%m = llvm.mlir.constant(-1 : i32) : i32\n%c = llvm.mlir.constant(31 : i32) : i32\n"
            "%s = nvvm.shfl.sync bfly %m, %tid, %seven, %c : i32 -> i32",
            "not all lanes of the warp execute",
        ),
    ],
)
def test_part_of_the_threads_cannot_do_everything(limit: int, inside: str, message: str) -> None:
    body = DIAMOND.format(limit=limit, yes=inside)
    with pytest.raises(SimulationError, match=message):
        run("", body, "i32")


def test_a_whole_warp_may_shuffle_alone() -> None:
    body = DIAMOND.format(
        limit=32,
        yes="%m = llvm.mlir.constant(-1 : i32) : i32\n%c = llvm.mlir.constant(31 : i32) : i32\n"
        "%s = nvvm.shfl.sync bfly %m, %tid, %seven, %c : i32 -> i32\n"
        "llvm.store %s, %own : i32, !llvm.ptr<3>",
    )
    thread = threads()
    expected = np.where(thread < 32, thread + (thread ^ np.uint64(7)), 14)
    assert (run("", body, "i32").values[0, 0] == expected).all()


def test_part_of_the_threads_may_race() -> None:
    """Thread 0 alone reads what a thread of the other warp wrote."""
    body = DIAMOND.format(limit=1, yes="%s = llvm.load %theirs : !llvm.ptr<3> -> i32")
    (race,) = run("", body, "i32").races
    assert (race.scope, race.hazard, race.offset) == ("cta", "read after write", 128)


def test_a_loop_that_threads_leave_at_different_times_is_refused() -> None:
    body = LOOP.replace("%i, %n : i32", "%i, %tid : i32")
    with pytest.raises(SimulationError, match="threads leave a loop at different times"):
        run("%x: i32, %y: i32, %n: i32", body, "i32", [1, 2, 3])


def test_conditions_must_be_known() -> None:
    with pytest.raises(IllegalAccess, match="the condition is undefined"):
        run("%x: i32, %y: i32, %n: i32", LOOP, "i32", [1, 2, None])
    data: Any = [np.array([[1], [2]], np.uint64)]
    with pytest.raises(SimulationError, match="depends on the data"):
        run("%x: i32, %y: i32, %n: i32", LOOP, "i32", [1, 2, data])


def test_calls_are_followed() -> None:
    """A function that is called twice, with a loop in it, and one that calls itself."""
    callee = f"llvm.func internal @fib(%x: i32, %y: i32, %n: i32) -> i32 {{\n{LOOP}\n}}"
    body = """%r = llvm.call @fib(%x, %y, %y) : (i32, i32, i32) -> i32
    %s = llvm.call @fib(%r, %y, %y) : (i32, i32, i32) -> i32
    llvm.return %s : i32"""
    assert (run("%x: i32, %y: i32", body, "i32", [1, 3], before=callee).values == 13).all()
    itself = "%r = llvm.call @fib(%x) : (i32) -> i32\nllvm.return %r : i32"
    endless = f"llvm.func internal @fib(%x: i32) -> i32 {{\n{itself}\n}}"
    with pytest.raises(SimulationError, match="nested more than"):
        run("%x: i32", itself, "i32", [1], before=endless)
    with pytest.raises(SimulationError, match="a call of @gone is not interpreted"):
        declared = "llvm.func @gone(i32) -> i32"
        run("%x: i32", itself.replace("fib", "gone"), "i32", [1], before=declared)


EXCHANGE = """%zero = llvm.mlir.constant(0 : i32) : i32
%one = llvm.mlir.constant(1 : i32) : i32
llvm.br ^head(%zero, %tid : i32, i32)
^head(%i: i32, %x: i32):
%more = llvm.icmp "slt" %i, %n : i32
llvm.cond_br %more, ^body, ^exit
^body:
{before}
llvm.store %x, %own : i32, !llvm.ptr<3>
{between}
%y = llvm.load %theirs : !llvm.ptr<3> -> i32
%next = llvm.add %i, %one : i32
llvm.br ^head(%next, %y : i32, i32)
^exit:
llvm.return %x : i32"""
WAITED = "rocdl.s.waitcnt 49279\nrocdl.s.barrier"


@pytest.mark.parametrize(
    ("amd", "barrier"), [(False, "nvvm.barrier0"), (True, "rocdl.barrier"), (True, WAITED)]
)
def test_barriers_at_the_back_edge(amd: bool, barrier: str) -> None:
    """What is read in one turn may be written in the next only behind a barrier."""

    def exchanged(turns: int, before: str, between: str) -> FunctionOutcome:
        body = EXCHANGE.format(before=before, between=between)
        return run("%n: i32", body, "i32", [turns], amd=amd)

    fine = exchanged(3, barrier, barrier)
    assert not fine.races
    assert fine.cta_barriers == 6
    assert (fine.values[0, 0] == threads(amd) ^ (64 if amd else 32)).all()
    assert not exchanged(1, "", barrier).races
    (race,) = exchanged(2, "", barrier).races
    assert race.hazard == "write after read"
    assert "read after write" in {race.hazard for race in exchanged(1, barrier, "").races}


def test_a_barrier_that_waits_for_nothing_orders_nothing() -> None:
    """s_barrier alone, or behind a wait for global memory only (lgkmcnt 15)."""
    for barrier in ("rocdl.s.barrier", "rocdl.s.waitcnt 3952\nrocdl.s.barrier"):
        body = EXCHANGE.format(before=barrier, between=barrier)
        assert run("%n: i32", body, "i32", [1], amd=True).races


def assembly(text: str, constraints: str, operands: str, types: str) -> str:
    """An instruction of inline assembly, as Triton writes it."""
    return (
        f'llvm.inline_asm has_side_effects asm_dialect = att operand_attrs = [] "{text}", "{constraints}" '
        f"{operands} : {types}"
    )


def test_accesses_under_a_predicate() -> None:
    """Threads below 5 store; all threads below 6 load, and what the others get is undefined."""
    store = assembly(
        "@$2 st.shared.b32 [ $0 + 4 ], $1;", "r,r,b", "%own, %tid, %p", "(!llvm.ptr<3>, i32, i1) -> ()"
    )
    load = assembly("@$2 ld.shared.b32 $0, [ $1 + 4 ];", "=r,r,b", "%own, %q", "(!llvm.ptr<3>, i1) -> i32")
    body = f"""%five = llvm.mlir.constant(5 : i32) : i32
    %six = llvm.mlir.constant(6 : i32) : i32
    %p = llvm.icmp "ult" %tid, %five : i32
    %q = llvm.icmp "ult" %tid, %six : i32
    {store}
    %r = {load}
    llvm.return %r : i32"""
    outcome = run("", body, "i32")
    thread = threads()
    assert (outcome.values[0, 0, :5] == thread[:5]).all()
    # Nobody wrote what thread 5 loads.
    assert (outcome.undefined[0, 0] == np.where(thread < 5, 0, 0xFFFFFFFF)).all()
    assert [access.wavefronts for access in outcome.counts.accesses] == [1, 1]
    assert (outcome.counts.bytes_stored, outcome.counts.bytes_loaded) == (20, 24)


COPY = '"r,l,r" %place, %from, %bytes : (!llvm.ptr<3>, !llvm.ptr<1>, i32) -> !llvm.void'


@pytest.mark.parametrize(("width", "stride", "wavefronts"), [(4, 4, 2), (8, 8, 4), (16, 16, 8), (16, 256, 64)])
def test_copies_are_counted_and_leave_what_nobody_knows(width: int, stride: int, wavefronts: int) -> None:
    """As many bytes of each thread as the copy says, however many of them are filled with zeros."""
    copy = f"cp.async.ca.shared.global [ $0 + 0 ], [ $1 + 0 ], {hex(width)}, $2;"
    body = f"""%apart = llvm.mlir.constant({stride} : i32) : i32
    %offset = llvm.mul %tid, %apart : i32
    %place = llvm.getelementptr %smem[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
    llvm.inline_asm has_side_effects "{copy}", {COPY}
    %r = llvm.load %place : !llvm.ptr<3> -> i32
    llvm.return %r : i32"""
    outcome = run("%from: !llvm.ptr<1>, %bytes: i32", body, "i32", [None, 0], shared_bytes=63 * stride + width)
    store, load = outcome.counts.accesses
    assert (store.kind, store.width, store.wavefronts, store.minimum) == (
        "store",
        width,
        wavefronts,
        width // 2,
    )
    assert (load.kind, outcome.counts.bytes_stored) == ("load", 64 * width)
    assert (outcome.undefined == 0xFFFFFFFF).all()
    with pytest.raises(IllegalAccess, match="out of bounds"):
        run("%from: !llvm.ptr<1>, %bytes: i32", body, "i32", [None, 0], shared_bytes=63 * stride + width - 4)


def test_copies_under_a_predicate() -> None:
    body = f"""%five = llvm.mlir.constant(5 : i32) : i32
    %some = llvm.icmp "ult" %tid, %five : i32
    %place = llvm.getelementptr %smem[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
    llvm.store %tid, %own : i32, !llvm.ptr<3>
    llvm.inline_asm has_side_effects "@$3 cp.async.ca.shared.global [ $0 + 0 ], [ $1 + 0 ], 0x4, $2;",
      {COPY.replace('"r,l,r"', '"r,l,r,b"').replace("%bytes :", "%bytes, %some :").replace("i32)", "i32, i1)")}
    %r = llvm.load %own : !llvm.ptr<3> -> i32
    llvm.return %r : i32"""
    outcome = run("%from: !llvm.ptr<1>, %bytes: i32", body, "i32", [None, 4])
    assert (outcome.undefined[0, 0] == np.where(threads() < 5, 0xFFFFFFFF, 0)).all()
    assert (outcome.values[0, 0, 5:] == threads()[5:]).all()


def test_waiting_for_copies_is_refused() -> None:
    with pytest.raises(SimulationError, match="is not interpreted"):
        run("", "nvvm.cp.async.wait.group 0\nllvm.return", "")


def test_fast_division_gives_bits_that_nobody_knows() -> None:
    body = '%r = llvm.call_intrinsic "llvm.nvvm.div.full"(%a, %a) : (f32, f32) -> f32\nllvm.return %r : f32'
    outcome = run("%a: f32", body, "f32", [0x3F800000])
    assert (outcome.undefined & 0xFFFFFFFF == 0xFFFFFFFF).all()


def test_sinks_hear_every_turn() -> None:
    body = EXCHANGE.format(before="nvvm.barrier0", between="nvvm.barrier0").replace(
        "%next =", assembly("// sink x", "r", "%x", "(i32) -> ()") + "\n%next ="
    )
    values, undefined = run("%n: i32", body, "i32", [3]).sinks["x"]
    assert values.shape == (3, 1, 64)
    assert (values[:, 0, 0] == [0, 32, 0]).all()
    assert not undefined.any()


def test_an_undefined_store_is_no_access() -> None:
    """LLVM removes it; who reads the bytes has nothing."""
    body = """%nothing = llvm.mlir.undef : i32
    llvm.store %tid, %own : i32, !llvm.ptr<3>
    llvm.store %nothing, %theirs : i32, !llvm.ptr<3>
    %r = llvm.load %own : !llvm.ptr<3> -> i32
    llvm.return %r : i32"""
    outcome = run("", body, "i32")
    assert not outcome.races
    assert outcome.undefined.all()


LANES: list[tuple[str, Callable[[Bits], Bits]]] = [
    ("%r = rocdl.update.dpp %tid, %x with 177, 15, 15, false : i32", lambda t: t ^ np.uint64(1)),
    ("%r = rocdl.update.dpp %tid, %x with 321, 15, 15, false : i32", lambda t: t ^ np.uint64(7)),
    ("%r = rocdl.update.dpp %tid, %x with 320, 15, 15, false : i32", lambda t: t ^ np.uint64(15)),
    ("%r = rocdl.update.dpp %tid, %x with 296, 15, 15, false : i32", lambda t: t ^ np.uint64(8)),
    (
        "%s = llvm.mlir.constant(16415 : i32) : i32\n%r = rocdl.ds_swizzle %x, %s : (i32, i32) -> i32",
        lambda t: t ^ np.uint64(16),
    ),
]


@pytest.mark.parametrize(("operation", "source"), LANES)
def test_amd_lane_exchanges(operation: str, source: Callable[[Bits], Bits]) -> None:
    """Quad permutation, mirrors, rotation by half a row, swizzle: of x = tid + 100."""
    body = f"""%h = llvm.mlir.constant(100 : i32) : i32
    %x = llvm.add %tid, %h : i32
    {operation}
    llvm.return %r : i32"""
    assert (run("", body, "i32", amd=True).values[0, 0] == source(threads(True)) + np.uint64(100)).all()


def test_dpp_keeps_the_old_value_outside_its_row_and_mask() -> None:
    def shifted(masks: str) -> Bits:
        body = f"""%h = llvm.mlir.constant(100 : i32) : i32
        %x = llvm.add %tid, %h : i32
        %r = rocdl.update.dpp %tid, %x with 280, {masks} : i32
        llvm.return %r : i32"""
        return run("", body, "i32", amd=True).values[0, 0]

    thread = threads(True)
    upper = thread % 16 >= 8
    assert (shifted("15, 15, false") == np.where(upper, thread + 92, thread)).all()
    assert (shifted("15, 15, true") == np.where(upper, thread + 92, 0)).all()
    assert (shifted("15, 4, false") == np.where((thread % 16 // 4) == 2, thread + 92, thread)).all()
    assert (shifted("1, 15, false") == np.where(upper & (thread % 64 < 16), thread + 92, thread)).all()


@pytest.mark.parametrize("rows", [16, 32])
def test_permlane_swap(rows: int) -> None:
    body = f"""%h = llvm.mlir.constant(1000 : i32) : i32
    %x = llvm.add %tid, %h : i32
    %s = rocdl.permlane{rows}.swap %tid, %x, false, false : (i32, i32) -> !llvm.struct<(i32, i32)>
    llvm.return %s : !llvm.struct<(i32, i32)>"""
    with pytest.raises(SimulationError, match=f"hip:gfx942 has no v_permlane{rows}_swap"):
        run("", body, "!llvm.struct<(i32, i32)>", amd=True)
    outcome = run("", body, "!llvm.struct<(i32, i32)>", amd=True, gpu="hip:gfx950")
    first, second = outcome.values[:, 0]
    thread = threads(True)
    odd = (thread & np.uint64(rows)) != 0
    assert (first == np.where(odd, (thread ^ np.uint64(rows)) + np.uint64(1000), thread)).all()
    assert (second == np.where(odd, thread + np.uint64(1000), thread ^ np.uint64(rows))).all()


def test_redux() -> None:
    body = """%m = llvm.mlir.constant(-1 : i32) : i32
    %s = nvvm.redux.sync add %tid, %m : i32 -> i32
    llvm.return %s : i32"""
    assert (run("", body, "i32").values[0, 0] == np.repeat([496, 1520], 32)).all()


FLOATS: list[tuple[str, str, float, float, float]] = [
    ("llvm.fadd", "f16", 1.0, 0.0004883, 1.0),
    ("llvm.fadd", "f16", 1.0, 0.0004888, 1.0009766),
    ("llvm.fadd", "bf16", 1.0, 0.00390625, 1.0),
    ("llvm.fadd", "bf16", 1.0, 0.0041, 1.0078125),
    ("llvm.fsub", "f32", 1.0, 3.0, -2.0),
    ("llvm.fmul", "f64", 0.5, 3.0, 1.5),
    ("llvm.fdiv", "f32", 1.0, 3.0, 0.33333334),
    ("llvm.intr.maxnum", "f32", float("nan"), 3.0, 3.0),
    ("llvm.intr.maximum", "f32", float("nan"), 3.0, float("nan")),
    ("llvm.intr.minnum", "f16", -2.0, 3.0, -2.0),
]


@pytest.mark.parametrize(("operation", "type_", "a", "b", "expected"), FLOATS)
def test_floats(operation: str, type_: str, a: float, b: float, expected: float) -> None:
    if operation.startswith("llvm.intr"):
        line = f"%r = {operation}(%a, %b) : ({type_}, {type_}) -> {type_}"
    else:
        line = f"%r = {operation} %a, %b : {type_}"

    def pattern(value: float) -> int:
        if type_ == "bf16":
            return int(np.float32(value).view(np.uint32)) >> 16
        dtype, carrier = {
            "f16": (np.float16, np.uint16),
            "f32": (np.float32, np.uint32),
            "f64": (np.float64, np.uint64),
        }[type_]
        return int(dtype(value).view(carrier))

    outcome = run(
        f"%a: {type_}, %b: {type_}", f"{line}\nllvm.return %r : {type_}", type_, [pattern(a), pattern(b)]
    )
    assert (outcome.values == pattern(expected)).all()


@pytest.mark.parametrize("predicate", ["oeq", "ogt", "olt", "one", "ord", "ueq", "uge", "une", "uno"])
def test_float_comparisons(predicate: str) -> None:
    values = [1.0, 2.0, float("nan")]
    body = f'%c = llvm.fcmp "{predicate}" %a, %b : f32\n%r = llvm.zext %c : i1 to i32\nllvm.return %r : i32'
    holds = {"eq": np.equal, "gt": np.greater, "lt": np.less, "ge": np.greater_equal, "ne": np.not_equal}
    for a in values:
        for b in values:
            bits = [int(np.float32(x).view(np.uint32)) for x in (a, b)]
            unordered = bool(np.isnan(a) or np.isnan(b))
            if predicate in ("ord", "uno"):
                expected = unordered == (predicate == "uno")
            else:
                expected = predicate[0] == "u" if unordered else bool(holds[predicate[1:]](a, b))
            assert (run("%a: f32, %b: f32", body, "i32", bits).values == expected).all()


@pytest.mark.parametrize(
    ("operation", "a", "b", "expected"),
    [("sdiv", -7, 2, -3), ("srem", -7, 2, -1), ("udiv", 7, 2, 3), ("urem", -7, 2, 1), ("sdiv", 7, -2, -3)],
)
def test_division(operation: str, a: int, b: int, expected: int) -> None:
    body = f"%r = llvm.{operation} %a, %b : i32\nllvm.return %r : i32"
    mask = 0xFFFFFFFF
    assert (run("%a: i32, %b: i32", body, "i32", [a & mask, b & mask]).values == expected & mask).all()
    with pytest.raises(SimulationError, match="division by zero"):
        run("%a: i32, %b: i32", body, "i32", [a & mask, 0])


def test_what_is_refused_says_where() -> None:
    with pytest.raises(SimulationError, match=r"\d+:\d+: llvm.call_intrinsic: intrinsic 'llvm.nope'"):
        run("", '%r = llvm.call_intrinsic "llvm.nope"() : () -> i32\nllvm.return %r : i32', "i32")
    with pytest.raises(IllegalAccess, match=r"\d+:\d+: llvm.store: .* out of bounds: scratch has 128 bytes"):
        run("", "llvm.store %tid, %own : i32, !llvm.ptr<3>\nllvm.return", "", shared_bytes=128)
    with pytest.raises(SimulationError, match="no function 'g'"):
        simulate_function("llvm.func @f() { llvm.return }", "g", [], NVIDIA, 2)
    with pytest.raises(SimulationError, match="argument 0 has 1 registers, not 2"):
        nothing: Any = [np.zeros((1, 1), np.uint64)] * 2
        run("%a: i32", "llvm.return", "", [nothing])
