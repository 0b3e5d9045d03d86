"""The project grows no further: each ceiling is a number that a change may lower, and never raise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from triton_linear.lowering.target.policy import thresholds

ROOT = Path(__file__).parents[3]
SOURCE = ("dialect", "lowering", "passes", "plugin", "tools", "gluon")
SLACK = 0.05
"""The part by which a ceiling may lie above what there is: what was taken out is not to come back."""


def lines(*folders: str) -> int:
    """Lines of Python in folders, without what links lead to."""
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sum(path.read_bytes().count(b"\n") for path in files if path.resolve() == path)


def words() -> int:
    """Words of the documents that people read."""
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return sum(len(path.read_text(encoding="utf-8").split()) for path in files)


CEILINGS: dict[str, tuple[Callable[[], int], int]] = {
    "lines of source": (lambda: lines(*SOURCE), 44_920),
    "lines of tests": (lambda: lines("test"), 40_455),
    "words of documents": (words, 28_337),
    "fields of Policy": (lambda: len(thresholds()), 16),
}


@pytest.mark.parametrize("name", CEILINGS)
def test_nothing_grows(name: str) -> None:
    count, ceiling = CEILINGS[name]
    found = count()
    assert found <= ceiling, f"{found} {name}: take out as much as comes in"
    assert ceiling <= found * (1 + SLACK), f"{found} {name}: lower the ceiling of {ceiling}"
