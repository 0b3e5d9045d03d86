"""The benches of what the plugin itself takes: operations of the algebra, and phases of a compile."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from bench import algebra, pass_time
from triton_linear import report


def test_every_operation_runs_and_two_do_the_same_new_and_again() -> None:
    results = {name: call() for name, call in algebra.operations().items()}
    assert results["invert_and_compose, new"] == results["invert_and_compose, again"]


def test_phases_of_a_module_add_up_to_no_more_than_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "time", report.time)  # a sample changes the clock of its process
    ((_, phases),) = pass_time.sample([pass_time.WARM_UP.with_name("bn_nhwc-1.ttgir")]).items()
    assert phases["passes"] > 0 and sum(phases.values()) <= 2.001 * phases[pass_time.TOTAL]
    row = {"group": "g", "modules": 1, "milliseconds": [phases, phases], "median": 1.0, "worst": ["m", 1.0]}
    assert any("| 1.000 | 1.0 | m 1 |" in line for line in pass_time.tables([row]))
