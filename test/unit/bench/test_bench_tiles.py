"""The bench of a matmul in many tile sizes, without a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import tiles
from bench.kernels import beside


def test_every_tile_is_there_once_and_divides_its_matrix() -> None:
    found = list(tiles.cases())
    assert len({name for name, _, _ in found}) == len(found) > 50
    for _, described, kernel in found:
        (m, n, k), (bm, bn, bk) = described["size"], described["block"]
        assert m % bm == n % bn == k % bk == 0
        assert kernel.grid == (m // bm * (n // bn),)


def test_the_best_is_the_best_of_each_side_and_losers_are_in_the_table() -> None:
    def row(stock: float, ours: float, warps: int) -> dict[str, object]:
        return {
            "size": [4096, 4096, 1024],
            "block": [64, 64, 64],
            "warps": warps,
            "stages": 3,
            "microseconds": stock,
            "ratio": {mode: [ours, ours, ours] for mode in tiles.MODES},
            "registers": {"stock": 136, "ours": 128},
            "identical": warps == 4,
        }

    facts = {"device": "X", "triton": "3.6.0", "triton_linear": "0", "date": "today"}
    text = tiles.markdown({**facts, "cases": [row(100.0, 0.9, 4), row(120.0, 2.0, 8)]})
    assert "best of stock 100.0 µs (64x64x64, 4 warps, 3 stages), best of ours 60.0 µs" in text
    assert "8 warps, 3 stages): 1.667" in text
    assert "| ours | 2 | 1.342 | 0.900 | 2.000 | 1 | 1 |" in text
    assert text.count("DIFFER") == 1


def test_a_case_that_fails_or_differs_is_the_exit_status_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a GPU on which nothing runs: times are given."""
    asked: list[str] = []

    def measured(name: str, kernel: Any, ways: Any, turns: int) -> tuple[dict[str, Any], Any, Any]:
        asked.append(name)
        if len(asked) == 2:
            raise ValueError("no shared memory")
        facts = {way: {"kernels": [{"registers": 128, "spilled": 0}]} for way in ("stock", *ways)}
        record = {"identical": len(asked) != 3, "microseconds": 10.0, "fell_back": []}
        return record, {way: {"ratio": [0.9, 1.0, 1.1]} for way in ways}, facts

    gpu = SimpleNamespace(cuda=SimpleNamespace(get_device_name=lambda: "a GPU"))
    monkeypatch.setitem(sys.modules, "torch", gpu)
    monkeypatch.setattr(beside, "measured", measured)
    arguments = ["--output", str(tmp_path), "--only", "^4096x4096x1024, 64x128x64"]
    assert tiles.main(arguments) == 1
    report = json.loads((tmp_path / "tiles.json").read_text())
    assert report["device"] == "a GPU" and len(report["cases"]) == len(asked) - 1 >= 2
    assert [case["identical"] for case in report["cases"]].count(False) == 1
    assert report["cases"][0]["registers"] == {"stock": 128, "ours": 128, "layouts": 128, "bound": 128}
    printed = capsys.readouterr()
    assert "ValueError: no shared memory" in printed.err and printed.out.count("DIFFER") == 1
    assert tiles.main([*arguments, "--budget", "-1"]) == 0
    assert "Not run for want of time: " in capsys.readouterr().out
