"""Make calls in forked processes, to compile a kernel in several modes at once into Triton's cache.

Compiling takes most of the time of measuring. The source of a kernel is a function of a running program and
cannot be sent to another process, but a forked process has it. The forked process compiles, sends the result,
and ends without cleanup, because it holds a copy of a GPU context that it must not use.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from triton_linear.tools.measuring.parent import end_with_parent

PATIENCE = 300.0
"""The time limit of a call in seconds. A call may hang on a lock that another thread held when
it was forked."""
NICENESS = 10
"""The niceness of these processes, out of 19, so that they do not disturb the program."""


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
    running: dict[Connection, tuple[str, BaseProcess, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                name, call = waiting.popleft()
                reader, process = _forked(call)
                running[reader] = name, process, time.monotonic() + patience
            soonest = min(deadline for _, _, deadline in running.values())
            ready = wait(list(running), max(soonest - time.monotonic(), 0.0))
            for reader in [one for one in running if one in ready]:
                name, process, _ = running.pop(reader)
                answered(name, *_answer_of(reader, process))
            for _, process, deadline in running.values():
                if deadline <= time.monotonic():
                    process.kill()  # this closes its end of the pipe
    finally:
        for reader, (_, process, _) in running.items():
            process.kill()
            reader.close()
            process.join()


def _forked(call: Callable[[], Any]) -> tuple[Connection, BaseProcess]:
    """The connection to a new process that makes a call, and that process."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_exit, args=(call, writer, os.getpid()), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads, see PATIENCE
        process.start()
    writer.close()
    return reader, process


def _answer_of(reader: Connection, process: BaseProcess) -> tuple[bool, Any]:
    """True and the result that a process sends, or False and the reason why there is none."""
    try:
        good, answer = reader.recv()
    except EOFError:
        good, answer = False, None
    reader.close()
    process.join()
    if not good and answer is None:
        status = process.exitcode or 0  # None if the program has waited for its children itself
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return False, f"its process ended by {how}"
    return good, answer


def _run_and_exit(call: Callable[[], Any], writer: Connection, parent: int) -> None:
    """Make the call, send its answer, and exit; also end when `parent` ends."""
    status = 1
    try:
        end_with_parent(parent)
        os.nice(NICENESS)
        gc.disable()  # collecting a tensor would try to free GPU memory, which only the other process may do
        try:
            writer.send((True, call()))
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            writer.send((False, f"{type(error).__name__}: {first}"))
        status = 0
    finally:
        os._exit(status)
