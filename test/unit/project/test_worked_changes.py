"""The changes that `docs/add-*.md` show are those that the code has: taken out of a copy, they are missed, put
back, the copy is the code again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs").glob("add-*.md"))
ROOMS = ("dialect", "lowering", "passes", "tools", "gluon")


@dataclass(frozen=True)
class Hunk:
    """Neighbouring lines of a file, without the change and with it."""

    file: str
    before: str
    after: str


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def hunks(diff: str) -> list[Hunk]:
    """The hunks of a unified diff; what follows `@@` is for the reader."""
    found = []
    file = ""
    for part in re.split(r"^(?=--- |@@)", diff, flags=re.MULTILINE):
        head, _, body = part.partition("\n")
        if head.startswith("--- "):
            old, new = head.removeprefix("--- a/"), body.strip().removeprefix("+++ b/")
            assert old == new
            file = new
        elif head:
            lines = body.splitlines(keepends=True)
            assert {line[0] for line in lines} <= set(" +-"), body
            assert any(line[0] != " " for line in lines)
            before, after = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
            found.append(Hunk(file, before, after))
    return found


def exchange(text: str, old: str, new: str, file: str) -> str:
    """The text with one passage in another's place; it must be there, and once."""
    assert text.count(old) == 1, f"{file} has {text.count(old)} of these:\n{old}"
    return text.replace(old, new)


def output(folder: Path, script: str) -> str:
    """What the script prints where the package is the copy in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", f"import triton_linear\nprint(triton_linear.__file__)\n{script}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder,
        check=False,
    )
    first, _, rest = done.stdout.partition("\n")
    assert done.returncode == 0, done.stderr
    assert Path(first).is_relative_to(folder)
    return rest


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_change_is_what_it_takes(path: Path, tmp_path: Path) -> None:
    page = path.read_text()
    package = tmp_path / "triton_linear"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "plugin", package, ignore=ignored)
    changes = [hunk for diff in blocks(page, "diff") for hunk in hunks(diff)]
    assert changes
    original: dict[Path, str] = {}
    changed: dict[Path, str] = {}
    for hunk in changes:
        source = ROOT / hunk.file
        place = (package if hunk.file.split("/")[0] in ROOMS else tmp_path) / hunk.file
        text = changed.get(place) or original.setdefault(place, source.read_text())
        changed[place] = exchange(text, hunk.after, hunk.before, hunk.file)
    (script,) = blocks(page, "python")
    without, with_it = blocks(page, "text")
    for place, text in changed.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        compile(text, str(place), "exec")
    assert output(tmp_path, script).strip("\n") == without.strip("\n")
    for hunk in changes:
        place = (package if hunk.file.split("/")[0] in ROOMS else tmp_path) / hunk.file
        place.write_text(exchange(place.read_text(), hunk.before, hunk.after, hunk.file))
    assert all(place.read_text() == text for place, text in original.items())
    assert output(tmp_path, script).strip("\n") == with_it.strip("\n")


def test_every_kind_of_change_has_its_page() -> None:
    assert [path.stem for path in PAGES] == ["add-encoding", "add-instruction", "add-target"]
