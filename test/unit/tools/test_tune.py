"""`triton-linear tune` without a GPU: the children that measure are played by others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tune_support import ALL, Play, decided, play, script

from triton_linear import decisions
from triton_linear.decisions import DecisionFile
from triton_linear.dialect.triton_versions import found as installed
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
