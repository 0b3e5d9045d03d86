"""The kernels of the paper's table of reductions, and what is counted in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.paper import reductions
from bench.paper.reductions_kernel import ARGMAX, NEW, OLD, Case, kernel

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "reductions.json"


@pytest.fixture(autouse=True)
def no_old_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "TRITON_300", "/nowhere/python")


def chosen(kind: str, alone: bool, operation: str = ARGMAX) -> Case:
    return next(
        case
        for case in reductions.cases()
        if (case.kind, case.alone, case.operation, case.shape) == (kind, alone, operation, (16, 16))
        and case.axis == 1
    )


def test_every_kind_shape_axis_and_operation_is_there() -> None:
    cases = reductions.cases()
    assert len({case.key for case in cases}) == len(cases) == 440
    for kind, claimed in reductions.PAPER.items():
        mine = [case for case in cases if case.kind == kind]
        assert len({(c.shape, c.axis, c.operation, c.alone) for c in mine}) == 40
        assert len(mine) // 4 in (int(claimed["linear"].split("/")[1]), 20)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", reductions.PAPER)
def test_a_case_of_each_kind(kind: str) -> None:
    for alone in (False, True):
        record = json.loads(json.dumps(reductions.run(chosen(kind, alone))))
        assert record["ours"]["right"] and "triton 3.0.0" not in record
        assert record["ours"]["instructions"] == sum(record["ours"]["kinds"].values())


def test_results_that_are_not_right_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    case = chosen("blocked", alone=True)
    lowered = reductions.lower_kernel(kernel(case), "k.ttgir", None, ours=False)
    assert reductions.is_right(case, lowered)
    real = reductions.registers_of
    calls: list[Any] = []

    def another(tensors: Any, *rest: Any) -> Any:
        calls.append(tensors)
        return real(tensors + (len(calls) == 1), *rest)

    monkeypatch.setattr(reductions, "registers_of", another)
    assert not reductions.is_right(case, lowered)


def test_instructions_are_counted() -> None:
    lines = "st.shared.v4.b32 [%r1], {%r2};", "ld.shared.b32 %r1, [%r2];", "shfl.sync.bfly.b32 %r1;"
    others = "bar.sync 0;", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1};", "st.global.b32 [%rd1], %r1;"
    assert reductions.figures("\n".join((*lines, *others))) == {
        "instructions": 3,
        "kinds": {"ld.shared": 1, "ldmatrix": 1, "st.shared": 1},
        "shuffles": 1,
        "barriers": 1,
    }


def test_the_old_syntax() -> None:
    text = kernel(chosen("mma", alone=False), OLD)
    assert "#triton_gpu.nvidia_mma<" in text and "= triton_gpu.convert_layout" in text and "ttg." not in text
    assert "}) {axis = 1 : i32} :" in text and "}) {axis" not in kernel(chosen("mma", alone=False), NEW)


def test_totals_are_of_what_was_measured() -> None:
    records = json.loads(RESULTS.read_text())["records"]
    assert [record["key"] for record in records] == [case.key for case in reductions.cases()]
    assert all(record["ours"]["right"] for record in records)
    alone = [record for record in records if record["alone"] and record["operation"] == "sum"]
    totals = reductions.totals(alone)
    assert {kind: entry["ours"]["cases"] for kind, entry in totals.items()}["blocked"] == 20
    for kind, entry in totals.items():
        assert entry["ours"]["instructions"] < entry["stock"]["instructions"], kind
