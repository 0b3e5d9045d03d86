"""Every planner's plan, run from its definition, takes every element to every place that wants it."""

from __future__ import annotations

import random
from collections import Counter

import plan_machine
import pytest
from plan_cases import ELEMENTS, blocked, check, random_pair

from triton_linear.dialect import f2
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.verify import verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners import shuffle
from triton_linear.lowering.planners.conversion import Hardware, Reach, between, conversion
from triton_linear.lowering.planners.exchange import exchange_plans
from triton_linear.lowering.planners.placement import Exchange
from triton_linear.lowering.planners.select import plan_registers, select
from triton_linear.lowering.planners.shared import plan_cta_shared, plan_warp_shared
from triton_linear.lowering.planners.shuffle import plan_shuffle
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.lanes import native_exchanges
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target


@pytest.mark.parametrize("name", ["cuda:90", "hip:gfx942", "hip:gfx950"])
def test_every_plan_of_random_pairs(name):
    machine, rng, seen = target(name), random.Random(90), {}
    for _ in range(120):
        src, dst, warp_bits = random_pair(rng, machine)
        element = rng.choice(ELEMENTS)
        conv = conversion(src, dst)
        limit = rng.choice((256, 4096, 1 << 20))
        plans = [
            plan_registers(conv),
            plan_shuffle(conv, element, machine),
            plan_warp_shared(conv, element, machine, limit),
            plan_cta_shared(conv, element, machine, limit),
            select(src, dst, element, Situation.on(machine)).plan,
        ]
        assert not isinstance(plans[-2], Rejected), "an exchange in the CTA always serves"
        assert plans[-1] is not None
        for plan in plans:
            if not isinstance(plan, Rejected):
                seen[plan.kind] = seen.get(plan.kind, 0) + 1
                check(plan, src, dst, machine.lanes, 1 << warp_bits)
    assert set(seen) >= {"registers", "shuffle", "warp-shared", "cta-shared"}, seen


@pytest.mark.parametrize(("most_bits", "draws"), [(64, 1000), (16, 2000)])
def test_native_exchanges_are_right_whether_they_pay_or_not(most_bits, draws):
    """Few plans of random pairs have them: they must take fewer clocks than shuffles."""
    machine, rng, found = target("hip:gfx950"), random.Random(91), 0
    bits = native_exchanges(machine.lane_instructions)
    elements = [element for element in ELEMENTS if element.bits <= most_bits]
    for _ in range(draws):
        src, dst, warp_bits = random_pair(rng, machine)
        conv, element = conversion(src, dst), rng.choice(elements)
        if conv.reach > Reach.WARP:
            continue
        state = shuffle._after_native_exchanges(shuffle._State.of(conv.src, element.per_word), conv.dst, bits)
        plan = None if state is None else shuffle._planned(state, conv.dst)
        if plan is not None:
            found += 1
            check(plan, src, dst, machine.lanes, 1 << warp_bits)
    assert found > 20


def test_each_native_exchange_brings_one_lane_bit_its_column():
    """That is a sum of registers' columns. If all are inside words, a bit that numbers words takes their
    sum first."""
    machine, rng, inside_words = target("hip:gfx950"), random.Random(92), Counter()
    bits = sorted(native_exchanges(machine.lane_instructions))
    lane_bits, slots = machine.lanes.bit_length() - 1, element_type("i8").per_word
    for _ in range(300):
        registers = rng.randrange(3, 6)
        columns = f2.identity(registers + lane_bits)
        source = Hardware(columns[:registers], columns[registers:], (), ())
        wanted = source
        for lane in rng.sample(bits, rng.randrange(1, 3)):
            combination = rng.randrange(1, rng.choice((slots, 1 << registers)))
            bit = rng.choice([b for b in range(registers) if combination >> b & 1])
            wanted = shuffle._Swap(lane, bit, combination).following(wanted)
        state = shuffle._State.of(source, slots)
        while swap := shuffle._next_swap(state.held, wanted, slots, bits):
            after = state.trade(swap, wanted)
            lanes = list(state.held.lane)
            lanes[swap.lane] = wanted.lane[swap.lane]
            assert after.held.lane == tuple(lanes)
            inside_words[swap.combination.bit_count()] += swap.combination < slots
            state = after
        plan = state.finish(wanted)
        sides = [
            LinearLayout.from_bases(
                [
                    (REGISTER, [[c] for c in side.register]),
                    (LANE, [[c] for c in side.lane]),
                    (WARP, []),
                    ("block", []),
                ],
                [("dim0", 1 << registers + lane_bits)],
            )
            for side in (source, wanted)
        ]
        check(plan, *sides, machine.lanes, 1)
    assert min(inside_words[1], inside_words[2]) > 20


@pytest.mark.parametrize("name", ["cuda:90", "hip:gfx942", "hip:gfx950"])
def test_exchanges_are_planned_alike_whatever_bits_of_the_tensor_are_called(name):
    """What makes their plans reusable: they depend on the columns as sums of one another."""
    machine, rng = target(name), random.Random(12)
    lane_bits = machine.lanes.bit_length() - 1
    for _ in range(150):
        registers, warps = rng.randrange(1, 6), rng.randrange(3)
        dims = registers + lane_bits + warps
        names = [1 << bit for bit in range(dims)]
        for _ in range(2 * dims):
            i, j = rng.sample(range(dims), 2)
            names[i] ^= names[j]
        columns = [1 << bit for bit in range(dims)]
        rng.shuffle(columns)
        register, lane = rng.randrange(registers), registers + rng.randrange(lane_bits)
        exchanged = list(columns)
        exchanged[register], exchanged[lane] = columns[lane], columns[register]

        def hardware(columns, registers=registers):
            lanes = registers + lane_bits
            return Hardware(
                tuple(columns[:registers]), tuple(columns[registers:lanes]), tuple(columns[lanes:]), ()
            )

        sides = [hardware(side) for side in (columns, exchanged)]
        renamed = [hardware(f2.multiply(names, side)) for side in (columns, exchanged)]
        element = rng.choice(ELEMENTS)
        plan = plan_shuffle(between(*sides), element, machine)
        assert not isinstance(plan, Rejected)
        assert plan == plan_shuffle(between(*renamed), element, machine)


@pytest.mark.parametrize("name", ["lane", "warp"])
def test_a_renaming_is_the_same_in_every_thread(name):
    """The thread has the element, but in a register that depends on a bit of its lane or warp."""
    lanes = [[2], [4], [8], [16], [0]]
    bases = {REGISTER: [[1]], LANE: lanes, WARP: [[0]]}
    src = LinearLayout.from_bases(list(bases.items()), [("dim0", 32)])
    bases |= {REGISTER: [[0]], **({LANE: [*lanes[:4], [1]]} if name == "lane" else {WARP: [[1]]})}
    dst = LinearLayout.from_bases(list(bases.items()), [("dim0", 32)])
    plan = plan_registers(conversion(src, dst))
    assert isinstance(plan, Rejected) and f"destination {name}=" in plan.reason


def phase_conflicts(columns, accesses, service, access_bytes, machine):
    """The wavefronts that each phase takes: the most words that its lanes want of one bank."""
    order = service.order(machine.lanes)
    wavefronts = set()
    for access in accesses:
        for first in range(0, machine.lanes, service.count):
            words = set()
            for lane in order[first : first + service.count]:
                address = plan_machine.linear(columns, lane) ^ access.offset
                words.update(range(address // 4, (address + access_bytes + 3) // 4))
            wavefronts.add(max(Counter(word % service.banks for word in words).values()))
    return wavefronts


@pytest.mark.parametrize("name", ["cuda:90", "hip:gfx942", "hip:gfx950"])
def test_no_phase_of_an_exchange_conflicts(name):
    machine, rng, accesses, joined = target(name), random.Random(7), 0, 0
    for _ in range(400):
        src, dst, _ = random_pair(rng, machine)
        element = rng.choice(ELEMENTS)
        plan = plan_cta_shared(conversion(src, dst), element, machine, rng.choice((256, 4096, 1 << 20)))
        for kind, side in (("store", plan.store), ("load", plan.load)):
            for round_ in side.rounds:
                accesses += len(round_)
                service = machine.service(kind, side.access_bytes)
                if not side.matrix:
                    joined += service.of(side.columns) != service
                    service = service.of(side.columns)
                found = phase_conflicts(side.columns, round_, service, side.access_bytes, machine)
                assert found <= {1}, (src, dst, plan)
    assert accesses > 1000 and bool(joined) == (name == "cuda:90")


def spread_over_ctas(layout, column):
    bases = [(name, [[c] for c in layout.columns(name)]) for name in (REGISTER, LANE, WARP)]
    return type(layout).from_bases([*bases, ("block", [[column]])], [("dim0", 2 * layout.out_dim_size("dim0"))])


@pytest.mark.parametrize("name", ["cuda:90", "cuda:100"])
def test_conversions_inside_each_cta_of_a_cluster(name):
    """Planned as those of one CTA, and right in every CTA."""
    machine, rng, kinds = target(name), random.Random(3), Counter()
    for _ in range(60):
        alone, wanted, warp_bits = random_pair(rng, machine)
        src, dst = (spread_over_ctas(layout, layout.out_dim_size("dim0")) for layout in (alone, wanted))
        selection = select(src, dst, ELEMENTS[3], Situation.on(machine))
        plan = selection.plan
        assert plan == select(alone, wanted, ELEMENTS[3], Situation.on(machine)).plan
        kinds[plan.kind] += 1
        assert refuted(plan, src, dst, ELEMENTS[3], machine) is None
        if plan.kind == "noop":
            continue
        text = emit(plan, ELEMENTS[3], machine)
        for block in (0, 1):
            verdict = verify_conversion(
                text, src, dst, ELEMENTS[3], machine, 1 << warp_bits, plan.scratch_bytes, (block,)
            )
            assert verdict.ok, (src, dst, plan)
    assert kinds["shuffle"] and kinds["warp-shared"] and kinds["cta-shared"], kinds


def test_what_crosses_ctas_is_left_with_its_reason_without_clusters():
    src = plan_machine.random_layout(random.Random(1), 7, 5, 1, 0, False)
    first, second = spread_over_ctas(src, 128), spread_over_ctas(src, 129)
    selection = select(first, second, ELEMENTS[3], Situation.on(target("cuda:80")))
    assert selection.plan is None
    assert "crosses CTAs" in selection.rejected[0].reason


def test_lanes_must_be_the_targets():
    src = plan_machine.random_layout(random.Random(1), 7, 5, 1, 0, False)
    selection = select(src, src, ELEMENTS[3], Situation.on(target("hip:gfx942")))
    assert selection.rejected[0].reason == "the source layout has 32 lanes, hip:gfx942 has 64"


@pytest.mark.parametrize(("side", "warps"), [(32, 1), (32, 8), (64, 1), (64, 2), (64, 4), (128, 4)])
def test_sixteen_bit_transposes_use_matrix_accesses(side, warps):
    rows = layout_of(blocked([1, 8], [4, 8], [warps, 1], [1, 0]), (side, side))
    columns = layout_of(blocked([8, 1], [8, 4], [1, warps], [0, 1]), (side, side))
    for src, dst in ((rows, columns), (columns, rows)):
        for element in (element_type("f16"), element_type("bf16")):
            plan = plan_cta_shared(conversion(src, dst), element, target("cuda:90"), 1 << 20)
            check(plan, src, dst, 32, warps)
            if side == 128:
                assert min(plan.store.access_bytes, plan.load.access_bytes) >= 4
            if (side, warps) == (64, 4):
                assert plan.load.matrix
        plan = plan_cta_shared(conversion(src, dst), element_type("f16"), target("cuda:80"), 1 << 20)
        assert not plan.store.matrix
        check(plan, src, dst, 32, warps)


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_loads_of_cdna4_transpose(warps):
    """What a matrix product wants of a row-major second operand: all that the planner offers is right, emitted
    and proved, and what transposes is chosen."""
    gpu, names = target("hip:gfx950"), Counter()
    for version, bits in ((4, "f16"), (4, "i8")):
        element = element_type(bits)
        mfma = f"#ttg.amd_mfma<{{version = {version}, warpsPerCTA = [1, {warps}], instrShape = [16, 16, 32], "
        operand = f"#ttg.dot_op<{{opIdx = 1, parent = {mfma}isTransposed = true}}>, kWidth = 8}}>"
        wide = 16 // element.memory_bytes
        rows = layout_of(blocked([1, wide], [wide, 64 // wide], [warps, 1], [1, 0]), (64, 64))
        dst = layout_of(operand, (64, 64))
        a, b = Hardware.of(rows), Hardware.of(dst)
        exchange = Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
        for plan in exchange_plans("cta", exchange, element, gpu, 1 << 20):
            names[plan.load.matrix] += 1
            check(plan, rows, dst, 64, warps)
            text = emit(plan, element, gpu)
            assert verify_conversion(text, rows, dst, element, gpu, warps, plan.scratch_bytes).ok
            assert refuted(plan, rows, dst, element, gpu) is None
        assert (
            select(rows, dst, element, Situation.on(gpu)).plan.load.matrix == f"ds_read_b64_tr_b{element.bits}"
        )
    assert names["ds_read_b64_tr_b16"] and names["ds_read_b64_tr_b8"], names


def test_bytes_travel_in_pairs_through_matrix_accesses():
    """A transpose of 16-bit units of two bytes: the pair is a register of both sides."""

    def layout(registers, lanes):
        bases = {REGISTER: registers, LANE: lanes, WARP: [], "block": []}
        return LinearLayout.from_bases(bases, [("dim0", 8), ("dim1", 64)])

    row, column = [[0, 2], [0, 4], [0, 8]], [[1, 0], [2, 0], [4, 0]]
    src = layout([[0, 1], *row], [[0, 16], [0, 32], *column])
    dst = layout([[0, 1], *column], [[0, 16], [0, 32], *row])
    for a, b in ((src, dst), (dst, src)):
        plan = plan_warp_shared(conversion(a, b), element_type("f8E5M2"), target("cuda:90"), 1 << 20)
        assert plan.store.matrix or plan.load.matrix
        check(plan, a, b, 32, 1)


def test_matrix_accesses_have_whole_rows_on_both_sides():
    """Where rows of both sides do not go together, stores of half a row would begin in the middle of one."""

    def layout(registers, lanes):
        columns = {REGISTER: registers, LANE: lanes, WARP: [], "block": []}
        bases = {name: [[c] for c in values] for name, values in columns.items()}
        return LinearLayout.from_bases(bases, [("dim0", 128)])

    src = layout([42, 4], [31, 85, 102, 26, 71])
    dst = layout([31, 4], [109, 85, 102, 26, 71])
    plan = plan_warp_shared(conversion(src, dst), element_type("i8"), target("cuda:90"), 1 << 20)
    check(plan, src, dst, 32, 1)
    for side in (plan.store, plan.load):
        assert not side.matrix or side.access_bytes == 16
