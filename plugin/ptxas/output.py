"""Hold back what one thread prints, while other threads print as usual.

Triton's stage `cubin` prints ptxas's log, and the whole PTX where ptxas fails. Of an assembly that is only a
trial, neither is to be shown unless its result is taken.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Output:
    """Standard output, except for threads in blocks of `held_back`: what they print is kept.

    stream: the standard output found. blocks: those that are open in all threads.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.blocks = 0
        self._own = threading.local()

    @property
    def kept(self) -> list[io.StringIO]:
        """What is kept for this thread: for each block that it is in, the outermost first."""
        if not hasattr(self._own, "kept"):
            self._own.kept = []
        found: list[io.StringIO] = self._own.kept
        return found

    def write(self, text: str) -> int:
        return int((self.kept[-1] if self.kept else self.stream).write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_lock = threading.Lock()  # of the blocks that are counted, and of `sys.stdout` here


def _enter() -> tuple[_Output, io.StringIO]:
    with _lock:
        output = sys.stdout if isinstance(sys.stdout, _Output) else _Output(sys.stdout)
        sys.stdout = output
        output.blocks += 1
    output.kept.append(io.StringIO())
    return output, output.kept[-1]


def _leave(output: _Output) -> None:
    output.kept.pop()
    with _lock:
        output.blocks -= 1
        _put_back(output)


def _put_back(output: _Output) -> None:
    """Put the standard output found back if no block is open, unless somebody replaced it meanwhile."""
    if not output.blocks and sys.stdout is output:
        sys.stdout = output.stream


def _forked() -> None:
    """Called in a child process, which has only the thread that forked: count only its blocks."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    if isinstance(sys.stdout, _Output):
        sys.stdout.blocks = len(sys.stdout.kept)
        _put_back(sys.stdout)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def held_back() -> Iterator[io.StringIO]:
    """Within the block, what this thread prints is not shown; it is in what the block gets.

    Blocks nest, and several threads may be in blocks at a time.
    """
    output, kept = _enter()
    try:
        yield kept
    finally:
        _leave(output)
