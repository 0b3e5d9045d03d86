"""Count the blocks that are open in a process, of all threads and of each."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Blocks:
    """Blocks that nest, and that several threads may be in.

    settle: is told whether any block is open, whenever one begins or ends. Only one thread is in it at a time.
    """

    def __init__(self, settle: Callable[[bool], None]) -> None:
        self.lock = threading.Lock()
        self._settle = settle
        self._count = 0
        self._own = threading.local()
        os.register_at_fork(after_in_child=self._forked)

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, change: int) -> None:
        with self.lock:
            self._count += change
            self._own.count = getattr(self._own, "count", 0) + change
            self._settle(self._count > 0)

    def _forked(self) -> None:
        """Called in a child process, which has only the thread that forked: count only its blocks."""
        self.lock = threading.Lock()
        self._count = getattr(self._own, "count", 0)
        self._settle(self._count > 0)
