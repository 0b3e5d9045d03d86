"""The reproduction's runner: what crashes, hangs or is stopped loses no other case, and nothing runs twice."""

import json
import sys

import pytest

from bench.paper import run, tables

FAKE = """
import os
import time
from dataclasses import dataclass
from pathlib import Path

from bench.paper.table import Part, Table

@dataclass(frozen=True)
class Case:
    key: str

def measure(case):
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(case.key + "\\n")
    if case.key == "raises":
        raise ValueError("no such luck")
    return {"length": len(case.key)}

def section(records):
    slow = tuple(key for key, record in records.items() if "error" in record)
    return Part("A table", "rows: " + ", ".join(sorted(records)), slow, lambda axes: axes.plot([1, 2]))

TABLE = Table("fake", False, False, lambda: [Case("one"), Case("raises"), Case("three")], measure, section)
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    folder = tmp_path / "fakes"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "fake.py").write_text(FAKE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(tables, "NAMES", ("fakes.fake",))
    monkeypatch.setattr(run, "device", lambda: None)
    yield tmp_path
    for name in ("fakes", "fakes.fake"):
        sys.modules.pop(name, None)


def lines(folder):
    return [json.loads(line) for line in (folder / "out/paper.jsonl").read_text().splitlines()]


def go(folder, *more):
    return run.main(["--output", str(folder / "out"), "--only", "fakes.fake", "--jobs", "2", *more])


def test_a_run_goes_on_where_the_last_one_stopped(fake, capsys):
    assert go(fake, "--match", "one") == 0
    assert go(fake) == 1  # One case raises.
    assert go(fake) == 1
    ran = (fake / "log").read_text().split()
    assert sorted(ran) == ["one", "raises", "three"]
    assert go(fake, "--retry") == 1
    assert sorted((fake / "log").read_text().split()) == ["one", "raises", "raises", "three"]
    header, *records = lines(fake)
    assert header["seconds"] > 0 and {record["key"] for record in records} == {"one", "raises", "three"}
    assert [r["record"] for r in records if r["key"] == "three"] == [{"length": 5}]
    assert "no such luck" in capsys.readouterr().out
    report = (fake / "out/paper.md").read_text()
    assert "## A table" in report and "1 of them ended with an error" in report and "A table: raises" in report
    assert (fake / "out/paper.svg").exists()


def test_another_gpu_is_not_mixed_in(tmp_path):
    header = run.header({"device": "A", "torch": "1"})
    kept = run.Kept(tmp_path / "paper.jsonl", header)
    kept.close(1.0)
    run.Kept(tmp_path / "paper.jsonl", run.header(None))
    with pytest.raises(SystemExit, match="was measured on A"):
        run.Kept(tmp_path / "paper.jsonl", run.header({"device": "B", "torch": "1"}))
