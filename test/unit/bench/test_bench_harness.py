"""What all benches are made of: budgets, turns, processes that break, and files."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.harness import report, results
from bench.harness.cases import Run
from bench.harness.child import Child, scatter
from bench.harness.turns import in_turns


@dataclass(frozen=True)
class Case:
    name: str


CASES = [Case(name) for name in ("one", "two", "three")]


def test_a_run_saves_each_record_and_ends_in_its_budget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    saved: list[int] = []
    run = Run(lambda made: saved.append(len(made["cases"])), budget=1.5)
    run.heading({"device": "a GPU"})
    for case in run.each(CASES):
        clock[0] += 1
        run.add({"name": case.name}, f"{case.name}: 1.000")
    assert saved == [1, 2] and run.report["not_run"] == ["three"] and run.report["seconds"] == 2.0
    assert next(iter(run.report)) == "device" and run.late() and not run.late(share=2.0)
    assert capsys.readouterr().err == "1/3 one: 1.000 [1 s]\n2/3 two: 1.000 [2 s]\n"


def test_every_way_runs_once_a_turn() -> None:
    order: list[str] = []
    runs = {name: lambda name=name: order.append(name) or len(order) for name in "ab"}
    assert in_turns(runs, 3) == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert order == list("ababab")


def ready(value: int) -> dict[str, Any]:
    return {"value": value, "process": os.getpid()}


def call(kind: str) -> dict[str, Any]:
    if kind == "crash":
        os._exit(3)
    if kind == "hang":
        time.sleep(60)
    if kind == "raise":
        raise ValueError("bad")
    return {"value": kind}


def test_a_crash_or_a_hang_costs_one_call() -> None:
    asked = ["a", "crash", "b", "raise", "hang", "c", "d"]
    found: dict[int, Any] = {}
    scatter(call, [(kind,) for kind in asked], 2, found.__setitem__, patience=6.0)
    assert sorted(found) == list(range(7))
    assert [found[k]["value"] for k in (0, 2, 5, 6)] == ["a", "b", "c", "d"]
    assert "crashed" in found[1]["error"] and "6 s" in found[4]["error"] and "bad" in found[3]["error"]


def test_a_child_is_started_once_and_replaced_when_it_is_broken() -> None:
    child = Child(ready, 3)
    try:
        assert child.ask(call, "a") == {"value": "a"} and child.facts["value"] == 3
        with pytest.raises(ValueError, match="bad"):
            child.ask(call, "raise")
        first = child.facts["process"]
        assert child.ask(os.getpid) == first and child.starts == 1
        with pytest.raises(Exception, match="terminated"):
            child.ask(call, "crash")
        assert child.ask(os.getpid) != first and child.starts == 2
    finally:
        child.close()


def test_a_result_is_written_with_what_it_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.publish(tmp_path / "new", "made", lambda made: report.page("# Page", made["date"]), figure=3)
    made = json.loads((tmp_path / "new" / "made.json").read_text())
    assert made["figure"] == 3 and made.keys() >= {"date", "triton", "triton_linear", "python", "machine"}
    assert (tmp_path / "new" / "made.md").read_text() == capsys.readouterr().out == f"# Page\n{made['date']}\n"
    assert Counter(path.suffix for path in (tmp_path / "new").iterdir()) == {".json": 1, ".md": 1}
