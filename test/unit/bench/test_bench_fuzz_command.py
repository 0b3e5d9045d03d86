"""The command `python -m bench.fuzz`: what it prints, saves and replays, and what it refuses."""

from __future__ import annotations

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


def test_all_can_be_assembled(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--count", "6", "--seed", "5", "--target", "hip:gfx90a", "--only", "singles", "--assembly", "all"]
    assert main(words) == 0
    printed = capfd.readouterr().out
    assert "1 assembled with 6 conversions" in printed and "6 conversions, 0 wrong, 0 races" in printed
