"""Conversions that change block bits: planned, proved, and run in all CTAs of the cluster at once; mistakes
that are planted in plans and in code are found."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from cluster_marks import ARRIVE, WAIT, layout, without

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.emit.bodies import emit, signature_of
from triton_linear.lowering.emit.machines import RELEASE, received
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.verify import Verdict, verify_in_cluster
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.plan.plans import Plan, Ranks, SharedPlan, ShufflePlan
from triton_linear.lowering.planners.select import candidates, select
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target

GPU = target("cuda:90")
F32 = element_type("f32")


# Two registers, 32 lanes, two warps, two CTAs: the destination's CTAs hold what a lane bit told apart.
HELD = layout([1], [2, 4, 8, 16, 32], [64], [128])
WANTED = layout([128], [2, 4, 8, 16, 32], [64], [1])


def drawn(rng: random.Random, bits: int, warps: int, ctas: int) -> LinearLayout:
    """A layout of 2^bits elements on 2^warps warps and 2^ctas CTAs: any bit anywhere, with copies."""
    columns = [1 << bit for bit in range(bits)]
    for _ in range(rng.choice((0, 6))):
        i, j = rng.sample(range(bits), 2)
        columns[i] ^= columns[j]
    rng.shuffle(columns)
    threads = 5 + warps + ctas
    registers = max(0, bits - threads) + rng.choice((0, 0, 1))
    columns += [0] * max(0, threads + registers - bits)
    if rng.random() < 0.3:
        rng.shuffle(columns)
    left: Iterator[int] = iter(columns)
    sides = [[next(left) for _ in range(count)] for count in (registers, 5, warps, ctas)]
    return layout(*sides)


def chosen(src: LinearLayout, dst: LinearLayout, element: ElementType = F32) -> Plan:
    plan = select(src, dst, element, Situation.on(GPU)).plan
    assert plan is not None
    return plan


def crossing(src: LinearLayout = HELD, dst: LinearLayout = WANTED, element: ElementType = F32) -> SharedPlan:
    plan = chosen(src, dst, element)
    assert isinstance(plan, SharedPlan)
    return plan


def code(plan: SharedPlan, element: ElementType = F32) -> str:
    return emit(plan, signature_of(plan, element), GPU)


def run(text: str, plan: SharedPlan, src: LinearLayout = HELD, dst: LinearLayout = WANTED) -> Verdict:
    return verify_in_cluster(text, src, dst, F32, GPU, 1 << len(src.columns(WARP)), plan.scratch_bytes)


def random_conversions(count: int) -> Iterator[tuple[LinearLayout, LinearLayout, ElementType]]:
    """Conversions in clusters of 2 to 16 CTAs of up to 8 warps that change block bits."""
    rng = random.Random(7)
    while count:
        warps, ctas = rng.randrange(4), rng.randint(1, 4)
        bits = rng.randint(5, min(13, 9 + warps + ctas))
        src, dst = (drawn(rng, bits, warps, ctas) for _ in range(2))
        element = element_type(rng.choice(("i1", "i8", "bf16", "f32", "f64")))
        if src.columns(BLOCK) != dst.columns(BLOCK):
            count -= 1
            yield src, dst, element


@pytest.mark.parametrize("name", ["cuda:90", "cuda:100"])
def test_random_conversions_are_proved_in_clusters_of_2_to_16(name: str) -> None:
    for src, dst, element in random_conversions(140):
        assert refuted(chosen(src, dst, element), src, dst, element, target(name)) is None


@pytest.mark.parametrize("name", ["cuda:90", "cuda:100"])
def test_random_conversions_are_right_in_clusters_of_2_to_16(name: str) -> None:
    gpu, kinds, sizes = target(name), Counter[str](), set[int]()
    for src, dst, element in random_conversions(140):
        plan = chosen(src, dst, element)
        warps, ctas = len(src.columns(WARP)), len(src.columns(BLOCK))
        verdict = verify_in_cluster(
            emit(plan, signature_of(plan, element), gpu), src, dst, element, gpu, 1 << warps, plan.scratch_bytes
        )
        assert verdict.ok, (src, dst, plan, verdict.examples, verdict.races[:2])
        assert verdict.checked == dst.in_dim_size(REGISTER) * 32 << warps + ctas
        kinds[plan.kind] += 1
        if plan.kind == "cluster-shared":
            sizes.add(1 << ctas)
    assert kinds["cluster-shared"] > 60 and kinds["cta-shared"] > 3 and kinds["shuffle"] > 3, kinds
    assert sizes == {2, 4, 8, 16}


def test_loads_are_from_the_cta_that_holds_the_element() -> None:
    plan = crossing()
    assert (
        plan.summary()
        == "cluster-shared: 2 stores of 32 bits, 2 loads of 32 bits, 2 barriers, 512 bytes of scratch"
    )
    assert plan.ranks == Ranks((0,) * 7, ((0, 1),))
    text = code(plan)
    assert text.count("nvvm.mapa") == 2
    assert text.count(ARRIVE) == text.count(WAIT) == 2


def test_ctas_that_hold_what_they_want_load_from_no_other() -> None:
    """The source is held by both CTAs, each wants half: where it lies depends on the CTA's rank."""
    src = layout([1, 128], [2, 4, 8, 16, 32], [64], [0])
    dst = layout([128], [2, 4, 8, 16, 64], [32], [1])
    plan = crossing(src, dst)
    assert plan.kind == "cta-shared" and plan.ranks is None
    text = code(plan)
    assert "cluster_ctarank" in text
    assert "mapa" not in text and "nvvm.cluster" not in text
    assert run(text, plan, src, dst).ok


# Every CTA holds all; each wants a half, and two lane bits the other way round.
ALL_HELD = layout([1, 128], [2, 4, 8, 16, 32], [64], [0])
HALF_WANTED = layout([128], [4, 2, 8, 16, 32], [64], [1])


def test_what_stays_in_its_warp_is_shuffled() -> None:
    """Which register is sent depends on the CTA's rank, which stands above the number of the thread."""
    plan = chosen(ALL_HELD, HALF_WANTED)
    assert isinstance(plan, ShufflePlan) and plan.kind == "shuffle"
    assert plan.thread_bits == 6
    text = emit(plan, signature_of(plan, F32), GPU)
    assert "cluster_ctarank" in text and "llvm.load" not in text
    verdict = verify_in_cluster(text, ALL_HELD, HALF_WANTED, F32, GPU, 2)
    assert verdict.ok and verdict.checked == 2 * 2 * 64
    assert refuted(plan, ALL_HELD, HALF_WANTED, F32, GPU) is None
    found = refuted(replace(plan, thread_bits=0), ALL_HELD, HALF_WANTED, F32, GPU)
    assert found is not None and "bits that a thread number does not have" in found
    found = refuted(replace(plan, thread_bits=5), ALL_HELD, HALF_WANTED, F32, GPU)
    assert found == "the CTA's rank is above 5 bits of the thread, not 6"
    # The proof is no more generous than the code is right.
    blind = text.replace("mov.u32 $0, %cluster_ctarank", "mov.u32 $0, %tid.x")
    assert verify_in_cluster(blind, ALL_HELD, HALF_WANTED, F32, GPU, 2).wrong


def test_what_stays_in_its_thread_is_renamed() -> None:
    src = layout([1], [2, 4, 8, 16, 32], [64], [0])
    dst = layout([1], [2, 4, 8, 16, 32], [64], [0])
    assert chosen(src, dst).kind == "noop"
    copies = layout([1, 128], [2, 4, 8, 16, 32], [64], [128])
    halves = layout([128, 1], [2, 4, 8, 16, 32], [64], [0])
    plan = chosen(copies, halves)
    assert plan.kind == "registers"
    assert refuted(plan, copies, halves, F32, GPU) is None
    text = emit(plan, signature_of(plan, F32), GPU)
    assert verify_in_cluster(text, copies, halves, F32, GPU, 2).ok


def test_a_vector_is_of_one_cta() -> None:
    """Of four registers two are of another CTA: loads are of two elements, not of four."""
    src = layout([1, 2, 64], [4, 8, 16, 32, 256], [512], [128])
    dst = layout([1, 2, 128], [4, 8, 16, 32, 256], [512], [64])
    plan = crossing(src, dst)
    assert plan.ranks is not None
    assert plan.load.slots == 4
    assert sorted(plan.ranks.loads[0]) == [0, 1]
    assert run(code(plan), plan, src, dst).ok


def test_loads_from_other_ctas_are_wide_where_stores_can_transpose() -> None:
    """Stores of 128 bits and loads of 32 take as many wavefronts; loads of 128 bits are a quarter of them."""
    src = layout([128, 2048, 32, 4096, 512, 1], [64, 1024, 16, 8, 4], [8192, 256], [2])
    dst = layout([512, 4, 8, 16, 1024, 2], [4096, 8192, 2048, 32, 128], [1, 64], [256])
    bf16 = element_type("bf16")
    plan = crossing(src, dst, bf16)
    assert plan.load.access_bytes == 16 and plan.store.matrix
    assert sum(map(len, plan.load.rounds)) == 8
    text = code(plan, bf16)
    assert verify_in_cluster(text, src, dst, bf16, GPU, 4, plan.scratch_bytes).ok


def test_scratch_is_in_rounds_where_it_must_be() -> None:
    src = layout([1, 2, 4, 64], [8, 16, 32, 128, 256], [512], [1024])
    dst = layout([1, 2, 4, 1024], [8, 16, 32, 128, 256], [512], [64])
    plan = select(src, dst, F32, Situation.on(GPU, 1024)).plan
    assert isinstance(plan, SharedPlan) and len(plan.store.rounds) > 1
    assert plan.barriers == 2 * len(plan.store.rounds)
    assert refuted(plan, src, dst, F32, GPU) is None
    text = code(plan)
    assert text.count(ARRIVE) == plan.barriers
    assert run(text, plan, src, dst).ok


def test_other_ways_do_not_serve() -> None:
    ((_, plan),) = candidates(HELD, WANTED, F32, Situation.on(GPU))
    assert plan.kind == "cluster-shared"
    selection = select(HELD, WANTED, F32, Situation.on(target("cuda:80")))
    assert selection.plan is None
    assert "cuda:80 has no clusters" in selection.rejected[0].reason


@pytest.mark.parametrize("barrier", [0, 1])
def test_a_missing_barrier_of_the_cluster_is_found(barrier: int) -> None:
    plan = crossing()
    text = code(plan)
    broken = without(without(text, ARRIVE, barrier), WAIT, barrier)
    assert run(text, plan).ok
    hazards = {(race.scope, race.hazard) for race in run(broken, plan).races}
    assert hazards == {("cluster", "read after write" if barrier == 0 else "end after read")}


def test_a_missing_barrier_between_rounds_is_found() -> None:
    src = layout([1, 2, 4, 64], [8, 16, 32, 128, 256], [512], [1024])
    dst = layout([1, 2, 4, 1024], [8, 16, 32, 128, 256], [512], [64])
    plan = select(src, dst, F32, Situation.on(GPU, 1024)).plan
    assert isinstance(plan, SharedPlan)
    broken = without(without(code(plan), ARRIVE, 1), WAIT, 1)
    assert ("cluster", "write after read") in {(r.scope, r.hazard) for r in run(broken, plan, src, dst).races}


def test_a_barrier_of_the_cta_is_not_enough() -> None:
    plan = crossing()
    broken = code(plan).replace(ARRIVE, "    gpu.barrier\n").replace(WAIT, "")
    assert {race.scope for race in run(broken, plan).races} == {"cluster"}


def test_a_wrong_rank_in_mapa_is_found() -> None:
    plan = crossing()
    text = code(plan)
    first, second = re.findall(r"nvvm\.mapa %scratch, (%\w+)", text)
    verdict = run(text.replace(f"nvvm.mapa %scratch, {second}", f"nvvm.mapa %scratch, {first}"), plan)
    assert verdict.wrong == verdict.checked // 2
    with pytest.raises(SimulationError, match="the memory of CTA 128 of 2"):
        run(
            re.sub(r"(nvvm\.mapa %scratch, )%\w+", r"\1%far", text).replace(
                "    nvvm.cluster.arrive",
                "    %far = llvm.mlir.constant(128 : i32) : i32\n    nvvm.cluster.arrive",
                1,
            ),
            plan,
        )


def test_plans_that_name_a_wrong_cta_are_refuted() -> None:
    plan = crossing()
    assert plan.ranks is not None
    wrong = [
        (replace(plan.ranks, loads=((1, 0),)), "gets element"),
        (replace(plan.ranks, columns=(0, 0, 0, 0, 0, 0, 1)), "gets element"),
        (replace(plan.ranks, loads=((0, 2),)), "that a cluster of 2 does not have"),
        (replace(plan.ranks, loads=((0,),)), "no CTA for every load"),
        (None, "lacks CTAs to load from"),
    ]
    for ranks, reason in wrong:
        found = refuted(replace(plan, ranks=ranks), HELD, WANTED, F32, GPU)
        assert found is not None and reason in found, (ranks, found)
    # The CTA's barrier does not wait for other CTAs.
    found = refuted(replace(plan, scope="cta"), HELD, WANTED, F32, GPU)
    assert found is not None and "scope 'cta' has CTAs" in found
    # Stores know their own CTA only.
    store = replace(plan.store, columns=(*plan.store.columns, 4))
    found = refuted(replace(plan, store=store), HELD, WANTED, F32, GPU)
    assert found is not None and "depends on the CTA" in found


def test_what_a_relaxed_barrier_does_not_order_is_found() -> None:
    plan = crossing()
    text = code(plan)
    fences = re.findall(rf".*{RELEASE}.*\n", text)
    (receive,) = re.findall(r".*nanosleep.*\n", text)
    loads = sum(map(len, plan.load.rounds))
    words = re.findall(r"%\w+", receive)
    assert len(fences) == plan.barriers == 2 and len(words) == loads == 2
    for broken, reason in (
        (text.replace(fences[0], "", 1), "without a fence before it orders nothing"),
        (text.replace(receive, ""), "while loads from other CTAs are under way"),
        (text.replace(receive, received_line(words[:1])), "while loads from other CTAs are under way"),
    ):
        with pytest.raises(SimulationError, match=reason):
            run(broken, plan)


def received_line(words: list[str]) -> str:
    """What waits for these words."""
    constraints = ",".join(["r"] * len(words))
    asm = f'"{received(len(words))}", "{constraints},~{{memory}}" {", ".join(words)}'
    types = ", ".join(["i32"] * len(words))
    return f"    llvm.inline_asm has_side_effects asm_dialect = att {asm} : ({types}) -> ()\n"


def test_halves_of_a_barrier_belong_together() -> None:
    plan = crossing()
    text = code(plan)
    for broken, reason in (
        (without(text, WAIT, 1), "arrived at and not waited for"),
        (without(text, ARRIVE, 0), "nobody has arrived"),
        (without(text, WAIT, 0), "between the halves"),
    ):
        with pytest.raises(SimulationError, match=reason):
            run(broken, plan)


def sectors(plan: SharedPlan, warps: int, ctas: int) -> float:
    """Sectors of other CTAs' memory that the loads of a warp touch, in the mean, counted thread by thread."""
    assert plan.ranks is not None
    touched = set()
    for cta, warp, lane in itertools.product(range(1 << ctas), range(1 << warps), range(32)):
        thread = lane | warp << 5 | cta << 5 + warps
        where = f2.multiply_vector(plan.load.columns, thread)
        rank = f2.multiply_vector(plan.ranks.columns, thread)
        for round_, (loads, flipped) in enumerate(zip(plan.load.rounds, plan.ranks.loads, strict=True)):
            for number, (load, more) in enumerate(zip(loads, flipped, strict=True)):
                if rank ^ more != cta:
                    touched.add((cta, warp, round_, number, rank ^ more, (where ^ load.offset) // 32))
    return len(touched) / (1 << warps + ctas)


def test_sectors_of_other_ctas_are_counted() -> None:
    for src, dst, element in itertools.islice(random_conversions(60), 60):
        plan = chosen(src, dst, element)
        if isinstance(plan, SharedPlan) and plan.scope == "cluster":
            sides = len(src.columns(WARP)), len(src.columns(BLOCK))
            assert plan.far_sectors(32) == sectors(plan, *sides), (src, dst, element)


def test_lanes_that_load_from_one_cta_lie_side_by_side() -> None:
    """Each load of a warp is of 128 bytes from one CTA in the mean, half of them wanted: 4 sectors, and as far
    apart as stores would have them 16."""
    src = layout([2], [32, 64, 128, 1024, 512], [4, 256], [16, 1, 8])
    dst = layout([16], [128, 4, 19, 512, 256], [17, 320], [1044, 24, 32])
    plan = crossing(src, dst)
    assert sum(map(len, plan.load.rounds)) == 2
    assert plan.far_sectors(32) == 2 * 4 * 7 / 8  # of eight CTAs one is the own
    assert run(code(plan), plan, src, dst).ok


def test_loads_from_other_ctas_join_no_phases() -> None:
    """With copies in pairs of lanes plans are those of a GPU without joined phases."""
    gpu = target("cuda:90")
    alone = replace(gpu, services={key: replace(one, pairs=()) for key, one in gpu.services.items()})
    seen = 0
    for src, dst, element in random_conversions(150):
        if not {0} & set(dst.columns(LANE)[:2]):
            continue
        plans = [select(src, dst, element, Situation.on(each)).plan for each in (gpu, alone)]
        if isinstance(plans[0], SharedPlan) and plans[0].ranks is not None:
            seen += 1
            assert plans[0] == plans[1]
    assert seen
