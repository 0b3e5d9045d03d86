"""Disable Python's garbage collector while the plugin works.

The collector scans new objects after every few hundred allocations, and sometimes all objects of the process:
20 to 30 ms if Triton is imported. The passes and their imports make tens of thousands of objects, but hardly
any reference cycles, so the collector would run often and free nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Holder:
    """Counts the open blocks of all threads and of each thread; the collector is off while there are any."""

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
        """Add `change` to the number of blocks of this thread and of the process. The first block disables the
        collector, unless it was disabled; the end of the last one enables it again."""
        with self._lock:
            self._blocks += change
            self._own.blocks = getattr(self._own, "blocks", 0) + change
            self._settle()

    def _settle(self) -> None:
        """Disable or enable the collector to match the count. `_stopped` is set before the collector is
        disabled and reset after it is enabled, since another thread may fork in between."""
        if self._blocks and not self._stopped and gc.isenabled():
            self._stopped = True
            gc.disable()
        elif not self._blocks and self._stopped:
            gc.enable()
            self._stopped = False

    def forked(self) -> None:
        """Called in a child process, which has only the thread that forked: count only its blocks."""
        self._lock = threading.Lock()
        self._blocks = getattr(self._own, "blocks", 0)
        self._settle()


_holder = _Holder()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_holder.forked)

held_back = _holder.block
"""Within the block, no thread collects garbage, except by calling `gc.collect`.

Blocks nest, and several threads may be in blocks. The end of the last one restores the collector.
"""
