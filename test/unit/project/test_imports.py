"""Imports run one way: a room knows those below it, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BELOW = {
    "dialect": set(),
    "lowering": {"dialect"},
    "passes": {"dialect", "lowering"},
    "plugin": {"dialect", "lowering", "passes"},
    "gluon": {"dialect", "lowering"},
    "examples": {"plugin", "gluon"},
    "tools": {"dialect", "lowering", "passes", "plugin", "gluon", "examples"},
}


def rooms_named(node: ast.AST) -> Iterator[str]:
    """The rooms that an import statement reaches; `triton_linear` itself is the room plugin."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == "triton_linear":
        names = [f"triton_linear.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module]
    for name in names:
        parts = [*name.split("."), ""]
        if parts[0] == "triton_linear":
            yield parts[1] if parts[1] in BELOW else "plugin"


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_what_is_below_it(room: str) -> None:
    against: dict[tuple[str, str], list[bool]] = {}
    seen = 0
    for path in sorted((ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            for other in rooms_named(node):
                seen += 1
                if other != room and other not in BELOW[room]:
                    place = (path.relative_to(ROOT).as_posix(), other)
                    against.setdefault(place, []).append(node in tree.body)
    assert seen
    assert not against
