"""The option `dump`: each kernel as it came and as it was compiled."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
from fault_kernels import lowered
from plugin_support import CUDA, transpose

import triton_linear
from triton_linear import environment, hook
from triton_linear.compile_record import CompileRecord
from triton_linear.outlets import Outlets
from triton_linear.report import Outcome, PhaseClock, ReportWarning
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
