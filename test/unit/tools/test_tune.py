"""`triton-linear tune` without a GPU: the children that measure are played by others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import plugin_support as support
import pytest
from triton import knobs
from tune_support import ALL, Play, decided, play, script

from triton_linear import decisions
from triton_linear.decisions import DecisionFile
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.hook import pinned
from triton_linear.setting import Options
from triton_linear.tools.cli import main

__all__ = ["play", "script"]


def test_what_was_measured_is_decided(play: Play, script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", script]) == 0
    assert decided() == ALL
    said = "less with these decisions (1 for another variant, 2 for stock Triton)"
    assert said in capsys.readouterr().out
    (matmul,) = [each for each in DecisionFile(decisions.default_file()).read() if each.name == "matmul"]
    assert (matmul.ratio, matmul.low, matmul.high) == (1.5, 1.5, 1.5)
    about = matmul.circumstances
    known = (about.kernel, about.gpu, about.target, about.triton)
    assert known == ("matmul", "Some GPU", "cuda:90", installed())


def test_each_kernel_is_told_of_as_it_is_decided(
    play: Play, script: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A log, or a terminal of somebody who waits."""
    play.speeds |= {"varies-1": "stock Triton's results vary", "idle-1": "nothing to do"}
    assert main(["tune", script]) == 0
    said = capfd.readouterr()
    first, *lines = said.err.splitlines()
    assert first.startswith("measuring: ")
    assert [re.sub(r"^\[\d+ s, ", "[", line) for line in lines] == [
        "[1 decided] matmul: lower 1.500 (1.500 to 1.500)",
        "[2 decided] softmax: stock 1.000 (1.000 to 1.000)",
        "[3 decided] norm: ours 1.100 (1.100 to 1.100)",
        "[4 decided] copy: stock 1.000 (1.000 to 1.000)",
        "[4 decided] varies: stock Triton's results vary",
    ]
    assert "varies 1x1x1: stock Triton's results vary" in said.out
    assert "idle 1x1x1: nothing to do" in said.out


def test_grids_are_decided_together(play: Play, script: str) -> None:
    """Once 2.0 and 14 times 0.9: another variant loses; 14 times 2.0 and once 0.9: it wins."""
    lose = {"stock": 1.0, "lower": 0.9}
    win = {"stock": 1.0, "lower": 2.0}
    play.speeds = {"mixed-1": win, **{f"mixed-{n}": lose for n in range(2, 6)}}
    assert main(["tune", script]) == 0
    assert decided() == {"mixed": "stock"}
    play.speeds = {"mixed-1": lose, **{f"mixed-{n}": win for n in range(2, 6)}}
    assert main(["tune", script]) == 0
    assert decided() == {"mixed": "lower"}


def test_a_variant_that_was_not_measured_on_each_grid_is_not_taken(play: Play, script: str) -> None:
    play.speeds = {"mixed-1": {"stock": 1.0, "lower": 2.0}, "mixed-2": {"stock": 1.0, "ours": 1.2}}
    assert main(["tune", script]) == 0
    assert decided() == {"mixed": "stock"}


def test_a_program_that_fails_is_an_error_behind_the_table(
    play: Play, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", script, "fail"]) == 1
    captured = capsys.readouterr()
    assert "the program ended with status 3" in captured.err and "matmul" in captured.out
    assert decided() == ALL


def test_a_program_without_kernels_is_an_error(
    play: Play, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    play.speeds = {}
    assert main(["tune", script]) == 1
    assert "without launching a kernel of Triton's" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_one_error(
    play: Play, script: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for path, said in ((folder, "folder"), (Path("/proc/none/decisions"), "/proc/none")):
        assert main(["tune", "--decisions", str(path), script]) == 1
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error


def test_only_some_variants_are_tried(play: Play, script: str) -> None:
    assert main(["tune", "--variants", "bounded,lower", "--seconds", "2", script, "--seconds", "3"]) == 0
    (plan,) = play.plans
    assert (plan.modes, plan.seconds) == (["ours", "lower", "bounded"], 2.0)
    assert plan.arguments == ["--seconds", "3"]
    with pytest.raises(SystemExit):
        main(["tune", "--variants", "fastest", script])


PROGRAM = """
import sys, time
from plugin_support import compile_kernel, double, row_sums
from pretended_child import launch

launch(compile_kernel(double))
for width in (32, 64):
    launch(compile_kernel(row_sums, width=width))
print("the program has run", flush=True)
time.sleep(int(sys.argv[1]))
"""
COMMAND = """
import functools, sys
import pretended_child
from triton_linear.tools.cli import main
from triton_linear.tools.measuring import rounds
from triton_linear.tools import tune

child = (sys.executable, pretended_child.__file__)
rounds.run_child = functools.partial(rounds.run_child, command=child)
tune.gpu_name = lambda what: "Some GPU"
sys.exit(main(["tune", "--seconds", "0", *sys.argv[1:]]))
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, "-c", COMMAND, str(tmp_path / "program.py")]


def test_a_program_is_tuned(command: list[str]) -> None:
    said = subprocess.run([*command, "0"], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("the program has run") == 1
    assert said.stderr.count("row_sums: ") == 2
    found = DecisionFile(decisions.default_file()).read()
    assert [each.name for each in found] == ["row_sums", "row_sums"], "of `double` all variants are one code"
    with knobs.compilation.scope(), pinned(Options()) as reports:
        knobs.compilation.always_compile = True
        for width in (32, 64):
            support.compile_kernel(support.row_sums, width=width)
    assert sorted(report.variant for report in reports) == sorted(each.variant for each in found)


def test_a_run_that_is_killed_has_kept_what_it_decided(command: list[str]) -> None:
    """Its child ends with it: nobody has its output open any more."""
    with subprocess.Popen(
        [*command, "60"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as tuning:
        assert tuning.stdout is not None
        told = 0
        while told < 3:
            line = tuning.stdout.readline()
            assert line, "it has ended"
            told += line.count("row_sums: ") + line.count("has run")  # two processes write at once
        tuning.kill()
        begun = time.monotonic()
        assert tuning.stdout.read() == ""
        assert time.monotonic() - begun < 30
    assert len(DecisionFile(decisions.default_file()).read()) == 2
