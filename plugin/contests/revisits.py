"""Opens contests again from time to time: a program may come to launches of other sizes.

A contest that has ended costs nothing, and sees nothing. So some time after its end launches go through it once
more, until most of them have sizes whose winner is known.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

AFTER: Final = (5.0, 60.0)
"""Seconds after which a contest is opened again, each counted from its latest end."""
_log = logging.getLogger("triton_linear")


class Revisits:
    """Calls functions some time later, in a thread that ends when there are none left.

    after: the seconds after which a contest is opened for the first time, the second time, and so on.
    """

    def __init__(self, after: Sequence[float] = AFTER) -> None:
        self._after = tuple(after)
        self._thread: threading.Thread | None = None
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def add(self, number: int, again: Callable[[], None]) -> None:
        """Call `again` after the time of revisit `number`, counted from 0; never if there is no such time."""
        if number >= len(self._after):
            return
        with self._changed:
            entry = (time.monotonic() + self._after[number], next(self._order), again)
            heapq.heappush(self._entries, entry)
            if self._thread is None:
                thread = threading.Thread(target=self._run, daemon=True, name="triton_linear revisits")
                thread.start()
                self._thread = thread
            self._changed.notify()

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._entries = []
        self._thread = None

    def _run(self) -> None:
        while (again := self._next()) is not None:
            try:
                again()
            except Exception:  # the others are none the worse for it
                _log.exception("a contest could not be opened again")

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while self._entries:
                left = self._entries[0][0] - time.monotonic()
                if left <= 0:
                    return heapq.heappop(self._entries)[-1]
                self._changed.wait(left)
            self._thread = None
            return None
