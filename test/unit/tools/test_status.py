"""`triton-linear status`: what is on, and a file of reports, kernel by kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triton_linear import outlets
from triton_linear.report import Outcome, Report, ReportedConversion
from triton_linear.tools import cli
from triton_linear.tools.status import COUNTS

SHUFFLE = ReportedConversion("kernel.py:1", "#a", "#b", "shuffle")
MADE = ReportedConversion("kernel.py:2", "#a", "#b", "registers", made=True)
SOFTMAX = Report(
    "softmax",
    "cuda:90",
    Outcome.CONVERTED,
    4,
    (SHUFFLE, MADE),
    avoided=2,
    seconds={"stock": 0.5, "passes": 0.25},
)
FAILED = Report("softmax", "cuda:90", Outcome.FAILED, 4, error="LookupError: tripped", seconds={"stock": 0.5})
COPY = Report("copy", "hip:gfx942", Outcome.NOTHING_TO_DO, seconds={"stock": 0.25})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "reports"
    for report in (COPY, SOFTMAX, FAILED, SOFTMAX):
        outlets.append(str(path), report)
    return path


def test_counts_are_added_up_by_kernel(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", str(file), "--json"]) == 0
    softmax, copy = json.loads(capsys.readouterr().out)
    assert {name: softmax[name] for name in COUNTS} == {
        name: 2 * getattr(SOFTMAX, name) + getattr(FAILED, name)
        for name in ("seen", "ours", "noop", "folded", "avoided", "kept")
    } | {"made": 2}
    assert (softmax["compiles"], softmax["outcomes"]) == (3, {"converted": 2, "failed": 1})
    assert (softmax["stock_seconds"], softmax["plugin_seconds"]) == (1.5, 0.5)
    assert (copy["kernel"], copy["target"], copy["seen"]) == ("copy", "hip:gfx942", 0)


def test_the_table_has_a_row_for_each_kernel_and_totals(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", str(file)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    (softmax,) = (row for row in rows if row[:2] == ["softmax", "cuda:90"])
    assert softmax[2:12] == ["3", "12", "2", "0", "2", "4", "4", "2", "1.50", "0.50"]
    (total,) = (row for row in rows if row[:2] == ["2", "kernels"])
    assert total[2:12] == ["4", "12", "2", "0", "2", "4", "4", "2", "1.75", "0.50"]
    assert ["softmax", "for", "cuda:90:", "LookupError:", "tripped"] in rows


def test_lines_that_are_none_are_left_out(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = json.loads(outlets.line_of(COPY))
    with file.open("a") as lines:
        for text in ('{"kernel": "cut', "[]", "{}", json.dumps({**good, "seen": "1"}), "\0" * 9, "[" * 10**5):
            lines.write(f"{text}\n")
        lines.write("\n" + json.dumps({**good, "seconds": {"stock": "long"}}))
    assert cli.main(["status", str(file), "--json"]) == 0
    captured = capsys.readouterr()
    assert sum(each["compiles"] for each in json.loads(captured.out)) == 4
    assert captured.err == f"{file}: 7 lines left out: no whole report\n"


@pytest.mark.parametrize("content", [None, b"", b"text\n", b"\xff\xfe\0"])
def test_a_file_without_reports_is_one_error(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    assert cli.main(["status", str(path)]) == 1
    assert cli.main(["status", str(tmp_path)]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(errors) == 2
    assert errors[0].endswith("No such file or directory" if content is None else "there is no report in it")
    assert errors[1].endswith("Is a directory")


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (None, "off: TRITON_LINEAR is not set; a program may call install()"),
        ("0", "off: TRITON_LINEAR=0; a program may call install()"),
        ("exact", "on: TRITON_LINEAR=exact"),
        ("fast", "off: TRITON_LINEAR=fast: no option 'fast'"),
    ],
)
def test_whether_it_is_on(
    variable: str | None, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_LINEAR", raising=False)
    if variable is not None:
        monkeypatch.setenv("TRITON_LINEAR", variable)
    assert cli.main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(said) for line in lines)
    assert any(line.startswith("decisions in ") for line in lines)
