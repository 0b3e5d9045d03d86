"""The table of gathers, without a GPU."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from triton_linear import pipeline
from triton_linear.examples.spec import gpu_target
from triton_linear.report import FallbackWarning

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from paper_no_gpu import no_gpu  # noqa: E402

from bench.kernels import modes  # noqa: E402
from bench.paper import gather, gather_report  # noqa: E402
from bench.paper.gather import Gather  # noqa: E402

SMALL = Gather("float32", 2, 1)

# The cases.


def test_every_size_of_every_element_is_there_once_and_in_a_chain() -> None:
    found = gather.cases()
    assert len({case.key for case in found}) == len(found) == len(gather.ELEMENTS) * 6 * 2
    assert {case.columns for case in found} == {2, 4, 8, 16, 32, 64}
    for case in found:
        kernel = case.kernel()
        assert kernel.inputs["x_ptr"].shape == (gather.BLOCKS * gather.ROWS, case.columns)
        assert kernel.inputs["index_ptr"].below == case.columns


def test_cases_are_declared_without_pytorch() -> None:
    program = "import sys; sys.modules['torch'] = None; from bench.paper.gather import TABLE"
    program += "; TABLE.cases()[0].work()"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_what_is_expected_is_the_gather_of_gathers() -> None:
    torch = pytest.importorskip("torch")
    given = {"x_ptr": torch.tensor([[5.0, 6.0, 7.0]]), "index_ptr": torch.tensor([[1, 2, 0]])}
    twice = Gather("float32", 4, 2).work().reference(torch, given)
    assert twice["out_ptr"].tolist() == [[7.0, 5.0, 6.0]]


# What is compiled.


@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "hip:gfx942"])
def test_cases_compile_and_short_rows_are_gathered_inside_the_lane(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    by_name = {case.key: case.kernel() for case in gather.cases()}
    gpu = gpu_target(target)
    for name in ("[512, 2] float32, once", "[512, 4] float32, chain"):
        stock = gather.compiled(by_name[name], gpu, modes.STOCK)
        ours = gather.compiled(by_name[name], gpu, modes.LOWER)
        assert stock["gathers"] == ours["failed"] == []
        assert [lowering for lowering, _ in ours["gathers"]] == ["gather"]
        assert stock["shuffles"] > 0 < stock["barriers"]
    once = gather.compiled(by_name["[512, 2] float32, once"], gpu, modes.LOWER)
    assert all(once[key] == 0 for key in (*gather.INSTRUCTIONS, "shared"))


def test_the_command_counts_and_fails_where_a_kernel_falls_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    arguments = ["--target", "cuda:90", "--only", r", 2\] float32, once"]
    assert gather.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[4] for line in lines] == ["stock", "ours"]
    monkeypatch.setattr(pipeline, "prepare", mock.Mock(side_effect=ValueError("no plan")))
    with pytest.warns(FallbackWarning, match="no plan"):
        assert gather.main(arguments) == 1


# The run, on a GPU that is not there.


def test_a_run_loads_what_was_prepared_and_says_what_became_of_the_gather(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with no_gpu(tmp_path):
        assert gather.prepare(SMALL) == {}
        cached = {path.name for path in tmp_path.iterdir()}
        record = gather.run(SMALL)
        assert {path.name for path in tmp_path.iterdir()} == cached
    assert (record["element"], record["columns"], record["times"]) == ("float32", 2, 1)
    found = record["modes"]
    assert found.keys() == {"stock", "ours", "again"}
    assert found["stock"]["gathers"] == []
    assert [lowering for lowering, _ in found["ours"]["gathers"]] == ["gather"]
    assert record["ratios"].keys() == {"stock/ours", "stock/again"}
    # Nothing was computed: the same bits in every mode, and not those of the reference.
    assert found["ours"]["result"] == "identical" and found["ours"]["reference"] == "WRONG"


def test_what_was_not_prepared_has_its_gather_too(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with no_gpu(tmp_path):
        record = gather.run(SMALL)
    assert [lowering for lowering, _ in record["modes"]["ours"]["gathers"]] == ["gather"]


# The report.


def test_the_docstrings() -> None:
    assert doctest.testmod(gather_report) == doctest.TestResults(failed=0, attempted=2)


def record(case: Gather, ours: float, legacy: float | None, **more: Any) -> dict[str, Any]:
    def ratio(value: float) -> list[float]:
        return [value - 0.02, value, value + 0.02]

    def mode(lowering: str, detail: str = "", shared: int = 0) -> dict[str, Any]:
        return {
            "microseconds": 100.0,
            "result": "identical",
            "fell_back": [],
            "gathers": [[lowering, detail]],
            "kernels": [{"registers": 32, "shared": shared}],
        }

    ratios = {"stock/ours": ratio(ours), "stock/again": ratio(1.0)}
    if legacy is not None:
        ratios |= {"legacy/ours": ratio(legacy), "legacy/stock": ratio(legacy / ours)}
    return {
        "element": case.element,
        "columns": case.columns,
        "times": case.times,
        "modes": {
            "stock": mode("", shared=2048),
            "ours": mode("gather", "gather: 2 shuffles, 1 select, 0 permutes"),
            "legacy": mode("gather-legacy", shared=4096),
        },
        "ratios": ratios,
        "fell_back": [] if legacy is not None else ["gather_rows: no plan"],
        **more,
    }


def records(ours: float, legacy: float) -> dict[str, Any]:
    return {case.key: record(case, ours, legacy) for case in gather.cases()}


def test_the_report_has_a_row_for_each_case() -> None:
    part = gather.TABLE.report(records(2.0, 6.0))
    ratios = "2.00 (1.98 to 2.02) | 6.00 (5.98 to 6.02) | 3.00 (2.98 to 3.02)"
    for k, times in (("2", "once"), ("64", f"chain of {gather.CHAIN}")):
        row = f"| {k} | {times} | 100.0 | {ratios} | shuffles | 32, 32, 32 | 2048, 0, 4096 | yes |"
        assert part.markdown.count(row) == len(gather.ELEMENTS)
    assert all(f"\n{element}:\n" in part.markdown for element in gather.ELEMENTS)
    assert part.shortfalls == []


def test_the_best_and_the_worst_are_told_and_what_falls_short() -> None:
    given = records(2.0, 3.0)
    slow, wide, bad, left = gather.cases()[:4]
    given[slow.key] = record(slow, 0.9, 4.5)
    given[wide.key] = record(wide, 0.99, 2.0)  # Within its interval.
    given[bad.key]["modes"]["ours"]["result"] = "within tolerance"
    given[left.key] = record(left, 1.5, None)
    last, gone = [case.key for case in gather.cases()[-2:]]
    given[last] = {"error": "CUDA error"}
    del given[gone]
    part = gather.TABLE.report(given)
    assert f"stock/ours: 2.00 at best ({max(set(given) - {last, left.key})}), 0.90 at worst" in part.markdown
    assert f"legacy/ours: 4.50 at best ({slow.key}), 2.00 at worst ({wide.key})" in part.markdown
    assert "| no baseline | no baseline | shuffles |" in part.markdown
    assert "| 2048, 0, 4096 | NO |" in part.markdown
    assert part.shortfalls == [
        f"{slow.key}: stock/ours 0.900 (0.880 to 0.920), shuffles; stock/again 1.000 (0.980 to 1.020)",
        f"legacy/ours is 4.50 at best ({slow.key}), where the paper has 14.20",
        f"{last}: CUDA error",
        f"{bad.key}, ours: not the bits of stock Triton",
        f"{left.key}: legacy is no baseline: gather_rows: no plan",
        "1 of 36 cases have not run",
    ]


def test_the_figure_has_a_line_for_each_element_ratio_and_kernel() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    part = gather.TABLE.report(records(2.0, 6.0))
    assert part.figure is not None
    part.figure(axes)
    assert len(axes.lines) == 3 * 2 * 2 + 2
    assert list(axes.lines[0].get_xdata()) == list(gather.COLUMNS)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    nothing = gather.TABLE.report({})
    assert nothing.shortfalls == ["36 of 36 cases have not run"]
    nothing.figure(Figure().subplots())  # type: ignore[misc]
