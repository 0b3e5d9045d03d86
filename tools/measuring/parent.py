"""A process that measures or compiles for another one ends with it, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""Of Linux's `prctl`: which signal comes when the thread that started this process ends."""


def end_with_parent(parent: int) -> None:
    """Have this process killed when the thread of the process `parent` ends that started it; now, if that
    process has ended already. Only Linux can."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
