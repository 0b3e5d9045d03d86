"""The child that measures, without a GPU: what launches take, and what they give, a test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measuring_support import FakeCuda, cuda
from plugin_support import compile_kernel, double, row_sums, transpose

from triton_linear.decisions import ptxas_version
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found
from triton_linear.hook import pinned
from triton_linear.setting import Options
from triton_linear.tools.measuring import child, contest, rounds
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.contest import CONTEST, TIMING, Contest
from triton_linear.tools.measuring.contested import contested
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.launches import Launch
from triton_linear.tools.support.modes import mode
from triton_linear.tools.tune import figures
from triton_linear.variants import VARIANTS

__all__ = ["cuda"]


class Given:
    """Results of launches: which kernel's code was run last tells them."""

    last = b""
    wrong: set[bytes]
    varying = False
    count = 0

    def __init__(self, copies: Any) -> None:
        type(self).count += 1
        self.code = Given.last
        self.number = Given.count

    def difference(self, expected: Given, before: Given) -> str:
        if Given.varying and self.number != expected.number:
            return "a result of torch.float32 differs by 2 of its magnitude"
        return "a result of torch.int32 differs" if self.code in Given.wrong else ""

    def same(self, expected: Given) -> bool:
        return self.code == expected.code


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda, tmp_path: Path) -> dict[bytes, float]:
    """How long launches take, by their code: 100 for what it does not say."""
    taken: dict[bytes, float] = {}
    monkeypatch.setattr(cuda, "get_device_name", lambda: "Some GPU", raising=False)
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))
    Given.wrong, Given.varying = set(), False

    def again(kernel: Any, launch: Any, arguments: Any) -> Callable[[], float]:
        code = bytes(kernel.kernel)

        def run() -> float:
            Given.last = code
            return taken.get(code, 100.0)

        return run

    monkeypatch.setattr(contest, "again", again)
    monkeypatch.setattr(contest, "Results", Given)
    return taken


def code_of(name: str, kernel: Any = transpose) -> bytes:
    """The code of a kernel in a variant."""
    with mode(name):
        return bytes(compile_kernel(kernel).kernel)


def visited(tmp_path: Path, kernel: Any = transpose, **plan: Any) -> list[dict[str, Any]]:
    """The records of a child that is shown one launch of a kernel."""
    path = tmp_path / "records.jsonl"
    plan = {"modes": list(VARIANTS)} | plan
    held = Contest(MeasuringPlan(str(path), "script.py", [], seconds=0, **plan))
    behind = held.visit(Launch(compile_kernel(kernel), (4, 1, 1), ("x", "out", 32, 64)))
    if behind is not None:
        behind()
    return rounds.read_records(path)


def ended(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The record of the contest."""
    (record,) = (record for record in records if record.get("mode") == CONTEST)
    return record


def test_the_fastest_variant_is_taken(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    speeds[code_of("bounded")] = 50.0
    speeds[code_of("ours")] = 80.0
    record = ended(visited(tmp_path))
    (kernel,) = figures.tuned(
        contested([{"kernel": record["kernel"], "name": "transpose", "grid": [4]}, record])
    )
    assert (kernel.variant, kernel.ratio.ratio) == ("bounded", 2.0)
    assert kernel.ours is not None and kernel.ours.ratio == 1.25
    assert (kernel.circumstances.gpu, kernel.circumstances.target) == ("Some GPU", "cuda:90")
    about = kernel.circumstances
    assert (about.ptxas, about.triton, about.package) == (ptxas_version("cuda:90"), found(), CODE_VERSION)
    assert not kernel.exact
    with pinned(Options(decisions="none", measured=True)) as reports:
        compile_kernel(transpose, width=32)
        compile_kernel(transpose)
    assert kernel.circumstances.kernel in {report.key for report in reports} | {record["digest"]}


@pytest.mark.parametrize("jobs", [3])
def test_variants_are_compiled_beside_each_other(tmp_path: Path, speeds: dict[bytes, float], jobs: int) -> None:
    speeds[code_of("bounded")] = 50.0
    one_by_one = ended(visited(tmp_path))
    (tmp_path / "records.jsonl").unlink()
    records = visited(tmp_path, jobs=jobs)
    beside = ended(records)
    for name in ("digest", "target", "alike", "exact", "best"):
        assert beside[name] == one_by_one[name]
    assert not any(str(record.get("begin")).startswith(contest.COMPILING) for record in records)


def test_a_variant_whose_compile_crashes_costs_that_variant(
    tmp_path: Path, speeds: dict[bytes, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = contest.compiled_variant

    def crashing(kernel: Any, name: str) -> Any:
        if name == "ours":
            os.kill(os.getpid(), signal.SIGKILL)
        return make(kernel, name)

    monkeypatch.setattr(contest, "compiled_variant", crashing)
    records = visited(tmp_path, jobs=2)
    problems = {r["mode"]: r["problem"] for r in records if "problem" in r}
    assert problems == {"compiling:ours": "its process ended by SIGKILL"}
    assert "ours" not in ended(records)["alike"]


def test_the_target_is_the_one_that_is_compiled_for(
    tmp_path: Path, speeds: dict[bytes, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm80")
    record = ended(visited(tmp_path))
    assert (record["target"], record["ptxas"]) == ("cuda:80", ptxas_version("cuda:80"))


def test_variants_of_one_code_are_timed_once(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    record = ended(visited(tmp_path))
    codes = {name: code_of(name) for name in record["alike"]}
    for name, first in record["alike"].items():
        assert codes[name] == codes[first]
    assert set(record["first"]) == set(record["alike"].values())
    assert len({codes[name] for name in record["first"]}) == len(record["first"])


def test_a_variant_with_other_results_takes_no_part(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    code = code_of("ours")
    speeds[code] = 1.0
    Given.wrong = {code}
    records = visited(tmp_path)
    assert {r["mode"]: r["problem"] for r in records if "problem" in r} == {
        "ours": "results: a result of torch.int32 differs"
    }
    assert "ours" not in ended(records)["first"]


def test_results_that_vary_by_themselves_decide_nothing(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    Given.varying = True
    assert "stock Triton's results vary" in ended(visited(tmp_path))["problem"]


def test_a_kernel_with_nothing_to_do_has_no_contest(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    assert ended(visited(tmp_path, double))["problem"] == "nothing to do"


def test_the_variant_of_a_checked_decision_is_measured(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    """Even if another variant is the fastest, or only some are asked for."""
    speeds[code_of("bounded")] = 90.0
    speeds[code_of("ours")] = 50.0
    some: dict[str, Any] = {"modes": ["stock", "ours"]}
    record = ended(visited(tmp_path, **some))
    assert "bounded" not in record["first"]
    (tmp_path / "records.jsonl").unlink()
    wanted = {record["digest"]: ["bounded", "ours", "shifted16"], "other": ["layouts"]}
    record = ended(visited(tmp_path, decided=wanted, **some))
    assert (record["best"], record["first"]["bounded"]["ratio"]) == ("ours", 100 / 90)
    assert "layouts" not in record["alike"]


def test_a_variant_that_fails_is_left_out(
    tmp_path: Path, speeds: dict[bytes, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = code_of("ours")
    again = contest.again

    def failing(kernel: Any, *rest: Any) -> Any:
        if bytes(kernel.kernel) == code:
            raise RuntimeError("too many resources requested")
        return again(kernel, *rest)

    monkeypatch.setattr(contest, "again", failing)
    records = visited(tmp_path)
    problems = {r["mode"]: r["problem"] for r in records if "problem" in r}
    assert problems == {"ours": "RuntimeError: too many resources requested"}
    assert "ratio" in ended(records)


def test_a_fault_ends_the_child_and_names_the_variant(
    tmp_path: Path, speeds: dict[bytes, float], cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ending(BaseException):
        pass

    def end(status: int) -> None:
        raise Ending(status)

    code = code_of("bounded")
    again = contest.again

    def faulting(kernel: Any, *rest: Any) -> Any:
        if bytes(kernel.kernel) == code:
            cuda.broken = "an illegal memory access was encountered"
        return again(kernel, *rest)

    monkeypatch.setattr(child.os, "_exit", end)
    monkeypatch.setattr(contest, "again", faulting)
    with pytest.raises(Ending):
        visited(tmp_path)
    records = rounds.read_records(tmp_path / "records.jsonl")
    assert rounds.done(records)[0][1] == "bounded"
    assert rounds.unfinished(records, rounds.Ended(child.FAULT)) == (records[0]["kernel"], "bounded")
    cuda.broken = ""
    (tmp_path / "records.jsonl").unlink()
    again_without = visited(tmp_path, skip=rounds.done(records))
    assert "bounded" not in ended(again_without)["alike"]


def test_where_records_find_no_room_the_child_ends_and_says_so(
    tmp_path: Path, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses: list[int] = []
    monkeypatch.setattr(child.os, "_exit", statuses.append)
    Contest(MeasuringPlan("/dev/full", "script.py", [])).record(kernel="k", begin="ours")
    assert statuses == [child.NO_ROOM]
    plan = MeasuringPlan("", "script.py", [], modes=["stock"])
    with pytest.raises(ToolError, match="cannot keep records: the disk is full"):
        rounds.rounds(plan, tmp_path, lambda part, loud: rounds.Ended(child.NO_ROOM), loud=False)


def test_what_stock_triton_cannot_run_is_not_held_again(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    key = visited(tmp_path, modes=["ours"])[0]["kernel"]
    (tmp_path / "records.jsonl").unlink()
    (only,) = visited(tmp_path, skip=[[key, "stock"]])
    assert "name" in only


def test_where_no_variant_may_win_one_round_is_enough(
    tmp_path: Path, speeds: dict[bytes, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple[int, float]] = []
    timed = Contest._timed

    def counted(self: Contest, field: Any, names: Any, part: float = 1.0) -> Any:
        parts.append((len(names), part))
        return timed(self, field, names, part)

    monkeypatch.setattr(Contest, "_timed", counted)
    for name in VARIANTS:
        if name != "stock":
            speeds[code_of(name)] = 101.0
    assert ended(visited(tmp_path))["best"] == "stock"
    assert parts == [(len({code_of(name) for name in VARIANTS}), contest.FIRST)]
    parts.clear()
    (tmp_path / "records.jsonl").unlink()
    speeds[code_of("bounded")] = speeds[code_of("ours")] = 50.0
    record = ended(visited(tmp_path))
    assert record["best"] == "ours", "the earlier of equals"
    assert parts == [(len(record["first"]), contest.FIRST), (3, contest.SECOND), (2, 1.0)]


def test_what_has_ended_is_not_held_again(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    key = visited(tmp_path, modes=["ours"])[0]["kernel"]
    for ended_mode in (CONTEST, TIMING):
        (tmp_path / "records.jsonl").unlink()
        (only,) = visited(tmp_path, skip=[[key, ended_mode]])
        assert "name" in only


def test_nothing_is_measured_while_a_graph_is_captured(
    tmp_path: Path, speeds: dict[bytes, float], cuda: FakeCuda
) -> None:
    cuda.capturing = True
    assert visited(tmp_path) == []


def test_where_nothing_is_to_be_decided_all_is_timed_once(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    """What free conversions compute is not looked at, and stock Triton's own time is known."""
    modes: dict[str, Any] = {"modes": ["ours", "free"], "decide": False}
    speeds[code_of("ours", row_sums)], speeds[code_of("free", row_sums)] = 80.0, 50.0
    Given.wrong = {code_of("free", row_sums)}
    records = visited(tmp_path, row_sums, **modes)
    (launch,) = contested(records)
    assert [one.ratio for name in modes["modes"] if (one := launch.ratio(name))] == [1.25, 2.0]
    assert (ended(records)["best"], ended(records)["kept"]) == ("stock", [""])
    assert (launch.microseconds, launch.problems) == (100.0, {})
    (tmp_path / "records.jsonl").unlink()
    (launch,) = contested(visited(tmp_path, double, **modes))
    assert launch.microseconds == 100.0
    assert [one.ratio for name in modes["modes"] if (one := launch.ratio(name))] == [1.0, 1.0]


def test_a_free_kernel_that_faulted_is_left_out(tmp_path: Path, speeds: dict[bytes, float]) -> None:
    speeds[code_of("ours", row_sums)] = 80.0
    key = visited(tmp_path, row_sums, modes=["ours"])[0]["kernel"]
    (tmp_path / "records.jsonl").unlink()
    (launch,) = contested(
        visited(tmp_path, row_sums, modes=["ours", "free"], decide=False, skip=[[key, "free"]])
    )
    assert launch.ratio("free") is None and launch.ratio("ours") is not None
