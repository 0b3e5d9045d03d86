"""The kernels of the paper's table of reductions, and what is counted in them."""

from __future__ import annotations

import doctest
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.paper import reductions, reductions_old, reductions_report
from bench.paper.reductions_kernel import ARGMAX, NEW, OLD, Case, kernel
from triton_linear.tools.support import functions

ROOT = Path(__file__).parents[3]


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


# What Triton 3.0.0 makes of them.


def test_the_record_of_triton_3_0_is_of_these_cases() -> None:
    before = reductions_report.old()
    assert before["triton"] == "3.0.0" and before["target"] == reductions.TARGET
    assert list(before["cases"]) == [case.key for case in reductions.cases()]
    able = {case.kind for case in reductions.cases() if "error" not in before["cases"][case.key]}
    assert able == {"blocked", "mma", "slice of blocked", "slice of mma"}


def test_it_is_read_by_a_python_that_has_nothing_of_this_project() -> None:
    names = ("numpy", "triton_linear", "torch")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({names})); import bench.paper.reductions_old as old"
    )
    program += "; print(len(old.cases()))"
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True, text=True
    )
    assert found.stdout == "440\n"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_compiler_that_aborts_costs_one_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = chosen("mma", alone=True)
    monkeypatch.setattr(reductions_old, "ptx_of", lambda *_: "st.shared.b32 [%r1], %r2;")
    assert reductions_old.apart(case, tmp_path)["instructions"] == 1

    def fails(*_: Any) -> str:
        os.write(2, b'remark: of no use\nloc("/tmp/x/k.ttgir":3:4): error: unknown attribute\n')
        raise RuntimeError("it did not parse")

    monkeypatch.setattr(reductions_old, "ptx_of", fails)
    assert reductions_old.apart(case, tmp_path) == {"error": "error: unknown attribute"}
    monkeypatch.setattr(reductions_old, "ptx_of", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert reductions_old.apart(case, tmp_path) == {"error": "the compiler ends with SIGKILL"}


# The report.


def test_the_docstrings() -> None:
    assert doctest.testmod(reductions_report) == doctest.TestResults(failed=0, attempted=2)


def made(instructions: int, right: bool = True) -> dict[str, Any]:
    return {"instructions": instructions, "kinds": {}, "shuffles": 0, "barriers": 2, "right": right}


def records(ours: int) -> dict[str, Any]:
    return {case.key: {"ours": made(ours), "stock": made(20)} for case in reductions.cases()}


def rows(markdown: str, start: str) -> list[str]:
    return [line for line in markdown.splitlines() if line.startswith(f"| {start} |")]


def test_the_report_has_a_row_for_each_kind_and_operation() -> None:
    found = reductions.TABLE.report(records(1))
    assert rows(found.markdown, "mma") == [
        "| mma | 80 | 80 | 80 | 80 | 20/20 | 20/20 |",
        "| mma | sum | 20 | 248 | 400 | 20 | 12.40 | 20.00 | 40 | 40 |",
        "| mma | argmax | 20 | 496 | 400 | 20 | 24.80 | 20.00 | 40 | 40 |",
        "| mma | sum | 20 | 1899 | 400 | 20 | 94.95 | 20.00 | 40 | 40 |",
        "| mma | argmax | 20 | 3798 | 400 | 20 | 189.90 | 20.00 | 40 | 40 |",
        "| mma | 5914 / 3517 | 1.68 | 18.60 | 142.43 |",
    ]
    assert rows(found.markdown, "custom linear")[:2] == [
        "| custom linear | 80 | 80 | 80 | 0 | 0/10 | 10/10 |",
        "| custom linear | sum | 20 | none compiles | 400 | 20 |  | 20.00 | 40 | 40 |",
    ]
    assert found.shortfalls == []


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


def test_a_report_of_nothing_is_none_of_success() -> None:
    assert reductions.TABLE.report({}).shortfalls == ["440 of 440 cases have not run"]
