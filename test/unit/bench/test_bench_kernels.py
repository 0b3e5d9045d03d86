"""The suite of whole kernels, without a GPU: statistics, tables, and runs that are joined."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from bench.harness.statistics import geometric_mean, interval
from bench.harness.turns import summary
from bench.kernels import run
from bench.kernels.case import TORCH
from bench.kernels.report import problems, total_line


def timing(ratio: float, **more: Any) -> dict[str, Any]:
    return {"microseconds": 10 / ratio, "ratio": [ratio - 0.01, ratio, ratio + 0.01], **more}


def record(name: str, **ratios: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "stock": {"microseconds": 10.0, "kernels": [{"name": "k", "conversions": 2}], "fell_back": []}
    }
    for mode, ratio in ratios.items():
        found[mode] = timing(ratio, result="identical", apart=0.0, deterministic=True, fell_back=[])
    if "ours" in found:
        found["ours"]["conversions"] = {"cta-shared": 1, "folded": 1}
    return {"name": name, "group": "g", "kind": TORCH, "modes": found, "calls": 4, "seconds": {}}


def report_of(*records: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "device": "a GPU",
        "target": "cuda:90",
        "date": "2026-01-01",
        "triton": "3.6.0",
        "triton_linear": "0.1.0",
        "torch": "2.11.0",
        "modes": ["stock", "ours", "lower"],
        "pinned": True,
        "seconds": 12.0,
        "not_run": [],
        "cases": list(records),
        **more,
    }


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    draw = random.Random(0)
    held = 0
    for _ in range(2000):
        low, middle, high = interval([draw.gauss(0, 1) for _ in range(40)])
        assert low <= middle <= high
        held += low <= 0 <= high
    assert 0.94 < held / 2000 < 0.985


def test_ratios_are_of_one_turn() -> None:
    """A GPU that slows down during the run must not show in the ratio."""
    times = {"stock": [1.0 + turn for turn in range(9)], "ours": [0.5 + turn / 2 for turn in range(9)]}
    found = summary(times, calls=10)
    assert found["ours"]["ratio"] == [2.0, 2.0, 2.0]
    assert found["stock"] == {"microseconds": 500.0}
    assert summary({}, 1) == {}


def test_means_are_over_what_is_there() -> None:
    assert geometric_mean([]) is None and geometric_mean([2.0, None, 0.5]) == pytest.approx(1.0)


def test_every_failure_is_told() -> None:
    assert problems(record("good", ours=1.1, again=1.0)) == []
    bad = record("bad", ours=1.1, lower=1.0)
    bad["modes"]["ours"] |= {"result": "WRONG", "apart": 0.5, "deterministic": False}
    bad["modes"]["lower"] |= {"fell_back": ["k: no"]}
    bad["modes"]["assign"] = {"error": "RuntimeError: CUDA error: fault"}
    found = problems(bad)
    assert len(found) == 4
    assert "ours: wrong results, apart by 0.5" in found and "ours: two runs differ" in found
    assert "assign: RuntimeError: CUDA error: fault" in found
    assert "wrong results" in total_line(bad)
    shapeless = record("bad", ours=1.0)
    shapeless["modes"]["ours"] |= {"result": "WRONG", "why": "1 results, not 2"}
    assert problems(shapeless) == ["ours: wrong results, 1 results, not 2"]


def test_a_wrong_result_is_the_exit_status(tmp_path: Path) -> None:
    wrong = record("a", ours=1.1)
    wrong["modes"]["ours"]["result"] = "WRONG"
    (tmp_path / "in.json").write_text(json.dumps(report_of(wrong)))
    assert run.main(["--join", str(tmp_path / "in.json"), "--output", str(tmp_path)]) == 1
