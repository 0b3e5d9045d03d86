"""The command `python -m bench.fuzz`: what it prints, saves and replays, and what it refuses."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from bench.fuzz.command import main
from triton_linear.tools import cli

RIGHT = r"\d+ conversions?, 0 wrong, 0 races"


def test_modules_are_saved_verified_and_replayed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--count", "20", "--seed", "5", "--target", "cuda:90", "--assembly", "1", "--jobs", "2"]
    assert main([*words, "--save", str(tmp_path)]) == 0
    counted = r"cuda:90, seed 5: .*; \d+ modules, [1-9] of them programs, [1-9] assembled"
    shared = r"; \d+ through shared memory, 0 accesses above the minimum of wavefronts"
    assert re.search(rf"{counted}.*\n{RIGHT}{shared}", capfd.readouterr().out)
    assert cli.main(["verify", str(tmp_path / "cuda-90-5-singles-0000.ttgir")]) == 0
    assert re.search(r"conversions? verified, 0 wrong", capfd.readouterr().out)

    program = tmp_path / "cuda-90-5-programs-0000.ttgir"
    assert main(["--replay", str(program)]) == 0
    replayed = r"cuda:90, [1248] warps, .*; 1 modules, 1 of them programs(.|\n)*"
    assert re.search(rf"{replayed}{RIGHT}", capfd.readouterr().out)
    program.write_text(program.read_text().replace("public @program", "public @changed"))
    assert main(["--replay", str(program)]) == 1
    assert "error: the module is not the program in its first line" in capfd.readouterr().err


def test_totals_are_printed_by_target(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--count", "8", "--seed", "5", "--only", "singles"]
    assert main([*words, "--target", "hip:gfx942", "--target", "cuda:80"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert re.search(r"^hip:gfx942, seed 5: .* 1 modules, 0 of them programs", lines[0])
    assert re.search(r"^cuda:80, seed 5: .* 1 modules, 0 of them programs", lines[1])
    assert re.search(r"^all 2 targets: .* 2 modules", lines[2])
    assert lines[3].startswith("8 conversions, 0 wrong, 0 races")


def test_all_can_be_assembled(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--count", "6", "--seed", "5", "--target", "hip:gfx90a", "--only", "singles", "--assembly", "all"]
    assert main(words) == 0
    printed = capfd.readouterr().out
    assert "1 assembled with 6 conversions" in printed and "6 conversions, 0 wrong, 0 races" in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count", "-1"], "error: count: -1 is negative"),
        (["--jobs", "0"], "error: jobs: 0 is not a number of processes"),
        (["--target", "cuda:1"], "error: unknown target 'cuda:1'; known: cuda:80"),
        (["--replay", __file__], "error: it has no first line that says what it must give"),
        (["--replay", "/no/such"], "/no/such: error: cannot open input file: No such file or directory"),
        (["--count", "0", "--save", "/dev/null"], "/dev/null: error: cannot write modules there: "),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert said in capfd.readouterr().err


def test_what_is_no_number_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--assembly", "some"])
    assert "argument --assembly: 'some' is neither a number nor 'all'" in capfd.readouterr().err


@pytest.mark.parametrize("module", ["pairs", "encodings"])
def test_doctests(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"bench.fuzz.{module}"))
    assert outcome.attempted and not outcome.failed
