"""What docstrings and documents show as code runs, and gives what they say."""

from __future__ import annotations

import doctest
import importlib
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


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name
)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert missing == []
