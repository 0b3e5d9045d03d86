"""The verdict on conversions: right code passes, and every way of breaking it is caught."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pytest
from plan_machine import random_layout

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.verify import (
    Verdict,
    element_patterns,
    held_elements,
    verify_conversion,
)
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.plan.plans import SharedPlan, ShufflePlan
from triton_linear.lowering.planners.select import cost, select
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target, target

NVIDIA, AMD, CDNA4 = (target(name) for name in ("cuda:90", "hip:gfx942", "hip:gfx950"))
MACHINES = pytest.mark.parametrize("machine", [NVIDIA, AMD, CDNA4], ids=["nvidia", "amd", "cdna4"])
F32 = element_type("f32")


def layout(register: list[int], lane: list[int], warp: list[int], size: int) -> LinearLayout:
    """A layout of a vector of `size` elements."""
    columns = {"register": register, "lane": lane, "warp": warp}
    bases = {name: [[column] for column in vectors] for name, vectors in columns.items()}
    return LinearLayout.from_bases(bases, [("dim0", size)])


# 2 registers, 32 lanes, 2 warps on 128 elements. SOURCE -> BY_LANE exchanges register and lane bit 0;
# SOURCE -> BY_WARP exchanges register and warp.
SOURCE = layout([1], [2, 4, 8, 16, 32], [64], 128)
BY_LANE = layout([2], [1, 4, 8, 16, 32], [64], 128)
BY_WARP = layout([64], [2, 4, 8, 16, 32], [1], 128)

STRUCT = "!llvm.struct<(f32, f32)>"
SHUFFLED = f"""llvm.func @f(%source: {STRUCT}, %scratch: !llvm.ptr<3>) -> {STRUCT} {{
  %all = llvm.mlir.constant(-1 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %clamp = llvm.mlir.constant(31 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %bit = llvm.and %tid, %one : i32
  %odd = llvm.icmp "ne" %bit, %zero : i32
  %x = llvm.extractvalue %source[0] : {STRUCT}
  %y = llvm.extractvalue %source[1] : {STRUCT}
  %send = llvm.select %odd, %x, %y : i1, f32
  %keep = llvm.select %odd, %y, %x : i1, f32
  %got = nvvm.shfl.sync bfly %all, %send, %one, %clamp : f32 -> f32
  %r0 = llvm.select %odd, %got, %keep : i1, f32
  %r1 = llvm.select %odd, %keep, %got : i1, f32
  %u = llvm.mlir.undef : {STRUCT}
  %s = llvm.insertvalue %r0, %u[0] : {STRUCT}
  %t = llvm.insertvalue %r1, %s[1] : {STRUCT}
  llvm.return %t : {STRUCT}
}}"""

# Element e lives in word e: stored at 2 * (thread + {{0, 1/2}}), loaded at the lane's two words of each half.
THROUGH_MEMORY = f"""llvm.func @f(%source: {STRUCT}, %scratch: !llvm.ptr<3>) -> {STRUCT} {{
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %five = llvm.mlir.constant(5 : i32) : i32
  %thirtyone = llvm.mlir.constant(31 : i32) : i32
  %lane = llvm.and %tid, %thirtyone : i32
  %warp = llvm.lshr %tid, %five : i32
  %x = llvm.extractvalue %source[0] : {STRUCT}
  %y = llvm.extractvalue %source[1] : {STRUCT}
  %even = llvm.shl %tid, %one : i32
  %here = llvm.getelementptr %scratch[%even] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %next = llvm.getelementptr %here[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  llvm.store %x, %here : f32, !llvm.ptr<3>
  llvm.store %y, %next : f32, !llvm.ptr<3>
  nvvm.barrier0
  %pair = llvm.shl %lane, %one : i32
  %word = llvm.or %pair, %warp : i32
  %p = llvm.getelementptr %scratch[%word] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %q = llvm.getelementptr %p[64] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  %r0 = llvm.load %p : !llvm.ptr<3> -> f32
  %r1 = llvm.load %q : !llvm.ptr<3> -> f32
  %u = llvm.mlir.undef : {STRUCT}
  %s = llvm.insertvalue %r0, %u[0] : {STRUCT}
  %t = llvm.insertvalue %r1, %s[1] : {STRUCT}
  llvm.return %t : {STRUCT}
}}"""


def shuffled(text: str = SHUFFLED, dst: LinearLayout = BY_LANE) -> Verdict:
    """The verdict on the shuffle."""
    return verify_conversion(text, SOURCE, dst, F32, NVIDIA, 2)


def through_memory(text: str = THROUGH_MEMORY, dst: LinearLayout = BY_WARP) -> Verdict:
    """The verdict on the exchange through shared memory."""
    return verify_conversion(text, SOURCE, dst, F32, NVIDIA, 2, 512)


def replaced(text: str, old: str, new: str) -> str:
    """The text with one line of it changed."""
    assert text.count(old) == 1
    return text.replace(old, new)


def test_right_code_passes() -> None:
    for verdict in (shuffled(), through_memory()):
        assert verdict.ok
        assert (verdict.checked, verdict.wrong, verdict.races) == (128, 0, ())


def test_mutated_basis() -> None:
    verdict = shuffled(dst=layout([2], [1, 4, 16, 8, 32], [64], 128))
    assert verdict.wrong == 64
    assert str(verdict.examples[0]) == ("register 0 of thread 4 should hold element 16, holds something else")


def test_wrong_lane() -> None:
    assert not shuffled(replaced(SHUFFLED, "%send, %one", "%send, %clamp")).ok
    assert not shuffled(replaced(SHUFFLED, "constant(31 : i32)", "constant(0 : i32)")).ok
    assert not shuffled(replaced(SHUFFLED, '"ne"', '"eq"')).ok


def test_wrong_member_mask() -> None:
    with pytest.raises(SimulationError, match="the member mask leaves out a lane"):
        shuffled(replaced(SHUFFLED, "constant(-1 : i32)", "constant(65535 : i32)"))


def test_dropped_barrier() -> None:
    verdict = through_memory(replaced(THROUGH_MEMORY, "  nvvm.barrier0\n", ""))
    assert verdict.wrong == 0
    assert not verdict.ok
    assert {(race.scope, race.hazard) for race in verdict.races} == {("cta", "read after write")}


def test_address_off_by_one() -> None:
    assert through_memory(replaced(THROUGH_MEMORY, "%p[64]", "%p[63]")).wrong
    assert through_memory(replaced(THROUGH_MEMORY, "constant(5 : i32)", "constant(4 : i32)")).wrong
    with pytest.raises(SimulationError, match=r"21:9: llvm\.load: load of 4 bytes by thread 63 at byte 512"):
        through_memory(replaced(THROUGH_MEMORY, "%p[64]", "%p[65]"))


def test_uninitialised_read() -> None:
    verdict = through_memory(replaced(THROUGH_MEMORY, "  llvm.store %y, %next : f32, !llvm.ptr<3>\n", ""))
    assert verdict.wrong == 64
    assert str(verdict.examples[0]).endswith("holds an undefined value")


def test_register_never_set() -> None:
    text = replaced(SHUFFLED, f"%t = llvm.insertvalue %r1, %s[1] : {STRUCT}", "")
    verdict = shuffled(replaced(text, "return %t", "return %s"))
    assert verdict.wrong == 64


def test_right_value_by_luck() -> None:
    lucky = """  %luck = llvm.mlir.undef : i32
  %bits = llvm.bitcast %got : f32 to i32
  %mixed = llvm.xor %bits, %luck : i32
  %drawn = llvm.bitcast %mixed : i32 to f32
  %r0 = """
    text = replaced(SHUFFLED, "  %r0 = ", lucky)
    assert shuffled(text).ok
    assert shuffled(replaced(text, "%odd, %got, %keep", "%odd, %drawn, %keep")).wrong == 32


def test_scratch_too_small() -> None:
    with pytest.raises(SimulationError, match="scratch has 508 bytes"):
        verify_conversion(THROUGH_MEMORY, SOURCE, BY_WARP, F32, NVIDIA, 2, 508)


def test_layouts_must_fit() -> None:
    with pytest.raises(ValueError, match=r"layout has 2 in 'warp', the CTA has 4"):
        verify_conversion(SHUFFLED, SOURCE, BY_LANE, F32, NVIDIA, 4)
    other = layout([1], [2, 4, 8, 16, 32], [0], 64)
    with pytest.raises(ValueError, match="source covers"):
        verify_conversion(SHUFFLED, SOURCE, other, F32, NVIDIA, 2)
    wide = layout([1, 0], [2, 4, 8, 16, 32], [64], 128)
    with pytest.raises(ValueError, match="the function returns 2 registers, not 4"):
        verify_conversion(SHUFFLED, SOURCE, wide, F32, NVIDIA, 2)
    with pytest.raises(SimulationError, match="argument 0 has 2 registers, not 4"):
        verify_conversion(SHUFFLED, wide, BY_LANE, F32, NVIDIA, 2)


def test_held_elements_follow_apply() -> None:
    rng = random.Random(0)
    for _ in range(20):
        one = random_layout(rng, 9, 5, 2, rng.randrange(3), general=True)
        held = held_elements(one, 32, 4, 0)
        for register, thread in itertools.product(range(one.in_dim_size("register")), range(128)):
            where = {"register": register, "lane": thread % 32, "warp": thread // 32, "block": 0}
            assert one.apply(where) == {"dim0": int(held[register, thread])}


def test_second_cta_holds_its_own_elements() -> None:
    pair = LinearLayout.from_bases(
        {"register": [], "lane": [[1], [2], [4], [8], [16]], "warp": [], "block": [[32]]}, [("dim0", 64)]
    )
    assert held_elements(pair, 32, 1, 1).tolist() == [list(range(32, 64))]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("size", [1, 32, 256, 1024])
def test_every_byte_of_every_element_is_told_apart(size: int, bits: int) -> None:
    patterns = element_patterns(size, bits)
    octets = patterns.view(np.uint8).reshape(len(patterns), size, 8)[:, :, : bits // 8]
    seen = {tuple(octets[:, e, k].tolist()) for e in range(size) for k in range(bits // 8)}
    assert len(seen) == size * bits // 8


def test_single_bits_tell_elements_apart() -> None:
    patterns = element_patterns(512, 1)
    assert patterns.max() == 1
    assert len({tuple(column) for column in patterns.T.tolist()}) == 512


# Emitted code, whole and broken


ELEMENTS = ["i1", "i8", "f8E4M3FN", "i16", "f16", "bf16", "i32", "f32", "i64", "f64", "!tt.ptr<f16>"]


def random_case(
    rng: random.Random, machine: Target
) -> tuple[str, LinearLayout, LinearLayout, ElementType, int, SharedPlan | ShufflePlan]:
    """A random conversion that moves data between threads: its code, layouts, element, warps and plan."""
    lane_bits = machine.lanes.bit_length() - 1
    while True:
        warp_bits = rng.randrange(4)
        dims = lane_bits + warp_bits + rng.randrange(-1, 5)
        general = rng.random() < 0.5
        src, dst = (
            random_layout(rng, dims, lane_bits, warp_bits, rng.choice([0, 0, 1, 2]), general) for _ in "ab"
        )
        if rng.random() < 0.4:  # the same warps: an exchange inside each of them
            swapped = [list(vectors) for _, vectors in src.bases]
            mixed = swapped[0] + swapped[1]
            rng.shuffle(mixed)
            count = len(swapped[0])
            bases = {"register": mixed[:count], "lane": mixed[count:], "warp": swapped[2], "block": []}
            dst = LinearLayout.from_bases(bases, src.out_dims)
        element = element_type(rng.choice(ELEMENTS))
        plan = select(src, dst, element, Situation.on(machine)).plan
        if isinstance(plan, SharedPlan | ShufflePlan):
            text = emit(plan, element, machine)
            return text, src, dst, element, 1 << warp_bits, plan


def scratch(plan: SharedPlan | ShufflePlan) -> int:
    """Bytes of scratch that the plan asks for."""
    return plan.scratch_bytes if isinstance(plan, SharedPlan) else 0


@MACHINES
def test_emitted_conversions(machine: Target) -> None:
    """Right, without races, as expensive as the cost model says, and no bank conflict at 32 bits."""
    rng = random.Random(7)
    kinds = set()
    for _ in range(60):
        text, src, dst, element, warps, plan = random_case(rng, machine)
        verdict = verify_conversion(text, src, dst, element, machine, warps, scratch(plan))
        assert verdict.ok, (src, dst, element, verdict.examples, verdict.races)
        counts, predicted = verdict.counts, cost(plan, element, machine)
        assert counts.shuffles == predicted.shuffles
        assert counts.wavefronts == predicted.wavefronts * warps
        assert counts.cta_barriers + counts.warp_barriers == predicted.barriers
        if element.bits == 32:
            assert all(access.wavefronts == access.minimum for access in counts.accesses)
        kinds.add(plan.kind)
    assert kinds == {"shuffle", "warp-shared", "cta-shared"}


def mutations(text: str, rng: random.Random) -> list[str]:
    """The text with one thing broken, once per way of breaking it that applies."""
    ways = [
        r"( *(?:gpu\.barrier|nvvm\.bar\.warp\.sync .*)\n)",  # no barrier
        r"( *llvm\.store .*\n)",  # no store
    ]
    broken = []
    for way in ways:
        # What comes before the first store orders nothing.
        first = re.search(r"llvm\.store|stmatrix", text)
        found = [m for m in re.finditer(way, text) if first is None or m.end() > first.start()]
        if found:
            chosen = rng.choice(found)
            broken.append(text[: chosen.start()] + text[chosen.end() :])
    if load := re.search(r"\n.*llvm\.load (%\w+) ", text):  # an address too far on
        move = f"\n%moved = llvm.getelementptr {load[1]}[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"
        broken.append(
            text[: load.start()] + move + text[load.start() : load.start(1)] + "%moved" + text[load.end(1) :]
        )
    lane = r"nvvm\.shfl\.sync \w+ %\w+, %\w+, (%\w+)|rocdl\.ds_bpermute (%\w+)"
    if exchange := re.search(lane, text):  # everybody reads lane 0
        start, end = exchange.span(exchange.lastindex or 0)
        first = text.index("{\n") + 2
        wrong = "%wrong = llvm.mlir.constant(0 : i32) : i32\n"
        broken.append(text[:first] + wrong + text[first:start] + "%wrong" + text[end:])
    return broken


@MACHINES
def test_broken_emitted_conversions_are_caught(machine: Target) -> None:
    rng = random.Random(11)
    missed = []
    tried = 0
    for _ in range(25):
        text, src, dst, element, warps, plan = random_case(rng, machine)
        for broken in mutations(text, rng):
            tried += 1
            try:
                if verify_conversion(broken, src, dst, element, machine, warps, scratch(plan)).ok:
                    missed.append((src, dst, element, broken))
            except SimulationError:
                pass
    assert tried > 25
    assert not missed, missed[0]


def test_no_op_has_nothing_to_verify() -> None:
    plan = select(SOURCE, SOURCE, F32, Situation.on(NVIDIA)).plan
    assert plan is not None and plan.kind == "noop"
