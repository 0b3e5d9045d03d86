"""Run calls in forked processes, to compile a kernel in several modes at once into Triton's cache.

Compiling takes most of the time of measuring. The source of a kernel is a function of a running program and
cannot be sent to another process, but a forked process has it. The forked process compiles, sends the result,
and ends without cleanup, because it holds a copy of a GPU context that it must not use.
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
"""The time limit of a call in seconds. A call may hang on a lock that another thread held when
it was forked."""
NICENESS = 10
"""The niceness of these processes, out of 19, so that they do not disturb those that measure."""
_CHUNK = 1 << 16

Calls = Mapping[str, Callable[[], Any]]


@dataclass
class _Process:
    """A forked process: its calls, its process id, the pipe from it, the bytes read, and its deadline."""

    calls: Calls
    number: int
    pipe: int
    deadline: float
    read: bytes = b""


class Processes:
    """Makes calls in forked processes, `jobs` at a time. A call that crashes its process affects no other call.

    The name and the result of a call are passed to `succeeded`, the name and the reason of a failure to
    `failed`. Results must be picklable. A process is killed if a call takes more than `patience` seconds.
    """

    def __init__(
        self,
        jobs: int,
        succeeded: Callable[[str, Any], object],
        failed: Callable[[str, str], object],
        patience: float = PATIENCE,
    ) -> None:
        self._jobs = jobs
        self._succeeded = succeeded
        self._failed = failed
        self._patience = patience
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, _Process] = {}
        self._waiting: deque[Calls] = deque()

    def submit(self, calls: Calls) -> None:
        """Queue these calls, to be made one after another in one process."""
        self._waiting.append(calls)
        self.attend()

    def attend(self) -> None:
        """Collect results and start queued calls, without waiting."""
        while self._running and self._step(0.0):
            pass
        self._start_waiting()

    def finish(self) -> None:
        """Wait for all calls."""
        self._start_waiting()
        while self._running:
            left = min(process.deadline for process in self._running.values()) - time.monotonic()
            self._step(max(left, 0.0))
            self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._jobs:
            process = _forked(self._waiting.popleft(), self._patience)
            self._running[process.pipe] = process
            self._selector.register(process.pipe, selectors.EVENT_READ)

    def _step(self, seconds: float) -> bool:
        """Read from processes, waiting at most `seconds`, and collect those that have closed their pipes.

        Returns whether anything was read.
        """
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
                os.kill(process.number, signal.SIGKILL)  # this closes its pipe
        return bool(ready)

    def _drop(self, process: _Process) -> None:
        self._selector.unregister(process.pipe)
        del self._running[process.pipe]
        os.close(process.pipe)

    def _collect(self, process: _Process) -> None:
        """Wait for a process that has closed its pipe, and pass on its results.

        If it crashed, the call that it was making fails, and the remaining calls are queued again.
        """
        status = _wait_for(process.number)
        names = iter(process.calls)
        for has_succeeded, answer in _answers(process.read):
            (self._succeeded if has_succeeded else self._failed)(next(names), answer)
        left = list(names)
        if left:
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            self._failed(left[0], f"its process ended by {how}")
        if left[1:]:
            self._waiting.appendleft({name: process.calls[name] for name in left[1:]})

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *raised: object) -> None:
        """Kill the processes that still run."""
        for process in list(self._running.values()):
            os.kill(process.number, signal.SIGKILL)
            self._drop(process)
            _wait_for(process.number)
        self._selector.close()


def _wait_for(number: int) -> int:
    """Wait for a process and return its exit status; 0 if the program has already waited for its children, or
    ignores them.
    """
    try:
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    except ChildProcessError:
        return 0


def _answers(read: bytes) -> list[tuple[bool, Any]]:
    """The answers that a process wrote; an incomplete last answer is left out."""
    file, answers = io.BytesIO(read), []
    try:
        while True:
            answers.append(pickle.load(file))
    except (EOFError, pickle.UnpicklingError):
        return answers


def _forked(calls: Calls, patience: float) -> _Process:
    pipe, other_end = os.pipe()
    for stream in (sys.stdout, sys.stderr):  # else both processes would write the buffered text
        stream.flush()
    # If another thread forks, the process must not end with that thread.
    parent = os.getpid() if threading.current_thread() is threading.main_thread() else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads, see PATIENCE
        number = os.fork()
    if number == 0:
        _run_and_exit(calls, other_end, parent)
    os.close(other_end)
    return _Process(calls, number, pipe, time.monotonic() + patience)


def _run_and_exit(calls: Calls, pipe: int, parent: int | None) -> None:
    """Make the calls, write their answers to the pipe, and exit. If `parent` is given, also end
    when it ends.
    """
    status = 1
    try:
        if parent is not None:
            end_with_parent(parent)
        os.nice(NICENESS)
        gc.disable()  # collecting a tensor would try to free GPU memory, which only the other process may do
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
