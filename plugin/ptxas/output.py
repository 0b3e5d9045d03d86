"""Hold back what one thread prints, while other threads print as usual.

Triton's stage `cubin` prints ptxas's log, and the whole PTX where ptxas fails. Of an assembly that is only a
trial, neither is to be shown unless its result is taken.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton_linear.dialect.blocks import Blocks

_own = threading.local()


def _kept() -> list[io.StringIO]:
    """What is kept for this thread: for each block that it is in, the outermost first."""
    if not hasattr(_own, "kept"):
        _own.kept = []
    found: list[io.StringIO] = _own.kept
    return found


class _Output:
    """Standard output, except for threads in blocks of `held_back`. stream: the standard output found."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        kept = _kept()
        return int((kept[-1] if kept else self.stream).write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _settle(is_open: bool) -> None:
    """Replace the standard output while a block is open. If somebody else replaced it meanwhile, that stays."""
    if is_open and not isinstance(sys.stdout, _Output):
        sys.stdout = _Output(sys.stdout)
    elif not is_open and isinstance(sys.stdout, _Output):
        sys.stdout = sys.stdout.stream


blocks = Blocks(_settle)


@contextmanager
def held_back() -> Iterator[io.StringIO]:
    """Within the block, what this thread prints is not shown; it is in what the block gets.

    Blocks nest, and several threads may be in blocks at a time.
    """
    with blocks.block():
        _kept().append(io.StringIO())
        try:
            yield _kept()[-1]
        finally:
            _kept().pop()
