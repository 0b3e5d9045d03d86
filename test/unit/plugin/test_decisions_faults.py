"""Files of decisions that nobody would make: each is one error or decisions, in the plugin and in the tools."""

from __future__ import annotations

import resource
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugin_processes import printed

from triton_linear.decisions import (
    Circumstances,
    Decision,
    DecisionError,
    DecisionFile,
    Decisions,
    as_line,
    decisions_in,
    load,
)
from triton_linear.tools.cli import main

FUZZED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50, database=None
)
ABOUT = Circumstances("k", "GPU", "cuda:90", "3.9.0", "12.9.86", "p")
DECIDED = Decision(ABOUT, "stock", "row_sums", 1.0, 0.99, 1.01, "2026-11-23 00:00:00")
NAMES = [entry.name for entry in (*fields(Circumstances), *fields(Decision)[1:])]
FIGURES = {"ratio", "low", "high"}
OURS = 0x746C6431
"""The application id that our files have."""

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20),
    st.sampled_from(["[/b]", "[bold", "\x00", "stock", "cuda:90"]),
)


def examined(path: Path, capsys: pytest.CaptureFixture[str]) -> list[Decision] | None:
    """What a file holds; None where it is an error: the same one in every tool."""
    try:
        found: list[Decision] | None = DecisionFile(path).read()
    except DecisionError:
        found = None
    told = [main(["decisions", "--file", str(path), *action]) for action in (["list"], ["list", "--json"])]
    assert told == [int(found is None)] * 2
    if found is None:
        assert capsys.readouterr().err.count("error:") == 2
    else:
        assert isinstance(Decisions.among(found, "3.9.0", "p", frozenset({"GPU"})), Decisions)
    return found


def test_lines_that_were_exported_are_read_as_the_file_is(tmp_path: Path) -> None:
    file, lines = DecisionFile(tmp_path / "decisions.sqlite"), tmp_path / "decisions.jsonl"
    file.put([DECIDED])
    lines.write_text(f"{as_line(DECIDED)}\n")
    assert decisions_in(file.path) == decisions_in(lines) == [DECIDED]
    for content in ("", "{}\n", f"{as_line(DECIDED)}\nno line\n"):
        lines.write_text(content)
        with pytest.raises(DecisionError, match="holds no decisions"):
            load(str(lines))


@FUZZED
@given(data=st.data())
def test_other_columns_and_other_types(
    data: st.DataObject, tmp_path_factory: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As another version of this package might make it, or somebody who edits a file."""
    path = tmp_path_factory.mktemp("schema") / "decisions.sqlite"
    columns = data.draw(st.sets(st.sampled_from(NAMES)).map(sorted) | st.just(NAMES))
    kinds = [data.draw(st.sampled_from(["", "TEXT", "REAL", "INTEGER", "BLOB"])) for _ in columns]
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {OURS}")
    made = ", ".join(f"{name} {kind}" for name, kind in zip((*columns, "more"), (*kinds, ""), strict=True))
    connection.execute(f"CREATE TABLE decisions ({made})")
    for _ in range(data.draw(st.integers(0, 3))):
        row = [data.draw(VALUES) for _ in (*columns, "more")]
        connection.execute(f"INSERT INTO decisions VALUES ({', '.join('?' * len(row))})", row)
    connection.commit()
    connection.close()
    found = examined(path, capsys)
    if found is not None:
        assert set(columns) == set(NAMES)
        assert all(isinstance(each.variant, str) and isinstance(each.ratio, float) for each in found)


@pytest.mark.parametrize("kind", ["no table", "a view", "a view without an end"])
def test_what_is_no_table_of_decisions(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "decisions.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {OURS}")
    values = ", ".join(f"{'1.0' if name in FIGURES else repr('x')} AS {name}" for name in NAMES)
    if kind == "a view":
        connection.execute(f"CREATE VIEW decisions AS SELECT {values}")
    elif kind != "no table":
        endless = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {values} FROM n"
        connection.execute(f"CREATE VIEW decisions AS {endless}")
    connection.close()
    assert examined(path, capsys) is None
    with pytest.raises(DecisionError):
        DecisionFile(path).put([DECIDED])


FULL = """
import resource, signal, sys
from pathlib import Path
from triton_linear.decisions import *

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file, most = DecisionFile(Path(sys.argv[1])), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
written = 0
try:
    for number in range(10_000):
        about = Circumstances(str(number) * 50, "", "cuda:90", "3.9.0", "", "p")
        file.put([Decision(about, "stock", "k", 1.0, 1.0, 1.0, "today")])
        written += 1
except DecisionError as error:
    print(written, error)
"""


@pytest.mark.parametrize("most", [0, 20_000, 50_000])
def test_where_the_disk_is_full_what_was_written_stays(most: int, tmp_path: Path) -> None:
    """A file that may not grow fails as one does for which there is no room."""
    path = tmp_path / "decisions.sqlite"
    written, _, error = printed("-c", FULL, path, most).partition(" ")
    assert str(path) in error and error.count("\n") == 1
    assert (int(written) > 0) == (most > 0)
    if written != "0":
        assert len(DecisionFile(path).read()) == int(written)
        DecisionFile(path).put([DECIDED])
        assert len(DecisionFile(path).read()) == int(written) + 1
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
