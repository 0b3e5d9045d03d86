"""Places in source files, out of printed MLIR locations. Needs neither MLIR nor Triton."""

from __future__ import annotations

import re

# A location's first file position, inside whatever wraps it: a name, a call site, a fusion.
_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)(?::(\d+))?')
_LIBRARY = re.compile(r"[/\\]triton[/\\](?:language|experimental)[/\\]")


def position(location: str) -> tuple[str, int, int]:
    """File, line and column of a printed location; `("", 0, 0)` when it holds none.

    >>> position('loc("kernel"("a.py":3:4))')
    ('a.py', 3, 4)
    """
    if found := _POSITION.search(location):
        return found[1], int(found[2]), int(found[3] or 0)
    if found := re.fullmatch(r"(.+):(\d+):(\d+)", location):
        return found[1], int(found[2]), int(found[3])
    return "", 0, 0


def user_position(location: str) -> tuple[str, int, int]:
    """The same in the user's own source: of a call into Triton's library, where it is called.

    >>> user_position('loc(callsite("/x/triton/language/standard.py":1:2 at "a.py":3:4))')
    ('a.py', 3, 4)
    """
    found = [(file, int(line), int(column or 0)) for file, line, column in _POSITION.findall(location)]
    return next((place for place in found if not _LIBRARY.search(place[0])), position(location))


def library_position(location: str) -> tuple[str, int]:
    """File and line in Triton's library of what the user's line calls; `("", 0)` where it calls nothing there.

    >>> inner, outer = '"/x/triton/language/core.py":1:2', '"/x/triton/language/standard.py":3:4'
    >>> library_position(f'loc(callsite({inner} at callsite({outer} at "a.py":5:6)))')
    ('/x/triton/language/standard.py', 3)
    """
    before = "", 0
    for file, line, _ in _POSITION.findall(location):
        if not _LIBRARY.search(file):
            return before
        before = file, int(line)
    return "", 0


def user_line(location: str) -> str:
    """File and line in the user's own source; the location as it is where it says none.

    >>> user_line('loc(callsite("/x/triton/language/standard.py":1:2 at "a.py":3:4))')
    'a.py:3'
    """
    file, line, _ = user_position(location)
    return f"{file}:{line}" if line else location
