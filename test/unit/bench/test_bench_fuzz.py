"""Totals of random programs, added up in files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from bench.fuzz.command import main
from bench.fuzz.results import markdown, record
from bench.fuzz.run import SINGLES, FuzzPlan, units
from bench.fuzz.totals import Totals

SEED = 7


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
