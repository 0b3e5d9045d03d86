"""End a measuring or compiling process when its parent ends, however that happens."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""The option of Linux's `prctl` that sets the signal sent when the thread that started the process ends."""


def end_with_parent(parent: int) -> None:
    """Kill this process when the thread of `parent` that started it ends; exit now if `parent` has ended
    already.

    Does nothing on systems other than Linux.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
