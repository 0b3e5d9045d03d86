"""Imports run one way: a room knows those below it, and packages of a room import one another in no circle, not
even inside functions. No test imports another."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("dialect", "lowering", "passes", "plugin", "tools")
BELOW = {
    "dialect": set(),
    "lowering": {"dialect"},
    "passes": {"dialect", "lowering"},
    "plugin": {"dialect", "lowering", "passes"},
    "gluon": {"dialect", "lowering"},
    "examples": {"plugin", "gluon"},
    "tools": {"dialect", "lowering", "passes", "plugin", "gluon", "examples"},
}


def modules_named(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """What an import statement names, by folder: `triton_linear.hook` is in the room plugin."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        first, *rest = name.split(".")
        if first == "triton_linear":
            yield tuple(rest) if rest and (ROOT / rest[0]).is_dir() else ("plugin", *rest)


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_what_is_below_it(room: str) -> None:
    files = {path: ast.parse(path.read_text()) for path in sorted((ROOT / room).rglob("*.py"))}
    found = [
        (path, parts[0])
        for path, tree in files.items()
        for node in ast.walk(tree)
        for parts in modules_named(node)
    ]
    assert found
    assert [(path, other) for path, other in found if other not in (room, *BELOW[room])] == []


def package_of(path: Path) -> str:
    """The folder of a file, up to the second level; files at the root of a room are a package too."""
    return "/".join(path.relative_to(ROOT).parent.parts[:2])


def package_named(parts: Sequence[str]) -> str:
    inside = len(parts) > 1 and (ROOT / parts[0] / parts[1]).is_dir()
    return "/".join(parts[: 2 if inside else 1])


def imports_of(room: str) -> dict[str, set[str]]:
    """The packages of the same room that each package imports, wherever in its files the statement stands."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / room).rglob("*.py")):
        own = found.setdefault(package_of(path), set())
        for node in ast.walk(ast.parse(path.read_text())):
            own |= {package_named(parts) for parts in modules_named(node) if parts[0] == room}
        own.discard(package_of(path))
    return found


def cycles(graph: Mapping[str, set[str]]) -> Iterator[str]:
    """Every cycle through different packages, once: it begins at the first of them by name."""

    def walk(path: tuple[str, ...]) -> Iterator[str]:
        for following in sorted(graph.get(path[-1], ())):
            if following == path[0]:
                yield " -> ".join((*path, following))
            elif following > path[0] and following not in path:
                yield from walk((*path, following))

    for first in sorted(graph):
        yield from walk((first,))


def test_packages_of_a_room_do_not_import_one_another_in_circles() -> None:
    graphs = [imports_of(room) for room in ROOMS]
    assert sum(len(others) for graph in graphs for others in graph.values()) > 30, "imports are not seen"
    found = {cycle for graph in graphs for cycle in cycles(graph)}
    assert found == set()


def test_a_cycle_is_found_once() -> None:
    assert list(cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == []
    graph = {"a": {"b"}, "b": {"c", "a"}, "c": {"a"}}
    assert list(cycles(graph)) == ["a -> b -> a", "a -> b -> c -> a"]


def test_tests_import_what_they_share_from_support_alone() -> None:
    tests = {path.stem for path in (ROOT / "test" / "unit").rglob("test_*.py")}
    for path in sorted((ROOT / "test" / "unit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not tests & {alias.name for alias in node.names}, path
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in tests, path
