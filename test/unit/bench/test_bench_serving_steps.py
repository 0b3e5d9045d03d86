"""The bench of servers' steps, without a GPU and without PyTorch: what is run, and what its page says."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.foreign import compiled, packages, report
from bench.foreign import run as foreign
from bench.serving import packages as of_servers
from bench.serving import steps, steps_measure, steps_report


@pytest.mark.parametrize("module", [report, packages, of_servers, steps_report])
def test_docstrings_say_what_is_so(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def row(name: str, ratio: float = 1.25, result: str = "identical", **more: Any) -> dict[str, Any]:
    stock = {"attention": 300.0, "gemm": 900.0}
    return {
        "key": name,
        "kernel": name,
        "launches": {"attention": 2},
        "microseconds": 1200.0,
        "ratio": [ratio - 0.01, ratio, ratio + 0.01],
        "result": result,
        "beside": {"exact": {"result": "identical", "ratio": [1.0, 1.0, 1.0]}},
        "profile": {"stock": stock, "ours": {"attention": 60.0, "gemm": 900.0}},
    } | more


class Child:
    """A process with a GPU that says of each step what it is told to."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.said, self.closed = said, 0

    def ask(self, function: Any, suite: Any, name: str, *arguments: Any) -> dict[str, Any]:
        if function is compiled.run:
            return {"case": name, "target": arguments[0], "kernels": [{"kernel": "k", "stock": {}, "ours": {}}]}
        assert function is steps_measure.run
        found = self.said[name]
        if isinstance(found, str):
            raise RuntimeError(found)
        return {"kernels": [found]}

    def close(self) -> None:
        self.closed += 1


def test_each_step_has_a_process_and_the_page_says_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third, fourth = steps.STEPS.cases()[:4]
    said = {
        first.name: row(first.name),
        second.name: row(second.name, 0.9, "WRONG", apart=0.5),
        third.name: row(third.name, profile={}, profile_error="no profiler here"),
        fourth.name: "CUDA error: lost",
    }
    monkeypatch.setattr(foreign, "_torch_version", lambda: "2")
    options = foreign.parse(steps.STEPS, ["--output", str(tmp_path), "--jobs", "1"])
    run = steps.Run(steps.STEPS, options)
    run.report |= {"device": "X"}
    child = Child(said)
    run.compile_all([first, second, third, fourth], lambda: SimpleNamespace(ask=child.ask, close=lambda: None))
    run.measure_all([child])
    assert child.closed == 4
    written = json.loads((tmp_path / "serving-steps.json").read_text())
    assert written["cases"][0]["step"] == {"tokens": 64, "layers": 2, "of_layers": 24}
    page = (tmp_path / "serving-steps.md").read_text()
    # 64 tokens, 12 times 1200 and 960 us for all layers; a quarter of 1200 us is Triton's.
    figures = "2 of 24 | 2 | 1200.0 | 960.0 | 1.250 (1.240 to 1.260) | 25% | 4,444 | 5,556 | identical"
    assert f"| {first.name} | {figures} |" in page
    assert "1 surely below 0.98" in page
    assert "| `attention` | 2 | 300.0 | 60.0 | 5.00 |" in page
    assert f"- {second.name}: WRONG 0.5" in page
    assert "No profile: no profiler here" in page
    assert f"- {fourth.name}: RuntimeError: CUDA error: lost" in page
    assert len(foreign.wrong(run.report)) == 1
    joined = foreign.join("serving.steps", [tmp_path / "serving-steps.json"])
    assert steps_report.markdown(joined) == page
