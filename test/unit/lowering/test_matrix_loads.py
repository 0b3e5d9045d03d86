"""`ldmatrix` and `stmatrix` without `.trans` in exchanges: where they are chosen, that they are right, and that
mistakes are refuted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from plan_cases import ELEMENTS, blocked, check, random_pair

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.interpreter.verify import verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.lowering.planners import transposing
from triton_linear.lowering.planners.conversion import Hardware, conversion
from triton_linear.lowering.planners.exchange import exchange_plans
from triton_linear.lowering.planners.placement import Exchange
from triton_linear.lowering.planners.shared import plan_cta_shared
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.targets import Target, target

GPU = target("cuda:90")
WORDS = {"ldmatrix", "stmatrix"}
WGMMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"


def accumulator_and_rows() -> tuple[LinearLayout, LinearLayout]:
    """The layouts of an accumulator and of a store of whole rows."""
    return layout_of(WGMMA, (64, 64)), layout_of(blocked([1, 8], [4, 8], [4, 1], [1, 0]), (64, 64))


def exchanges(src: LinearLayout, dst: LinearLayout, element: str, gpu: Target) -> list[SharedPlan]:
    a, b = Hardware.of(src), Hardware.of(dst)
    exchange = Exchange(a.register, a.lane, a.warp, b.register, b.lane, b.warp)
    return list(exchange_plans("cta", exchange, element_type(element), gpu, 1 << 20))


@pytest.mark.parametrize(
    ("element", "thresholds", "matrix", "loads"),
    [("bf16", "", "ldmatrix", 4), ("bf16", "{matrix_bytes=0}", "", 16), ("f32", "", "", 16)],
)
def test_accumulators_of_half_words_are_loaded_as_rows_of_matrices(
    element: str, thresholds: str, matrix: str, loads: int
) -> None:
    src, dst = accumulator_and_rows()
    gpu = target(f"cuda:90{thresholds}")
    plan = plan_cta_shared(conversion(src, dst), element_type(element), gpu, 1 << 20)
    assert isinstance(plan, SharedPlan)
    assert (plan.load.matrix, sum(map(len, plan.load.rounds))) == (matrix, loads)
    assert refuted(plan, src, dst, element_type(element), gpu) is None
    text = emit(plan, element_type(element), gpu)
    assert (".x4.b16" in text) == (matrix == "ldmatrix")
    assert verify_conversion(text, src, dst, element_type(element), gpu, 4, plan.scratch_bytes).ok


@pytest.mark.parametrize(
    ("element", "thresholds", "matrix", "accesses"),
    [("bf16", "", "stmatrix", (8, 8)), ("bf16", "{matrix_bytes=0}", "", (8, 16)), ("f32", "", "", (16, 16))],
)
def test_accumulators_whose_rows_are_loaded_whole_are_stored_as_matrices(
    element: str, thresholds: str, matrix: str, accesses: tuple[int, int]
) -> None:
    """Loads of pairs of words do not become matrix loads."""
    src = layout_of(WGMMA.replace("64, 16]", "64, 32]"), (128, 64))
    dst = layout_of(blocked([1, 8], [4, 8], [4, 1], [1, 0]), (128, 64))
    gpu, kind = target(f"cuda:90{thresholds}"), element_type(element)
    plan = plan_cta_shared(conversion(src, dst), kind, gpu, 1 << 20)
    assert isinstance(plan, SharedPlan)
    assert (plan.store.matrix, plan.load.matrix) == (matrix, "")
    assert tuple(sum(map(len, side.rounds)) for side in (plan.store, plan.load)) == accesses
    assert refuted(plan, src, dst, kind, gpu) is None
    text = emit(plan, kind, gpu)
    assert ("stmatrix.sync.aligned.m8n8.x4.b16" in text) == bool(matrix)
    assert verify_conversion(text, src, dst, kind, gpu, 4, plan.scratch_bytes).ok


def test_no_matrix_store_takes_the_place_of_as_few_accesses() -> None:
    """Some matrix stores of this accumulator would leave the loads narrow: 20 accesses for 8."""
    src = layout_of(WGMMA.replace("64, 16]", "16, 16]"), (64, 64))
    dst = layout_of(blocked([1, 1], [4, 8], [4, 1], [1, 0]), (64, 64))
    first, *others = exchanges(src, dst, "bf16", GPU)
    assert first.accesses == 8
    assert not [plan for plan in others if plan.store.matrix == "stmatrix" and not plan.load.matrix]


@pytest.mark.parametrize("element", ["i8", "f8E5M2", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(64, 16), (64, 32), (64, 64)])
def test_their_code_is_right_for_every_shape(element: str, shape: tuple[int, int]) -> None:
    """Executed on data that tells every element from the others."""
    kind = element_type(element)
    wide = min(16 // kind.memory_bytes, shape[1] // 2)
    lanes = min(32, shape[1] // wide)
    src = layout_of(WGMMA, shape)
    dst = layout_of(blocked([1, wide], [32 // lanes, lanes], [4, 1], [1, 0]), shape)
    seen = 0
    for plan in exchanges(src, dst, element, GPU):
        if {plan.load.matrix, plan.store.matrix} & WORDS:
            seen += 1
            assert refuted(plan, src, dst, kind, GPU) is None
            text = emit(plan, kind, GPU)
            assert verify_conversion(text, src, dst, kind, GPU, 4, plan.scratch_bytes).ok
    assert seen or kind.memory_bytes == 1


def test_words_are_loaded_so_where_the_policy_says() -> None:
    """Of random layouts, too: each plan is right by its definition, proved, and right as code."""
    gpu = target("cuda:90{matrix_bytes=8}")
    rng, seen = random.Random(8), set[tuple[str, int]]()
    for _ in range(400):
        src, dst, warp_bits = random_pair(rng, gpu)
        element = rng.choice(ELEMENTS)
        for plan in exchanges(src, dst, element.name, gpu):
            if found := {plan.load.matrix, plan.store.matrix} & WORDS:
                check(plan, src, dst, 32, 1 << warp_bits)
                assert refuted(plan, src, dst, element, gpu) is None
                kinds = {(name, element.memory_bytes) for name in found}
                if not kinds <= seen:
                    text = emit(plan, element, gpu)
                    assert verify_conversion(
                        text, src, dst, element, gpu, 1 << warp_bits, plan.scratch_bytes
                    ).ok
                seen |= kinds
    assert seen >= {("ldmatrix", 1), ("ldmatrix", 4), ("stmatrix", 1), ("stmatrix", 2)}, seen


@pytest.mark.parametrize("name", sorted(WORDS))
@pytest.mark.parametrize(
    "wrong",
    [
        replace(transposing.FORMS["ldmatrix"], row=(1, 0)),
        replace(transposing.FORMS["ldmatrix"], lanes=("l3", "l2", "l4", "r0", "r1")),
        replace(transposing.FORMS["ldmatrix"], lanes=("l2", "l3", "l4", "r1", "r0")),
    ],
    ids=["words of a row", "rows", "matrices"],
)
def test_a_planner_that_errs_about_matrices_is_refuted(
    wrong: transposing.Form, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(transposing.FORMS, name, wrong)  # type: ignore[arg-type]
    src, dst = accumulator_and_rows()
    plans = [plan for plan in exchanges(src, dst, "bf16", GPU) if name in (plan.load.matrix, plan.store.matrix)]
    assert plans
    assert all(refuted(plan, src, dst, element_type("bf16"), GPU) for plan in plans)
