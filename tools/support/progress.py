"""What a command is at, where that takes long."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CLEAR = "\r\x1b[K"


@contextmanager
def told(what: str) -> Iterator[None]:
    """While the block runs, the last line of the terminal says what it is at; then that line is empty again.
    What the block itself writes comes behind it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    width = shutil.get_terminal_size().columns - 1
    text = what if len(what) <= width else what[: max(width - 3, 0)] + "..."
    print(f"{_CLEAR}{text}", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """A line about what the command has come to, on the standard error: a terminal, a file and a pipe get it at
    once."""
    print(text, file=sys.stderr, flush=True)
