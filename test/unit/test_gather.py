"""Gathers: what is planned and chosen, that plans are proved, and that their code gives what numpy does."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import test_accumulators
from gather_cases import Case, layout, random_gather
from triton_linear.dialect import bridge, encodings, ll
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.lowering.element import element_type
from triton_linear.lowering.emit_gather import GatherSignature, emit_gather
from triton_linear.lowering.gather import cost_of_gather, plan_gather, unmasked
from triton_linear.lowering.gather_choice import cost_of, is_warp_local, select_gather, stock_cost
from triton_linear.lowering.gather_plan import (
    LEGACY_GATHER,
    AnyGatherPlan,
    Fetch,
    GatherPlan,
    GatherSharedPlan,
)
from triton_linear.lowering.gather_shared import cost_of_gather_shared, plan_gather_shared
from triton_linear.lowering.plan import Rejected
from triton_linear.lowering.prove_gather import refuted_gather
from triton_linear.lowering.strategies import LEGACY, STRATEGIES
from triton_linear.lowering.targets import Target, target
from triton_linear.lowering.verify import Verdict, held_elements
from triton_linear.lowering.verify_gather import verify_gather
from triton_linear.passes import driver
from triton_linear.passes.gather import LowerGathers, gather_stubs
from triton_linear.tools.compile import compile_text
from triton_linear.tools.explain.gather import explained
from triton_linear.tools.functions import lower_kernel, sink
from triton_linear.tools.verify import check_gathers

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950", "hip:gfx1200")
KERNELS = [name for name in TARGETS if name != "hip:gfx1200" or installed_release() < (3, 7)]
"""Newer Tritons lower gfx1200's barriers to operations that the interpreter does not know."""
CLUSTER = "scratch is not laid out for clusters, here of 2 CTAs"
F32, I32 = element_type("f32"), element_type("i32")
CUDA, HIP = target("cuda:90"), target("hip:gfx942")


def run(case: Case, plan: AnyGatherPlan, gpu: Target, seed: int = 0) -> Verdict:
    """What the code of a plan gives."""
    signature = GatherSignature.of(plan, case.element, case.index_element)
    text = f"module {{\n{emit_gather(plan, signature, gpu)}}}\n"
    sides = case.src, case.index, case.axis, case.element, case.index_element
    return verify_gather(text, "gather", *sides, gpu, case.warps, plan.scratch_bytes, seed=seed)


def planned(case: Case, gpu: Target) -> GatherPlan | Rejected:
    return plan_gather(case.src, case.index, case.axis, case.element, gpu)


@pytest.mark.parametrize("name", TARGETS)
def test_code_of_random_gathers_takes_what_numpy_does(name: str) -> None:
    rng, gpu = random.Random(f"gathers for {name}"), target(name)
    kinds = Counter[str]()
    for number in range(100):
        case = random_gather(rng, gpu)
        plan = planned(case, gpu)
        if isinstance(plan, Rejected):
            kinds["rejected"] += 1
            continue
        assert refuted_gather(plan, case.src, case.index, case.axis) is None
        verdict = run(case, plan, gpu, number)
        assert verdict.ok, (case, plan.summary(), verdict.examples[:2])
        parts = 2 if case.element.bits == 64 else 1
        counted, taken = verdict.counts, cost_of_gather(plan, case.element, gpu)
        assert counted.shuffles == taken.shuffles == plan.shuffles * parts
        assert dict(counted.alu).get("select", 0) == plan.selects * parts
        assert dict(counted.alu).get("permute", 0) == plan.permutes
        kinds["moves" if plan.moves else "stays"] += 1
        kinds["packed"] += plan.packed > 0
        kinds["copies"] += len(plan.wanted) < len(plan.outputs)
        kinds["chosen by the thread"] += any(plan.choice_by_thread)
        kinds["other lanes"] += case.index.columns("lane") != case.src.columns("lane")
    assert min(kinds[kind] for kind in ("moves", "stays", "packed", "copies", "other lanes")) > 0, kinds


@pytest.mark.parametrize("name", TARGETS)
def test_code_through_memory_takes_what_numpy_does(name: str) -> None:
    """No races; copies are stored and loaded once."""
    rng, gpu = random.Random(f"memory for {name}"), target(name)
    kinds = Counter[str]()
    for number in range(60):
        case = random_gather(rng, gpu, apart=number % 2 > 0)
        sides = case.src, case.index, case.axis, case.element, gpu
        plan = plan_gather_shared(*sides, rng.choice((None, 0)))
        assert isinstance(plan, GatherSharedPlan)
        assert refuted_gather(plan, case.src, case.index, case.axis) is None
        verdict = run(case, plan, gpu, number)
        assert verdict.ok, (case, plan.summary(), verdict.examples[:2], verdict.races[:2])
        counted = verdict.counts
        stores = [access for access in counted.accesses if access.kind == "store"]
        kinds["in conflict"] += any(access.wavefronts > access.minimum for access in stores)
        assert (sum(counted.stores.values()), sum(counted.loads.values())) == (plan.stores, plan.loads)
        barriers = {"cta": counted.cta_barriers, "warp": counted.warp_barriers}
        first = gpu.waits_before_stores and plan.stores_apart
        assert barriers[plan.scope] - (first and plan.scope == "warp") == plan.barriers
        kinds[plan.scope] += 1
        kinds["rounds"] += len(plan.fetches) > 1
        kinds["split"] += bool(plan.split)
        kinds["wide"] += plan.store.access_bytes > max(4, plan.element_bytes)
        kinds["copies"] += plan.loads < len(plan.outputs)
        kinds["mean"] += counted.wavefronts / case.warps
        kinds["expected"] += cost_of_gather_shared(plan, case.element, gpu, case.warps).wavefronts
    seldom = ("rounds",) if gpu.lanes == 32 else ()  # 64 lanes leave few registers to these tensors
    assert min(kinds[kind] for kind in ("cta", "warp", "split", "wide", "copies", *seldom)) > 0, kinds
    assert kinds["in conflict"] < 10
    assert kinds["expected"] == pytest.approx(kinds["mean"], rel=0.1), kinds


@pytest.mark.parametrize("name", TARGETS)
def test_the_baseline_stores_and_loads_all(name: str) -> None:
    rng, gpu = random.Random(f"baseline for {name}"), target(name)
    for number in range(30):
        case = random_gather(rng, gpu, apart=number % 2 > 0)
        plan = select_gather(case.src, case.index, case.axis, case.element, gpu, lowering=LEGACY)
        assert isinstance(plan, GatherSharedPlan)
        assert plan.kind == LEGACY_GATHER
        assert refuted_gather(plan, case.src, case.index, case.axis) is None
        verdict = run(case, plan, gpu, number)
        assert verdict.ok
        registers = [side.in_dim_size("register") for side in (case.src, case.index)]
        assert verdict.counts.stores == {case.element.memory_bytes: registers[0]}
        assert verdict.counts.loads == {case.element.memory_bytes: registers[1]}
        assert verdict.counts.cta_barriers == 2


def test_rows_of_lanes_in_banks_of_their_own_have_no_conflicts() -> None:
    """Whatever the indices are: four rows of eight, each in eight banks."""
    for element in ("i8", "f16", "f32"):
        case = replace(rows_of(8, 1), element=element_type(element))
        plan = plan_gather_shared(case.src, case.index, 1, case.element, CUDA)
        assert isinstance(plan, GatherSharedPlan)
        for seed in range(4):
            counts = run(case, plan, CUDA, seed).counts
            loads = [access for access in counts.accesses if access.kind == "load"]
            assert all(access.wavefronts == 1 for access in loads)


def test_what_stays_in_its_warp_waits_for_no_other() -> None:
    """Rows of other warps are elsewhere, both in the source and in the index."""
    own = [(0, 1 << bit) for bit in range(4)]
    side = layout(own, [(1 << bit, 0) for bit in range(5)], [(32, 0), (64, 0)], [128, 16])
    case = Case(side, side, 1, F32, I32)
    plan = plan_gather_shared(side, side, 1, F32, CUDA)
    assert isinstance(plan, GatherSharedPlan)
    assert plan.scope == "warp"
    verdict = run(case, plan, CUDA)
    assert verdict.ok
    assert verdict.counts.cta_barriers == 0


def test_rounds_take_less_scratch_for_more_barriers() -> None:
    case = rows_of(16, 4)
    plans = [plan_gather_shared(case.src, case.index, 1, F32, CUDA, limit) for limit in (None, 2048, 1024)]
    assert [(plan.scratch_bytes, plan.barriers) for plan in plans if isinstance(plan, GatherSharedPlan)] == [
        (4096, 1),
        (2048, 3),
        (1024, 7),
    ]


def test_few_lanes_with_several_registers_on_the_axis_go_through_memory() -> None:
    """Shuffles multiply by registers; memory does not."""
    kinds = {}
    for columns, registers in ((8, 1), (32, 1), (2, 2), (8, 4), (16, 8)):
        case = rows_of(columns, registers)
        plan = select_gather(case.src, case.index, 1, F32, CUDA)
        assert not isinstance(plan, Rejected)
        kinds[columns, registers] = plan.kind
    assert kinds == {
        (8, 1): "gather",
        (32, 1): "gather",
        (2, 2): "gather",
        (8, 4): "gather-shared",
        (16, 8): "gather-shared",
    }


def test_lanes_on_the_axis_take_no_arithmetic_where_shuffles_keep_the_rest() -> None:
    """The row is in neighbouring lanes: `shfl.sync` takes the upper bits from the own lane."""
    case = rows_of(8, 1)
    plan = planned(case, CUDA)
    assert isinstance(plan, GatherPlan)
    assert plan.kept_lanes == 0b11000
    assert cost_of_gather(plan, F32, CUDA).alu == 0
    assert not run(case, plan, CUDA).counts.alu


def test_an_index_is_shifted_alone_where_no_other_bit_of_it_reaches_the_lane() -> None:
    """Bit 0 names a lane and bit 1 a register: where lane bit 1 is not kept, bit 1 of the index has to go."""
    assert unmasked((1, 0), 0b11110, 32) == 0
    assert unmasked((1, 0), 0b11100, 32) is None


def test_a_plan_that_takes_too_much_is_made_only_where_there_is_no_other() -> None:
    case = rows_of(8, 4)
    assert select_gather(case.src, case.index, 1, F32, CUDA, 0) == planned(case, CUDA)


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
    plan = planned(Case(src, index, 1, F32, I32), CUDA)
    assert isinstance(plan, GatherPlan)
    assert not plan.moves
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


MEMORY_MUTANTS = {
    "address_by_index": lambda plan: replace(plan, address_by_index=plan.address_by_index[::-1]),
    "address_by_thread": lambda plan: replace(plan, address_by_thread=plan.address_by_thread[::-1]),
    "fetch": lambda plan: replace(plan, fetches=_exchanged(plan.fetches)),
    "outputs": lambda plan: replace(plan, outputs=plan.outputs[::-1]),
    "store columns": lambda plan: replace(plan, store=replace(plan.store, columns=plan.store.columns[::-1])),
    "a store is missing": lambda plan: replace(
        plan, store=replace(plan.store, rounds=(plan.store.rounds[0][:-1], *plan.store.rounds[1:]))
    ),
    "rounds": lambda plan: replace(plan, fetches=plan.fetches[::-1]),
}


def _exchanged(fetches: tuple[tuple[Fetch, ...], ...]) -> tuple[tuple[Fetch, ...], ...]:
    """The first loads what another of its round does."""
    (first, *others), *rounds = fetches
    offset = next(fetch.offset for fetch in others if fetch.offset != first.offset)
    return ((replace(first, offset=offset), *others), *rounds)


@pytest.mark.parametrize("name", MEMORY_MUTANTS)
def test_wrong_plans_through_memory_are_refuted_and_found_wrong(name: str) -> None:
    case = rows_of(16, 4)
    plan = plan_gather_shared(case.src, case.index, 1, F32, CUDA, 2048)
    assert isinstance(plan, GatherSharedPlan)
    wrong = MEMORY_MUTANTS[name](plan)
    assert wrong != plan
    assert refuted_gather(plan, case.src, case.index, 1) is None
    assert refuted_gather(wrong, case.src, case.index, 1) is not None
    assert run(case, plan, CUDA).ok
    assert not run(case, wrong, CUDA).ok


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plan: replace(plan, scratch_bytes=plan.scratch_bytes // 2), "reaches byte"),
        (lambda plan: replace(plan, axis_bits=plan.axis_bits - 1), "it is for another tensor"),
        (lambda plan: replace(plan, outputs=plan.outputs[1:]), "it has other registers"),
        (lambda plan: replace(plan, address_by_thread=plan.address_by_thread[1:]), "it is for other threads"),
    ],
)
def test_what_does_not_fit_is_refuted(
    change: Callable[[GatherSharedPlan], GatherSharedPlan], reason: str
) -> None:
    case = rows_of(16, 4)
    plan = plan_gather_shared(case.src, case.index, 1, F32, CUDA)
    assert isinstance(plan, GatherSharedPlan)
    refuted = refuted_gather(change(plan), case.src, case.index, 1)
    assert refuted is not None and reason in refuted


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
    """Of 32 lanes in 32 banks the fullest has 3.53 words on average (10^6 throws of numpy's)."""
    side = layout([(0, 1 << bit) for bit in range(10)], [(1 << bit, 0) for bit in range(5)], [], [32, 1024])
    plan = plan_gather_shared(side, side, 1, F32, CUDA)
    assert isinstance(plan, GatherSharedPlan)
    cost = cost_of_gather_shared(plan, F32, CUDA)
    assert cost.wavefronts == plan.stores + plan.loads  # every lane has a bank of its own
    old = select_gather(side, side, 1, F32, CUDA, lowering=LEGACY)
    assert isinstance(old, GatherSharedPlan)
    assert cost_of_gather_shared(old, F32, CUDA).wavefronts == pytest.approx((32 + 3.53) * 1024, rel=0.02)


def test_memory_pays_more_as_registers_on_the_axis_grow() -> None:
    ratios = []
    for registers in (1, 2, 4, 8, 16, 32):
        case = rows_of(32, registers)
        shuffles, memory = planned(case, CUDA), plan_gather_shared(case.src, case.index, 1, F32, CUDA)
        assert not isinstance(shuffles, Rejected) and not isinstance(memory, Rejected)
        ratios.append(cost_of(shuffles, F32, CUDA).clocks / cost_of(memory, F32, CUDA).clocks)
    assert ratios[0] < 1 < ratios[-1]
    assert ratios == sorted(ratios)


@pytest.mark.parametrize("name", TARGETS)
def test_in_the_same_layouts_ours_is_never_more_than_triton_s(name: str) -> None:
    rng, gpu = random.Random(f"stock for {name}"), target(name)
    compared = Counter[bool]()
    for number in range(100):
        case = random_gather(rng, gpu, apart=number % 2 > 0)
        sides = case.src, case.index, case.axis, case.element, gpu
        plan = select_gather(*sides)
        assert not isinstance(plan, Rejected)
        compared[is_warp_local(case.src, case.index, case.axis)] += 1
        ours, theirs = cost_of(plan, case.element, gpu, case.warps), stock_cost(*sides, case.warps)
        warps = max(gpu.likely_warps, case.warps)
        assert ours.expected(warps) <= theirs.expected(warps) + 1e-9, (case, plan.summary())
    assert min(compared[local] for local in (True, False)) > 5


# --- the pass, and what Triton makes of it ------------------------------------------------------------------


def module_text(name: str, body: str, arguments: str) -> str:
    lanes = target(name).lanes
    return (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{name}", '
        f'"ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"tt.func public @kernel({arguments}) {{\n{body}\ntt.return\n}}\n}}\n"
    )


def blocked(per_thread: tuple[int, int], lanes: tuple[int, int], warps: tuple[int, int] = (4, 1)) -> str:
    shapes = (
        f"{key} = [{a}, {b}]"
        for key, (a, b) in zip(
            ("sizePerThread", "threadsPerWarp", "warpsPerCTA"), (per_thread, lanes, warps), strict=True
        )
    )
    return f"#ttg.blocked<{{{', '.join(shapes)}, order = [1, 0]}}>"


def around(name: str, element: str, index: str) -> tuple[str, str, str]:
    """A kernel that gathers along 16 columns in layouts that Triton prefers, between conversions; the layouts
    of what it is given and gives."""
    wide = target(name).lanes
    loaded, taken = blocked((1, 4), (wide // 4, 4)), blocked((1, 1), (wide // 16, 16))
    types = [f"tensor<64x16x{kind}, {place}>" for kind in (element, index) for place in (loaded, taken)]
    body = f"""%a = ttg.convert_layout %x : {types[0]} -> {types[1]}
    %b = ttg.convert_layout %i : {types[2]} -> {types[3]}
    %c = tt.gather %a[%b] {{axis = 1 : i32, efficient_layout}} : ({types[1]}, {types[3]}) -> {types[1]}
    %d = ttg.convert_layout %c : {types[1]} -> {types[0]}
    {sink("%d", types[0], "result")}"""
    return module_text(name, body, f"%x: {types[0]}, %i: {types[2]}"), types[0], types[2]


@pytest.mark.parametrize(("element", "index"), [("f32", "i32"), ("f16", "i64"), ("i8", "i8"), ("f64", "i16")])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("ours", [False, True], ids=["stock", "ours"])
def test_kernels_gather_what_numpy_does(ours: bool, name: str, element: str, index: str) -> None:
    text, source_type, _ = around(name, element, index)
    kernel = lower_kernel(text, "kernel.ttgir", name, ours=ours)
    encoding = source_type.partition(", ")[2][:-1]
    gpu, bits = target(name), element_type(element).bits
    place = encodings.held_layout_of(encoding, (64, 16), bits)
    held = held_elements(place, gpu.lanes, 4, 0)
    rng = np.random.default_rng(3)
    values = rng.permutation(1 << min(bits, 16))[: 64 * 16] if bits > 8 else rng.integers(0, 256, 64 * 16)
    numbers = rng.integers(0, 16, 64 * 16)
    wanted = np.take_along_axis(values.reshape(16, 64), numbers.reshape(16, 64), 0).reshape(-1)
    outcome = kernel.run([[v[None].astype(np.uint64) for v in given[held]] for given in (values, numbers)])
    given, undefined = outcome.sinks["result"]
    assert not (undefined & np.uint64(2**bits - 1)).any()
    assert np.array_equal(given[:, 0], wanted[held].astype(np.uint64))
    assert not outcome.races
    if ours:
        assert ("__ll_gather" in kernel.embedded) and "tt.gather" not in kernel.embedded


def prepared(text: str, name: str = "cuda:90") -> tuple[driver.Prepared, str]:
    root = bridge.text_to_upstream(text, bridge.upstream_context())
    found = driver.run_linear_pipeline(root, target(name), verify=True)
    return found, str(root)


def test_conversions_around_a_gather_go_where_all_is_cheaper_without() -> None:
    found, text = prepared(around("cuda:90", "i8", "i32")[0])
    (gather,) = found.gathers
    assert gather.stub is not None
    assert gather.source.endswith(f"{blocked((1, 4), (8, 4))}>")
    assert found.conversions == ()
    assert "ttg.convert_layout" not in text


def across_warps(name: str = "cuda:90") -> str:
    """A kernel that gathers along 16 columns, four in each of four warps."""
    place = blocked((1, 4), (target(name).lanes, 1), (1, 4))
    values, numbers = f"tensor<64x16xf32, {place}>", f"tensor<64x16xi32, {place}>"
    body = f"""%c = tt.gather %x[%i] {{axis = 1 : i32}} : ({values}, {numbers}) -> {values}
    {sink("%c", values, "result")}"""
    return module_text(name, body, f"%x: {values}, %i: {numbers}")


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("lowering", STRATEGIES)
def test_gathers_across_warps_meet_once(name: str, lowering: str) -> None:
    """Between stores and loads; as it once was, before them too."""
    compilation = compile_text(across_warps(name), "k.ttgir", None, "llvm", lowering)
    (gather,) = check_gathers(compilation)
    assert gather.verdict is not None and gather.verdict.ok
    (stub,) = compilation.gather_stubs.values()
    assert isinstance(stub.plan, GatherSharedPlan)
    assert stub.plan.scope == "cta"
    assert gather.verdict.counts.cta_barriers == (2 if lowering == LEGACY else 1)
    assert gather.verdict.counts.loads == {4: 64 * 16 // (4 * target(name).lanes)}


def test_what_goes_to_other_ctas_is_left_with_a_remark() -> None:
    place = blocked((1, 4), (32, 1), (1, 4)).replace("}>", ", CGALayout = [[1, 0]]}>")
    values, numbers = f"tensor<128x16xf32, {place}>", f"tensor<128x16xi32, {place}>"
    body = f"%c = tt.gather %x[%i] {{axis = 1 : i32}} : ({values}, {numbers}) -> {values}"
    text = module_text("cuda:90", body, f"%x: {values}, %i: {numbers}").replace(
        'num-ctas" = 1', 'num-ctas" = 2'
    )
    found, after = prepared(text)
    (gather,) = found.gathers
    assert (gather.kind, gather.detail) == ("stock", CLUSTER)
    assert "tt.gather" in after and ll.STOCK in after
    remarks = [d.message for d in found.outcome.diagnostics if d.severity == "remark"]
    assert f"gather left to Triton: {CLUSTER}" in remarks
    assert not found.gather_stubs


def test_stubs_are_shared_and_have_plans_for_their_target_only() -> None:
    place = blocked((1, 1), (2, 16))
    values, numbers = f"tensor<64x16xf32, {place}>", f"tensor<64x16xi32, {place}>"
    types = f"({values}, {numbers}) -> {values}"
    body = f"""%c = tt.gather %x[%i] {{axis = 1 : i32}} : {types}
    %d = tt.gather %c[%i] {{axis = 1 : i32}} : {types}
    {sink("%d", values, "result")}"""
    root = bridge.text_to_upstream(
        module_text("cuda:90", body, f"%x: {values}, %i: {numbers}"), bridge.upstream_context()
    )
    assert driver.run(root, [LowerGathers()], verify=True).succeeded
    calls = [op for op in operations(root.operation) if op.name == "tt.call"]
    assert len(calls) == 2
    assert list(gather_stubs(root, CUDA)) == ["__ll_gather_0"]
    with pytest.raises(ValueError, match="@__ll_gather_0 has no plan for hip:gfx942: the source layout has 32"):
        gather_stubs(root, HIP)
    assert len(re.findall(r"callee = @__ll_gather_0", str(root))) == 2


def test_explain_has_gathers_and_the_conversions_that_are_left_around_them() -> None:
    report = explained(around("cuda:90", "f32", "i32")[0], "k.ttgir", None)
    (line,) = report.gathers
    assert line.startswith("k.ttgir:")
    assert "plan proved" in line
    away = explained(around("cuda:90", "i8", "i32")[0], "k.ttgir", None)
    assert away.conversions == ()
    assert away.folded == 3


def test_conversions_beside_a_gather_are_explained_by_it() -> None:
    """What is gathered from serves something else too: that conversion stays."""
    here, other = blocked((1, 1), (2, 16)), blocked((4, 1), (2, 16), (4, 1))
    types = [f"tensor<64x16xf32, {place}>" for place in (other, here)]
    numbers = f"tensor<64x16xi32, {here}>"
    body = f"""%a = ttg.convert_layout %x : {types[0]} -> {types[1]}
    %c = tt.gather %a[%i] {{axis = 1 : i32}} : ({types[1]}, {numbers}) -> {types[1]}
    {sink("%c", types[1], "result")}
    {sink("%a", types[1], "source")}"""
    text = module_text("cuda:90", body, f"%x: {types[0]}, %i: {numbers}")
    report = explained(text, "k.ttgir", None)
    (conversion,) = report.conversions
    assert conversion.to_anchor is not None
    assert conversion.to_anchor.operation == "tt.gather"


def test_a_gather_of_accumulators_is_left() -> None:
    numbers = test_accumulators.ACC.replace("f32", "i32")
    between = f"""%numbers = arith.constant dense<1> : {numbers}
      %taken = tt.gather %next[%numbers] {{axis = 1 : i32}}
        : ({test_accumulators.ACC}, {numbers}) -> {test_accumulators.ACC}"""
    found, _ = prepared(test_accumulators.kernel(between, "%taken"))
    (gather,) = found.gathers
    assert (gather.kind, gather.detail) == ("stock", "it takes what `wgmma` left in its registers")


SPECIALISED = "it is in a warp-specialised region, which only some warps of the CTA run"


def test_a_gather_that_some_warps_run_is_left() -> None:
    place = blocked((1, 1), (2, 16))
    values, numbers = f"tensor<64x16xf32, {place}>", f"tensor<64x16xi32, {place}>"
    taken = f"tt.gather %a[%b] {{axis = 1 : i32}} : ({values}, {numbers}) -> {values}"
    body = f"""ttg.warp_specialize(%x, %i)
    default {{
      ttg.warp_yield
    }}
    partition0(%a: {values}, %b: {numbers}) num_warps(4) {{
      %c = {taken}
      ttg.warp_return
    }} : ({values}, {numbers}) -> ()"""
    found, _ = prepared(module_text("cuda:90", body, f"%x: {values}, %i: {numbers}"))
    (gather,) = found.gathers
    assert (gather.kind, gather.detail) == ("stock", SPECIALISED)
