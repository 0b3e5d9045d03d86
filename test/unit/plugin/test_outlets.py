"""What becomes of a report and of a kernel: the options `dump` and `report`."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
from fault_kernels import lowered
from plugin_processes import printed
from plugin_support import CUDA, transpose

import triton_linear
from triton_linear import environment, hook, outlets
from triton_linear.compile_record import CompileRecord
from triton_linear.outlets import Outlets
from triton_linear.report import Outcome, PhaseClock, Report, ReportedConversion, ReportWarning
from triton_linear.setting import Options, Setting

pytestmark = pytest.mark.usefixtures("fresh")

SOURCE = support.source(transpose, 32)


def compiled(**options: Any) -> Any:
    return lowered(SOURCE, CUDA, {}, options)


def test_both_sides_of_a_kernel_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    compiled(dump=str(folder))
    before, after = (next(folder.glob(f"transpose-*.{side}.ttgir")).read_text() for side in ("before", "after"))
    assert "ttg.convert_layout" in before and "llvm." not in before
    assert "ttg.convert_layout" not in after and "llvm." in after
    assert len(list(folder.iterdir())) == 2


def test_a_kernel_that_is_left_is_the_same_on_both_sides(tmp_path: Path) -> None:
    compiled(dump=str(tmp_path / "left"), lower=False, assign=False)
    before, after = sorted((tmp_path / "left").iterdir(), key=lambda path: "after" in path.name)
    assert before.read_text() == after.read_text()


def test_a_kernel_that_fails_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_linear.passes import attempts

    def fail(*_: object, **__: object) -> Any:
        raise LookupError("tripped")

    monkeypatch.setattr(attempts, "prepare", fail)
    with pytest.raises(LookupError, match="tripped"):
        compiled(dump=str(tmp_path / "failed"), strict=True)
    assert len(list((tmp_path / "failed").iterdir())) == 2


def test_a_failure_that_nobody_was_warned_of_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """That of a worker, which compiles for a contest: its own warning is not seen."""
    record = CompileRecord("softmax", PhaseClock(), outcome=Outcome.FAILED, error=ValueError("tripped"))
    setting = Setting(Options(wait=False))
    with caplog.at_level("DEBUG", "triton_linear"):
        Outlets(setting, "cuda:90").tell(record.report("cuda:90"))
        setting.warned.add(("softmax", "cuda:90"))
        Outlets(setting, "cuda:90").tell(record.report("cuda:90"))
    assert [entry.levelname for entry in caplog.records] == ["WARNING", "DEBUG"]
    assert "error: ValueError: tripped" in caplog.text


def test_a_folder_that_cannot_be_made_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(ReportWarning, match="cannot be written"):
        compiled(dump=str(tmp_path / "file" / "folder"))
    report = triton_linear.last_report()
    assert report is not None and report.ours == 1


def test_the_path_goes_to_other_processes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    triton_linear.install(dump="relative folder")
    setting = hook._state.current()
    assert setting is not None
    assert setting.options.dump == str(tmp_path / "relative folder")
    assert environment.parse(environment.text_of(setting.options)) == setting.options
    with pytest.raises(ValueError, match="without commas"):
        triton_linear.install(dump="a,b")
    for text in ("dump", "dump="):
        with pytest.raises(ValueError, match="option 'dump' has no value"):
            environment.parse(text)


def test_nothing_is_written_without_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled()
    assert not list(tmp_path.glob("*.ttgir"))


# The option `report`


WRITERS, LINES = 4, 100
LONG = Report(
    "long",
    "cuda:90",
    Outcome.CONVERTED,
    seen=50,
    conversions=(ReportedConversion("kernel.py:1", "#source" * 40, "#result" * 40, "shuffle"),) * 50,
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_the_whole_report(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    for _ in range(2):
        report = lowered(SOURCE, CUDA, {}, {"report": path}).report
    assert report is not None
    first, second = lines(path)
    assert first["date"] <= second["date"]
    assert second["process"] == os.getpid()
    counts = {name: second[name] for name in ("seen", "ours", "noop", "folded", "avoided", "kept", "emitted")}
    assert counts == {name: getattr(report, name) for name in counts}
    assert (second["kernel"], second["target"], second["outcome"]) == ("transpose", "cuda:90", "converted")
    assert [each["detail"] for each in second["conversions"]] == [each.detail for each in report.conversions]
    assert second["seconds"].keys() == report.seconds.keys()
    assert (second["error"], second["remarks"]) == (None, [])


def test_a_failure_is_a_line_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_linear.passes import attempts

    def fail(*_: object, **__: object) -> Any:
        raise LookupError("tripped")

    monkeypatch.setattr(attempts, "prepare", fail)
    with pytest.warns(triton_linear.FallbackWarning):
        lowered(SOURCE, CUDA, {}, {"report": tmp_path / "reports"})
    (line,) = lines(tmp_path / "reports")
    assert (line["outcome"], line["error"]) == ("failed", "LookupError: tripped")
    assert "tripped" in line["traceback"]


def test_it_is_no_part_of_the_key() -> None:
    assert Setting(Options(report="/a")).fingerprint == Setting(Options()).fingerprint
    assert Setting(Options(dump="/a")).fingerprint != Setting(Options()).fingerprint
    assert Options(report="/a").undecided


def test_a_kernel_from_a_cache_makes_no_line(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    with triton_linear.enabled(strict=True):
        support.compile_kernel(transpose, width=32)
    with triton_linear.enabled(strict=True, report=path):
        support.compile_kernel(transpose, width=32)
        assert not path.exists()
        support.compile_kernel(transpose, width=64)
    assert len(lines(path)) == 1


def test_the_path_holds_in_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITON_LINEAR", raising=False)
    triton_linear.install(report=Path("reports"))
    options = environment.parse(os.environ["TRITON_LINEAR"])
    assert options is not None
    assert options.report == str(tmp_path / "reports")
    with pytest.raises(ValueError, match="option 'report' has no value"):
        environment.parse("report")
    with pytest.raises(ValueError, match="report takes a path without commas"):
        triton_linear.install(report="a,b")


# Processes


def _write_many(path: str) -> None:
    for _ in range(LINES):
        outlets.append(path, LONG)


def test_writers_at_once_divide_no_line(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    with ProcessPoolExecutor(WRITERS, mp_context=get_context("fork")) as pool:
        list(pool.map(_write_many, [str(path)] * WRITERS))
    found = lines(path)
    assert len(found) == WRITERS * LINES
    assert all(len(line["conversions"]) == 50 for line in found)
    assert len(path.read_bytes()) > 1 << 20


# What goes wrong


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("where", ["/dev/full", "no/such/folder/file", "."])
def test_a_file_that_cannot_be_written_is_one_warning(where: str, strict: bool, tmp_path: Path) -> None:
    path = tmp_path / where
    stock = lowered(SOURCE, CUDA, {}, {"strict": True})
    with triton_linear.enabled(report=path, strict=strict), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert _again() == stock.llir
    (warning,) = (each for each in caught if each.category is triton_linear.ReportWarning)
    assert str(warning.message).startswith(f"triton_linear: reports cannot be written to {path}: ")


def test_a_lock_that_is_held_keeps_no_compile_waiting(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        outlets.append(str(path), LONG)
    assert [line["kernel"] for line in lines(path)] == ["long"]


def _again() -> str:
    """The kernel under the setting that is in force."""
    from fault_kernels import _lowered

    return _lowered(SOURCE, CUDA, {}).llir


def test_after_a_line_that_was_cut_the_next_is_whole(tmp_path: Path) -> None:
    """As where the disk became full within a line, and has room again."""
    path = tmp_path / "reports"
    code = f"""
import resource
from test_outlets import LONG, outlets
outlets.append({str(path)!r}, LONG)
resource.setrlimit(resource.RLIMIT_FSIZE, (40000, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        outlets.append({str(path)!r}, LONG)
        raise SystemExit("there was room")
    except OSError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
outlets.append({str(path)!r}, LONG)
"""
    assert len(outlets.line_of(LONG)) in range(20001, 40000)
    path_of = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    assert "bytes could be written" in printed("-c", code, PYTHONPATH=path_of)
    texts = path.read_text().splitlines()
    assert len(texts) == 3
    assert [json.loads(text)["kernel"] for text in (texts[0], texts[2])] == ["long", "long"]
    with pytest.raises(ValueError):
        json.loads(texts[1])
