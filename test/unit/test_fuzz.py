"""Random layout pairs through the whole road; and the fuzzer finds what is broken on purpose."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from triton_linear.lowering import embed
from triton_linear.lowering.plan import Plan, RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.tools import fuzz as fuzzer
from triton_linear.tools.errors import ToolError
from triton_linear.tools.random_layouts import ELEMENTS, Pair, module_text, random_pairs

SEED = 20


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_random_pairs_are_lowered_right(target: str) -> None:
    totals = fuzzer.fuzz(target, count=120, seed=SEED, assembly=8)
    assert totals.failures == []
    assert (totals.conversions, totals.wrong, totals.races, totals.left, totals.excess) == (120, 0, 0, 0, 0)
    assert totals.ok and totals.assembled and totals.wide
    moved = {"registers", "shuffle", "warp-shared", "cta-shared"}
    assert moved <= {kind for kind, count in totals.kinds.items() if count >= 3}


def test_the_same_seed_gives_the_same_pairs() -> None:
    assert random_pairs(SEED, 50, 32) == random_pairs(SEED, 50, 32)
    assert random_pairs(SEED, 50, 32) != random_pairs(SEED + 1, 50, 32)


def test_all_kinds_of_pairs_are_drawn() -> None:
    groups = random_pairs(SEED, 800, 32)
    pairs = [pair for _, group in groups for pair in group]
    assert [warps for warps, _ in groups] == [1, 2, 4, 8]
    assert {pair.element for pair in pairs} == set(ELEMENTS)
    families = Counter(pair.family for pair in pairs)
    assert families["encodings"] > 100
    scopes = ("fresh", "registers", "warp", "cta")
    assert min(families[f"{kind} {scope}"] for kind in ("general", "permutation") for scope in scopes) > 10
    general = [pair for pair in pairs if pair.family.startswith("general")]
    bases = [int(n) for pair in general for n in re.findall(r"\d+", pair.source.partition("<")[2])]
    assert any(n & (n - 1) for n in bases)
    sides = [(pair.source, pair.destination) for pair in pairs if pair.family.startswith("permutation")]
    for side in (0, 1):
        for place in ("register", "lane", "warp"):
            zero = rf"{place} = \[[^=]*\[0(?:, 0)*\]"
            assert any(re.search(zero, pair[side]) for pair in sides), f"no zero column in {place}"
    kinds = {kind for pair in pairs for kind in re.findall(r"#ttg\.(\w+)<", pair.source)}
    assert {"linear", "blocked", "slice", "nvidia_mma", "dot_op"} <= kinds


def _swap_outputs(plan: Plan) -> Plan:
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


def _run_broken(monkeypatch: pytest.MonkeyPatch, change: Any, text_change: Any = None) -> fuzzer.Totals:
    stock = embed._code

    def broken(plan: Any, signature: Any, target: Any) -> tuple[str, str]:
        code, result = stock(change(plan), signature, target)
        return (text_change(code) if text_change else code), result

    monkeypatch.setattr(embed, "_code", broken)
    return fuzzer.fuzz("cuda:90", count=32, seed=SEED, assembly=0)


def test_registers_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = _run_broken(monkeypatch, _swap_outputs)
    assert totals.wrong > 10 and not totals.ok
    assert any("should hold element" in failure for failure in totals.failures)


def test_a_wrong_address_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = _run_broken(monkeypatch, lambda plan: plan, lambda code: code.replace("llvm.xor", "llvm.or"))
    assert totals.wrong > 0 and not totals.ok


def test_a_missing_barrier_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_barriers(code: str) -> str:
        return re.sub(r"^ *(gpu\.barrier|nvvm\.bar\.warp\.sync).*\n", "", code, flags=re.MULTILINE)

    totals = _run_broken(monkeypatch, lambda plan: plan, without_barriers)
    assert totals.races > 3 and not totals.ok


def test_an_access_above_the_minimum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzer, "least_wavefronts", lambda width, compilation: 0)
    totals = fuzzer.fuzz("cuda:90", count=64, seed=SEED, assembly=0)
    assert totals.wide and totals.excess >= totals.wide and not totals.ok


def test_a_conversion_taken_for_a_no_op_is_found() -> None:
    pair = Pair(
        (32,),
        "f32",
        "#ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>",
        "#ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>",
        "by hand",
    )
    layouts = [fuzzer.drawn_layout(pair, text) for text in (pair.source, pair.destination)]
    assert fuzzer.moves_nothing(layouts[0], layouts[0], 32, 1)
    assert not fuzzer.moves_nothing(layouts[0], layouts[1], 32, 1)


def test_results_are_stored_in_modules_for_assembly() -> None:
    ((warps, pairs),) = random_pairs(SEED, 1, 64)
    text = module_text(pairs, warps, 64, "hip:gfx942", stored=True)
    assert "tt.store" in text and "tt.call" not in text


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(ToolError, match="unknown target 'cuda:1'"):
        fuzzer.fuzz("cuda:1", 1, 1, 0)
