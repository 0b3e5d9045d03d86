"""The paper's table of reductions: cases that are right, results that are not, and what is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench import whole_kernels as functions
from bench.paper import reductions
from bench.paper.reductions_kernel import ARGMAX, Case, kernel


def chosen(kind: str, alone: bool, operation: str = ARGMAX) -> Case:
    return next(
        case
        for case in reductions.cases()
        if (case.kind, case.alone, case.operation, case.shape) == (kind, alone, operation, (16, 16))
        and case.axis == 1
    )


@pytest.mark.parametrize("kind", reductions.PAPER)
def test_a_case_of_each_kind(kind: str) -> None:
    for alone in (False, True):
        record = json.loads(json.dumps(reductions.run(chosen(kind, alone))))
        assert record.keys() == {"ours", "stock"} and record["ours"]["right"]
        assert record["ours"]["instructions"] == sum(record["ours"]["kinds"].values())


def test_results_that_are_not_right_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    case = chosen("blocked", alone=True)
    lowered = functions.lower_kernel(kernel(case), "k.ttgir", None, None)
    assert reductions.is_right(case, lowered)
    real = functions.registers_of
    calls: list[Any] = []

    def another(tensors: Any, *rest: Any) -> Any:
        calls.append(tensors)
        return real(tensors + (len(calls) == 1), *rest)

    monkeypatch.setattr(functions, "registers_of", another)
    assert not reductions.is_right(case, lowered)
