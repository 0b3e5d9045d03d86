"""Match source lines of two sides, if a file was edited or copied between the compiles.

A line is replaced by the first line of its statement: if a statement has several lines, releases of Triton
give its operations different ones.
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
    """For each side, a function that maps its lines to lines of the first side's files.

    A file of both sides keeps its lines. Any other file of the second side is matched with a file of the
    first that has the same name, or with the only one left. Its lines are matched by their text: anywhere if
    the text occurs once in each file, else by a diff, in which replaced blocks of equal length are matched
    line by line. Lines without a match keep their own place.
    """
    files_a, files_b = set(first), set(second)
    only_b, only_a = sorted(files_b - files_a), sorted(files_a - files_b)
    partners = {}
    for file in only_b:
        same = [other for other in only_a if PurePath(other).name == PurePath(file).name]
        if len(same) == 1:
            partners[file] = same[0]
    unmatched_b = [file for file in only_b if file not in partners]
    unmatched_a = [file for file in only_a if file not in partners.values()]
    if len(unmatched_b) == len(unmatched_a) == 1:
        partners[unmatched_b[0]] = unmatched_a[0]
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
    """The first line of a line's statement; the line itself if the file is not Python."""
    file, line = place
    return file, _statements(file).get(line, line)


@functools.lru_cache(maxsize=64)
def _statements(file: str) -> dict[int, int]:
    """For each line of a Python file, the first line of its statement, where a body has its own statements."""
    if not file.endswith(".py"):
        return {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    starts: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            starts |= dict.fromkeys(range(node.lineno, end + 1), node.lineno)
    return starts


def _lines(first: str, second: str) -> dict[int, int] | None:
    """The matching lines: {line of the second file: line of the first}. None if a file cannot be read."""
    before, after = ([line.strip() for line in linecache.getlines(name)] for name in (first, second))
    if not before or not after:
        return None
    unique_before, unique_after = _unique(before), _unique(after)
    matches = {unique_after[text]: unique_before[text] for text in unique_after if text in unique_before}
    matched = set(matches.values())
    for tag, a, a_end, b, b_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and a_end - a == b_end - b):
            for old, new in zip(range(a + 1, a_end + 1), range(b + 1, b_end + 1), strict=True):
                if new not in matches and old not in matched:
                    matches[new] = old
    return matches


def _unique(lines: list[str]) -> dict[str, int]:
    """The line numbers of the texts that occur once.

    >>> _unique(["a", "b", "a"])
    {'b': 2}
    """
    times = Counter(lines)
    return {text: number for number, text in enumerate(lines, 1) if times[text] == 1}
