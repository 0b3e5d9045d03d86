"""Python's garbage collector, held back while the plugin works.

It looks through the newest objects each time some hundreds more are there than before, and now and then through
all that a process has: 20 to 30 ms where Triton is imported. The passes and their imports make ten thousands
of objects and need no collector to free them, so it would come often and find nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Holder:
    """How many blocks there are in which no garbage is collected, in all threads and in each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._stopped = False
        self._own = threading.local()

    @contextmanager
    def block(self) -> Iterator[None]:
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        """One more block of this thread, or one less. Whoever comes first stops the collector, unless it was
        off; who leaves last lets it go on."""
        with self._lock:
            self._blocks += change
            self._own.blocks = getattr(self._own, "blocks", 0) + change
            self._settle()

    def _settle(self) -> None:
        """Stop the collector, or let it go on. It never is stopped and not known to be: another thread may fork
        at any place."""
        if self._blocks and not self._stopped and gc.isenabled():
            self._stopped = True
            gc.disable()
        elif not self._blocks and self._stopped:
            gc.enable()
            self._stopped = False

    def forked(self) -> None:
        """In a child process, where only the thread is left that forked, with its blocks."""
        self._lock = threading.Lock()
        self._blocks = getattr(self._own, "blocks", 0)
        self._settle()


_holder = _Holder()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_holder.forked)

held_back = _holder.block
"""Within the block no garbage is collected, in no thread, but for who asks for it by `gc.collect`.

Blocks nest, and several threads may have some. Behind the last one the collector is as it was before the first.
"""
