"""What docstrings and documents show as code runs, and gives what they say."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "dialect": "triton_linear.dialect",
    "passes": "triton_linear.passes",
    "lowering": "triton_linear.lowering",
    "plugin": "triton_linear",
    "tools": "triton_linear.tools",
    "examples": "triton_linear.examples",
    "gluon": "triton_linear.gluon",
}


def modules_with_doctests() -> list[str]:
    names = []
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE):
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                names.append(".".join((package, *(part for part in parts if part != "__init__"))))
    return names


@pytest.mark.parametrize("name", modules_with_doctests())
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("document", ["algebra.md", "lowerings.md"])
def test_documents(document: str) -> None:
    result = doctest.testfile(str(ROOT / "docs" / document), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("document", ["gluon.md"])
def test_code_of_documents(document: str) -> None:
    """Its blocks, one after the other: what they assert holds, and they print what their comments say."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / document).read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) > 3
    names: dict[str, object] = {}
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, document, "exec"), names)
        said = [line.removeprefix("# ").rstrip() for line in block.splitlines() if line.startswith("# ")]
        assert all(line in printed.getvalue() for line in said), printed.getvalue()


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name
)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert missing == []


def test_the_tests_that_show_faults_are_there() -> None:
    named = re.findall(r"`(test_\w+\.py)`((?:[, ]+`test_\w+`)+)", (ROOT / "docs" / "faults.md").read_text())
    assert len(named) > 30
    for file, tests in named:
        text = (ROOT / "test" / "unit" / file).read_text()
        for test in re.findall(r"`(\w+)`", tests):
            assert f"def {test}(" in text, (file, test)
