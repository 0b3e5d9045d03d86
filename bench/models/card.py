"""One process at a time uses a GPU: neither autotuners nor measurements may notice others that prepare."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Card:
    """A GPU as a lock on a file. Each holder has a `Card` of its own, and may hold what it holds already."""

    def __init__(self, path: Path) -> None:
        self._path, self._depth = path, 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """In the block nobody else has the GPU. A process that is killed gives it back."""
        if self._depth:
            yield
            return
        with self._path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
