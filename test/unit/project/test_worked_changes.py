"""The checklists of `docs/builders/adding.md` have every place of a change, and these changes are in the code.
Taken out of a copy, as a whole or one place at a time, they are missed as the page says; put back, the copy is
the code again."""

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
PAGE = ROOT / "docs" / "builders" / "adding.md"
CHANGES = Path(__file__).parent / "changes"
KINDS = ("encoding", "operation", "planner", "target", "instruction")
ROOMS = ("dialect", "lowering", "passes", "tools", "gluon")


@dataclass(frozen=True)
class Hunk:
    """Neighbouring lines of a file, without the change and with it."""

    file: str
    before: str
    after: str


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


def changes(kind: str) -> list[Hunk]:
    """The change of one kind."""
    found = hunks((CHANGES / f"{kind}.diff").read_text())
    assert found
    return found


def checklist(kind: str) -> dict[str, str]:
    """The files that the page names for a kind of change, each with what it says in the last column."""
    _, _, section = PAGE.read_text().partition(f"## {'An' if kind[0] in 'eio' else 'A'} {kind}\n")
    rows = re.findall(r"^\| `([^`]+\.py)`.* \| ([^|]+) \|$", section.partition("\n## ")[0], re.M)
    return dict(rows)


def place(folder: Path, file: str) -> Path:
    """Where a file of the project is in a copy; a test is no part of the package."""
    return (folder / "triton_linear" if file.partition("/")[0] in ROOMS else folder) / file


def without(folder: Path, hunks_: list[Hunk]) -> None:
    """Make a copy of the package, without these lines."""
    shutil.copytree(ROOT / "plugin", folder / "triton_linear", ignore=shutil.ignore_patterns("__pycache__"))
    for hunk in hunks_:
        path = place(folder, hunk.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else (ROOT / hunk.file).read_text()
        path.write_text(exchange(text, hunk.after, hunk.before, hunk.file))
    for file in {hunk.file for hunk in hunks_}:
        compile(place(folder, file).read_text(), file, "exec")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What Python does with these arguments where the package is the copy in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


def used(folder: Path, kind: str) -> subprocess.CompletedProcess[str]:
    """The script of a change, run with the copy in `folder`."""
    code = "import runpy, sys, triton_linear; assert triton_linear.__file__.startswith(sys.argv[1])"
    return run(folder, "-c", f"{code}; runpy.run_path(sys.argv[2])", str(folder), str(CHANGES / f"{kind}.py"))


def output(folder: Path, kind: str) -> str:
    done = used(folder, kind)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_change_is_what_it_takes(kind: str, tmp_path: Path) -> None:
    change = changes(kind)
    without(tmp_path, change)
    assert output(tmp_path, kind) == (CHANGES / f"{kind}.without.txt").read_text()
    for hunk in change:
        path = place(tmp_path, hunk.file)
        path.write_text(exchange(path.read_text(), hunk.before, hunk.after, hunk.file))
    assert all(place(tmp_path, hunk.file).read_text() == (ROOT / hunk.file).read_text() for hunk in change)
    assert output(tmp_path, kind) == (CHANGES / f"{kind}.with.txt").read_text()


@pytest.mark.parametrize(
    ("kind", "file", "said"), [(kind, *row) for kind in KINDS for row in checklist(kind).items()]
)
def test_each_place_is_missed(kind: str, file: str, said: str, tmp_path: Path) -> None:
    """As the last column says: what the script prints, or `nothing`."""
    without(tmp_path, [hunk for hunk in changes(kind) if hunk.file == file])
    done = used(tmp_path, kind)
    expected = (CHANGES / f"{kind}.with.txt").read_text()
    if said.startswith("nothing"):
        assert done.stdout == expected
    else:
        assert done.stdout != expected
        assert said.strip("`") in done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_the_checklist_has_every_place(kind: str) -> None:
    assert list(checklist(kind)) == list(dict.fromkeys(hunk.file for hunk in changes(kind)))
    assert f"changes/{kind}.diff" in PAGE.read_text()
