"""The paper's table of reductions: cases that are right, results that are not, and what is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.paper import reductions
from bench.paper.reductions_kernel import ARGMAX, Case, kernel
from triton_linear.tools.support import functions


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


def made(instructions: int, right: bool = True) -> dict[str, Any]:
    return {"instructions": instructions, "kinds": {}, "shuffles": 0, "barriers": 2, "right": right}


def records(ours: int) -> dict[str, Any]:
    return {case.key: {"ours": made(ours), "stock": made(20)} for case in reductions.cases()}


def rows(markdown: str, start: str) -> list[str]:
    return [line for line in markdown.splitlines() if line.startswith(f"| {start} |")]


def test_what_is_wrong_or_less_than_the_papers_is_told() -> None:
    given = records(30)
    keys = list(given)
    given[keys[0]]["ours"]["right"] = False
    given[keys[1]]["ours"] = {"error": "no plan"}
    given[keys[2]] = {"error": "the process crashed"}
    del given[keys[3]]
    found = reductions.TABLE.report(given)
    assert [line for line in found.shortfalls if "blocked, " not in line] == [
        f"{keys[0]}: the result is not right",
        f"{keys[1]}: no plan",
        f"{keys[2]}: the process crashed",
        next(line for line in found.shortfalls if line.startswith("mma, by itself: 3.0.0 has 0.62 times")),
        next(line for line in found.shortfalls if line.startswith("437 of 438 cases have more")),
        "1 of 440 cases have not run",
    ]
    assert rows(found.markdown, "blocked")[0].startswith("| blocked | 78 | 76 | 78 | 78 |")
