"""`triton-linear decisions`: the file of decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tune_support import SPEEDS, Play, decided, play, script

from triton_linear import decisions
from triton_linear.decisions import DecisionFile
from triton_linear.tools import tune
from triton_linear.tools.cli import main
from triton_linear.tools.decisions import put_later

__all__ = ["play", "script"]


def test_decisions_move(play: Play, script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", script]) == 0
    exported, other = tmp_path / "exported.jsonl", tmp_path / "other.jsonl"
    capsys.readouterr()
    assert main(["decisions", "list", "--json"]) == 0
    exported.write_text(capsys.readouterr().out)
    assert main(["decisions", "--file", str(other), "import", str(exported)]) == 0
    assert DecisionFile(other).read() == DecisionFile(decisions.default_file()).read()
    capsys.readouterr()
    assert main(["decisions", "--file", str(other), "import", str(exported)]) == 0
    assert "0 of 4 decisions added" in capsys.readouterr().out
    assert main(["decisions", "--file", str(other), "forget", "[ms]*"]) == 0
    assert decided(DecisionFile(other)).keys() == {"norm", "copy"}
    assert main(["decisions", "list"]) == 0
    assert "matmul" in capsys.readouterr().out
    assert main(["decisions", "list", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [decisions.of_line(line) for line in lines] == DecisionFile(decisions.default_file()).read()


def test_the_later_of_two_decisions_counts(play: Play, script: str) -> None:
    assert main(["tune", script]) == 0
    (old, *_) = DecisionFile(decisions.default_file()).read()
    from dataclasses import replace

    new, file = replace(old, variant="lower", measured="9999-01-01"), DecisionFile(decisions.default_file())
    assert (put_later(file, [new]), put_later(file, [old])) == (1, 0)
    assert new in file.read()


def test_of_two_runs_on_one_day_the_later_counts(
    play: Play, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exported, other = tmp_path / "exported.jsonl", tmp_path / "other.jsonl"
    for at, file, speed in ((1, other, 1.5), (2, decisions.default_file(), 1.1)):
        play.speeds["matmul-1"] = SPEEDS["matmul-1"] | {"lower": speed}
        monkeypatch.setattr(tune, "now_text", lambda at=at: f"2026-11-23 12:00:0{at}")
        assert main(["tune", "--decisions", str(file), script]) == 0
    capsys.readouterr()
    assert main(["decisions", "list", "--json"]) == 0
    exported.write_text(capsys.readouterr().out)
    assert main(["decisions", "--file", str(other), "import", str(exported)]) == 0
    assert decided(DecisionFile(other))["matmul"] == "ours"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", tune.now_text())


WRONG_LINES = ["", "{", "[]", "{}", '{"kernel": 1}', "null", "\u0001"]


@pytest.mark.parametrize("line", WRONG_LINES)
def test_what_is_no_decision_is_one_error(
    line: str, play: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(line + "\n")
    assert main(["decisions", "import", str(path)]) == 1
    assert f"{path}:1: holds no decision" in capsys.readouterr().err
