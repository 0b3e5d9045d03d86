"""Processes that do jobs beside the program, each with a thread here that waits for it.

A process has a connection of its own, from which it takes jobs and to which it gives an answer for each
(`work`). When the process that started it ends, it finishes the job at hand and ends as well.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

_log = logging.getLogger("triton_linear")
PATIENCE: Final = 600.0
"""Seconds that one job may take; its process is then ended."""
_IDLE: Final = 30.0
"""Seconds without a job after which a process ends: each holds 300 MiB."""
_NICE: Final = 10
"""Steps of priority below the program's, which the compiles must not hold up."""
_CORES_EACH: Final = 4
_MOST: Final = 8
_FAILURES: Final = 3
"""Processes in a row that end without an answer, after which none is started any more."""
_SAID: Final = 300
"""Characters of what a process said last."""

_START: Final = (
    "import os, sys; os.nice({nice}); sys.path[:] = {path!r}; "
    "from triton_linear.contests.workers import work; from triton_linear.contest_job import answer_to; "
    "work(answer_to, {connection}, {patience})"
)
"""What a process runs: it imports what this one does, whatever lies in the current folder."""


class Lost(Exception):
    """A process ended without an answer, or took longer than `PATIENCE`; the message has what it said last."""


Answered = Callable[[object], None]
Command = Callable[[int], tuple[str, ...]]
"""The command of a process, by the number of its end of the connection."""


def command(connection: int) -> tuple[str, ...]:
    """What starts a worker."""
    text = _START.format(nice=_NICE, path=list(sys.path), connection=connection, patience=PATIENCE)
    return (sys.executable, "-c", text)


def work(answer_to: Callable[[Any], object], connection: int, patience: float) -> None:
    """Answer jobs until the connection ends, each by `answer_to`. patience: seconds for a job, after which this
    process ends."""
    with Connection(connection) as asked, suppress(EOFError, ConnectionError):
        while True:
            job = asked.recv()
            signal.alarm(int(patience) + 1)
            answer = answer_to(job)
            signal.alarm(0)
            asked.send(answer)


class _Process:
    """A process and the connection to it."""

    def __init__(self, made: Command) -> None:
        self._connection, theirs = Pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        with theirs:
            try:
                self._process = subprocess.Popen(
                    made(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=self._said,
                    stderr=self._said,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # an interrupt from the keyboard is the program's
                )
            except BaseException:
                self._connection.close()
                self._said.close()
                raise

    def kill(self) -> None:
        """End the process and what it has started."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def ask(self, job: object) -> Any:
        """Its answer to a job. Raises Lost."""
        timer = threading.Timer(PATIENCE, self.kill)
        timer.daemon = True
        timer.start()
        try:
            self._connection.send(job)
            return self._connection.recv()
        except Exception as error:  # whatever else than an answer may come
            self.kill()
            raise Lost(f"{type(error).__name__}; it said: {self._last_words()}") from None
        finally:
            timer.cancel()

    def _last_words(self) -> str:
        self._process.wait()
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - _SAID))
        return self._said.read().decode(errors="replace").strip() or "nothing"

    def end(self) -> None:
        """Let the process end, once it has done what it is doing."""
        self._connection.close()
        self._said.close()
        self._process.wait()

    def leave(self) -> None:
        """In a forked child: hold the connection no longer, so that the process sees when the parent ends."""
        with suppress(OSError), open(os.devnull, "r+b") as nothing:
            os.dup2(nothing.fileno(), self._connection.fileno(), inheritable=False)


class Workers:
    """Runs jobs in processes.

    made: the command of a process. count: the most processes; None: a quarter of the cores.
    """

    def __init__(self, made: Command = command, count: int | None = None) -> None:
        self._most = count or max(1, min(_MOST, len(os.sched_getaffinity(0)) // _CORES_EACH))
        self._command = made
        self._forget()
        os.register_at_fork(after_in_child=self._forked)

    def submit(self, job: object, answered: Answered) -> None:
        """Have a process do a job; then call `answered` in another thread, once, with its answer or with a
        `Lost`. It is not called if no process can be started, or if several have ended without an answer."""
        if self._failures >= _FAILURES or not sys.executable or getattr(sys, "frozen", False):
            return
        with self._lock:
            self._jobs.put((job, answered))
            if self._threads < self._most and self._jobs.qsize() > self._idle:
                threading.Thread(target=self._serve, daemon=True, name="triton_linear contests").start()
                self._threads += 1

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[object, Answered]] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._failures = 0
        self._processes: set[_Process] = set()

    def _forked(self) -> None:
        """In a child process: its parent's jobs are none of its own."""
        for process in self._processes:
            process.leave()
        self._forget()

    def _serve(self) -> None:
        process: _Process | None = None
        while (taken := self._take()) is not None:
            try:
                if process is None:
                    process = _Process(self._command)
                    self._processes.add(process)
                answer = process.ask(taken[0])
                self._failures = 0
            except (Lost, OSError) as error:
                self._failures += 1
                answer = error if isinstance(error, Lost) else Lost(str(error))
                self._end(process)
                process = None
            try:
                taken[1](answer)
            except Exception:  # the next job is none the worse for it
                _log.exception("a contest could not begin")
            taken = answer = None  # nothing is kept while this thread waits
        self._end(process)

    def _end(self, process: _Process | None) -> None:
        if process is not None:
            process.end()
            self._processes.discard(process)

    def _take(self) -> tuple[object, Answered] | None:
        """The next job; None: there was none for long, and this thread ends."""
        while True:
            with self._lock:
                self._idle += 1
            try:
                taken = self._jobs.get(timeout=_IDLE)
            except queue.Empty:
                taken = None
            with self._lock:
                self._idle -= 1
                if taken is not None:
                    return taken
                if self._jobs.empty():
                    self._threads -= 1
                    return None
