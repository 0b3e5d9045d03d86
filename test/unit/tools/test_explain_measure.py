"""`triton-linear explain --measure` without a GPU: children compile as the real ones do, times are made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from explain_support import SCHEMA, SCRIPT

from triton_linear.decisions import Circumstances
from triton_linear.tools import cli
from triton_linear.tools.measuring import rounds
from triton_linear.tools.measuring.choose import Interval
from triton_linear.tools.measuring.launches import digest
from triton_linear.tools.measuring.rounds import Comparison, Heard, MeasuringPlan

RATIOS = {"ours": 1.25}
_AS_A_CHILD = """
import runpy, sys
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def comparison(ratios: Mapping[str, float]) -> Comparison:
    """The comparison of modes that are so many times as fast as stock Triton."""
    intervals = {name: Interval(ratio, ratio, ratio) for name, ratio in ratios.items()}
    return Comparison(Circumstances(*"abcdef"), 10.0, intervals, "stock")


def _child(status: int = 0, seen: bool = True, ratios: Mapping[str, float] = RATIOS, problem: str = "") -> Any:
    """A child that runs the script as a real one does; what it measures is made up."""

    def run(plan: MeasuringPlan, heard: Heard, loud: bool) -> tuple[int, str]:
        assert not loud
        cache = Path("cache").absolute()
        command = [sys.executable, "-c", _AS_A_CHILD, plan.script, *plan.arguments]
        environment = {**os.environ, "TRITON_CACHE_DIR": str(cache)}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        for number, file in enumerate(sorted(cache.rglob("*.ttgir")) if seen else ()):
            key = digest(file.read_text())
            heard.hear(("seen", key, file.stem, (8, number + 1, 1), key))
            if problem:
                heard.hear(("problem", key, "ours", problem))
            heard.hear(("end", key, comparison(ratios)))
        heard.hear(("counts", dict.fromkeys(heard.launches, 3)))
        return status, ""

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
    monkeypatch.setattr(rounds, "run_child", _child())
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
        "problems": {},
    }


def test_times_as_text(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "run_child", _child(ratios={}, problem="faulted"))
    assert cli.main(["explain", "--measure", str(script), "64"]) == 0
    out = capfd.readouterr().out
    assert "times of a launch, some GPU" in out
    assert "8x1x1  3 launches: 10.0 µs with stock Triton, ours: faulted" in out


def test_a_kernel_that_is_never_launched_has_no_times(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "run_child", _child(seen=False))
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
    monkeypatch.setattr(rounds, "run_child", _child(3))
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
