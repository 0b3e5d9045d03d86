"""Compiles a kernel in several modes at once, in processes that are forked, into Triton's cache.

Most of the time that measuring takes is compiling. The source of a kernel is a function of a running program,
which no other process can be sent; a forked one has it. It compiles, says what became of that, and ends
without cleaning up: it holds a copy of a GPU's context that it may not use.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import selectors
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from triton_linear.tools.measuring.parent import end_with_parent

PATIENCE = 300.0
"""Seconds that a call may take before its process is ended: what it inherited of other threads may hold it."""
NICENESS = 10
"""How much these processes give way to those that measure meanwhile, of 19."""
_CHUNK = 1 << 16

Calls = Mapping[str, Callable[[], Any]]


@dataclass
class _Process:
    """A forked process: the calls that it makes in turn, the end of the pipe from it, what came through so far,
    and when it is given up."""

    calls: Calls
    number: int
    pipe: int
    deadline: float
    read: bytes = b""


class Processes:
    """Calls in forked processes, `jobs` of them at a time; a call that crashes its process costs itself alone.

    What a call gives goes to `given` by its name, and why one gave nothing to `failed`; what it gives must
    pickle. A process is ended in which a call takes longer than `patience`, in seconds.
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
        self._waiting: deque[Calls] = deque()

    def submit(self, calls: Calls) -> None:
        """Have these calls made, one after another in one process, once there is room for it."""
        self._waiting.append(calls)
        self.attend()

    def attend(self) -> None:
        """Collect what has been said, and begin what there is room for, without waiting."""
        while self._running and self._step(0.0):
            pass
        self._begin()

    def finish(self) -> None:
        """Wait for all calls."""
        self._begin()
        while self._running:
            left = min(process.deadline for process in self._running.values()) - time.monotonic()
            self._step(max(left, 0.0))
            self._begin()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._jobs:
            process = _forked(self._waiting.popleft(), self._patience)
            self._running[process.pipe] = process
            self._selector.register(process.pipe, selectors.EVENT_READ)

    def _step(self, seconds: float) -> bool:
        """Read from processes, for which it waits so long, and collect what has said all; whether any said
        something."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            process = self._running[key.fd]
            chunk = os.read(process.pipe, _CHUNK)
            process.read += chunk
            process.deadline = time.monotonic() + self._patience
            if not chunk:
                self._drop(process)
                self._collect(process)
        now = time.monotonic()
        for process in self._running.values():
            if process.deadline <= now:
                os.kill(process.number, signal.SIGKILL)  # which ends its pipe
        return bool(ready)

    def _drop(self, process: _Process) -> None:
        self._selector.unregister(process.pipe)
        del self._running[process.pipe]
        os.close(process.pipe)

    def _collect(self, process: _Process) -> None:
        """Wait for a process that has closed its pipe, and hand on what it gave. Where it crashed, another one
        makes the calls that it had not come to."""
        status = _ended(process.number)
        names = iter(process.calls)
        for is_given, answer in _answers(process.read):
            (self._given if is_given else self._failed)(next(names), answer)
        left = list(names)
        if left:
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            self._failed(left[0], f"its process ended by {how}")
        if left[1:]:
            self._waiting.appendleft({name: process.calls[name] for name in left[1:]})

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *raised: object) -> None:
        """End what still runs."""
        for process in list(self._running.values()):
            os.kill(process.number, signal.SIGKILL)
            self._drop(process)
            _ended(process.number)
        self._selector.close()


def _ended(number: int) -> int:
    """The exit status of a process, for which it waits; 0 where the program waits for all of its children
    itself, or for none."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    except ChildProcessError:
        return 0


def _answers(read: bytes) -> list[tuple[bool, Any]]:
    """What a process wrote, the last of it perhaps in part."""
    file, found = io.BytesIO(read), []
    try:
        while True:
            found.append(pickle.load(file))
    except (EOFError, pickle.UnpicklingError):
        return found


def _forked(calls: Calls, patience: float) -> _Process:
    pipe, other_end = os.pipe()
    for stream in (sys.stdout, sys.stderr):  # what is in their buffers would be written twice
        stream.flush()
    # A thread of the program's may end before what it has begun, which is not to end with it.
    parent = os.getpid() if threading.current_thread() is threading.main_thread() else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: see PATIENCE
        number = os.fork()
    if number == 0:
        _become(calls, other_end, parent)
    os.close(other_end)
    return _Process(calls, number, pipe, time.monotonic() + patience)


def _become(calls: Calls, pipe: int, parent: int | None) -> None:
    """Make the calls, write what each gives, and end this process; it ends with the process `parent`, if that
    is given."""
    status = 1
    try:
        if parent is not None:
            end_with_parent(parent)
        os.nice(NICENESS)
        gc.disable()  # what is collected may be a tensor, whose memory only the other process can free
        with open(pipe, "wb") as file:
            for call in calls.values():
                try:
                    answer = pickle.dumps((True, call()))
                except Exception as error:
                    first = str(error).strip().partition("\n")[0]
                    answer = pickle.dumps((False, f"{type(error).__name__}: {first}"))
                file.write(answer)
                file.flush()
        status = 0
    finally:
        os._exit(status)
