"""Replaying modules: what is the same stays the same, and what differs is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import replay
from triton_linear.lowering.target import targets
from triton_linear.lowering.target.targets import TARGETS, target, with_policy

DATA = Path(__file__).resolve().parents[2] / "data" / "ttgir" / "kernels"
MODULE = DATA / "cross_entropy.ttgir"


def test_a_module_becomes_the_same_wherever_it_lies(tmp_path: Path) -> None:
    copy = tmp_path / MODULE.name
    copy.write_text(MODULE.read_text().replace('loc("', 'loc("/elsewhere'))
    (one, made), (other, again) = map(replay.examined, (MODULE, copy))
    assert one == other and made == again
    assert made["default"]["code"] != replay.STOCK and len(made["default"]["clocks"]) == 2
    assert "linear-assign-layouts" in made["passes"] and "linear-await-operands" not in made["passes"]


def test_another_code_is_named_with_its_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    name, before = replay.examined(MODULE)
    monkeypatch.setitem(TARGETS, "cuda:90", with_policy(target("cuda:90"), margin=0.9, much_less=0.0))
    targets._with_thresholds.cache_clear()
    _, after = replay.examined(MODULE)
    targets._with_thresholds.cache_clear()
    assert after["default"]["code"] != before["default"]["code"]
    lines = replay.differences({name: before}, {name: after})
    assert lines[0].startswith(f"{name}: default: {before['default']['code']} and") and "clocks [" in lines[0]
    assert replay.differences({name: before}, {name: before}) == []
    assert "2 modules are in one of both alone" in replay.differences({"a": before}, {"b": before})[0]


def test_what_the_passes_cannot_take_is_compared_too(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.ttgir"
    wrong.write_text("module { wrong }")
    name, found = replay.examined(wrong)
    assert "IndexError" in found["error"] and found["passes"] == []
    assert replay.differences({name: found}, {name: {**found, "error": "other"}})


def test_the_command_compares_with_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "before.json"
    assert replay.main([str(MODULE), "--workers", "1", "--write", str(file)]) == 0
    assert replay.main([str(MODULE), "--workers", "1", "--against", str(file)]) == 0
    assert "0 differences" in capsys.readouterr().out
    text = file.read_text()
    code = next(iter(json.loads(text)["modules"].values()))["exact"]["code"]
    file.write_text(text.replace(code, "another"))
    assert replay.main([str(MODULE), "--workers", "1", "--against", str(file)]) == 1
    assert "exact: another and" in capsys.readouterr().out
