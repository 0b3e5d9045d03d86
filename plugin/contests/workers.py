"""Processes that do jobs beside the program, each with a thread here that waits for it.

A process reads pickled jobs from its standard input, and writes a pickled answer for each to its standard
output.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

_log = logging.getLogger("triton_linear")
PATIENCE: Final = 600.0
"""Seconds that one job may take; its process is then ended."""
_IDLE: Final = 30.0
"""Seconds without a job after which a process ends: each holds 300 MiB."""
_CORES_EACH: Final = 4
_MOST: Final = 8

Answered = Callable[[object], None]


class Workers:
    """Runs jobs in processes.

    command: what starts a process. environment: what it has besides this process's. count: the most processes;
    None: a quarter of the cores.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], count: int | None = None
    ) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._most = count or max(1, min(_MOST, cores // _CORES_EACH))
        self._command = command
        self._environment = environment
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def submit(self, job: object, answered: Answered) -> None:
        """Have a process do a job; then call `answered` in another thread, once, with its answer. None: it
        ended without one, or took longer than `PATIENCE`."""
        with self._lock:
            self._jobs.put((job, answered))
            if self._threads < self._most and self._jobs.qsize() > self._idle:
                self._threads += 1
                threading.Thread(target=self._serve, daemon=True, name="triton_linear contests").start()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[object, Answered]] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._processes: set[subprocess.Popen[bytes]] = set()

    def _forked(self) -> None:
        """In a child process: its parent's jobs are none of its own, and its parent's processes must see when
        that ends."""
        with suppress(OSError), open(os.devnull, "r+b") as nothing:
            for process in self._processes:
                for pipe in filter(None, (process.stdin, process.stdout)):
                    os.dup2(nothing.fileno(), pipe.fileno(), inheritable=False)
        self._forget()

    def _serve(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        while (taken := self._take()) is not None:
            if process is None or process.poll() is not None:
                process = self._start()
            answer = self._ask(process, taken[0])
            if answer is None:
                self._end(process, kill=True)
                process = None
            try:
                taken[1](answer)
            except Exception:  # the next job is none the worse for it
                _log.exception("a contest could not begin")
            taken = None  # nothing that it refers to is kept while this thread waits
        self._end(process)

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

    def _start(self) -> subprocess.Popen[bytes] | None:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **self._environment},
                start_new_session=True,  # an interrupt from the keyboard is the program's
            )
        except OSError:
            return None
        with self._lock:
            self._processes.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes] | None, kill: bool = False) -> None:
        if process is None:
            return
        if kill:
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()
        self._processes.discard(process)

    @staticmethod
    def _ask(process: subprocess.Popen[bytes] | None, job: object) -> object:
        """The answer of a process; None if it ended or took too long."""
        if process is None or process.stdin is None or process.stdout is None:
            return None
        timer = threading.Timer(PATIENCE, process.kill)
        timer.daemon = True
        timer.start()
        try:
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except Exception:  # whatever else than a pickle may come
            return None
        finally:
            timer.cancel()
