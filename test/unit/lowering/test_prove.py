"""Plans are proved where they are right: all that planners make; those with something changed are not."""

from __future__ import annotations

import ast
import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import plan_machine
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import ELEMENTS, agrees, blocked, check, random_pair
from plan_mutants import mutants

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.verify import verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Plan, RegisterPlan, Rejected, SharedPlan, ShufflePlan
from triton_linear.lowering.planners.conversion import Hardware, conversion
from triton_linear.lowering.planners.exchange import exchange_plans
from triton_linear.lowering.planners.placement import Exchange
from triton_linear.lowering.planners.select import plan_registers, select
from triton_linear.lowering.planners.shared import plan_cta_shared, plan_warp_shared
from triton_linear.lowering.planners.shuffle import plan_shuffle
from triton_linear.lowering.prove import plans as prove
from triton_linear.lowering.prove.functions import ThreadFunctions, Value
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.steps import Pick, Shuffle
from triton_linear.lowering.target.targets import target

CUDA = target("cuda:90")
F16, F32, I8 = (element_type(name) for name in ("f16", "f32", "i8"))
MAY_IMPORT = {"plan", "prove", "target"}
"""Rooms of lowering: what plans are made of, and what targets have."""


def planned(src: LinearLayout, dst: LinearLayout, element: Any, machine: Any, limit: int) -> list[Plan]:
    """What each planner makes of a pair."""
    conv = conversion(src, dst)
    found = [
        plan_registers(conv),
        plan_shuffle(conv, element, machine),
        plan_warp_shared(conv, element, machine, limit),
        plan_cta_shared(conv, element, machine, limit),
        select(src, dst, element, Situation.on(machine)).plan,
    ]
    return [plan for plan in found if plan is not None and not isinstance(plan, Rejected)]


def is_right(plan: Plan, src: LinearLayout, dst: LinearLayout, lanes: int, warps: int) -> bool:
    """Whether the plan, run for every thread, gives what is wanted; what cannot be run does not."""
    try:
        return agrees(plan, src, dst, lanes, warps)
    except (AssertionError, IndexError, KeyError, TypeError, ValueError):
        return False


def transposes() -> list[tuple[LinearLayout, LinearLayout, int]]:
    """Pairs that the matrix instructions serve, and their warps."""
    found = []
    for side, warps in product((32, 64), (1, 4)):
        rows = layout_of(blocked([1, 8], [4, 8], [warps, 1], [1, 0]), (side, side))
        columns = layout_of(blocked([8, 1], [8, 4], [1, warps], [0, 1]), (side, side))
        found += [(rows, columns, warps), (columns, rows, warps)]
    return found


# What planners make


@pytest.mark.parametrize("name", ["cuda:90", "cuda:80", "hip:gfx942", "hip:gfx950"])
def test_every_plan_of_random_pairs_is_proved(name: str) -> None:
    machine, rng, seen = target(name), random.Random(17), Counter[str]()
    for _ in range(250):
        src, dst, _ = random_pair(rng, machine)
        element = rng.choice(ELEMENTS)
        for plan in planned(src, dst, element, machine, rng.choice((256, 4096, 1 << 20))):
            assert refuted(plan, src, dst, element, machine) is None, (src, dst, element, plan)
            seen[plan.kind] += 1
            if isinstance(plan, SharedPlan):
                seen["split"] += bool(plan.split)
                seen["rounds"] += len(plan.store.rounds) > 1
                seen["shuffled"] += plan.before is not None or plan.after is not None
    features = {"noop", "registers", "shuffle", "warp-shared", "cta-shared", "split", "rounds"}
    assert all(seen[feature] > 10 for feature in features) and seen["shuffled"], seen


def test_every_way_to_use_matrices_is_proved() -> None:
    """Those that are too slow to be chosen as well."""
    seen = Counter[tuple[int, str, str]]()
    for src, dst, _ in transposes():
        a, b = (Hardware.of(layout) for layout in (src, dst))
        exchange = Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
        for element, limit in product((I8, F16), (1024, 1 << 20)):
            for plan in exchange_plans("cta", exchange, element, CUDA, limit):
                assert refuted(plan, src, dst, element, CUDA) is None, plan
                seen[element.bits, plan.store.matrix, plan.load.matrix] += 1
    stores, loads = {key[1] for key in seen}, {key[2] for key in seen}
    assert stores >= {"", "stmatrix.trans"} and loads >= {"", "ldmatrix", "ldmatrix.trans"}, seen


def test_pairs_of_bytes_through_matrices_are_proved() -> None:
    def layout(registers: list[list[int]], lanes: list[list[int]]) -> LinearLayout:
        bases = {REGISTER: registers, LANE: lanes, WARP: []}
        return LinearLayout.from_bases(bases, [("dim0", 8), ("dim1", 64)])

    row, column = [[0, 2], [0, 4], [0, 8]], [[1, 0], [2, 0], [4, 0]]
    src = layout([[0, 1], *row], [[0, 16], [0, 32], *column])
    dst = layout([[0, 1], *column], [[0, 16], [0, 32], *row])
    for a, b in ((src, dst), (dst, src)):
        plan = plan_warp_shared(conversion(a, b), I8, CUDA, 1 << 20)
        assert isinstance(plan, SharedPlan) and (plan.store.matrix or plan.load.matrix)
        assert refuted(plan, a, b, I8, CUDA) is None
        older = refuted(plan, a, b, I8, target("cuda:80"))
        assert (older == "no matrix store moves 16 elements of 1 bytes") == bool(plan.store.matrix)


# What changes leave of them


@pytest.mark.parametrize("name", ["cuda:90", "hip:gfx942", "hip:gfx950"])
def test_no_wrong_mutant_is_proved(name: str) -> None:
    machine, rng = target(name), random.Random(23)
    pairs = [random_pair(rng, machine) for _ in range(12)]
    elements = [rng.choice(ELEMENTS) for _ in pairs]
    if machine.load_matrix and machine.lanes == CUDA.lanes:
        small = [(src, dst, warps.bit_length() - 1) for src, dst, warps in transposes()[:4]]
        pairs, elements = pairs + 2 * small, elements + [F16] * len(small) + [I8] * len(small)
    verdicts: dict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for (src, dst, warp_bits), element in zip(pairs, elements, strict=True):
        for plan in planned(src, dst, element, machine, rng.choice((256, 4096, 1 << 20)))[:-1]:
            for what, mutant in mutants(plan, rng):
                reason = refuted(mutant, src, dst, element, machine)
                right = is_right(mutant, src, dst, machine.lanes, 1 << warp_bits)
                assert reason is not None or right, (what, src, dst, element, mutant)
                if reason is None:  # and what is emitted for it does the same
                    text = emit(mutant, element, machine)
                    scratch = mutant.scratch_bytes
                    assert verify_conversion(text, src, dst, element, machine, 1 << warp_bits, scratch).ok, what
                if reason is not None and right:  # what running it on whole warps does not show
                    assert "a warp reaches what is also that of" in reason or "does not have" in reason, reason
                verdicts[what][reason is None, right] += 1
    total = sum(verdicts.values(), Counter[tuple[bool, bool]]())
    assert total[False, False] > 200 and total[False, False] > 0.9 * total.total(), total
    assert len(verdicts) > 20
    assert all(counts[False, False] for counts in verdicts.values()), verdicts


def test_warps_that_change_parts_are_refuted() -> None:
    """Each warp's loads find what its own stores left, but it loads in another round where another stores."""
    src = LinearLayout.from_bases(
        [(REGISTER, [[32], [64]]), (LANE, [[1], [2], [4], [8], [16]]), (WARP, [[128]])], [("dim0", 256)]
    )
    dst = LinearLayout.from_bases(
        [(REGISTER, [[1], [64]]), (LANE, [[32], [2], [4], [8], [16]]), (WARP, [[128]])], [("dim0", 256)]
    )
    plan = plan_warp_shared(conversion(src, dst), F32, CUDA, 512)
    assert isinstance(plan, SharedPlan) and len(plan.store.rounds) == 2
    assert refuted(plan, src, dst, F32, CUDA) is None
    part = plan.store.columns[5]

    def moved(side: Any) -> Any:
        second = tuple(replace(access, offset=access.offset ^ part) for access in side.rounds[1])
        return replace(side, rounds=(side.rounds[0], second))

    crossed = replace(plan, store=moved(plan.store), load=moved(plan.load))
    check(crossed, src, dst, 32, 2)
    assert refuted(crossed, src, dst, F32, CUDA) == (
        "a warp reaches what is also that of the warp whose number differs by 1"
    )
    assert refuted(replace(crossed, scope="cta"), src, dst, F32, CUDA) is None


def test_the_place_is_named() -> None:
    identity = [[1], [2], [4], [8], [16]]
    src = LinearLayout.from_bases([(REGISTER, []), (LANE, identity), (WARP, [[32]])], [("dim0", 64)])
    turned = [[2], [1], *identity[2:]]
    dst = LinearLayout.from_bases([(REGISTER, []), (LANE, turned), (WARP, [[32]])], [("dim0", 64)])
    reason = "destination register 0 of lane 1 of warp 0 gets element (1,) instead of (2,)"
    assert refuted(RegisterPlan(1, (0,)), src, dst, F32, CUDA) == reason
    plan = plan_shuffle(conversion(src, dst), F32, CUDA)
    assert isinstance(plan, ShufflePlan) and refuted(plan, src, dst, F32, CUDA) is None
    (step,) = plan.steps
    assert isinstance(step, Shuffle) and step.lane_columns is not None
    columns = (*step.lane_columns[:4], 24, *step.lane_columns[5:])
    wrong = replace(plan, steps=(replace(step, lane_columns=columns),))
    assert refuted(wrong, src, dst, F32, CUDA) == (
        "destination register 0 of lane 16 of warp 0 gets element (24,) instead of (16,)"
    )
    wider = replace(plan, source_registers=2)
    assert refuted(wider, src, dst, F32, CUDA) == "shuffle takes 2 registers, there are 1"
    assert "has 2 in each" in str(refuted(plan, src, dst, F16, CUDA))


def test_accesses_that_no_instruction_makes_are_refuted() -> None:
    src, dst, _ = transposes()[-1]
    plain = plan_cta_shared(conversion(src, dst), F32, CUDA, 1 << 20)
    matrix = plan_cta_shared(conversion(src, dst), F16, CUDA, 1 << 20)
    assert isinstance(plain, SharedPlan) and not plain.load.matrix
    assert isinstance(matrix, SharedPlan) and matrix.load.matrix

    def reason(plan: SharedPlan, element: Any = F32, **fields: Any) -> str:
        return str(refuted(replace(plan, load=replace(plan.load, **fields)), src, dst, element, CUDA))

    size, slots, columns = plain.load.access_bytes, plain.load.slots, plain.load.columns
    assert reason(plain, access_bytes=2 * size).startswith("no load moves")
    assert reason(plain, access_bytes=8 * size, slots=8 * slots).startswith("no load moves")
    assert reason(plain, matrix="ldmatrix.trans").startswith("no matrix load moves")
    assert reason(matrix, F16, matrix="ds_read_b64_tr_b16").startswith("no matrix load moves")
    assert reason(matrix, F16, matrix="").startswith("destination register 0 of lane 1 of warp 0 gets")
    assert reason(plain, columns=(columns[0] ^ 1, *columns[1:])).endswith(f"is no multiple of {size}")
    assert reason(matrix, F16, columns=(8, *matrix.load.columns[1:])).endswith("is no multiple of 16")
    assert reason(plain, columns=(plain.scratch_bytes, *columns[1:])).endswith(f" of {plain.scratch_bytes}")
    assert reason(plain, columns=(*columns, 0)).startswith("addresses of the loads depend on 8 bits")
    assert reason(plain, rounds=plain.load.rounds[1:]).endswith("0 loaded")
    assert reason(plain, choices=1).startswith("a thread stores one of 2^0 alternatives")
    for wrong in ({"scope": "cluster"}, {"element_bytes": 2}, {"source_registers": 1}, {"split": (1,)}):
        assert refuted(replace(plain, **wrong), src, dst, F32, CUDA) is not None
    older = refuted(matrix, src, dst, F16, target("hip:gfx942"))
    assert older == "the layouts have 32 lanes, hip:gfx942 has 64"


# The proof itself


def test_it_uses_no_planner() -> None:
    found = set()
    for path in Path(prove.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("triton_linear.lowering"):
                found.add(str(node.module).split(".")[2])
    assert found == MAY_IMPORT


BITS = 4


@st.composite
def programs(draw: st.DrawFn) -> tuple[ThreadFunctions, Value, list[int]]:
    """A value of random affine functions, selects and shuffles, and what it is in each thread."""
    functions, small = ThreadFunctions(), st.integers(0, (1 << BITS) - 1)
    columns = st.tuples(*[small] * BITS)
    threads = range(1 << BITS)
    made: list[tuple[Value, list[int]]] = []
    for _ in range(3):
        constant, own = draw(small), draw(columns)
        value = functions.affine(constant, own)
        made.append((value, [constant ^ plan_machine.linear(own, thread) for thread in threads]))
    for _ in range(draw(st.integers(0, 5))):
        (value, held), (other, instead) = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        if draw(st.booleans()):
            mask = draw(small)
            chosen = [(instead if plan_machine.parity(mask & t) else held)[t] for t in threads]
            made.append((functions.select(mask, value, other), chosen))
        else:
            own, flipped = draw(columns), draw(small)
            from_ = [held[plan_machine.linear(own, t) ^ flipped] for t in threads]
            made.append((functions.moved(value, own, flipped), from_))
    value, held = made[-1]
    return functions, value, held


@given(programs())
def test_a_polynomial_is_its_function(made: tuple[ThreadFunctions, Value, list[int]]) -> None:
    functions, value, held = made
    assert [functions.at(value, thread) for thread in range(1 << BITS)] == held
    columns = functions.columns(value, BITS)
    affine = all(
        held[t] == held[0] ^ plan_machine.linear([held[0] ^ held[1 << b] for b in range(BITS)], t)
        for t in range(1 << BITS)
    )
    assert (columns is not None) == affine
    zero = functions.affine(0, (0,) * BITS)
    differing = functions.difference(value, zero)
    assert (differing is None) == (not any(held))
    assert differing is None or held[differing]


@given(programs(), st.permutations(range(1 << BITS)))
def test_equal_functions_are_equal_polynomials(
    made: tuple[ThreadFunctions, Value, list[int]], order: list[int]
) -> None:
    """Written thread by thread, with a select for each, in any order, it is the same value."""
    functions, value, held = made
    other = functions.affine(0, (0,) * BITS)
    for thread in order:
        # The select of one thread: all of its bits are as they are there.
        wanted: Value = (held[thread], 0)
        for bit in range(BITS):
            mask = 1 << bit
            wanted = (
                functions.select(mask, other, wanted)
                if thread & mask
                else functions.select(mask, wanted, other)
            )
        other = wanted
    assert other == value


def test_malformed_programs_are_refuted() -> None:
    machine, rng = CUDA, random.Random(3)
    while True:
        src, dst, _ = random_pair(rng, machine)
        plan = plan_shuffle(conversion(src, dst), F16, machine)
        if isinstance(plan, ShufflePlan) and plan.picks and plan.shuffles:
            break
    pick = next(n for n, step in enumerate(plan.steps) if isinstance(step, Pick))
    step = plan.steps[pick]
    assert isinstance(step, Pick)
    bad = (
        replace(step, sources=(-1, *step.sources[1:])),
        replace(step, sources=(99, *step.sources[1:])),
        replace(step, masks=(*step.masks, 1)),
        replace(step, masks=(1 << 20,) * len(step.masks), picks=step.picks) if step.masks else None,
        replace(step, picks=((4, 4),) * len(step.picks)),
        replace(step, picks=((-2, 0),) * len(step.picks)),
    )
    for wrong in bad:
        if wrong is not None:
            steps = (*plan.steps[:pick], wrong, *plan.steps[pick + 1 :])
            assert refuted(replace(plan, steps=steps), src, dst, F16, machine) is not None
