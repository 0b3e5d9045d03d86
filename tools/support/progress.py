"""Show the progress of commands that take long."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CLEAR = "\r\x1b[K"


@contextmanager
def status_line(what: str) -> Iterator[None]:
    """Show `what` in the last line of the terminal while the block runs, and clear the line afterwards.

    Output of the block itself follows on the same line. Does nothing if standard error is no terminal.
    """
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
    """Print a line about the progress of the command to standard error, without buffering."""
    print(text, file=sys.stderr, flush=True)
