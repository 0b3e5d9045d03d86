"""Gathers: what is planned and chosen, that plans are proved, and that their code gives what numpy does."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from gather_cases import TARGETS, Case, in_cluster, layout, random_gather

from triton_linear.lowering.emit.bodies import emit, signature_of
from triton_linear.lowering.gather.costs import cost_of, is_warp_local, stock_cost
from triton_linear.lowering.gather.shuffles import lane_shift, plan_gather, work_of_gather
from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.lowering.interpreter.verify_gather import verify_gather
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.gathers import GatherPlan
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.prove.gathers import refuted_gather
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target, target

F32, I32 = element_type("f32"), element_type("i32")
CUDA, HIP = target("cuda:90"), target("hip:gfx942")


def run(case: Case, plan: GatherPlan, gpu: Target, seed: int = 0) -> Verdict:
    """What the code of a plan gives."""
    signature = signature_of(plan, case.element, case.index_element)
    text = f"module {{\n{emit(plan, signature, gpu)}}}\n"
    sides = case.src, case.index, case.axis, case.element, case.index_element
    return verify_gather(text, "conversion", *sides, gpu, case.warps, seed=seed)


def planned(case: Case, gpu: Target) -> GatherPlan | Rejected:
    return plan_gather(case.src, case.index, case.axis, case.element, gpu)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_code_of_random_gathers_takes_what_numpy_does(name: str) -> None:
    rng, gpu = random.Random(f"gathers for {name}"), target(name)
    kinds = Counter[str]()
    for number in range(50):
        case = random_gather(rng, gpu)
        plan = planned(case, gpu)
        if isinstance(plan, Rejected):
            kinds["rejected"] += 1
            continue
        assert refuted_gather(plan, case.src, case.index, case.axis) is None
        verdict = run(case, plan, gpu, number)
        assert verdict.ok, (case, plan.summary(), verdict.examples[:2])
        parts = 2 if case.element.bits == 64 else 1
        counted, taken = verdict.counts, work_of_gather(plan, case.element, gpu)
        assert counted.shuffles == taken.shuffles == plan.shuffles * parts
        assert dict(counted.alu).get("select", 0) == plan.selects * parts
        assert dict(counted.alu).get("permute", 0) == plan.permutes
        kinds["moves"] += plan.moves
        kinds["packed"] += plan.packed > 0
        kinds["copies"] += len(plan.wanted) < len(plan.outputs)
        kinds["chosen by the thread"] += any(plan.choice_by_thread)
        kinds["other lanes"] += case.index.columns("lane") != case.src.columns("lane")
    assert min(kinds[kind] for kind in ("moves", "packed", "copies", "other lanes")) > 0, kinds


@pytest.mark.parametrize("name", ["cuda:90", "cuda:100"])
def test_in_a_cluster_each_cta_gathers_what_it_has(name: str) -> None:
    rng, gpu = random.Random(f"clusters for {name}"), target(name)
    kinds = Counter[str]()
    for number in range(28):
        case = in_cluster(rng, random_gather(rng, gpu))
        plan = planned(case, gpu)
        if isinstance(plan, Rejected):
            continue
        assert refuted_gather(plan, case.src, case.index, case.axis) is None
        verdict = run(case, plan, gpu, number)
        assert verdict.ok, (case, plan.summary(), verdict.examples[:2])
        ctas = case.src.in_dim_size("block")
        threads = 32 * case.warps * ctas
        assert verdict.checked == 2 * case.index.in_dim_size("register") * threads
        kinds["rows apart"] += any(map(any, dict(case.src.bases)["block"]))
        kinds[str(ctas)] += 1
    assert min(kinds[kind] for kind in ("rows apart", "2", "4", "8", "16")) > 0, kinds


def test_lanes_on_the_axis_take_no_arithmetic_where_shuffles_keep_the_rest() -> None:
    """The row is in neighbouring lanes: `shfl.sync` takes the upper bits from the own lane."""
    case = rows_of(8, 1)
    plan = planned(case, CUDA)
    assert isinstance(plan, GatherPlan)
    assert plan.kept_lanes == 0b11000
    assert work_of_gather(plan, F32, CUDA).alu == 0
    assert not run(case, plan, CUDA).counts.alu


def test_an_index_is_shifted_alone_where_no_other_bit_of_it_reaches_the_lane() -> None:
    """Bit 0 names a lane and bit 1 a register: where lane bit 1 is not kept, bit 1 of the index has to go."""
    assert lane_shift((1, 0), 0b11110, 32) == 0
    assert lane_shift((1, 0), 0b11100, 32) is None


def test_sources_chosen_by_the_thread_number_are_right() -> None:
    """The index's lanes are the source's registers beside the axis, and it does without lanes of its own."""
    src = layout([(2, 0), (1, 0)], [(4, 0), (8, 0), (16, 0), (0, 1), (0, 2)], [], [32, 4])
    index = layout([(4, 0), (8, 0)], [(1, 0), (2, 0), (16, 0), (0, 1), (0, 2)], [], [32, 4])
    for name in ("f16", "f32", "i64"):
        case = Case(src, index, 1, element_type(name), I32)
        plan = planned(case, CUDA)
        assert isinstance(plan, GatherPlan)
        assert any(plan.choice_by_thread)
        assert refuted_gather(plan, src, index, 1) is None
        assert run(case, plan, CUDA).ok


def rows_of(columns: int, registers: int, gpu: Target = CUDA) -> Case:
    """[64, columns] by one warp of which a thread has `registers` elements of a row."""
    bits = registers.bit_length() - 1
    own = [(0, 1 << bit) for bit in range(bits)]
    rest = [(0, 1 << bit) for bit in range(bits, columns.bit_length() - 1)]
    rows = [(1 << bit, 0) for bit in range(6)]
    lanes = [*rest, *rows][: gpu.lanes.bit_length() - 1]
    side = layout([*own, *[v for v in (*rest, *rows) if v not in lanes]], lanes, [], [64, columns])
    return Case(side, side, 1, F32, I32)


@pytest.mark.parametrize(
    ("columns", "registers", "shuffles_each", "selects_each"),
    [(2, 1, 1, 0), (2, 2, 0, 1), (4, 4, 0, 3), (8, 1, 1, 0), (8, 4, 4, 3), (32, 1, 1, 0), (64, 2, 2, 1)],
)
def test_shuffles_grow_with_registers_on_the_axis_and_not_with_lanes(
    columns: int, registers: int, shuffles_each: int, selects_each: int
) -> None:
    plan = planned(rows_of(columns, registers), CUDA)
    assert isinstance(plan, GatherPlan)
    results = 64 * columns // 32
    assert plan.shuffles == shuffles_each * results
    assert plan.selects == selects_each * results
    assert plan.axis_bits == columns.bit_length() - 1


@pytest.mark.parametrize(("element", "each"), [("f32", 4), ("f16", 2), ("i8", 1), ("i1", 1), ("f64", 4)])
def test_narrow_elements_travel_together(element: str, each: int) -> None:
    case = replace(rows_of(8, 4), element=element_type(element))
    plan = planned(case, CUDA)
    assert isinstance(plan, GatherPlan)
    assert plan.shuffles == each * 16
    assert plan.permutes == (16 if each < 4 else 0)


def test_copies_of_a_source_in_a_thread_need_no_shuffle() -> None:
    """Every lane holds all that a row has; the lanes on the axis are taken from the index's layout alone."""
    rows = [(1, 0), (2, 0), (4, 0), (8, 0)]
    src = layout([(0, 1), (0, 2)], [(0, 0), *rows], [], [16, 4])
    index = layout([(0, 2)], [(0, 1), *rows], [], [16, 4])
    case = Case(src, index, 1, F32, I32)
    plan = planned(case, CUDA)
    assert isinstance(plan, GatherPlan)
    assert not plan.moves and run(case, plan, CUDA).ok
    assert plan.shuffles == 0
    assert plan.selects == 2 * 3


@pytest.mark.parametrize(
    ("src_warp", "index_warp", "reason"),
    [
        ((0, 8), (0, 8), "index bit 8 names an element of another warp"),
        ((16, 0), (32, 0), "destination lane=16 wants elements of another warp"),
    ],
)
def test_what_leaves_the_warp_is_rejected_with_the_bit(
    src_warp: tuple[int, int], index_warp: tuple[int, int], reason: str
) -> None:
    def side(warp: tuple[int, int]) -> list[tuple[int, int]]:
        bits = [(1 << b, 0) for b in range(6)] + [(0, 1 << b) for b in range(4)]
        return [vector for vector in bits if vector != warp]

    src, index = (layout(side(w)[5:], side(w)[:5], [w], [64, 16]) for w in (src_warp, index_warp))
    assert plan_gather(src, index, 1, F32, CUDA) == Rejected("gather", reason)
    assert not is_warp_local(src, index, 1)


def test_too_many_registers_on_the_axis_are_rejected() -> None:
    plan = planned(rows_of(128, 128), CUDA)
    assert plan == Rejected("gather", "an index names one of 128 registers")


def test_tensors_that_do_not_agree_are_an_error() -> None:
    small, large = rows_of(8, 1).src, layout([], [(1,), (2,), (4,), (8,), (16,)], [], [32])
    with pytest.raises(ValueError, match=r"no axis 1 of source \[64, 8\] and index \[32\]"):
        plan_gather(small, large, 1, F32, CUDA)
    with pytest.raises(ValueError, match="differ beside axis 0"):
        plan_gather(rows_of(8, 1).src, rows_of(16, 1).src, 0, F32, CUDA)
    assert planned(rows_of(8, 1, CUDA), HIP) == Rejected(
        "gather", "the source layout has 32 lanes, hip:gfx942 has 64"
    )


def _first(plan: GatherPlan, **changes: int) -> GatherPlan:
    return replace(plan, wanted=(replace(plan.wanted[0], **changes), *plan.wanted[1:]))


def _other_lane(plan: GatherPlan) -> GatherPlan:
    first, *rest = plan.lane_by_thread
    return replace(plan, lane_by_thread=(first ^ 16, *rest))


MUTANTS = {
    "lane_by_index": lambda plan: replace(plan, lane_by_index=plan.lane_by_index[::-1]),
    "lane_by_thread": _other_lane,
    "choice_by_index": lambda plan: replace(plan, choice_by_index=plan.choice_by_index[::-1]),
    "choices": lambda plan: replace(plan, choices=plan.choices[::-1]),
    "base": lambda plan: _first(plan, base=plan.wanted[0].base ^ 4),
    "choice_flip": lambda plan: _first(plan, choice_flip=1),
    "lane_flip": lambda plan: _first(plan, lane_flip=1),
    "outputs": lambda plan: replace(plan, outputs=plan.outputs[::-1]),
    "moves": lambda plan: replace(plan, moves=False),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_plans_are_refuted_and_their_code_is_found_wrong(name: str) -> None:
    case = rows_of(16, 4)
    plan = planned(case, CUDA)
    assert isinstance(plan, GatherPlan)
    wrong = MUTANTS[name](plan)
    assert wrong != plan
    assert refuted_gather(plan, case.src, case.index, 1) is None
    assert refuted_gather(wrong, case.src, case.index, 1) is not None
    assert run(case, plan, CUDA).ok
    assert not run(case, wrong, CUDA).ok


# --- cost ---------------------------------------------------------------------------------------------------


def test_loads_are_priced_at_the_mean_of_random_indices() -> None:
    """Of 32 lanes in 32 banks the fullest has 3.53 words on average (10^6 throws of numpy's). Stores are of
    four registers, by lanes whose rows begin in the same bank."""
    own, rows = [(0, 1 << bit) for bit in range(9)], [(1 << bit, 0) for bit in range(5)]
    side = layout(own, rows, [(0, 512)], [32, 1024])
    assert not is_warp_local(side, side, 1)
    found = stock_cost(side, side, 1, F32, CUDA, 2)
    assert found.barriers == 1
    assert found.wavefronts == pytest.approx(512 // 4 * 32 + 512 * 3.53, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_in_the_same_layouts_ours_is_never_more_than_triton_s(name: str) -> None:
    rng, gpu = random.Random(f"stock for {name}"), target(name)
    compared = 0
    for _ in range(40):
        case = random_gather(rng, gpu)
        sides = case.src, case.index, case.axis, case.element, gpu
        plan = planned(case, gpu)
        if isinstance(plan, Rejected) or not is_warp_local(case.src, case.index, case.axis):
            continue
        compared += 1
        ours, theirs = cost_of(plan, case.element, gpu, case.warps), stock_cost(*sides, case.warps)
        warps = Situation.on(gpu).busy(case.warps)
        assert ours.expected(warps) <= theirs.expected(warps) + 1e-9, (case, plan.summary())
    assert compared > 3
