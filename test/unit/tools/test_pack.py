"""`triton-linear pack`: another machine of the same kind compiles nothing, and takes nothing else."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from plugin_support import CUDA, compile_kernel, transpose
from triton import knobs

from triton_linear.decisions import Circumstances, Decision, DecisionFile
from triton_linear.hook import pinned
from triton_linear.setting import Options
from triton_linear.tools import cli, pack


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of a cache with a kernel of each side and a decision; the cache is another, empty one then."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "first"))
    monkeypatch.setattr(pack, "default_file", lambda: tmp_path / "decisions.jsonl")
    about = Circumstances("digest", "GPU", "cuda:90", "3.9.0", "", "package")
    DecisionFile(tmp_path / "decisions.jsonl").put([Decision(about, "ours", "kernel", 1.0, 1.0, 1.0, "now")])
    compile_kernel(transpose, CUDA)
    with pinned(Options()):
        compile_kernel(transpose, CUDA)
    archive = tmp_path / "kernels.tar.gz"
    assert cli.main(["pack", str(archive)]) == 0
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "second"))
    (tmp_path / "decisions.jsonl").unlink()
    return archive


def changed(archive: Path, name: str, data: bytes | None, new: str = "") -> None:
    """Replace or rename a file of an archive."""
    with tarfile.open(archive) as given:
        files = {member.name: given.extractfile(member).read() for member in given}  # type: ignore[union-attr]
    old = files.pop(name)
    files[new or name] = old if data is None else data
    with tarfile.open(archive, "w:gz") as made:
        for each, content in files.items():
            member = tarfile.TarInfo(each)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))


def manifest(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as given:
        found: dict[str, Any] = json.loads(given.extractfile("manifest.json").read())  # type: ignore[union-attr]
    return found


def test_another_machine_compiles_nothing(
    warm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pack", "--unpack", str(warm)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 kernels in ")
    hits: list[bool] = []
    with knobs.compilation.scope():
        knobs.compilation.listener = lambda **given: hits.append(given["cache_hit"])
        stock = compile_kernel(transpose, CUDA)
        with pinned(Options()) as reports:
            ours = compile_kernel(transpose, CUDA)
    assert hits == [True, True] and reports == [] and stock.kernel != ours.kernel
    assert all(str(tmp_path / "second") in place for place in ours.metadata_group.values())
    (decision,) = DecisionFile(tmp_path / "decisions.jsonl").read()
    assert decision.variant == "ours"
    assert cli.main(["pack", "--unpack", str(warm)]) == 0
    assert "; 0 of " in capsys.readouterr().out, "what is there stays"


@pytest.mark.parametrize(
    ("fact", "value", "said"),
    [
        ("gpus", ["NVIDIA H999"], "is for GPU NVIDIA H999; here is "),
        ("triton", "2.0", "is for Triton 2.0; here is 3."),
        ("package", "0" * 64, "is for source of this package 0000"),
    ],
)
def test_what_does_not_fit_is_one_line(
    warm: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, fact: str, value: object, said: str
) -> None:
    changed(warm, "manifest.json", json.dumps({**manifest(warm), fact: value}).encode())
    assert cli.main(["pack", "--unpack", str(warm)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and not (tmp_path / "second").exists()


def test_what_is_damaged_is_not_taken(warm: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = next(name for name in manifest(warm)["files"] if name.endswith(".cubin"))
    changed(warm, name, b"other code")
    assert cli.main(["pack", "--unpack", str(warm)]) == 1
    assert "is damaged" in capsys.readouterr().err and not (tmp_path / "second").exists()


def test_nothing_is_written_outside(warm: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = manifest(warm)
    name = next(iter(given["files"]))
    given["files"]["../outside"] = given["files"].pop(name)
    changed(warm, name, None, "../outside")
    changed(warm, "manifest.json", json.dumps(given).encode())
    assert cli.main(["pack", "--unpack", str(warm)]) == 1
    assert "is damaged" in capsys.readouterr().err and not (tmp_path / "outside").exists()


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_other_files_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    assert cli.main(["pack", "--unpack", str(path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert cli.main(["pack", str(path), "--cache", str(tmp_path / "none")]) == 1
    assert "has no compiled kernels" in capsys.readouterr().err
