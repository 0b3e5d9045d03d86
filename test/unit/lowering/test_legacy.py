"""The legacy lowering: as Triton did before linear layouts, and right."""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.legacy.cases import CASES, NEW, Case, kernel
from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.baseline.legacy import EncodingTraits, select_legacy, traits_of
from triton_linear.lowering.emit.bodies import emit, signature_of
from triton_linear.lowering.interpreter.verify import Verdict, verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import PADDED, NoOpPlan, Padding, RegisterPlan, SharedPlan
from triton_linear.lowering.plan.strategies import LEGACY, LINEAR
from triton_linear.lowering.planners.select import cost, select
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.targets import Target, target
from triton_linear.tools.fuzzing.random_layouts import ELEMENTS, Pair, encoding_pair, module_text, random_pair
from triton_linear.tools.support.compile import DEFAULTS, compile_text
from triton_linear.tools.support.functions import LOWERING
from triton_linear.tools.verify.command import run_stubs

ROOT = Path(__file__).resolve().parents[3]
RECORDED = json.loads((ROOT / "bench" / "results" / "legacy.json").read_text())["figures"]
AS_BEFORE = replace(LOWERING, lowering=LEGACY)
CUDA, CDNA = target("cuda:90"), target("hip:gfx942")
TARGETS = pytest.mark.parametrize("gpu", [CUDA, CDNA], ids=["cuda90", "gfx942"])
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>"
WGMMA = MMA.replace("versionMajor = 2", "versionMajor = 3").replace("[16, 8]", "[16, 64, 16]")


def planned(case: Case | Pair, gpu: Target) -> SharedPlan:
    """The plan of a conversion that is to have one through padded memory."""
    element = element_type(case.element)
    plan = select_legacy(case.source, case.destination, case.shape, element, gpu).plan
    assert isinstance(plan, SharedPlan) and plan.kind == PADDED
    return plan


def layouts(case: Case | Pair) -> tuple[LinearLayout, LinearLayout]:
    """The layouts of both sides."""
    source, destination = (
        encodings.held_layout_of(text, case.shape, element_type(case.element).bits)
        for text in (case.source, case.destination)
    )
    return source, destination


def run(plan: SharedPlan, case: Case | Pair, gpu: Target, warps: int) -> Verdict:
    """The verdict on the plan's code."""
    element, (source, destination) = element_type(case.element), layouts(case)
    text = emit(plan, signature_of(plan, element), gpu)
    return verify_conversion(text, source, destination, element, gpu, warps, plan.scratch_bytes)


# Against Tritons that had it


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_plans_are_those_of_triton_3_0(case: Case) -> None:
    """Shared memory, barriers, and the number and width of stores and loads in its PTX, from which LLVM has
    taken stores of copies."""
    plan = planned(case, target(f"cuda:{case.capability}"))
    stores, loads = (
        {str(8 * side.access_bytes): sum(len({access.offset for access in found}) for found in side.rounds)}
        for side in (plan.store, plan.load)
    )
    recorded = RECORDED["3.0.0"][case.name]
    assert (plan.scratch_bytes, plan.barriers) == (recorded["shared"], recorded["barriers"])
    assert (stores, loads) == (recorded["stores"], recorded["loads"])


def test_what_is_recorded_of_both_is_the_same() -> None:
    """But for byte permutes, with which newer LLVM unpacks the bytes that the kernel loads, and for six kernels
    in which older LLVM has several registers with addresses."""
    ours, old = ({name: dict(entry) for name, entry in RECORDED[whose].items()} for whose in ("ours", "3.0.0"))
    assert set(ours) == set(old) == {case.name for case in CASES}
    moves = [name for name in ours if ours[name].pop("moves") != old[name].pop("moves")]
    assert moves == ["row to column, i8"]
    registers = [(ours[name].pop("offsets"), old[name].pop("offsets")) for name in ours]
    differ = [(one, other) for one, other in registers if one != other]
    assert len(differ) == 6
    for one, other in differ:
        assert any(len(one[kind]) < len(other[kind]) for kind in ("st", "ld"))
    assert ours == old


# Right, and as it is described


def random_cases(gpu: Target, count: int, seed: int) -> list[tuple[Pair, int]]:
    """Random pairs of encodings that kernels have, and now and then any other, with numbers of warps."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        warps, element = rng.choice((1, 2, 4, 8)), rng.choice(ELEMENTS)
        pair = encoding_pair(rng, gpu.lanes, warps, element)
        found.append((pair if rng.random() < 0.8 else random_pair(rng, gpu.lanes, warps), warps))
    return found


@pytest.mark.slow
@TARGETS
def test_random_pairs_are_right(gpu: Target) -> None:
    """In the interpreter, proved, and as the plan says: no shuffle, barriers of the CTA, every copy stored."""
    checked = conflicts = copies = 0
    for pair, warps in random_cases(gpu, 50, seed=3):
        element = element_type(pair.element)
        plan = select_legacy(pair.source, pair.destination, pair.shape, element, gpu).plan
        if not isinstance(plan, SharedPlan):
            assert pair.source == pair.destination or isinstance(plan, NoOpPlan | RegisterPlan)
            continue
        verdict = run(plan, pair, gpu, warps)
        assert verdict.ok, (pair, verdict.examples, verdict.races)
        counts = verdict.counts
        assert refuted(plan, *layouts(pair), element, gpu) is None
        assert (counts.shuffles, counts.warp_barriers, counts.cta_barriers) == (0, 0, plan.barriers)
        assert plan.barriers % 2
        threads = warps * gpu.lanes
        assert counts.bytes_stored == threads * plan.source_registers * plan.element_bytes
        predicted = cost(plan, element, gpu).wavefronts
        if affine(plan, gpu):
            assert counts.wavefronts == predicted * warps
        checked += 1
        conflicts += counts.wavefronts > counts.minimum_wavefronts
        copies += 0 in plan.store.columns
    assert checked > 35 and conflicts > 3 and copies > 3


def affine(plan: SharedPlan, gpu: Target) -> bool:
    """Whether no bit of an address depends on lanes and warps, so that all warps take what the first does.

    Where words hold several elements, a warp that begins inside a word can share others of them.
    """
    bits = gpu.lanes.bit_length() - 1
    sides = [(side.columns[:bits], side.columns[bits:]) for side in (plan.store, plan.load)]
    apart = all(not any(lane & warp for lane, warp in itertools.product(*side)) for side in sides)
    return apart and all(
        size % 4 == 0 for size in (plan.element_bytes, plan.padding.bytes if plan.padding else 0)
    )


@TARGETS
def test_random_pairs_are_right_in_whole_modules(gpu: Target) -> None:
    """Through the passes, the embedding and Triton's own lowering to the LLVM dialect."""
    rng = random.Random(5)
    pairs = [encoding_pair(rng, gpu.lanes, 4, rng.choice(ELEMENTS)) for _ in range(12)]
    text = module_text(pairs, 4, gpu.lanes, gpu.name)
    compilation = compile_text(text, "pairs.ttgir", None, "llvm", AS_BEFORE)
    kinds = {found.kind for found in compilation.conversions}
    assert PADDED in kinds and kinds <= {PADDED, "noop", "registers"}
    assert all(verdict.ok for verdict in run_stubs(compilation).values())


def test_the_legacy_lowering_is_asked_for() -> None:
    """By default a module is lowered by maps."""
    assert DEFAULTS.lowering == LINEAR
    text = kernel(CASES[0], NEW)
    plain, named, legacy = (
        compile_text(text, "k.ttgir", None, "ptx", options)
        for options in (LOWERING, replace(LOWERING, lowering=LINEAR), AS_BEFORE)
    )
    ptx = [compiled.kernels[0].lowered.text("ptx") for compiled in (plain, named, legacy)]
    assert ptx[0] == ptx[1] != ptx[2]
    (stub,) = legacy.stubs.values()
    assert (stub.plan.kind, [s.plan.kind for s in plain.stubs.values()]) == (PADDED, ["cta-shared"])


# What it takes no shortcut for, and what it does


def test_equal_maps_of_unlike_kinds_are_converted() -> None:
    parent = (
        "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>"
    )
    line = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
    pair = Pair((128,), "f32", f"#ttg.slice<{{dim = 1, parent = {parent}}}>", line, "equal")
    source, destination = layouts(pair)
    assert source == destination
    assert isinstance(select(source, destination, element_type("f32"), CUDA).plan, NoOpPlan)
    assert planned(pair, CUDA).barriers == 1
    same = select_legacy(line, line, (128,), element_type("f32"), CUDA).plan
    assert same == NoOpPlan()


@pytest.mark.parametrize(
    ("source", "destination", "element", "kind"),
    [
        (MMA, f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>", "f16", "noop"),
        (MMA, f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>", "f32", PADDED),
        (WGMMA, WGMMA.replace("64", "32"), "f32", "noop"),
        (MMA, MMA.replace("[4, 1]", "[2, 2]"), "f16", PADDED),
        (MMA, f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 2}}>", "f16", PADDED),
    ],
)
def test_shortcuts(source: str, destination: str, element: str, kind: str) -> None:
    plan = select_legacy(source, destination, (64, 64), element_type(element), CUDA).plan
    assert plan is not None and plan.kind == kind


def test_clusters_are_left_to_triton() -> None:
    split = (
        "#ttg.blocked<{sizePerThread = [%d], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], "
        "CGALayout = [[256]]}>"
    )
    found = select_legacy(split % 1, split % 2, (512,), element_type("f32"), CUDA)
    assert found.plan is None and "clusters, here of 2 CTAs" in str(found.rejected[0])


def test_traits_of_encodings() -> None:
    row = encodings.parse(CASES[0].source)
    assert traits_of(row, (128, 64)) == EncodingTraits((1, 0), (8, 64), (1, 4))
    assert traits_of(encodings.parse(MMA), (128, 64)) == EncodingTraits(
        (1, 0), (64, 8), (1, 2), takes_other_order=True
    )
    mfma = "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>"
    assert traits_of(encodings.parse(mfma), (128, 64)) == EncodingTraits((1, 0), (64, 64), (1, 4))
    linear = (
        "#ttg.linear<{register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]], warp = []}>"
    )
    linear = linear.replace("warp = []", "warp = [], block = []")
    assert traits_of(encodings.parse(linear), (16, 8)) == EncodingTraits((0, 1), (16, 8), (4, 1))


# Proofs


def test_a_wrong_padding_is_refuted() -> None:
    case = CASES[4]
    plan, element = planned(case, CUDA), element_type(case.element)
    padding = plan.padding
    assert padding is not None and padding.bytes == 16

    def reason(**fields: Any) -> str:
        return refuted(replace(plan, **fields), *layouts(case), element, CUDA) or ""

    assert reason() == ""
    assert "reaches byte" in reason(padding=replace(padding, bytes=32))
    assert "reaches byte" in reason(scratch_bytes=plan.scratch_bytes - 32)
    assert "what pads has no" in reason(split=(1,), store=replace(plan.store, choices=1))
    whole = "do not hold whole accesses"
    assert whole in reason(padding=replace(padding, bytes=8))
    assert whole in reason(padding=replace(padding, bytes=-16))
    assert whole in reason(padding=replace(padding, row_bytes=2))
    assert whole in reason(padding=replace(padding, row_bytes=96))


def test_a_wrong_emission_is_noticed() -> None:
    case = CASES[0]
    plan, element = planned(case, CUDA), element_type(case.element)
    text = emit(plan, signature_of(plan, element), CUDA)
    spoilt = text.replace("llvm.add", "llvm.xor", 1)
    assert spoilt != text
    verdict = verify_conversion(spoilt, *layouts(case), element, CUDA, 4, 2 * plan.scratch_bytes)
    assert verdict.wrong


def test_padded_places_are_apart_and_add() -> None:
    padding = Padding(64, 8)
    places = [padding.placed(address) for address in range(512)]
    assert places == sorted(set(places)) and places[-1] == 511 + 7 * 8
    for a, b in itertools.product(range(0, 512, 37), repeat=2):
        if not a & b:
            assert padding.placed(a) + padding.placed(b) == padding.placed(a | b)


def test_the_padding_is_of_the_wider_vector_and_spares_lines() -> None:
    for case in CASES:
        plan = planned(case, target(f"cuda:{case.capability}"))
        assert plan.padding is not None
        widest = max(plan.store.access_bytes, plan.load.access_bytes)
        lone = len(case.shape) == 1
        assert plan.padding.bytes == 0 if lone else plan.padding.bytes % widest == 0 < plan.padding.bytes
        rows = plan.scratch_bytes / (plan.padding.row_bytes + plan.padding.bytes)
        assert rows == math.floor(rows)
