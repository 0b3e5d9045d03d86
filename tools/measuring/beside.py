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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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


@dataclass
class Answers:
    """What processes gave, by name, and of those that gave nothing, why."""

    given: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def in_processes(calls: Mapping[str, Callable[[], Any]], jobs: int, patience: float = PATIENCE) -> Answers:
    """What these calls give, each made in a forked process, `jobs` of them at a time.

    What a call gives or raises must pickle; a process that crashes costs its call alone.
    """
    answers, waiting = Answers(), list(calls)
    running: dict[int, _Process] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    name = waiting.pop(0)
                    process = _forked(name, calls[name], patience)
                    running[process.pipe] = process
                    selector.register(process.pipe, selectors.EVENT_READ)
                for process in list(_that_end(selector, running)):
                    selector.unregister(process.pipe)
                    del running[process.pipe]
                    _collect(process, answers)
        finally:
            for process in running.values():
                _end(process)
                os.close(process.pipe)
                os.waitpid(process.number, 0)
    return answers


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


def _that_end(selector: selectors.BaseSelector, running: Mapping[int, _Process]) -> Iterator[_Process]:
    """Wait for something to read, and give the processes that have said all, or are given up."""
    left = min(process.deadline for process in running.values()) - time.monotonic()
    for key, _ in selector.select(max(left, 0.0)):
        process = running[key.fd]
        chunk = os.read(process.pipe, _CHUNK)
        process.read += chunk
        if not chunk:
            yield process
    now = time.monotonic()
    for process in running.values():
        if process.deadline <= now:
            _end(process)
            process.read = b""


def _end(process: _Process) -> None:
    """Kill it; its pipe then ends."""
    os.kill(process.number, signal.SIGKILL)


def _collect(process: _Process, answers: Answers) -> None:
    """Wait for a process that has closed its pipe, and put what it gave among the answers."""
    os.close(process.pipe)
    status = os.waitstatus_to_exitcode(os.waitpid(process.number, 0)[1])
    if status:
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        answers.problems[process.name] = f"its process ended by {how}"
        return
    is_given, answer = pickle.loads(process.read)
    (answers.given if is_given else answers.problems)[process.name] = answer
