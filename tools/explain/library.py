"""Find the function of Triton's library from which an operation comes."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from triton_linear.dialect.locations import library_position

SORTS = ("sort", "topk", "bitonic_merge")
"""The functions of Triton's library that exchange elements by XOR reductions over pairs."""


def sort_of(location: str) -> str:
    """The function of `SORTS` that the user's line calls and the operation belongs to, as `tl.sort`; else
    empty.
    """
    file, line = library_position(location)
    name = _functions(file).get(line, "") if file else ""
    return f"tl.{name}" if name in SORTS else ""


@functools.cache
def _functions(file: str) -> dict[int, str]:
    """The function around each line of a file; empty if it cannot be read, as on another machine."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {line: node.name for node in functions for line in range(node.lineno, (node.end_lineno or 0) + 1)}
