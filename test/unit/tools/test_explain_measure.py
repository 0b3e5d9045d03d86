"""`triton-linear explain --measure` without a GPU: children compile as the real ones do, times are made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from explain_support import SCHEMA, SCRIPT

from triton_linear.tools import cli
from triton_linear.tools.explain import measure
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.measuring.contested import Contested
from triton_linear.tools.support.launches import digest

RATIOS = {"ours": 1.25, "free": 2.0}
_AS_A_CHILD = """
import sys
from triton_linear import __main__
del sys.argv[0]
__main__._run_file(sys.argv[0])
"""


def contest(ratios: Mapping[str, float], kept: Sequence[str] = ()) -> dict[str, Any]:
    """What the record of a launch says of its modes, each so many times as fast as stock Triton."""
    times = {name: [10.0 / ratio] for name, ratio in {"stock": 1.0, **ratios}.items()}
    alike = {name: name for name in times}
    return {
        "ratio": 1.0,
        "microseconds": 10.0,
        "second": [times] * 2,
        "alike": alike,
        "kept": kept,
        "first": {},
    }


def _child(status: int, of: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Any:
    """A child that runs the script as a real one does; its records of what was compiled go through `of`."""

    def run(plan: MeasuringPlan, loud: bool) -> rounds.Ended:
        assert not loud
        cache = Path(plan.records).with_suffix(".cache")
        command = [sys.executable, "-c", _AS_A_CHILD, plan.script, *plan.arguments]
        environment = {**os.environ, "TRITON_CACHE_DIR": str(cache)}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        records: list[dict[str, Any]] = []
        for number, file in enumerate(sorted(cache.rglob("*.ttgir"))):
            key = digest(file.read_text())
            records.append({"kernel": key, "module": key, "name": file.stem, "grid": [8, number + 1, 1]})
            records.append({"kernel": key, "mode": "contest", **contest(RATIOS)})
        records = [*of(records), {"launches": {record["kernel"]: 3 for record in records}}]
        Path(plan.records).write_text("".join(f"{json.dumps(record)}\n" for record in records))
        return rounds.Ended(status)

    return run


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script below the working directory, and a GPU."""
    monkeypatch.setattr(rounds, "gpu_name", lambda what: "some GPU")
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    return Path("script.py")


def test_times_are_those_of_the_kernel_explained(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "run_child", _child(0, lambda records: records))
    assert cli.main(["explain", "--measure", "--json", f"../{Path.cwd().name}/{script}", "64", "128"]) == 0
    data = json.loads(capfd.readouterr().out)
    jsonschema.validate(data, SCHEMA)
    found = [module["measured"] for module in data["modules"]]
    assert [len(measured) for measured in found] == [1, 1]
    assert sorted(measured[0]["grid"] for measured in found) == [[8, 1, 1], [8, 2, 1]]
    assert found[0][0] == {
        "device": "some GPU",
        "grid": found[0][0]["grid"],
        "launches": 3,
        "stock_microseconds": 10.0,
        "stock_over_ours": 1.25,
        "stock_over_free": 2.0,
        "share_taken": pytest.approx(0.4),
        "problems": {},
    }


def test_times_as_text(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def faulting(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        only_ours = [one | contest({"ours": 1.25}) if "mode" in one else one for one in records]
        return [
            *only_ours,
            *({"kernel": one["kernel"], "mode": "free", "problem": "faulted"} for one in records),
        ]

    monkeypatch.setattr(rounds, "run_child", _child(0, faulting))
    assert cli.main(["explain", "--measure", str(script), "64"]) == 0
    out = capfd.readouterr().out
    assert "times of a launch, some GPU" in out
    assert "8x1x1  3 launches: 10.0 µs with stock Triton, 1.250 times as fast with ours, free: faulted" in out


@pytest.mark.parametrize(
    ("kept", "free", "said"),
    [
        (("", ""), 2.0, {}),
        (("", "it is an integer"), 2.0, {"free": "1 of 2 conversions cannot be free: it is an integer"}),
        (("it is an integer",) * 2, None, {"free": "2 of 2 conversions cannot be free: it is an integer"}),
    ],
)
def test_what_cannot_be_free_is_said(kept: Sequence[str], free: float | None, said: dict[str, str]) -> None:
    launch = Contested("key", "k", (8, 1, 1), 3, contest(RATIOS, kept))
    found = measure._record(launch, "some GPU")
    assert (found.stock_over_free, found.share_taken is None, found.problems) == (free, free is None, said)


def test_what_is_noise_has_no_share() -> None:
    launch = Contested("key", "k", (8, 1, 1), 3, contest({"ours": 1.1, "free": 1.001}))
    assert measure._record(launch, "some GPU").share_taken is None


def test_a_kernel_that_is_never_launched_has_no_times(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "run_child", _child(0, lambda records: []))
    assert cli.main(["explain", "--measure", str(script), "64"]) == 0
    assert "no launch was seen" in capfd.readouterr().out


def test_nothing_is_measured_unasked(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--json", str(script), "64"]) == 0
    data = json.loads(capfd.readouterr().out)
    jsonschema.validate(data, SCHEMA)
    assert [module["measured"] for module in data["modules"]] == [None]


def test_a_script_that_fails_when_timed(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "run_child", _child(3, lambda records: records))
    assert cli.main(["explain", "--measure", str(script), "64"]) == 1
    said = capfd.readouterr().err
    assert "script.py: error: the script ended with status 3 when its kernels were timed" in said


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("-", "measure: times are those of kernels that a Python script launches"),
        ("kernel.ttgir", "measure: times are those of kernels that a Python script launches"),
        ("nowhere.py", "cannot open script"),
        ("script.py", "explain --measure needs a GPU"),
    ],
)
def test_what_cannot_be_measured(
    what: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    Path("script.py").write_text(SCRIPT)
    assert cli.main(["explain", "--measure", what]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
