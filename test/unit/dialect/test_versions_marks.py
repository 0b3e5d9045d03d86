"""Words by which a module of another release of Triton is known, and what the tools say of such a one."""

from __future__ import annotations

from pathlib import Path

import bridge_kernels
import pytest

from triton_linear.dialect import release_syntax, triton_versions
from triton_linear.dialect.release_syntax import MARKS, foreign_marks
from triton_linear.dialect.triton_versions import KNOWN
from triton_linear.tools.opt import command as opt

PRINTED = (
    ("control_flow", "hip:gfx942"),
    ("descriptors", "cuda:90"),
    ("matmul", "hip:gfx942"),
    ("matmul_clusters", "cuda:100"),
    ("warp_specialised", "cuda:90"),
)
HEAD = """\
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32} {
"""
OLD = HEAD + "  tt.func @k(%x: !tt.tensordesc<tensor<64x64xf16>>) {\n    tt.return\n  }\n}\n"
NEW = OLD.replace("tensor<64x64xf16>", "64x64xf16")


@pytest.mark.parametrize(("name", "target"), PRINTED)
def test_what_this_release_prints_is_no_other_ones(name: str, target: str) -> None:
    text = str(bridge_kernels.ttgir(name, target))
    assert foreign_marks(text, triton_versions.installed_release()) == []


def test_what_this_release_prints_bears_marks() -> None:
    texts = [str(bridge_kernels.ttgir(name, target)) for name, target in PRINTED]
    assert sum(bool(mark.pattern.search(text)) for mark in MARKS for text in texts) >= 3


def test_every_mark_leaves_out_a_known_release() -> None:
    for mark in MARKS:
        inside = [release in mark.span for release in KNOWN]
        assert any(inside) and not all(inside), mark


def test_a_comment_is_no_mark() -> None:
    assert foreign_marks("// !tt.tensordesc<tensor<4xf32>>", (3, 9)) == []


@pytest.mark.parametrize("words", [(), ("--linear-pipeline", "--emit=ptx")])
def test_an_error_about_another_releases_module_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    old = triton_versions.installed_release() < (3, 8)
    path = tmp_path / "k.ttgir"
    path.write_text(NEW if old else OLD)
    assert opt.main([str(path), *words]) == 1
    err = capfd.readouterr().err
    assert f"{path}:2:" in err and "error: " in err
    (mark,) = foreign_marks(path.read_text(), triton_versions.installed_release())
    assert f"note: the module may be another release's: {mark}; this is {triton_versions.found()}" in err
    path.write_text(OLD if old else NEW)
    assert opt.main([str(path)]) == 0


def test_an_error_about_this_releases_module_has_no_hint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(HEAD + "  tt.fun\n}\n")
    assert opt.main([str(path)]) == 1
    assert "another release" not in capfd.readouterr().err
    assert release_syntax.foreign_marks(HEAD, triton_versions.installed_release()) == []
