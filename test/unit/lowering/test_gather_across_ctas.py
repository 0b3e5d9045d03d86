"""Gathers that ask other CTAs of the cluster: planned, proved, and run in all CTAs at once; mistakes that are
planted in plans and in code are found."""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from cluster_marks import ARRIVE, WAIT, layout, without
from gather_cases import Case, across_ctas, emit_gather

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.emit.gathers import signature_of_gather
from triton_linear.lowering.gather.memory import plan_gather_shared, work_of_indexed_loads
from triton_linear.lowering.gather.request import OTHER_CTAS, stays_in_cta
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.verify import Verdict
from triton_linear.lowering.interpreter.verify_gather import verify_gather
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Index, Ranks, Rejected, SharedPlan
from triton_linear.lowering.prove.gathers import refuted_gather
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target

GPU = target("cuda:90")
F32, I32 = element_type("f32"), element_type("i32")
GPUS = ["cuda:90", "cuda:100"]


# Two registers, 32 lanes, two warps, two CTAs along the axis.
WHOLE = layout([1], [2, 4, 8, 16, 32], [64], [128])


def case_of(src: LinearLayout = WHOLE, index: LinearLayout = WHOLE) -> Case:
    return Case(src, index, 0, F32, I32)


def planned(case: Case, limit: int | None = None) -> SharedPlan:
    plan = plan_gather_shared(case.src, case.index, case.axis, case.element, Situation.on(GPU, limit))
    assert isinstance(plan, SharedPlan)
    return plan


def index_of(plan: SharedPlan) -> Index:
    assert plan.index is not None
    return plan.index


def code(case: Case, plan: SharedPlan, name: str = "cuda:90") -> str:
    signature = signature_of_gather(plan, case.element, case.index_element)
    return f"module {{\n{emit_gather(plan, signature, target(name))}}}\n"


def run(text: str, case: Case, plan: SharedPlan, name: str = "cuda:90", seed: int = 0) -> Verdict:
    sides = case.src, case.index, case.axis, case.element, case.index_element
    return verify_gather(text, "gather", *sides, target(name), case.warps, plan.scratch_bytes, seed=seed)


@functools.cache
def random_plans() -> list[tuple[str, Case, SharedPlan]]:
    """Gathers of 2 to 16 CTAs, some of which stay in theirs, for two GPUs in turn."""
    rng, found = random.Random("gathers across CTAs"), []
    for number in range(44):
        name = GPUS[number % 2]
        case = across_ctas(rng, target(name))
        plan = plan_gather_shared(case.src, case.index, case.axis, case.element, Situation.on(target(name)))
        assert isinstance(plan, SharedPlan)
        found.append((name, case, plan))
    return found


def test_random_gathers_are_proved_in_clusters_of_2_to_16() -> None:
    for name, case, plan in random_plans():
        assert refuted_gather(plan, case.src, case.index, case.axis, case.element, target(name)) is None


def test_random_gathers_are_right_in_clusters_of_2_to_16() -> None:
    kinds = Counter[str]()
    for number, (name, case, plan) in enumerate(random_plans()):
        text = code(case, plan, name)
        verdict = run(text, case, plan, name, number)
        assert verdict.ok, (case, plan.summary(), verdict.examples[:2], verdict.races[:2])
        ctas = case.src.in_dim_size(BLOCK)
        # Two draws, all threads of all CTAs.
        assert verdict.checked == 2 * 32 * case.index.in_dim_size(REGISTER) * case.warps * ctas
        kinds[plan.scope] += 1
        if plan.scope == "cluster":
            assert text.count(ARRIVE) == text.count(WAIT) == plan.barriers == verdict.counts.cluster_barriers
            assert sum(verdict.counts.loads.values()) == plan.load.accesses
            kinds[name] += 1
            kinds[f"{ctas} CTAs"] += 1
            kinds[f"{plan.element_bytes} bytes"] += 1
            kinds["by the index"] += any(index_of(plan).ranks)
            kinds["copies"] += not all(map(any, dict(case.src.bases)[BLOCK]))
    expected = ["by the index", "copies", *GPUS]
    expected += [f"{count} CTAs" for count in (2, 4, 8, 16)] + [f"{size} bytes" for size in (1, 2, 4, 8)]
    assert kinds["cluster"] > 30 and min(kinds[kind] for kind in expected) > 0, kinds


def test_scratch_is_in_rounds_where_it_must_be() -> None:
    """Rows in registers of both sides; along the axis are lanes and CTAs."""
    rows, columns = [(1 << bit, 0) for bit in range(4)], [(0, 1 << bit) for bit in range(6)]
    bases = {REGISTER: rows, LANE: columns[:5], WARP: [], BLOCK: columns[5:]}
    side = LinearLayout.from_bases(list(bases.items()), ["dim0", "dim1"])
    case = Case(side, side, 1, F32, I32)
    plan = planned(case, 512)
    assert (len(plan.load.rounds), plan.scratch_bytes, plan.barriers) == (4, 512, 8)
    assert refuted_gather(plan, side, side, 1, F32, GPU) is None
    text = code(case, plan)
    assert run(text, case, plan).ok
    broken = without(without(text, ARRIVE, 1), WAIT, 1)
    assert ("cluster", "write after read") in {(r.scope, r.hazard) for r in run(broken, case, plan).races}


def test_the_index_names_the_cta() -> None:
    """The highest bit of the index is the rank, and the others are the place in its memory."""
    case = case_of()
    plan = planned(case)
    assert (
        plan.summary()
        == "gather-shared: 1 store of 64 bits, 2 loads of 32 bits, 2 cluster barriers, 512 bytes of scratch"
    )
    assert plan.ranks == Ranks((0,) * 7, ((0, 0),))
    assert index_of(plan).ranks == (*(0,) * 7, 1)
    text = code(case, plan)
    assert text.count("nvvm.mapa") == text.count("!llvm.ptr<7> -> i32") == 2
    assert "cluster_ctarank" not in text  # whoever asks, the index alone says where it is
    assert not stays_in_cta(case.src, case.index, 0)


def test_where_it_depends_on_the_cta_alone_one_mapa_does() -> None:
    """Rows of which CTAs hold halves, and want the other: no bit of the index leads to another CTA."""
    rows = [(1 << bit, 0) for bit in range(5)]
    own, other = (
        {REGISTER: [(0, 1), (0, 2)], LANE: rows, WARP: [], BLOCK: [block]} for block in ((32, 0), (0, 0))
    )
    other[WARP], own[WARP] = [(32, 0)], [(0, 0)]
    src, index = (LinearLayout.from_bases(list(side.items()), ["dim0", "dim1"]) for side in (own, other))
    case = Case(src, index, 1, F32, I32)
    plan = planned(case)
    assert plan.scope == "cluster" and not any(index_of(plan).ranks)
    text = code(case, plan)
    assert text.count("nvvm.mapa") == 1 and plan.load.accesses == 4
    assert run(text, case, plan).ok
    assert refuted_gather(plan, src, index, 1, F32, GPU) is None


def test_registers_tell_ctas_apart() -> None:
    """Each CTA has half of the rows, and wants all of them for half of the columns."""
    rows = [(1 << bit, 0) for bit in range(5)]
    held = {REGISTER: [(0, 1), (0, 2)], LANE: rows, WARP: [], BLOCK: [(32, 0)]}
    asked = {REGISTER: [(0, 1), (32, 0)], LANE: rows, WARP: [], BLOCK: [(0, 2)]}
    src, index = (LinearLayout.from_bases(list(side.items()), ["dim0", "dim1"]) for side in (held, asked))
    case = Case(src, index, 1, F32, I32)
    plan = planned(case)
    assert plan.ranks == Ranks((0,) * 6, ((0, 0, 1, 1),))
    text = code(case, plan)
    assert text.count("nvvm.mapa") == 2
    assert run(text, case, plan).ok
    assert refuted_gather(plan, src, index, 1, F32, GPU) is None


def test_rows_of_another_cta_may_be_those_of_a_lane() -> None:
    """CTAs have the same rows on both sides, and a lane of the index asks for the other's too."""
    rows = [(1 << bit, 0) for bit in range(5)]
    held = {REGISTER: [(0, 1), (0, 2)], LANE: rows, WARP: [], BLOCK: [(32, 0)]}
    asked = {REGISTER: [(0, 1), (0, 2), (1, 0)], LANE: [(32, 0), *rows[1:]], WARP: [], BLOCK: [(32, 0)]}
    src, index = (LinearLayout.from_bases(list(side.items()), ["dim0", "dim1"]) for side in (held, asked))
    case = Case(src, index, 1, F32, I32)
    plan = planned(case)
    assert plan.ranks == Ranks((1, 0, 0, 0, 0, 1), ((0,) * 8,))
    assert run(code(case, plan), case, plan).ok
    assert refuted_gather(plan, src, index, 1, F32, GPU) is None


def test_what_the_own_cta_has_at_a_place_of_its_rank_is_loaded_from_it() -> None:
    """The source is held by both CTAs, and each wants half of the rows."""
    rows = [(1 << bit, 0) for bit in range(5)]
    held = {REGISTER: [(0, 1), (32, 0)], LANE: rows, WARP: [(0, 2)], BLOCK: [(0, 0)]}
    asked = {REGISTER: [(0, 1), (0, 2)], LANE: rows, WARP: [(0, 0)], BLOCK: [(32, 0)]}
    src, index = (LinearLayout.from_bases(list(side.items()), ["dim0", "dim1"]) for side in (held, asked))
    case = Case(src, index, 1, F32, I32)
    plan = planned(case)
    assert plan.scope == "cta" and plan.ranks is None and plan.load.columns[-1]
    text = code(case, plan)
    assert "cluster_ctarank" in text and "mapa" not in text and "nvvm.cluster" not in text
    assert run(text, case, plan).ok
    assert refuted_gather(plan, src, index, 1, F32, GPU) is None
    blind = replace(plan, load=replace(plan.load, columns=plan.load.columns[:-1]))
    assert "loads element" in (refuted_gather(blind, src, index, 1, F32, GPU) or "")
    assert run(code(case, blind), case, blind).wrong


def test_a_gpu_without_clusters_has_none() -> None:
    found = plan_gather_shared(WHOLE, WHOLE, 0, F32, Situation.on(target("cuda:80")))
    assert isinstance(found, Rejected)
    assert found.reason == f"{OTHER_CTAS}, and cuda:80 has no clusters"


def test_sectors_of_other_ctas_are_counted() -> None:
    """Half of the lanes ask the other CTA, which has 16 sectors: of them 10.2 are touched in the mean."""
    work = work_of_indexed_loads(planned(case_of()), F32, GPU)
    assert work.far_sectors == pytest.approx(2 * 16 * (1 - (1 - 1 / 32) ** 32), rel=0.05)
    assert work.barriers == 2


@pytest.mark.parametrize("barrier", [0, 1])
def test_a_missing_barrier_of_the_cluster_is_found(barrier: int) -> None:
    case = case_of()
    plan = planned(case)
    text = code(case, plan)
    broken = without(without(text, ARRIVE, barrier), WAIT, barrier)
    assert run(text, case, plan).ok
    hazards = {(race.scope, race.hazard) for race in run(broken, case, plan).races}
    assert hazards == {("cluster", "read after write" if barrier == 0 else "end after read")}


def test_a_barrier_of_the_cta_is_not_enough() -> None:
    case = case_of()
    plan = planned(case)
    broken = code(case, plan).replace(ARRIVE, "    gpu.barrier\n").replace(WAIT, "")
    assert {race.scope for race in run(broken, case, plan).races} == {"cluster"}


def test_a_wrong_rank_in_mapa_is_found() -> None:
    """The rank of CTA 0, and one that the cluster does not have."""
    case = case_of()
    plan = planned(case)
    for rank, reason in (("0", ""), ("2", "the memory of CTA 2 of 2")):
        wrong = re.sub(r"(nvvm\.mapa %scratch, )%\w+", r"\1%far", code(case, plan))
        constant = f"    %far = llvm.mlir.constant({rank} : i32) : i32\n"
        wrong = wrong.replace(ARRIVE, constant + ARRIVE, 1)
        if reason:
            with pytest.raises(SimulationError, match=reason):
                run(wrong, case, plan)
        else:
            verdict = run(wrong, case, plan)
            assert verdict.wrong == pytest.approx(verdict.checked / 2, rel=0.2)


def test_a_load_from_the_own_cta_is_found() -> None:
    case = case_of()
    plan = planned(case)
    own = r"llvm.getelementptr \1[0] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"
    near = re.sub(r"nvvm\.mapa (%\w+), .*", own, code(case, plan)).replace("!llvm.ptr<7>", "!llvm.ptr<3>")
    verdict = run(near, case, plan)
    assert verdict.wrong == pytest.approx(verdict.checked / 2, rel=0.2)


def _ranks(**changes: object) -> Callable[[SharedPlan], SharedPlan]:
    def change(plan: SharedPlan) -> SharedPlan:
        assert plan.ranks is not None
        return replace(plan, ranks=replace(plan.ranks, **changes))  # type: ignore[arg-type]

    return change


def _stores(**changes: object) -> Callable[[SharedPlan], SharedPlan]:
    return lambda plan: replace(plan, store=replace(plan.store, **changes))  # type: ignore[arg-type]


def _by_index(*ranks: int) -> Callable[[SharedPlan], SharedPlan]:
    return lambda plan: replace(plan, index=replace(index_of(plan), ranks=ranks))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        # Always the own CTA, that of a warp, the other one.
        (_by_index(0, 0, 0, 0, 0, 0, 0, 0), "loads element"),
        (_ranks(columns=(0, 0, 0, 0, 0, 1, 0)), "loads element"),
        (_ranks(columns=(0, 0, 0, 0, 0, 0, 1)), "loads element"),
        (_ranks(loads=((0, 1),)), "loads element"),
        (_by_index(1, 0, 0, 0, 0, 0, 0, 1), "loads element"),
        (_by_index(0, 0, 0, 0, 0, 0, 0, 2), "that a cluster of 2 does not have"),
        (_ranks(loads=((0, 2),)), "that a cluster of 2 does not have"),
        (_ranks(loads=((0,),)), "no CTA for every load"),
        (_by_index(), "no CTA for every bit of an index"),
        # Emission takes the rank to stand above the columns of stores.
        (_stores(columns=(0,) * 5), "stores go by 5 bits of a thread number, a CTA has 6"),
        (_stores(columns=(0,) * 7), "stores go by 7 bits of a thread number, a CTA has 6"),
        (lambda plan: replace(plan, ranks=None), "lacks CTAs to load from"),
        # The CTA's barrier does not wait for other CTAs.
        (lambda plan: replace(plan, scope="cta"), "scope 'cta' has CTAs to load from"),
        (lambda plan: replace(plan, scope="cta", ranks=None), "names other CTAs"),
        (lambda plan: replace(plan, scope="grid"), "scope 'grid' has no barrier"),
        (lambda plan: replace(plan, split=(128,)), "depends on the CTA"),
    ],
)
def test_plans_that_name_a_wrong_cta_are_refuted(
    change: Callable[[SharedPlan], SharedPlan], reason: str
) -> None:
    case = case_of()
    plan = planned(case)
    assert refuted_gather(plan, case.src, case.index, 0, F32, GPU) is None
    found = refuted_gather(change(plan), case.src, case.index, 0, F32, GPU)
    assert found is not None and reason in found
