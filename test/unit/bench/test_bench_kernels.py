"""The suite of whole kernels, without a GPU: cases, statistics, tables, processes."""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from triton_linear.examples import attention, specs
from triton_linear.examples.spec import gpu_target

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench.harness.statistics import geometric_mean, interval, share_taken  # noqa: E402
from bench.harness.turns import summary  # noqa: E402
from bench.kernels import cases_torch, cases_torch_moves, cases_triton, dry, measure, modes, run  # noqa: E402
from bench.kernels.case import GLUON, TORCH, TRITON, Case  # noqa: E402
from bench.kernels.cases import by_name, cases  # noqa: E402
from bench.kernels.kernel import Kernel, Tensor  # noqa: E402
from bench.kernels.report import (  # noqa: E402
    by_headroom,
    losers,
    markdown,
    problems,
    share,
    total_line,
    totals,
    winners,
)


def timing(ratio: float, **more: Any) -> dict[str, Any]:
    return {"microseconds": 10 / ratio, "ratio": [ratio - 0.01, ratio, ratio + 0.01], **more}


def record(name: str, **ratios: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "stock": {"microseconds": 10.0, "kernels": [{"name": "k", "conversions": 2}], "fell_back": []}
    }
    for mode, ratio in ratios.items():
        found[mode] = timing(ratio, result="identical", apart=0.0, deterministic=True, fell_back=[])
    if "ours" in found:
        found["ours"]["conversions"] = {"cta-shared": 1, "folded": 1}
    return {"name": name, "group": "g", "kind": TORCH, "modes": found, "calls": 4, "seconds": {}}


def report_of(*records: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "device": "a GPU",
        "target": "cuda:90",
        "date": "2026-01-01",
        "triton": "3.6.0",
        "triton_linear": "0.1.0",
        "torch": "2.11.0",
        "modes": ["stock", "ours", "free"],
        "pinned": True,
        "seconds": 12.0,
        "not_run": [],
        "cases": list(records),
        **more,
    }


# The cases.


def test_there_are_enough_cases_of_every_kind() -> None:
    names = [case.name for case in cases()]
    lists = [module.CASES for module in (cases_torch, cases_torch_moves, cases_triton)]
    assert len(names) == sum(map(len, lists)) >= 40
    assert all(name.replace("_", "").isalnum() for name in names)
    kinds = [case.kind for case in cases()]
    assert kinds.count(TORCH) >= 40 and kinds.count(TRITON) >= 12 and kinds.count(GLUON) >= 2
    assert all((case.sources is None) == (case.kind == TORCH) for case in cases())
    assert by_name(names[3]) is cases()[3]


def test_every_example_is_measured_at_several_sizes() -> None:
    """The launches of each example's kernel, by the source that they share."""
    target = gpu_target("cuda:90")
    kernels = Counter(name for case in cases() if case.sources for name in case.sources(target))
    assert all(kernels[spec.name] >= 3 for spec in specs(target))


def test_a_kernel_compiles_without_a_gpu_and_its_conversions_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert (
        run.main(["--dry", "cuda:90", "--only", "^(gluon_row_norms|add_transposed)$", "--dump", str(tmp_path)])
        == 0
    )
    printed = capsys.readouterr().out
    assert "add_transposed" in printed and "gluon_row_norms" in printed
    assert printed.count("stock 1 conversions; ours {'cta-shared': 1}") == 2
    assert "ttg.convert_layout" in (tmp_path / "add_transposed-add_transposed-stock.ttgir").read_text()


def test_a_kernel_that_does_not_compile_fails_the_dry_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise ValueError("no such layout")

    monkeypatch.setattr(dry.triton, "compile", fails)
    assert run.main(["--dry", "cuda:90", "--only", "^add_transposed$"]) == 1
    assert "no such layout" in capsys.readouterr().out


def test_arguments_are_specialised_as_a_launch_would() -> None:
    source = by_name("matmul_int8_bf16").sources(None)["matmul_int8_bf16"][0]
    names = source.fn.arg_names
    assert source.constants[(names.index("stride_ak"),)] == 1
    assert source.attrs[(names.index("stride_am"),)] == [["tt.divisibility", 16]]
    assert "stride_ak" not in [names[place] for (place,) in source.attrs]
    assert source.signature["a_ptr"] == "*i8" and source.signature["stride_bk"] == "i32"


def test_a_float_is_neither_aligned_nor_a_constant() -> None:
    kernel = Kernel(
        attention.attention_forward,
        {name: Tensor("float16", (64,)) for name in ("q_ptr", "k_ptr", "v_ptr")},
        {"out_ptr": Tensor("float16", (64,)), "lse_ptr": Tensor("float32", (1,))},
        (1,),
        {"scale": 1.0, "heads": 1, "length": 48},
    )
    source = kernel.source()
    names = source.fn.arg_names
    assert source.signature["scale"] == "fp32"
    assert source.constants == {(names.index("heads"),): 1}
    assert [names[place] for (place,) in source.attrs] == [*names[:5], "length"]


# Statistics.


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    draw = random.Random(0)
    held = 0
    for _ in range(2000):
        low, middle, high = interval([draw.gauss(0, 1) for _ in range(40)])
        assert low <= middle <= high
        held += low <= 0 <= high
    assert 0.94 < held / 2000 < 0.985


def test_an_interval_is_no_wider_than_it_must_be() -> None:
    low, middle, high = interval(range(40))
    assert middle == statistics.median(range(40)) == 19.5
    # Of 40 fair coins, under 13 fall heads with 0.8 %, under 14 with 1.9 %, under 15 with 4 %.
    assert (low, high) == (13, 26)
    assert interval([3.0]) == (3.0, 3.0, 3.0)
    assert interval([1, 2]) == (1, 1.5, 2)
    with pytest.raises(ValueError, match="no values"):
        interval([])


def test_ratios_are_of_one_turn() -> None:
    """A GPU that slows down during the run must not show in the ratio."""
    times = {"stock": [1.0 + turn for turn in range(9)], "ours": [0.5 + turn / 2 for turn in range(9)]}
    found = summary(times, calls=10)
    assert found["ours"]["ratio"] == [2.0, 2.0, 2.0]
    assert found["stock"] == {"microseconds": 500.0}
    assert summary({}, 1) == {}


def test_the_share_is_of_time_and_none_without_headroom() -> None:
    assert share_taken(1.0, 2.0) == 0.0
    assert share_taken(2.0, 2.0) == 1.0
    assert share_taken(0.8, 2.0) == pytest.approx(-0.5)
    assert share_taken(1.1, 1.0) is None
    assert geometric_mean([]) is None and geometric_mean([2.0, None, 0.5]) == pytest.approx(1.0)
    assert share(record("a", ours=1.02, free=1.04)) is None
    assert share(record("a", ours=4 / 3, free=2.0)) == pytest.approx(0.5)
    assert share(record("a", ours=1.5)) is None


# The report.


def test_losers_and_winners_are_named() -> None:
    records = [record("slow", ours=0.90), record("slower", ours=0.85), record("same", ours=0.99)]
    records += [record("fast", ours=1.10), record("faster", ours=1.5)]
    assert losers(records) == [("slower", 0.85), ("slow", 0.90)]
    assert winners(records) == [("faster", 1.5), ("fast", 1.10)]
    text = "\n".join(totals(report_of(*records)))
    assert "slower than 0.98 of stock with the plugin: slower (0.850), slow (0.900)" in text
    assert "| ours | 5 | 1.046 |  | 0.850 | 1.500 | 2 | 2 |" in text


def test_the_table_is_sorted_by_headroom_with_failures_first() -> None:
    broken = record("broken", ours=1.0, free=3.0)
    broken["modes"]["lower"] = {"error": "ValueError: no plan"}
    records = [record("little", ours=1.0, free=1.01), record("much", ours=1.5, free=2.0), broken]
    assert [r["name"] for r in by_headroom(records)] == ["broken", "much", "little"]
    text = markdown(report_of(*records))
    assert (
        "| much | 10.0 | 1.500 (1.490 to 1.510) | 2.000 (1.990 to 2.010) | 67% |  | 2: 1 cta-shared, 1 folded |"
        in text
    )
    assert "much (67% of 2.00)" in text and "little (" not in text
    assert "- broken: lower: ValueError: no plan" in text


def test_every_failure_is_told() -> None:
    assert problems(record("good", ours=1.1, again=1.0)) == []
    bad = record("bad", ours=1.1, lower=1.0)
    bad["modes"]["ours"] |= {"result": "WRONG", "apart": 0.5, "deterministic": False}
    bad["modes"]["lower"] |= {"fell_back": ["k: no"]}
    bad["modes"]["free"] = {"error": "RuntimeError: CUDA error: fault"}
    found = problems(bad)
    assert len(found) == 4
    assert "ours: wrong results, apart by 0.5" in found and "ours: two runs differ" in found
    assert "free: RuntimeError: CUDA error: fault" in found
    assert "wrong results" in total_line(bad)
    shapeless = record("bad", ours=1.0)
    shapeless["modes"]["ours"] |= {"result": "WRONG", "why": "1 results, not 2"}
    assert problems(shapeless) == ["ours: wrong results, 1 results, not 2"]


def test_a_mode_that_this_version_lacks_is_told_and_no_failure() -> None:
    lacking = record("a", ours=1.0)
    lacking["modes"]["free"] = {"unavailable": "free: triton-linear 0.1.0 has no option free"}
    assert problems(lacking) == []
    assert "has no option free" in markdown(report_of(lacking))
    assert "Not run for want of time: b, c." in markdown(report_of(lacking, not_run=["b", "c"]))


def test_a_case_without_any_figure_is_in_the_table() -> None:
    failed = {"name": "a", "group": "g", "kind": TORCH, "modes": {"stock": {"error": "OOM"}}, "together": "OOM"}
    text = markdown(report_of(failed))
    assert "| a | failed |" in text and "- a: stock: OOM" in text


# The processes.

CASE = Case("case", "g", TORCH, lambda torch, inputs: (None, ()))  # type: ignore[arg-type, return-value]
EFFORT = measure.Effort()


def answer(wanted: list[str]) -> dict[str, Any]:
    return {"calls": 1, "seconds": {"all": 1.0}, "modes": {mode: timing(1.0) for mode in ("stock", *wanted)}}


def test_garbage_is_asked_for_last_with_the_configurations_of_stock() -> None:
    asked = []

    def ask(function: Any, name: str, wanted: list[str], effort: Any, configs: Any = ()) -> dict[str, Any]:
        asked.append((list(wanted), configs))
        found = answer(wanted)
        found["modes"]["stock"]["configs"] = ["XBLOCK=1"]
        return found

    found = run.measured(CASE, ["stock", "ours", "free"], EFFORT, ask)
    assert asked == [(["ours", "again"], ()), (["free"], ["XBLOCK=1"])]
    assert set(found["modes"]) == {"stock", "ours", "again", "free"}


def test_configurations_come_from_an_earlier_run(tmp_path: Path) -> None:
    asked = []

    def ask(function: Any, name: str, wanted: list[str], effort: Any, configs: Any) -> dict[str, Any]:
        asked.append(configs)
        if len(asked) == 1:
            raise RuntimeError("together they do not run")
        return answer(wanted)

    earlier = record("case", ours=1.0)
    earlier["modes"]["stock"]["configs"] = ["XBLOCK=1 warps=4 stages=1"]
    run.write(report_of(earlier, record("another", ours=1.0)), tmp_path)
    configs = run.configs_of(tmp_path / "kernels.json")
    assert configs == {"case": ["XBLOCK=1 warps=4 stages=1"], "another": []}
    run.measured(CASE, ["stock", "ours"], EFFORT, ask, None, configs["case"])
    assert asked == [configs["case"]] * 4
    assert run.configs_of(None) == {}


def test_a_fault_in_garbage_costs_nothing_else() -> None:
    def ask(function: Any, name: str, wanted: list[str], *rest: Any) -> dict[str, Any]:
        if modes.FREE in wanted:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return answer(wanted)

    found = run.measured(CASE, ["stock", "ours", "free"], EFFORT, ask)
    assert found["modes"]["ours"]["ratio"] and "illegal" in found["modes"]["free"]["error"]
    assert "together" not in found


def test_one_mode_that_breaks_the_process_is_found() -> None:
    def ask(function: Any, name: str, wanted: list[str], *rest: Any) -> dict[str, Any]:
        if "lower" in wanted:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return answer(wanted)

    found = run.measured(CASE, ["stock", "ours", "lower"], EFFORT, ask)
    assert found["modes"]["ours"]["ratio"] and "ratio" not in found["modes"]["lower"]
    assert any("lower: RuntimeError" in line for line in problems(found))


def test_without_stock_nothing_else_is_tried() -> None:
    asked = []

    def ask(function: Any, name: str, wanted: list[str], *rest: Any) -> dict[str, Any]:
        asked.append(list(wanted))
        raise ValueError("does not compile")

    found = run.measured(CASE, ["stock", "ours", "free"], EFFORT, ask)
    assert asked == [["ours", "again"], ["stock"]]
    assert "does not compile" in found["modes"]["stock"]["error"] and "free" not in found["modes"]


class FakeChild:
    """A child that measures nothing, a second a question by the fake clock."""

    def __init__(self, start: Any = None) -> None:
        self.starts = 1
        self.facts = {"device": "a GPU", "target": "cuda:90", "torch": "2.11.0"}

    def ask(self, function: Any, *arguments: Any) -> Any:
        clock[0] += 1
        return answer(arguments[1]) if arguments else None

    def begin(self, program: str) -> dict[str, Any]:
        self.ask(None)
        return self.facts

    def close(self) -> None:
        pass


clock = [0.0]


def test_a_run_ends_in_its_budget_and_names_what_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "Child", FakeChild)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    only = "^(row_sum_8|column_sum_f32|column_sum_int8|sum_middle_bf16|add_transposed)$"
    arguments = ["--only", only, "--modes", "ours", "--budget", "2.5", "--output", str(tmp_path)]
    assert run.main(arguments) == 0
    report = json.loads((tmp_path / "kernels.json").read_text())
    assert [r["name"] for r in report["cases"]] == ["row_sum_8", "column_sum_f32"]
    assert report["not_run"] == ["column_sum_int8", "sum_middle_bf16", "add_transposed"]
    assert report["modes"] == ["stock", "ours"]
    printed = capsys.readouterr()
    assert "Not run for want of time: column_sum_int8" in printed.out
    assert "2/5 column_sum_f32, 10.0 us, ours 1.000" in printed.err
    assert "2 cases, 0 with failures, 3 not run" in printed.err


def test_a_loser_is_measured_again_with_its_inputs_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    rooms = []

    def ask(function: Any, name: str, wanted: Any, effort: measure.Effort, configs: Any) -> dict[str, Any]:
        rooms.append(effort.room)
        if len(rooms) == 3:
            raise ValueError("no room")
        return {"modes": {"ours": {"ratio": [0.9, 0.9 + len(rooms) / 10, 1.2]}}}

    loser = record("a", ours=0.97)
    loser["elsewhere"] = run.repeated(loser, EFFORT, 4, ask)
    assert loser["elsewhere"] == [1.0, 1.1]
    assert len(set(rooms)) == 3 and 0 not in rooms
    assert "no room" in capsys.readouterr().err
    assert "a again, its inputs elsewhere in memory each time: 1.000, 1.100" in markdown(report_of(loser))


def test_reports_join_and_the_later_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = report_of(record("a", ours=1.1), record("b", ours=1.2), not_run=["c", "d"])
    second = report_of(record("b", ours=1.3), record("c", ours=1.4), seconds=3.0)
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path, report in zip(paths, (first, second), strict=True):
        path.write_text(json.dumps(report))
    joined = run.join(paths)
    assert [(r["name"], r["modes"]["ours"]["ratio"][1]) for r in joined["cases"]] == [
        ("a", 1.1),
        ("b", 1.3),
        ("c", 1.4),
    ]
    assert joined["not_run"] == ["d"] and joined["seconds"] == 15.0
    assert run.main(["--join", *map(str, paths), "--output", str(tmp_path / "all")]) == 0
    assert json.loads((tmp_path / "all" / "kernels.json").read_text())["not_run"] == ["d"]
    paths[1].write_text(json.dumps({**second, "device": "another"}))
    with pytest.raises(SystemExit, match="device is another"):
        run.join(paths)


def test_a_wrong_result_is_the_exit_status(tmp_path: Path) -> None:
    wrong = record("a", ours=1.1)
    wrong["modes"]["ours"]["result"] = "WRONG"
    (tmp_path / "in.json").write_text(json.dumps(report_of(wrong)))
    assert run.main(["--join", str(tmp_path / "in.json"), "--output", str(tmp_path)]) == 1


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    def ask(self: run.Child, function: Any, *arguments: Any) -> Any:
        return measure.start()

    monkeypatch.setattr(run.Child, "ask", ask)
    with pytest.raises(SystemExit, match="no NVIDIA GPU"):
        run.main(["--only", "add_transposed"])


def test_the_command_line() -> None:
    assert run.parse([]).modes == ("stock", "ours", "free")
    assert run.parse(["--modes", "assign,ours"]).modes == ("stock", "ours", "assign")
    assert run.parse([]).pin and not run.parse(["--no-pin"]).pin
    with pytest.raises(SystemExit):
        run.parse(["--modes", "fast"])


def test_the_modes_are_options_of_the_plugin_or_said_to_be_missing() -> None:
    assert modes.available("stock") and modes.available("ours") and modes.available("unpinned")
    with modes.context("ours") as reports:
        assert reports == []
    with modes.context("stock") as reports:
        assert reports == []
    for mode in ("lower", "assign", "free"):
        if modes.available(mode):
            with modes.context(mode) as reports:
                assert reports == []
        else:
            with pytest.raises(modes.Unavailable, match=mode):
                modes.context(mode)
