"""One process at a time uses a GPU: neither autotuners nor measurements may notice others that prepare."""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POLL = 0.01
"""Seconds between attempts of who does not wait for ever."""


class Card:
    """A GPU as a lock on a file. Each holder has a `Card` of its own, and may hold what it holds already."""

    def __init__(self, path: Path) -> None:
        self._path, self._depth = path, 0

    @contextmanager
    def held(self, until: float = math.inf) -> Iterator[None]:
        """In the block nobody else has the GPU. A process that ends gives it back.

        Raises TimeoutError at `until`, a time of `time.monotonic()`.
        """
        if self._depth:
            yield
            return
        with self._path.open("a") as file:
            if until == math.inf:
                fcntl.flock(file, fcntl.LOCK_EX)
            else:
                _poll(file.fileno(), until)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1


def _poll(descriptor: int, until: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError("the GPU was not free in time") from None
            time.sleep(POLL)
