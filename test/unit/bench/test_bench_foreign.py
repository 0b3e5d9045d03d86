"""The bench of other packages' kernels, without a GPU, without PyTorch and without the packages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.foreign import measure, report, run
from bench.foreign.suite import FOREIGN


def row(kernel: str = "p.q.kernel", key: str = "a", **more: Any) -> dict[str, Any]:
    made = {"kernel": kernel, "key": key, "stock": {"seconds": 2.0, "shared": 64}}
    ours = {"seen": 3, "ours": 1, "noop": 0, "folded": 1, "left": {"a mask": 1}, "seconds": 3.0, "shared": 32}
    return made | {"ours": ours} | more


def measured(key: str = "a", ratio: float = 1.5, result: str = "identical") -> dict[str, Any]:
    facts = {mode: {"registers": 40} for mode in ("stock", "ours")}
    return {
        "key": key,
        "kernel": "p.q.kernel",
        "ratio": [ratio - 0.1, ratio, ratio + 0.1],
        "microseconds": 7.0,
        "facts": facts,
        "result": result,
    }


def whole(*records: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "triton": "3",
        "torch": "2",
        "triton_linear": "0",
        "date": "today",
        "seconds": 1.0,
        "targets": ["cuda:90"],
        "packages": [{"name": "p", "version": "1"}],
        "cases": list(records),
        "not_run": [],
    } | more


def record(*rows: dict[str, Any], case: str = "p: one", **more: Any) -> dict[str, Any]:
    return {"case": case, "package": "p", "target": "cuda:90", "kernels": list(rows)} | more


def test_a_specialisation_counts_once_with_the_report_of_whoever_compiled_it() -> None:
    cached = row(ours={"cached": True, "seconds": 0.1})
    rows = report.rows_of([record(cached), record(row(), row(key="b"), case="p: two")])
    assert [(each["key"], each["case"], each["ours"].get("seen")) for each in rows] == [
        ("a", "p: one", 3),
        ("b", "p: two", 3),
    ]
    assert report.totals(rows) == {
        "kernels": 1,
        "specialisations": 2,
        "with_conversions": 2,
        "seen": 6,
        "ours": 2,
        "noop": 0,
        "folded": 2,
        "left": 2,
        "stock_errors": 0,
        "failures": 0,
        "compile_ratio": 1.5,
        "compile_median": 1.5,
    }


def test_what_a_cache_had_tells_nothing_of_compile_time() -> None:
    assert report.compile_ratio(row()) == 1.5
    assert report.compile_ratio(row(ours={"cached": True, "seconds": 0.1})) is None
    assert report.compile_ratio(row(ours={"error": "no"})) is None


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (row(ours={"error": "LookupError: tripped"}), "tripped"),
        (row(measured=measured(result="WRONG") | {"apart": 0.5}), "WRONG 0.5"),
        (row(measured={"key": "a", "error": "OutOfResources: shared"}), "on the GPU: OutOfResources"),
    ],
)
def test_failures_of_the_plugin_are_failures(bad: dict[str, Any], said: str) -> None:
    (found,) = report.failures([row(), bad])
    assert said in found


@pytest.mark.parametrize("result", ["identical", "within tolerance", "varies"])
def test_what_stock_triton_does_wrong_is_no_failure_of_the_plugin(result: str) -> None:
    assert not report.failures([row(measured=measured(result=result)), {"kernel": "k", "stock_error": "no"}])


def test_two_reports_are_joined_and_the_later_one_counts(tmp_path: Path) -> None:
    first = whole(record(row()), record(error="late", case="p: two"), not_run=["p: two", "p: three"])
    for name, made in (("a", first), ("b", whole(record(row(key="b"), case="p: two")))):
        (tmp_path / name).write_text(json.dumps(made))
    joined = run.join("foreign", [tmp_path / "a", tmp_path / "b"])
    assert [(each["case"], len(each["kernels"])) for each in joined["cases"]] == [("p: one", 1), ("p: two", 1)]
    assert joined["not_run"] == ["p: three"]
    (tmp_path / "c").write_text(json.dumps(whole(triton="4")))
    with pytest.raises(SystemExit, match="triton is 4 in one report and 3 in another"):
        run.join("foreign", [tmp_path / "a", tmp_path / "c"])


@pytest.mark.parametrize(
    ("ours", "noise", "expected"),
    [
        ({"result": "identical"}, 0.0, "identical"),
        ({"result": "within tolerance", "apart": 1e-6}, 0.0, "within tolerance"),
        ({"result": "WRONG", "apart": 0.5}, 0.0, "WRONG"),
        ({"result": "within tolerance", "apart": 1e-6}, 1e-7, "varies"),
        ({"result": "WRONG", "apart": 0.5}, 0.2, "varies"),
        ({"result": "WRONG", "apart": 0.5}, 0.1, "WRONG"),
        ({"result": "WRONG", "why": "not finite in other places"}, 0.1, "WRONG"),
    ],
)
def test_what_stock_triton_does_twice_says_what_the_order_of_atomics_decides(
    monkeypatch: pytest.MonkeyPatch, ours: dict[str, Any], noise: float, expected: str
) -> None:
    again = {"result": "within tolerance", "apart": noise} if noise else {"result": "identical", "apart": 0.0}
    results = {name: [SimpleNamespace(dtype="torch.float32", of=name)] for name in ("stock", "again", "ours")}
    monkeypatch.setattr(
        measure.kernels, "compare", lambda case, want, got: dict(ours if got[0].of == "ours" else again)
    )
    assert measure.verdict(results["stock"], results["again"], results["ours"])["result"] == expected


@pytest.mark.parametrize(
    ("types", "said", "expected"),
    [
        (("float32", "bfloat16", "int64"), None, 1.6e-2),
        (("float32", "float32"), None, 1e-5),
        (("int32",), None, 0.0),
        (("bfloat16",), 1e-3, 1e-3),
    ],
)
def test_a_kernel_of_narrow_floats_rounds_to_them_whatever_it_stores(
    monkeypatch: pytest.MonkeyPatch, types: Sequence[str], said: float | None, expected: float
) -> None:
    allowed: list[float | None] = []

    def compare(case: Any, want: Any, got: Any) -> dict[str, Any]:
        allowed.append(case.tolerance)
        return {"result": "identical", "apart": 0.0}

    monkeypatch.setattr(measure.kernels, "compare", compare)
    given = [SimpleNamespace(dtype=f"torch.{name}") for name in types]
    measure.verdict(given, given, given, said)
    assert allowed == [expected, expected]


def test_other_modes_are_measured_beside_ours() -> None:
    """A table has them, with what computed something else; kernels without conversions do not count."""

    def row(seen: int, ratio: float, result: str) -> dict[str, Any]:
        beside = {"decided": {"ratio": [ratio, ratio, ratio], "result": result, "facts": {}}}
        times = {"ratio": [1.0, 1.0, 1.0], "microseconds": 900.0, "result": "identical", "beside": beside}
        return {"ours": {"seen": seen}, "measured": times}

    lines = report._beside([row(1, 1.2, "identical"), row(1, 0.9, "WRONG"), row(0, 9.0, "identical")])
    assert lines[-3] == "| decided | 2 | 1.039 | 0.900 | 1.200 | 1 | 1 | 1 | 1.800 | 1.750 | 1 |"
    assert lines[-1] == "Results of decided, over all launches: 1 WRONG, 2 identical."
    assert report._beside([]) == []
    wrong = row(1, 1.0, "WRONG") | {"kernel": "k"}
    assert report.failures([wrong]) == ["k: decided: WRONG None"]
    rounded = {"result": "identical", "beside": {"exact": {"result": "within tolerance", "apart": 1e-6}}}
    assert report.failures([{"kernel": "k", "measured": rounded}]) == ["k: exact: within tolerance 1e-06"]
    options = run.parse(FOREIGN, ["--beside", "variant-latency,decided"])
    assert options.beside == ("decided", "variant-latency")
