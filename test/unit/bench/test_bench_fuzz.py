"""The command `python -m bench.fuzz`: what it prints, saves, adds up and replays, and what it refuses."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from bench.fuzz.command import main
from bench.fuzz.results import markdown, record
from bench.fuzz.run import SINGLES, FuzzPlan, units
from bench.fuzz.totals import Totals
from triton_linear.tools import cli

SEED = 7
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


def test_runs_are_recorded_and_add_up(tmp_path: Path) -> None:
    (unit,) = units(FuzzPlan("cuda:90", SEED, 2, kinds=(SINGLES,)))
    totals = Totals(conversions=7, modules=2, wrong=1, assembled_conversions=4, kinds=Counter(shuffle=7))
    totals.fail("wrong", "1 warps: something", unit.programs[0])
    for seed in (3, 4):
        record(tmp_path / "fuzz", seed, None, {"cuda:90": totals, "hip:gfx942": Totals(conversions=2)}, 1.5)
    runs = json.loads((tmp_path / "fuzz.json").read_text())
    assert [run["seed"] for run in runs] == [3, 4]
    text = (tmp_path / "fuzz.md").read_text()
    assert text.startswith("18 random conversions") and "2 failures" in text and "3 s in 2 runs" in text
    assert "| cuda:90 | 14 | 0 | 2 | 0 | 0 | 0 | 0 |" in text and "| shuffle | 14 |" in text
    assert "- cuda:90, seed 4: wrong: 1 warps: something" in text
    assert "| 3 | both | cuda:90, hip:gfx942 | 9 | 4 | 2 |" in text
    del runs[0]["targets"]["hip:gfx942"]["assembled_conversions"]  # not counted in records of old
    assert "| 3 | both | cuda:90, hip:gfx942 | 9 |  | 2 |" in markdown(runs)


def test_a_run_is_added(tmp_path: Path) -> None:
    arguments = ["--count", "4", "--assembly", "0", "--jobs", "1", "--only", "singles", "--seed", "5"]
    assert main(["--results", str(tmp_path / "fuzz"), *arguments]) == 0
    (run,) = json.loads((tmp_path / "fuzz.json").read_text())
    assert run["seed"] == 5 and run["targets"]["cuda:90"]["conversions"] == 4
