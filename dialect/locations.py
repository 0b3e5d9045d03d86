"""Read positions in source files from printed MLIR locations. Needs neither MLIR nor Triton."""

from __future__ import annotations

import re

# A file position inside a location. A name, a call site or a fusion may enclose it.
_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)(?::(\d+))?')
_LIBRARY = re.compile(r"[/\\]triton[/\\](?:language|experimental)[/\\]")


def position(location: str) -> tuple[str, int, int]:
    """File, line and column of the first position in a printed location; `("", 0, 0)` if it has none.

    >>> position('loc("kernel"("a.py":3:4))')
    ('a.py', 3, 4)
    """
    if match := _POSITION.search(location):
        return match[1], int(match[2]), int(match[3] or 0)
    if match := re.fullmatch(r"(.+):(\d+):(\d+)", location):
        return match[1], int(match[2]), int(match[3])
    return "", 0, 0


def user_position(location: str) -> tuple[str, int, int]:
    """File, line and column in the user's source: for code of Triton's library, where the user calls it.

    >>> user_position('loc(callsite("/x/triton/language/standard.py":1:2 at "a.py":3:4))')
    ('a.py', 3, 4)
    """
    positions = [(file, int(line), int(column or 0)) for file, line, column in _POSITION.findall(location)]
    return next((place for place in positions if not _LIBRARY.search(place[0])), position(location))


def library_position(location: str) -> tuple[str, int]:
    """File and line, in Triton's library, of the function that the user's line calls; `("", 0)` if it calls
    none.

    >>> inner, outer = '"/x/triton/language/core.py":1:2', '"/x/triton/language/standard.py":3:4'
    >>> library_position(f'loc(callsite({inner} at callsite({outer} at "a.py":5:6)))')
    ('/x/triton/language/standard.py', 3)
    """
    callee = "", 0
    for file, line, _ in _POSITION.findall(location):
        if not _LIBRARY.search(file):
            return callee
        callee = file, int(line)
    return "", 0


def user_line(location: str) -> str:
    """`FILE:LINE` in the user's source; the location unchanged if it has no position.

    >>> user_line('loc(callsite("/x/triton/language/standard.py":1:2 at "a.py":3:4))')
    'a.py:3'
    """
    file, line, _ = user_position(location)
    return f"{file}:{line}" if line else location
