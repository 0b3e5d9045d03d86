"""Make calls in forked processes, to compile a kernel in several modes at once into Triton's cache.

Compiling takes most of the time of measuring. The source of a kernel is a function of a running program and
cannot be sent to another process, but a forked process has it. The forked process compiles, sends the result,
and ends without cleanup, because it holds a copy of a GPU context that it must not use.
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
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from triton_linear.tools.measuring.parent import end_with_parent

PATIENCE = 300.0
"""The time limit of a call in seconds. A call may hang on a lock that another thread held when
it was forked."""
NICENESS = 10
"""The niceness of these processes, out of 19, so that they do not disturb the program."""
_CHUNK = 1 << 16


@dataclass
class _Process:
    """A forked process: the name of its call, its process id, its deadline, and the bytes read from it."""

    name: str
    number: int
    deadline: float
    read: bytes = b""

    def answer(self) -> tuple[bool, Any]:
        """Wait for the process, which has closed its pipe: True and its result, or False and the reason."""
        status = _wait_for(self.number)
        try:
            good, answer = pickle.loads(self.read)
        except (EOFError, pickle.UnpicklingError):
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            return False, f"its process ended by {how}"
        return good, answer


def in_processes(
    calls: Mapping[str, Callable[[], Any]],
    jobs: int,
    answered: Callable[[str, bool, Any], object],
    patience: float = PATIENCE,
) -> None:
    """Make calls in forked processes, `jobs` at a time. A call that crashes its process affects no other call.

    `answered` gets the name of a call, and True with its result or False with the reason of a failure. Results
    must be picklable. A process is killed if a call takes more than `patience` seconds.
    """
    waiting = deque(calls.items())
    running: dict[int, _Process] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    name, call = waiting.popleft()
                    pipe, number = _forked(call)
                    running[pipe] = _Process(name, number, time.monotonic() + patience)
                    selector.register(pipe, selectors.EVENT_READ)
                soonest = min(process.deadline for process in running.values())
                for key, _ in selector.select(max(soonest - time.monotonic(), 0.0)):
                    process = running[key.fd]
                    chunk = os.read(key.fd, _CHUNK)
                    process.read += chunk
                    process.deadline = time.monotonic() + patience
                    if not chunk:
                        selector.unregister(key.fd)
                        del running[key.fd]
                        os.close(key.fd)
                        answered(process.name, *process.answer())
                for process in running.values():
                    if process.deadline <= time.monotonic():
                        os.kill(process.number, signal.SIGKILL)  # this closes its pipe
        finally:
            for pipe, process in running.items():
                os.kill(process.number, signal.SIGKILL)
                os.close(pipe)
                _wait_for(process.number)


def _wait_for(number: int) -> int:
    """Wait for a process and return its exit status; 0 if the program has already waited for its children, or
    ignores them.
    """
    try:
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    except ChildProcessError:
        return 0


def _forked(call: Callable[[], Any]) -> tuple[int, int]:
    """The pipe from a new process that makes a call, and its process id."""
    pipe, other_end = os.pipe()
    for stream in (sys.stdout, sys.stderr):  # else both processes would write the buffered text
        stream.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads, see PATIENCE
        number = os.fork()
    if number == 0:
        _run_and_exit(call, other_end, parent)
    os.close(other_end)
    return pipe, number


def _run_and_exit(call: Callable[[], Any], pipe: int, parent: int) -> None:
    """Make the call, write its answer to the pipe, and exit; also end when `parent` ends."""
    status = 1
    try:
        end_with_parent(parent)
        os.nice(NICENESS)
        gc.disable()  # collecting a tensor would try to free GPU memory, which only the other process may do
        with open(pipe, "wb") as file:
            try:
                answer = pickle.dumps((True, call()))
            except Exception as error:
                first = str(error).strip().partition("\n")[0]
                answer = pickle.dumps((False, f"{type(error).__name__}: {first}"))
            file.write(answer)
        status = 0
    finally:
        os._exit(status)
