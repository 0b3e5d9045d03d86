"""Shared memory: values, bounds, alignment, hazards at both scopes, wavefronts."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from simulate_cases import random_registers, run, threads, width

from triton_linear.lowering.interpreter.counts import wavefronts
from triton_linear.lowering.interpreter.function import FunctionOutcome
from triton_linear.lowering.interpreter.memory import SimulationError

# Address of thread t's element: %own = smem + t * size. The element that is read: thread t ^ `flip`'s.
ADDRESSES = """%tid = nvvm.read.ptx.sreg.tid.x : i32
%size = llvm.mlir.constant({size} : i32) : i32
%flip = llvm.mlir.constant({flip} : i32) : i32
%other = llvm.xor %tid, %flip : i32
%o0 = llvm.mul %tid, %size : i32
%o1 = llvm.mul %other, %size : i32
%own = llvm.getelementptr %smem[%o0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
%theirs = llvm.getelementptr %smem[%o1] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
"""
CTA = {False: "nvvm.barrier0", True: "rocdl.barrier"}
WARP = {False: "nvvm.bar.warp.sync %all : i32", True: 'llvm.fence syncscope("wavefront") acq_rel'}
ALL = "%all = llvm.mlir.constant(-1 : i32) : i32\n"


def exchange(
    between: str,
    *,
    flip: int,
    amd: bool = False,
    before: str = "",
    after: str = "%r0 = llvm.load %theirs : !llvm.ptr<3> -> i32",
    num_warps: int = 2,
) -> FunctionOutcome:
    """Every thread stores its i32 and, after `between`, loads that of thread t ^ flip."""
    body = ADDRESSES.format(size=4, flip=flip) + ALL + before
    if amd:
        body = body.replace("nvvm.read.ptx.sreg.tid.x", "rocdl.workitem.id.x")
    body += f"\nllvm.store %a0, %own : i32, !llvm.ptr<3>\n{between}\n{after}"
    count = threads(num_warps, amd=amd)
    registers = random_registers(3, ["i32"], count)
    outcome = run(["i32"], body, ["i32"], registers, amd=amd, num_warps=num_warps, shared_bytes=4 * count)
    if "%r0 = llvm.load" in after:
        expected = registers[0][:, np.arange(count) ^ flip]
        assert np.array_equal(outcome.values[0], expected)
    return outcome


def scopes(outcome: FunctionOutcome) -> list[tuple[str, str]]:
    """Scope and hazard of every race."""
    return [(race.scope, race.hazard) for race in outcome.races]


# Hazards


@pytest.mark.parametrize("amd", [False, True])
def test_barriers_order_what_they_cover(amd: bool) -> None:
    lanes = 64 if amd else 32
    raw = "read after write"
    assert scopes(exchange("", flip=0, amd=amd)) == []
    assert scopes(exchange("", flip=1, amd=amd)) == [("warp", raw)]
    assert scopes(exchange(WARP[amd], flip=1, amd=amd)) == []
    assert scopes(exchange(CTA[amd], flip=1, amd=amd)) == []
    assert scopes(exchange("", flip=lanes, amd=amd)) == [("cta", raw)]
    assert scopes(exchange(WARP[amd], flip=lanes, amd=amd)) == [("cta", raw)]
    assert scopes(exchange(CTA[amd], flip=lanes, amd=amd)) == []


def test_race_says_where() -> None:
    (race,) = exchange("", flip=32).races
    assert str(race) == ("15:7: llvm.load: read after write at byte 128 without a CTA barrier between")


def test_write_after_read() -> None:
    before = "%old = llvm.load %theirs : !llvm.ptr<3> -> i32\n"
    assert scopes(exchange(CTA[False], flip=32, before=before)) == [("cta", "write after read")]
    assert scopes(exchange(CTA[False], flip=1, before=before)) == [("warp", "write after read")]
    assert scopes(exchange(CTA[False], flip=32, before=before + CTA[False])) == []


def test_write_after_write() -> None:
    after = "llvm.store %a0, %theirs : i32, !llvm.ptr<3>\n%r0 = llvm.bitcast %a0 : i32 to i32"
    waw = "write after write"
    assert scopes(exchange("", flip=32, after=after)) == [("cta", waw)]
    assert scopes(exchange("", flip=1, after=after)) == [("warp", waw)]
    assert scopes(exchange(WARP[False], flip=1, after=after)) == []
    assert scopes(exchange(WARP[False], flip=32, after=after)) == [("cta", waw)]
    assert scopes(exchange(CTA[False], flip=32, after=after)) == []


@pytest.mark.parametrize(("value", "expected"), [("%size", []), ("%a0", [("cta", "write after write")])])
def test_duplicates_may_write_the_same_value_only(value: str, expected: list[tuple[str, str]]) -> None:
    body = ADDRESSES.format(size=4, flip=0) + f"llvm.store {value}, %smem : i32, !llvm.ptr<3>"
    body += "\n%r0 = llvm.bitcast %a0 : i32 to i32"
    outcome = run(["i32"], body, ["i32"], random_registers(3, ["i32"], 64), shared_bytes=4)
    assert scopes(outcome) == expected


def test_duplicates_within_one_warp() -> None:
    body = ADDRESSES.format(size=4, flip=0) + "llvm.store %a0, %smem : i32, !llvm.ptr<3>"
    body += "\n%r0 = llvm.bitcast %a0 : i32 to i32"
    registers = random_registers(3, ["i32"], 32)
    outcome = run(["i32"], body, ["i32"], registers, num_warps=1, shared_bytes=4)
    assert scopes(outcome) == [("warp", "write after write")]


def test_many_readers_then_one_writer() -> None:
    before = f"""llvm.store %size, %smem : i32, !llvm.ptr<3>
    {CTA[False]}
    %old = llvm.load %smem : !llvm.ptr<3> -> i32
    """
    outcome = exchange(CTA[False], flip=32, before=before)
    assert scopes(outcome) == [("cta", "write after read")]
    last = (
        before
        + """%k = llvm.mlir.constant(63 : i32) : i32
    %rest = llvm.sub %k, %tid : i32
    %back = llvm.getelementptr %smem[%rest] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
    llvm.store %a0, %back : i32, !llvm.ptr<3>
    """
    )
    outcome = exchange(CTA[False], flip=32, before=last + CTA[False])
    assert scopes(outcome) == [("cta", "write after read")]


FENCED = """llvm.fence syncscope("workgroup") release
rocdl.s.barrier
llvm.fence syncscope("workgroup") acquire"""


@pytest.mark.parametrize(
    ("between", "ordered"),
    [
        (FENCED, True),
        (FENCED.replace('syncscope("workgroup") ', ""), True),
        (FENCED.replace("workgroup", "agent").replace("acquire", "seq_cst"), True),
        ("rocdl.s.barrier", False),
        (FENCED.replace("workgroup", "wavefront"), False),
        (FENCED.split("\n", 1)[1], False),
        (FENCED.rsplit("\n", 1)[0], False),
        (FENCED.replace("release", "acquire"), False),
        (FENCED.replace("release\n", "release\nllvm.store %a0, %own : i32, !llvm.ptr<3>\n"), False),
    ],
)
def test_amd_barrier_needs_its_fences(between: str, ordered: bool) -> None:
    outcome = exchange(between, flip=64, amd=True)
    assert scopes(outcome) == ([] if ordered else [("cta", "read after write")])


def test_wave_barrier_orders_the_wave() -> None:
    for barrier in (
        'llvm.call_intrinsic "llvm.amdgcn.wave.barrier"() : () -> ()',
        "rocdl.wave.barrier loc(unknown)",
        'llvm.fence syncscope("workgroup") release',
    ):
        assert scopes(exchange(barrier, flip=1, amd=True)) == []
        assert scopes(exchange(barrier, flip=64, amd=True)) == [("cta", "read after write")]


def test_fence_alone_orders_nothing_on_nvidia() -> None:
    fence = 'llvm.fence syncscope("block") acq_rel'
    assert scopes(exchange(fence, flip=1)) == [("warp", "read after write")]


@pytest.mark.parametrize("barrier", ["nvvm.barrier0", "nvvm.barrier", "nvvm.barrier loc(unknown)"])
def test_the_barrier_of_the_cta_has_two_names(barrier: str) -> None:
    assert scopes(exchange(barrier, flip=32)) == []


def test_named_and_partial_barriers_are_refused() -> None:
    body = "%n = llvm.mlir.constant({count} : i32) : i32\n%id = llvm.mlir.constant({id} : i32) : i32\n"
    body += "nvvm.barrier id = %id number_of_threads = %n"
    assert scopes(exchange(body.format(id=0, count=64), flip=32)) == []
    for id_, count in ((1, 64), (0, 32)):
        with pytest.raises(SimulationError, match=r"16:1: nvvm\.barrier: a named barrier"):
            exchange(body.format(id=id_, count=count), flip=32)


def test_warp_barrier_must_name_every_lane() -> None:
    body = "%half = llvm.mlir.constant(65535 : i32) : i32\nnvvm.bar.warp.sync %half : i32"
    with pytest.raises(SimulationError, match=r"15:1: nvvm.bar.warp.sync: the member mask leaves out a lane"):
        exchange(body, flip=1)


# Values


ROUND_TRIPS = [
    (element, count)
    for element in ["i1", "i8", "i16", "f16", "bf16", "i32", "f32", "f64", "ptr<1>"]
    for count in (1, 2, 4, 8, 16)
    if width(element) * count <= 128 and (element != "i1" or count == 1)
]


@pytest.mark.parametrize(("element", "count"), ROUND_TRIPS)
def test_round_trip(element: str, count: int) -> None:
    size = max(8, width(element)) // 8
    type_ = element.replace("ptr", "!llvm.ptr")
    vector = type_ if count == 1 else f"vector<{count}x{type_}>"
    body = ADDRESSES.format(size=size * count, flip=1)
    value = "%a0"
    if count > 1:
        body += f"%v0 = llvm.mlir.undef : {vector}\n"
        for k in range(count):
            body += f"%k{k} = llvm.mlir.constant({k} : i32) : i32\n"
            body += f"%v{k + 1} = llvm.insertelement %a{k}, %v{k}[%k{k} : i32] : {vector}\n"
        value = f"%v{count}"
    body += f"llvm.store {value}, %own : {vector}, !llvm.ptr<3>\nnvvm.barrier0\n"
    if count == 1:
        body += f"%r0 = llvm.load %theirs : !llvm.ptr<3> -> {vector}"
    else:
        body += f"%l = llvm.load %theirs : !llvm.ptr<3> -> {vector}\n"
        body += "\n".join(f"%r{k} = llvm.extractelement %l[%k{k} : i32] : {vector}" for k in range(count))
    registers = random_registers(4, [element] * count, 64)
    outcome = run([element] * count, body, [element] * count, registers, shared_bytes=64 * size * count)
    assert not outcome.undefined.any()
    assert not outcome.races
    for result, register in zip(outcome.values, registers, strict=True):
        assert np.array_equal(result, register[:, np.arange(64) ^ 1])
    assert outcome.counts.of_kind("store") == outcome.counts.of_kind("load") == {size * count: 1}
    assert outcome.counts.bytes_stored == outcome.counts.bytes_loaded == 64 * size * count


def test_narrow_reads_of_wide_writes() -> None:
    body = (
        ADDRESSES.format(size=4, flip=0)
        + """llvm.store %a0, %own : i32, !llvm.ptr<3>
    %at = llvm.getelementptr %own[3] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %r0 = llvm.load %at : !llvm.ptr<3> -> i8"""
    )
    registers = random_registers(5, ["i32"], 64)
    outcome = run(["i32"], body, ["i8"], registers, shared_bytes=256)
    assert np.array_equal(outcome.values[0], registers[0] >> np.uint64(24))
    assert not outcome.races


def test_uninitialised_bytes_are_undefined_until_written() -> None:
    body = (
        ADDRESSES.format(size=4, flip=0)
        + """%r0 = llvm.load %own : !llvm.ptr<3> -> i32
    %b = llvm.trunc %a0 : i32 to i8
    llvm.store %b, %own : i8, !llvm.ptr<3>
    %r1 = llvm.load %own : !llvm.ptr<3> -> i32
    llvm.store %a0, %own : i32, !llvm.ptr<3>
    %r2 = llvm.load %own : !llvm.ptr<3> -> i32"""
    )
    outcome = run(["i32"], body, ["i32"] * 3, random_registers(5, ["i32"], 64), shared_bytes=256)
    assert [int(mask) for mask in outcome.undefined[:, 0, 0]] == [0xFFFFFFFF, 0xFFFFFF00, 0]


def test_undefined_stores_stay_undefined() -> None:
    body = (
        ADDRESSES.format(size=4, flip=0)
        + """%u = llvm.mlir.undef : i32
    llvm.store %a0, %own : i32, !llvm.ptr<3>
    llvm.store %u, %own : i32, !llvm.ptr<3>
    %r0 = llvm.load %own : !llvm.ptr<3> -> i32"""
    )
    outcome = run(["i32"], body, ["i32"], random_registers(5, ["i32"], 64), shared_bytes=256)
    assert (outcome.undefined == 0xFFFFFFFF).all()


# Refusals


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "%past = llvm.getelementptr %own[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32\n"
            "%r0 = llvm.load %past : !llvm.ptr<3> -> i32",
            "12:7: llvm.load: load of 4 bytes by thread 63 at byte 256 is out of bounds: scratch has 256 bytes",
        ),
        (
            "%past = llvm.getelementptr %own[-1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32\n"
            "llvm.store %a0, %past : i32, !llvm.ptr<3>",
            "12:1: llvm.store: store of 4 bytes by thread 0 at byte -4 is out of bounds: scratch has 256 bytes",
        ),
        (
            "%past = llvm.getelementptr %smem[4] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8\n"
            "%r0 = llvm.load %past : !llvm.ptr<3> -> i64",
            "12:7: llvm.load: load by thread 0 at byte 4 is misaligned: the address is no multiple of 8",
        ),
        (
            "%r0 = llvm.load %own {alignment = 16 : i64} : !llvm.ptr<3> -> i32",
            "11:7: llvm.load: an address is no multiple of 16, the alignment that is promised",
        ),
        (
            "%at = llvm.getelementptr %smem[%a0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8\n"
            "%r0 = llvm.load %at : !llvm.ptr<3> -> i8",
            "12:7: llvm.load: load address depends on the data converted",
        ),
        (
            "%u = llvm.mlir.undef : i32\n"
            "%at = llvm.getelementptr %smem[%u] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8\n"
            "%r0 = llvm.load %at : !llvm.ptr<3> -> i8",
            "13:7: llvm.load: the load's address is undefined",
        ),
        (
            "%g = llvm.mlir.zero : !llvm.ptr<1>\n%r0 = llvm.load %g : !llvm.ptr<1> -> i8",
            "12:7: llvm.load: an access outside shared memory (address space 3) is not interpreted",
        ),
    ],
)
def test_refused_access(line: str, message: str) -> None:
    body = ADDRESSES.format(size=4, flip=0) + line
    if "%r0" not in body:
        body += "\n%r0 = llvm.bitcast %a0 : i32 to i32"
    result = "i8" if "-> i8" in body else "i64" if "-> i64" in body else "i32"
    with pytest.raises(SimulationError) as error:
        run(["i32"], body, [result], random_registers(5, ["i32"], 64), shared_bytes=256)
    assert str(error.value) == message


# Wavefronts


def counted(addresses: npt.ArrayLike, width: int, phase: int = 0, banks: int = 32) -> tuple[int, int]:
    """Wavefronts and minimum of one warp access."""
    taken, fewest = wavefronts(addresses, width, phase or min(32, 128 // max(width, 4)), banks)
    return int(taken), int(fewest)


LANES = np.arange(32)


@pytest.mark.parametrize(
    ("addresses", "width", "expected"),
    [
        (LANES * 4, 4, (1, 1)),  # a row
        (LANES * 128, 4, (32, 1)),  # a column of 32 words: all in one bank
        (LANES * 132, 4, (1, 1)),  # the same, padded by a word
        (LANES * 8, 4, (2, 1)),
        (LANES * 0, 4, (1, 1)),  # broadcast
        (LANES // 2 * 4, 4, (1, 1)),
        (LANES * 0 + LANES % 2 * 128, 4, (2, 1)),  # two words of one bank
        (LANES * 8, 8, (2, 2)),
        (LANES * 16, 16, (4, 4)),
        (LANES * 128, 16, (32, 4)),
        (LANES * 144, 16, (4, 4)),  # rows of 128 bytes padded by 16
        (LANES * 256, 8, (32, 2)),
        (LANES * 0, 16, (4, 4)),  # one wavefront a phase
        (LANES, 1, (1, 1)),  # four lanes a word
        (LANES * 2, 2, (1, 1)),
        (LANES * 64, 2, (16, 1)),
        (LANES * 128, 1, (32, 1)),
    ],
)
def test_wavefronts_of_textbook_cases(
    addresses: npt.NDArray[np.int64], width: int, expected: tuple[int, int]
) -> None:
    assert counted(addresses, width) == expected


def test_wavefronts_against_a_direct_count() -> None:
    rng = random.Random(0)
    for _ in range(300):
        width, banks = rng.choice([1, 2, 4, 8, 16]), rng.choice([16, 32, 64])
        lanes = rng.choice([32, 64])
        phase = lanes >> rng.randrange(4)
        span = rng.choice([8, 64, 4096])
        addresses = [rng.randrange(span) * width for _ in range(lanes)]
        taken = fewest = 0
        for start in range(0, lanes, phase):
            words = {
                (address + byte) // 4 for address in addresses[start : start + phase] for byte in range(width)
            }
            taken += max(Counter(word % banks for word in words).values())
            fewest += -(-len(words) // banks)
        assert counted(addresses, width, phase, banks) == (taken, fewest)


def test_counts_of_a_run() -> None:
    outcome = exchange(CTA[False], flip=1, num_warps=4)
    counts = outcome.counts
    assert [(a.kind, a.width, a.wavefronts, a.minimum) for a in counts.accesses] == [
        ("store", 4, 4, 4),
        ("load", 4, 4, 4),
    ]
    assert (counts.wavefronts, counts.minimum_wavefronts, counts.warps) == (8, 8, 4)
    assert (counts.cta_barriers, counts.warp_barriers, counts.shuffles) == (1, 0, 0)
    assert counts.alu == (("address", 2), ("arithmetic", 2), ("logic", 1))
    assert counts.alu_operations == 5


def test_alignment_splits_an_access() -> None:
    body = (
        ADDRESSES.format(size=16, flip=0)
        + """%v = llvm.mlir.constant(dense<1> : vector<4xi32>) : vector<4xi32>
    llvm.store %v, %own {alignment = 8 : i64} : vector<4xi32>, !llvm.ptr<3>
    %r0 = llvm.bitcast %a0 : i32 to i32"""
    )
    outcome = run(["i32"], body, ["i32"], random_registers(5, ["i32"], 32), num_warps=1, shared_bytes=512)
    assert [(a.width, a.wavefronts, a.minimum) for a in outcome.counts.accesses] == [(8, 4, 2)] * 2
