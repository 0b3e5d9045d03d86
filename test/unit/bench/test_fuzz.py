"""Random layout pairs through the whole road; and the fuzzer finds what is broken on purpose."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fuzz_support import break_code

from bench.fuzz import pairs as judged
from bench.fuzz import run
from bench.fuzz.random_layouts import ELEMENTS, Pair, module_text
from bench.fuzz.run import PROGRAMS, SINGLES, FuzzPlan, fuzz, units
from bench.fuzz.totals import Totals
from bench.stock import random_pairs
from triton_linear.dialect.triton_versions import SUMS_OF_BITS, installed_release
from triton_linear.lowering.plan import plans
from triton_linear.lowering.plan.plans import RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.tools.support.compile import lower, to_triton
from triton_linear.tools.support.isolated import Lost

SEED = 16


def fuzz_singles(target: str, count: int, assembly: int = 0) -> Totals:
    """In this process, so that what a test breaks is broken."""
    return fuzz([FuzzPlan(target, SEED, count, assembly, (SINGLES,))], jobs=0)[target]


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx950"])
def test_random_pairs_are_lowered_right(target: str) -> None:
    totals = fuzz_singles(target, count=48, assembly=3)
    assert totals.failures == []
    assert (totals.conversions, totals.wrong, totals.races, totals.left, totals.excess) == (48, 0, 0, 0, 0)
    assert totals.ok and totals.assembled and totals.shared
    assert totals.assembled_conversions == 16 * totals.assembled < totals.conversions
    moved = {"registers", "shuffle", "warp-shared", "cta-shared"}
    assert moved <= {kind for kind, count in totals.kinds.items() if count >= 3}


def test_all_kinds_of_pairs_are_drawn() -> None:
    groups = random_pairs(SEED, 800, 32)
    pairs = [pair for _, group in groups for pair in group]
    assert [warps for warps, _ in groups] == [1, 2, 4, 8]
    assert {pair.element for pair in pairs} == set(ELEMENTS)
    families = Counter(pair.family for pair in pairs)
    assert families["encodings"] > 100
    scopes = ("fresh", "registers", "warp", "cta")
    kinds = ("general", "permutation") if installed_release() in SUMS_OF_BITS else ("permutation",)
    drawn = {f"{kind} {scope}" for kind in kinds for scope in scopes}
    assert set(families) == drawn | {"encodings"}
    assert min(families[family] for family in drawn) > 10
    linear = [pair for pair in pairs if pair.family != "encodings"]
    bases = [int(n) for pair in linear for n in re.findall(r"\d+", pair.source.partition("<")[2])]
    assert any(n & (n - 1) for n in bases) == (installed_release() in SUMS_OF_BITS)
    sides = [(pair.source, pair.destination) for pair in pairs if pair.family.startswith("permutation")]
    for side in (0, 1):
        for place in ("register", "lane", "warp"):
            zero = rf"{place} = \[[^=]*\[0(?:, 0)*\]"
            assert any(re.search(zero, pair[side]) for pair in sides), f"no zero column in {place}"
    encodings = {name for pair in pairs for name in re.findall(r"#ttg\.(\w+)<", pair.source)}
    assert {"linear", "blocked", "slice", "nvidia_mma", "dot_op"} <= encodings


def _swap_outputs(plan: plans.Plan) -> plans.Plan:
    """A plan that puts two different registers into each other's places."""
    outputs: list[Any]
    if isinstance(plan, RegisterPlan):
        outputs = list(plan.sources)
    elif isinstance(plan, ShufflePlan | SharedPlan):
        outputs = list(plan.outputs)
    else:
        return plan
    other = next((i for i, place in enumerate(outputs) if place != outputs[0]), 0)
    outputs[0], outputs[other] = outputs[other], outputs[0]
    if isinstance(plan, RegisterPlan):
        return replace(plan, sources=tuple(outputs))
    return replace(plan, outputs=tuple(outputs))


def _run_broken(monkeypatch: pytest.MonkeyPatch, change: Any, text_change: Any = lambda code: code) -> Totals:
    break_code(monkeypatch, text_change, change)
    return fuzz_singles("cuda:90", count=10)


def test_registers_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = _run_broken(monkeypatch, _swap_outputs)
    assert totals.wrong > 4 and not totals.ok
    assert any("should hold element" in failure.message for failure in totals.failures)


def test_a_missing_barrier_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_barriers(code: str) -> str:
        return re.sub(r"^ *(gpu\.barrier|nvvm\.bar\.warp\.sync).*\n", "", code, flags=re.MULTILINE)

    totals = _run_broken(monkeypatch, lambda plan: plan, without_barriers)
    assert totals.races > 1 and not totals.ok


def test_an_access_above_the_minimum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "least_wavefronts", lambda kind, width, target, warps: 0)
    totals = fuzz_singles("cuda:90", count=16)
    assert totals.shared and totals.excess >= totals.shared and not totals.ok


def test_a_conversion_taken_for_a_no_op_is_found() -> None:
    pair = Pair(
        (32,),
        "f32",
        "#ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>",
        "#ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>",
        "by hand",
    )
    layouts = [judged.drawn_layout(pair, text) for text in (pair.source, pair.destination)]
    assert judged.moves_nothing(layouts[0], layouts[0], 32, 1)
    assert not judged.moves_nothing(layouts[0], layouts[1], 32, 1)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(("target", "lanes"), [("hip:gfx942", 64), ("cuda:90", 32)])
def test_assembly_has_every_register_of_both_ends(target: str, lanes: int, element: str) -> None:
    """A conversion between two registers of each of the lanes."""
    size = 2 * lanes
    bits = [[1 << bit] for bit in range(size.bit_length() - 1)]
    pair = Pair(
        (size,),
        element,
        f"#ttg.linear<{{register = {bits[:1]}, lane = {bits[1:]}, warp = [], block = []}}>",
        f"#ttg.linear<{{register = {bits[1:2]}, lane = {bits[:1] + bits[2:]}, warp = [], block = []}}>",
        "by hand",
    )
    text = module_text([pair], 1, lanes, target, assembled=True)
    assert "tt.store" not in text and "tt.call" not in text
    kernel = lower(to_triton(text), target, judged.ASSEMBLED["amd" if lanes == 64 else "nvidia"])
    code = kernel.text("amdgcn" if lanes == 64 else "ptx")
    assert (code.count("// source"), code.count("// result")) == (2, 2)


def test_units_follow_from_the_seed() -> None:
    plan = FuzzPlan("hip:gfx950", SEED, 120)
    found = list(units(plan))
    assert found == list(units(plan))
    assert len({unit.name for unit in found}) == len(found)
    assert {unit.kind for unit in found} == {SINGLES, PROGRAMS}
    # A longer run begins with the same modules, and so does one of programs alone.
    longer = list(units(replace(plan, count=240)))
    assert longer[: len(found) - 1] == found[:-1]
    programs = list(units(replace(plan, kinds=(PROGRAMS,))))
    common = [unit for unit in found if unit.kind == PROGRAMS]
    assert programs[: len(common)] == common
    other = list(units(replace(plan, seed=SEED + 1)))
    assert not {unit.programs for unit in other} & {unit.programs for unit in found}


class Played:
    """Processes in which some conversions are the end of it."""

    def __init__(self, ours: str, stock: str = "") -> None:
        self.lost = {run.examine: ours, run.stock: stock}

    def __call__(self, function: Any, unit: run.Unit) -> Any:
        deadly = any(program.element == "f64" for program in unit.programs)
        if deadly and self.lost[function]:
            return Lost(self.lost[function])
        return Totals(modules=1, conversions=run.conversions(unit))


def unit_with_one_f64(kind: str) -> run.Unit:
    (unit,) = units(FuzzPlan("cuda:90", SEED, 16, kinds=(SINGLES,)))
    elements = ["f64", "i32", "i32", "f32"] if kind == SINGLES else ["f64"]
    programs = [replace(p, element=e) for p, e in zip(unit.programs, elements, strict=False)]
    return replace(unit, kind=kind, programs=tuple(programs))


def test_a_crash_is_laid_at_one_door() -> None:
    found = run.outcome(unit_with_one_f64(SINGLES), Played("ended by SIGABRT: Assertion `x'"))
    assert (found.conversions, found.broken) == (4, 1)
    (failure,) = found.failures
    assert failure.kind == "crash" and failure.program.element == "f64"
    assert "Assertion `x'; stock Triton alone does not" in failure.message
    found = run.outcome(unit_with_one_f64(SINGLES), Played("took more than 60 s", "ended by SIGABRT"))
    (failure,) = found.failures
    assert failure.kind == "slow" and "stock Triton alone fails too: ended by SIGABRT" in failure.message


def test_what_llvm_cannot_assemble_is_judged_without() -> None:
    unit = replace(unit_with_one_f64(PROGRAMS), kind=SINGLES, assembled=True)

    def call(function: Any, one: run.Unit) -> Any:
        return Lost("ended by SIGABRT") if one.assembled else Totals(modules=1, conversions=1)

    found = run.outcome(unit, call)
    assert found.ok and found.conversions == 1
    assert dict(found.stock) == {"not assembled: ended by SIGABRT": 1}


def test_a_program_that_stock_triton_fails_on_is_counted_apart() -> None:
    found = run.outcome(unit_with_one_f64(PROGRAMS), Played("ended by SIGABRT", "ended by SIGSEGV"))
    assert found.ok and found.conversions == 0
    assert dict(found.stock) == {"ended by SIGSEGV": 1}
    found = run.outcome(unit_with_one_f64(PROGRAMS), Played("ended by SIGABRT"))
    assert not found.ok and [failure.kind for failure in found.failures] == ["crash"]
