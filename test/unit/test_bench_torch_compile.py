"""The check of torch.compile notices each thing that it is there for, without a GPU."""

from __future__ import annotations

import copy
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "torch_compile_check.py"
spec = importlib.util.spec_from_file_location("torch_compile_check", BENCH)
assert spec is not None and spec.loader is not None
check: Any = importlib.util.module_from_spec(spec)
sys.modules["torch_compile_check"] = check
spec.loader.exec_module(check)


def phase(lane: Any, setting: str, first: bool) -> dict[str, Any]:
    """One as it should be: kernels A and B are stock's, C and D ours; B and D lost when they were autotuned."""
    on = setting != "stock"
    in_process = on and first and lane.threads == 1
    return {
        "setting": setting,
        "kernels": [["softmax", "C" if on else "A"]],
        "made": (["C", "D"] if on else ["A", "B"]) if first else [],
        "wrong": [],
        "reports": ["1", "2"] if in_process else [],
        "ours": int(in_process),
        "graph hits": int(not first),
        "graph misses": int(first),
        "parallel": lane.threads > 1,
    }


def good() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for lane in (*check.ANCHORS, *check.LANES):
        names = [name for names in lane.phases for name in names]
        seen: set[bool] = set()
        found[lane.name] = []
        for name in names:
            found[lane.name].append(phase(lane, name, (name != "stock") not in seen))
            seen.add(name != "stock")
    return found


def test_all_is_well() -> None:
    assert check.judge(good()) == []


@pytest.mark.parametrize(
    ("lane", "at", "change", "failure"),
    [
        ("in process", 1, {"kernels": [["softmax", "A"]]}, "1 kernels of the other setting"),
        ("workers", 2, {"kernels": [["softmax", "D"]]}, "1 kernels of the other setting"),
        ("workers", 2, {"kernels": [["softmax", "E"]]}, "kernels of neither setting: softmax"),
        ("workers", 0, {"kernels": []}, "no kernel was launched"),
        ("in process", 0, {"wrong": ["row sums"]}, "wrong results: row sums"),
        ("in process", 2, {"reports": ["1"]}, "the plugin compiled"),
        ("in process", 3, {"graph hits": 0}, "its caches did not serve it"),
        ("in process", 3, {"made": ["C"]}, "its caches did not serve it"),
        ("in process", 3, {"reports": ["1"]}, "its caches did not serve it"),
        ("in process", 1, {"graph hits": 1}, "served from a cache of the other setting"),
        ("in process", 1, {"made": []}, "served from a cache of the other setting"),
        ("workers", 1, {"parallel": False}, "workers compiled nothing"),
        ("workers", 1, {"reports": ["1", "2"]}, "workers compiled nothing"),
        ("toggling, workers", 4, {"error": "crashed"}, "crashed"),
        ("only plugin", 0, {"ours": 0}, "the plugin converted nothing"),
        ("only plugin", 0, {"made": ["A"]}, "not apart to begin with"),
    ],
)
def test_each_fault_is_told(lane: str, at: int, change: dict[str, Any], failure: str) -> None:
    found = copy.deepcopy(good())
    found[lane][at].update(change)
    assert any(failure in text for text in check.judge(found))


def test_a_lane_that_ends_early_is_told() -> None:
    found = good()
    found["workers"].pop()
    assert check.judge(found) == ["workers: not every phase ran"]


def test_without_torch_it_says_why_and_what_it_would_run(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, BENCH, "--dry"], capture_output=True, text=True, check=True)
    assert done.stdout.count("--process") == sum(len(lane.phases) for lane in (*check.ANCHORS, *check.LANES))
    if importlib.util.find_spec("torch") is None:
        command = [sys.executable, BENCH, "--output", tmp_path / "none"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "skipped: PyTorch is not installed\n"
        assert not (tmp_path / "none").exists()
