"""bench.autotuned: what it offers to autotuners, and how it reports. Nothing is launched."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from bench import autotuned
from bench.harness.turns import STOCK


def test_every_case_has_configurations_to_choose_from() -> None:
    for case in autotuned.TUNED:
        configs = case.tuner().configs
        assert len({str(config) for config in configs}) == len(configs) > 1
        sizes = [{**config.all_kwargs(), **case.fixed} for config in configs]
        assert all(min(case.grid(chosen)) > 0 for chosen in sizes), case.name
        given = {*case.inputs, *case.outputs, *case.numbers, *case.fixed, *case.sizes}
        assert given == set(case.function.arg_names), case.name


def test_the_page_has_losers_and_failures() -> None:
    times = {mode: {"microseconds": 10.0, "ratio": [0.9, 0.95, 0.97]} for mode in autotuned.COMPARED}
    row = {
        "case": "matmul",
        "by": "triton.autotune",
        "choices": {mode: ["BLOCK=64 warps=4 stages=3"] for mode in autotuned.MODES},
        "times": {**times, STOCK: {"microseconds": 10.0}},
        "close": False,
    }
    heading = {"device": "GPU", "date": "today", "triton": "3.9.0", "triton_linear": "0.1.0"}
    page = autotuned.markdown({**heading, "cases": [row], "failed": ["softmax: it broke"]})
    assert "| autotune=True | 1 | 0.950 | 0.950 | 0.950 | 1 | 0 |" in page
    assert "- matmul" in page and "- softmax: it broke" in page
