"""The bench of all configurations that Inductor tries, without a GPU: what is asked for, and what is told."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench import configurations, configurations_report  # noqa: E402
from bench.harness import turns  # noqa: E402
from bench.kernels import alternatives, inductor, measure, modes, run  # noqa: E402
from bench.kernels.cases import by_name  # noqa: E402

A, B, C = (f"XBLOCK={size} warps=2 stages=1" for size in (1, 8, 32))


def entry(config: str, stock: float, ours: float, free: float = 1.0, **more: Any) -> dict[str, Any]:
    """What is found of a configuration that takes so many microseconds."""
    found: dict[str, Any] = {"config": config, "chosen": False, "added": False}
    for mode, took in ((modes.OURS, ours), (modes.FREE, free)):
        times = {modes.STOCK: [stock / 1e3] * 7, mode: [took / 1e3] * 7}
        facts = {side: {"spilled": 0} for side in times}
        found[mode] = {"errors": {}, "facts": facts, "fell_back": [], "times": times}
        found[mode]["summary"] = turns.summary(times, 1)
    found[modes.OURS] |= {"result": "identical", "apart": 0.0}
    return found | more


def report_of(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    kernel = {"name": "triton_per_fused_sum_0", "configs": list(entries)}
    facts = {"device": "a GPU", "target": "cuda:90", "torch": "2.11.0"}
    known = {**run.heading(facts), "turns": 7, "seconds": 3.0, "not_run": [], "unfit": []}
    return known | {"cases": [{"name": "row_sum_small", "kernels": [kernel]}]} | more


# What is asked for.


def test_a_configuration_reads_as_it_prints() -> None:
    for name in (A, "warps=4 stages=3", "YBLOCK=16 XBLOCK=64 R0_BLOCK=8 warps=8 stages=1"):
        sizes, warps, stages = inductor.parse_config(name)
        config = SimpleNamespace(kwargs=sizes, num_warps=warps, num_stages=stages)
        assert inductor.config_name(config) == name
    for wrong in ("", "XBLOCK=8", "XBLOCK=8 warps=2", "XBLOCK warps=2 stages=1", "X=a warps=2 stages=1"):
        with pytest.raises(ValueError, match="configuration"):
            inductor.parse_config(wrong)
    with pytest.raises(ValueError, match="'XBLOCK=9' is not a new"):
        inductor.parse_config("XBLOCK=8 XBLOCK=9 warps=2 stages=1")


def test_what_is_added_is_for_a_case_or_for_all() -> None:
    assert configurations.also("  XBLOCK=8  warps=2 stages=1") == ("", B)
    assert configurations.also(f"row_sum_small:{B}") == ("row_sum_small", B)
    for wrong, why in (
        ("row_sum_tiny: " + B, "no case 'row_sum_tiny'"),
        ("add_transposed: " + B, "no case"),  # Written by hand: Inductor has no part in it.
        ("XBLOCK=8", "lacks warps"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=why):
            configurations.also(wrong)
    options = configurations.parse(["--also", A, "--also", f"column_sum: {B}"])
    assert options.also == [("", A), ("column_sum", B)]


def test_it_is_added_once_to_kernels_whose_sizes_have_its_names() -> None:
    one, two = {"configs": [A, B]}, {"configs": ["XBLOCK=64 R0_BLOCK=8 warps=4 stages=1"]}
    added = [("", C), ("column_sum", A), ("", B), ("", "R0_BLOCK=16 XBLOCK=64 warps=4 stages=1")]
    assert configurations.extended(one, "row_sum_small", added) == [A, B, C]
    assert configurations.extended(two, "row_sum_small", added) == [
        *two["configs"],
        "XBLOCK=64 R0_BLOCK=16 warps=4 stages=1",
    ]
    cases = report_of(entry(A, 1, 1), entry(C, 1, 1))["cases"]
    assert configurations.unfit(cases, added) == [
        f"column_sum: {A}",
        B,
        "R0_BLOCK=16 XBLOCK=64 warps=4 stages=1",
    ]


def test_a_configuration_that_breaks_the_process_is_found_and_costs_no_other() -> None:
    asked = []

    def ask(places: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
        asked.append(len(places))
        if (0, "bad") in places:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return [{"place": place} for place in places]

    places = [(0, name) for name in ("a", "b", "bad", "c", "d", "e")]
    found = configurations.answers(ask, places)
    assert [answer.get("place") for answer in found] == [*places[:2], None, *places[3:]]
    assert "illegal memory access" in found[2]["error"]
    assert asked == [6, 3, 1, 2, 1, 1, 3]


KERNELS = [{"name": "k", "chosen": B, "configs": [A, B]}, {"name": "l", "chosen": A, "configs": [A]}]


def told(mode: str, places: Sequence[Any]) -> list[dict[str, Any]]:
    made = [entry(config, 4.0, 2.0)[mode] for _, config in places]
    return [{key: value for key, value in answer.items() if key != "summary"} for answer in made]


def test_garbage_is_asked_for_last_with_what_stock_chose() -> None:
    asked = []

    def ask(function: Any, name: str, *rest: Any) -> Any:
        if function is alternatives.kernels:
            return KERNELS
        mode, places, chosen, _ = rest
        asked.append((mode, list(places), chosen))
        return told(mode, places)

    record = configurations.measured(by_name("row_sum_small"), measure.Effort(), [("", C)], ask)
    places = [(0, A), (0, B), (0, C), (1, A), (1, C)]
    assert asked == [("ours", places, [B, A]), ("free", places, [B, A])]
    marks = [[(e["chosen"], e["added"]) for e in kernel["configs"]] for kernel in record["kernels"]]
    assert marks == [[(False, False), (True, False), (False, True)], [(True, False), (False, True)]]
    assert record["kernels"][0]["configs"][0]["ours"]["summary"]["ours"]["ratio"] == [2.0, 2.0, 2.0]


# What is told.


def test_the_best_are_compared_and_not_one_configuration() -> None:
    """Ours is faster in each configuration than stock in the same, but stock's best is as fast as any."""
    entries = [entry(A, stock=10, ours=5, free=8), entry(B, stock=4, ours=3.9), entry(C, stock=3, ours=4)]
    found = configurations_report.best(entries, modes.OURS)
    assert found is not None and found["configs"] == {"stock": C, "ours": B}
    assert found["microseconds"] == {"stock": 3.0, "ours": 3.9}
    assert found["ratio"] == [round(3 / 3.9, 5)] * 3
    line = configurations_report.best_line(entries)
    assert line.startswith(f"best stock / best ours = 0.769 (0.769 to 0.769): 3.00 µs ({C}) / 3.90 µs ({B})")
    assert f"best stock / best free = 3.000 (3.000 to 3.000): 3.00 µs ({C}) / 1.00 µs ({B})" in line


def test_ratios_of_the_best_are_of_one_turn() -> None:
    """A GPU that slows down during the run must not show."""
    one, other = entry(A, 1, 1), entry(B, 2, 2)
    for found, factor in ((one, 1.0), (other, 2.0)):
        slowing = [factor * (1 + turn) for turn in range(7)]
        found["ours"]["times"] = {"stock": slowing, "ours": [0.5 * took for took in slowing]}
    best = configurations_report.best([other, one], modes.OURS)
    assert best is not None and best["ratio"] == [2.0, 2.0, 2.0] and best["configs"]["ours"] == A


def test_what_is_wrong_or_spills_is_not_the_best() -> None:
    wrong, spills, right = (entry(config, 4, took) for config, took in ((A, 1), (B, 2), (C, 3)))
    wrong["ours"] |= {"result": "WRONG", "apart": 0.5}
    spills["ours"]["facts"]["ours"]["spilled"] = 100
    found = configurations_report.best([wrong, spills, right], modes.OURS)
    assert found is not None and found["configs"]["ours"] == C
    assert configurations_report.best([wrong], modes.OURS) is None
    assert configurations_report.at_fault(wrong) and not configurations_report.at_fault(spills)
    assert "best of ours: none" in configurations_report.best_line([wrong])


def test_losses_stand_next_to_wins() -> None:
    entries = [entry(A, 4, 5), entry(B, 4, 2, chosen=True), entry(C, 3, 1, added=True)]
    text = configurations_report.markdown(report_of(*entries, not_run=["column_sum"], unfit=["XBLOCK=9"]))
    assert (
        f"same configuration: 3, geometric mean 1.687; below 0.98: row_sum_small/0 {A} (0.800); above 1.02: "
        f"row_sum_small/0 {B} (2.000), row_sum_small/0 {C} (3.000)" in text
    )
    assert "a kernel: 1, geometric mean 2.000; below 0.98: none; above 1.02: row_sum_small/0 (2.000)" in text
    assert "`triton_per_fused_sum_0`: best stock / best ours = 2.000" in text
    assert "With those added: best stock / best ours = 3.000 (3.000 to 3.000): 3.00 µs" in text
    rows = [line for line in text.splitlines() if line.startswith("| XBLOCK")]
    assert rows[0].startswith(f"| {C}, **added** | 3.00 | 3.000 (3.000 to 3.000) |")
    assert rows[1] == f"| {A} | 4.00 | 0.800 (0.800 to 0.800) | 4.000 (4.000 to 4.000) | identical |"
    assert rows[2].startswith(f"| {B}, **chosen** | 4.00 | 2.000")
    assert "Not run for want of time: column_sum." in text
    assert "To no kernel here could be added: XBLOCK=9." in text


def test_failures_are_told_and_whose_they_are() -> None:
    nothing = {"facts": {}, "fell_back": [], "times": {}, "summary": {}}
    none = nothing | {"errors": {"stock": "OutOfResources: shared memory"}}
    both = entry(A, 1, 1) | {"ours": none, "free": none}
    crash = entry(B, 2, 1) | {"free": {"error": "RuntimeError: CUDA error: illegal", "summary": {}}}
    ours = entry(C, 3, 1)
    ours["ours"] = nothing | {"errors": {"ours": "ValueError: no plan"}}
    fell = entry("XBLOCK=2 warps=2 stages=1", 4, 1)
    fell["ours"] |= {"fell_back": ["k: no plan"]}
    text = configurations_report.markdown(report_of(both, crash, ours, fell))
    assert text.count(f"- {A}: stock: OutOfResources: shared memory") == 1
    assert f"- {B}: free, or stock beside it: RuntimeError: CUDA error: illegal" in text
    assert f"- {C}: ours: ValueError: no plan" in text and "ours: fell back: k: no plan" in text
    rows = [line for line in text.splitlines() if line.startswith("| XBLOCK")]
    assert rows[0].startswith(f"| {B} | 2.00 | 2.000") and rows[0].endswith("| failed | identical |")
    assert rows[1].startswith(f"| {C} | 3.00 | failed | 3.000")
    assert rows[3] == f"| {A} | failed | failed | failed |  |"
    faults = [configurations_report.at_fault(found) for found in (both, crash, ours, fell)]
    assert faults == [False, False, True, True]
    failed = report_of(cases=[{"name": "column_sum", "kernels": [], "error": "OOM"}])
    assert "## column_sum\n\nFailed: OOM" in configurations_report.markdown(failed)


# The command.


class FakeChild:
    """A process in which everything takes a second, and the plugin is wrong where it is told to be."""

    now = 0.0
    verdict = "identical"

    def __init__(self, start: Any) -> None:
        self.facts = {"device": "a GPU", "target": "cuda:90", "torch": "2.11.0"}

    def ask(self, function: Any, *arguments: Any) -> Any:
        FakeChild.now += 1
        if function is alternatives.kernels:
            return KERNELS
        if function is alternatives.run:
            _, mode, places, *_ = arguments
            return [answer | {"result": self.verdict, "apart": 0.5} for answer in told(mode, places)]
        return None

    def begin(self, program: str) -> dict[str, Any]:
        self.ask(None)
        return self.facts

    def close(self) -> None:
        pass


def test_a_run_ends_in_its_budget_and_a_wrong_result_is_its_status(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(configurations, "Child", FakeChild)
    monkeypatch.setattr(time, "perf_counter", lambda: FakeChild.now)
    arguments = ["--only", "^(row_sum_small|column_sum|add_transposed)$", "--output", str(tmp_path)]
    assert configurations.main([*arguments, "--budget", "3", "--also", f"column_sum: {C}"]) == 0
    report = json.loads((tmp_path / "configurations.json").read_text())
    assert [record["name"] for record in report["cases"]] == ["row_sum_small"]
    assert report["not_run"] == ["column_sum"] and report["unfit"] == [f"column_sum: {C}"]
    assert (tmp_path / "configurations.md").read_text() == capsys.readouterr().out
    monkeypatch.setattr(FakeChild, "verdict", "WRONG")
    assert configurations.main(arguments) == 1
    with pytest.raises(SystemExit, match=r"matches .*add_transposed"):
        configurations.main(["--only", "^add_transposed$"])
