"""Places of one source that are places of another: where a file was edited, or is a copy.

A place is the line where a statement begins: releases of Triton do not agree on the line of an operation whose
statement has several.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections import Counter
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from pathlib import PurePath

from triton_linear.tools.diff.assembly import Where


def aligned(
    first: Iterable[str], second: Iterable[str]
) -> tuple[Callable[[Where], Where], Callable[[Where], Where]]:
    """What lines of files of two sides are called: by the statements of the first.

    A file that both have keeps its lines. Another is that of the same name, or the only other one; its lines
    are those with the same text, wherever it moved where each has it once, and as many in a row that differ are
    taken one by one. The rest keep their own place.
    """
    here, there = set(first), set(second)
    missing, free = sorted(there - here), sorted(here - there)
    partners = {}
    for file in missing:
        same = [other for other in free if PurePath(other).name == PurePath(file).name]
        if len(same) == 1:
            partners[file] = same[0]
    left = [file for file in missing if file not in partners]
    others = [file for file in free if file not in partners.values()]
    if len(left) == len(others) == 1:
        partners[left[0]] = others[0]
    tables = {file: (other, _lines(other, file)) for file, other in partners.items()}

    def where(place: Where) -> Where:
        file, line = place
        if file not in tables:
            return statement(place)
        other, table = tables[file]
        if table is None:
            return other, line
        return statement((other, table[line]) if line in table else place)

    return statement, where


def statement(place: Where) -> Where:
    """The line where the statement of a line begins; the line itself in what is no Python."""
    file, line = place
    return file, _statements(file).get(line, line)


@functools.lru_cache(maxsize=64)
def _statements(file: str) -> dict[int, int]:
    """For each line of a Python file the first one of its statement; a body is none of its statement."""
    if not file.endswith(".py"):
        return {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            found |= dict.fromkeys(range(node.lineno, end + 1), node.lineno)
    return found


def _lines(first: str, second: str) -> dict[int, int] | None:
    """For lines of the second file those of the first; None where one cannot be read, so lines are the same."""
    before, after = ([line.strip() for line in linecache.getlines(name)] for name in (first, second))
    if not before or not after:
        return None
    once, there = _only(before), _only(after)
    found = {there[text]: once[text] for text in there if text in once}
    taken = set(found.values())
    for tag, a, a_end, b, b_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and a_end - a == b_end - b):
            for here, line in zip(range(a + 1, a_end + 1), range(b + 1, b_end + 1), strict=True):
                if line not in found and here not in taken:
                    found[line] = here
    return found


def _only(lines: list[str]) -> dict[str, int]:
    """The numbers of lines whose text there is once.

    >>> _only(["a", "b", "a"])
    {'b': 2}
    """
    times = Counter(lines)
    return {text: number for number, text in enumerate(lines, 1) if times[text] == 1}
