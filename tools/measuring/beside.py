"""Compiles a kernel in several modes at once, each in a process that is forked, into Triton's cache.

Most of the time that measuring takes is compiling. The source of a kernel is a function of a running program,
which no other process can be sent; a forked one has it. It compiles, says what became of that, and ends
without cleaning up: it holds a copy of a GPU's context that it may not use.
"""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PATIENCE = 900.0
"""Seconds after which a process is ended: what it inherited of other threads may hold it."""
_CHUNK = 1 << 16


@dataclass
class _Process:
    """A forked process: the end of the pipe from it, what came through so far, and when it is given up."""

    name: str
    number: int
    pipe: int
    deadline: float
    read: bytes = b""


class Processes:
    """Calls in forked processes, `jobs` of them at a time; a process that crashes costs its call alone.

    What a call gives goes to `given` by its name, and why one gave nothing to `failed`; what it gives must
    pickle. One that takes longer than `patience`, in seconds, is ended.
    """

    def __init__(
        self,
        jobs: int,
        given: Callable[[str, Any], object],
        failed: Callable[[str, str], object],
        patience: float = PATIENCE,
    ) -> None:
        self._jobs = jobs
        self._given = given
        self._failed = failed
        self._patience = patience
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, _Process] = {}

    def submit(self, name: str, call: Callable[[], Any]) -> None:
        """Begin a call, once there is room for it."""
        while len(self._running) >= self._jobs:
            self._step()
        process = _forked(name, call, self._patience)
        self._running[process.pipe] = process
        self._selector.register(process.pipe, selectors.EVENT_READ)

    def finish(self) -> None:
        """Wait for all calls."""
        while self._running:
            self._step()

    def _step(self) -> None:
        """Wait for something to read from a process, and collect what has said all."""
        left = min(process.deadline for process in self._running.values()) - time.monotonic()
        for key, _ in self._selector.select(max(left, 0.0)):
            process = self._running[key.fd]
            chunk = os.read(process.pipe, _CHUNK)
            process.read += chunk
            if not chunk:
                self._drop(process)
                self._collect(process)
        now = time.monotonic()
        for process in self._running.values():
            if process.deadline <= now:
                os.kill(process.number, signal.SIGKILL)  # which ends its pipe
                process.read = b""

    def _drop(self, process: _Process) -> None:
        self._selector.unregister(process.pipe)
        del self._running[process.pipe]
        os.close(process.pipe)

    def _collect(self, process: _Process) -> None:
        """Wait for a process that has closed its pipe, and hand on what it gave."""
        status = os.waitstatus_to_exitcode(os.waitpid(process.number, 0)[1])
        if status:
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            self._failed(process.name, f"its process ended by {how}")
            return
        is_given, answer = pickle.loads(process.read)
        (self._given if is_given else self._failed)(process.name, answer)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *raised: object) -> None:
        """End what still runs."""
        for process in list(self._running.values()):
            os.kill(process.number, signal.SIGKILL)
            self._drop(process)
            os.waitpid(process.number, 0)
        self._selector.close()


def _forked(name: str, call: Callable[[], Any], patience: float) -> _Process:
    pipe, other_end = os.pipe()
    for stream in (sys.stdout, sys.stderr):  # what is in their buffers would be written twice
        stream.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: see PATIENCE
        number = os.fork()
    if number == 0:
        _become(call, other_end)
    os.close(other_end)
    return _Process(name, number, pipe, time.monotonic() + patience)


def _become(call: Callable[[], Any], pipe: int) -> None:
    """Make the call, write what it gives, and end this process."""
    status = 1
    try:
        gc.disable()  # what is collected may be a tensor, whose memory only the other process can free
        try:
            answer = pickle.dumps((True, call()))
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            answer = pickle.dumps((False, f"{type(error).__name__}: {first}"))
        with open(pipe, "wb") as file:
            file.write(answer)
        status = 0
    finally:
        os._exit(status)
