"""Calls that may crash, hang or eat all memory, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import signal
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
_SAID = 300  # Characters of what a call that failed printed.


@dataclass(frozen=True)
class Lost:
    """A call that gave no result, and why."""

    reason: str


class Isolation(Generic[Result]):
    """Runs `function` in processes that are forked, one for each call, from one that has imported `modules`.

    A call is ended after `seconds`, or when it wants more than `memory` bytes.
    """

    def __init__(
        self, function: Callable[..., Result], modules: Sequence[str], seconds: int, memory: int
    ) -> None:
        self._function = function
        self._limits = (seconds, memory)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(modules))

    def call(self, *arguments: Any) -> Result | Lost:
        """One call; what it raises is returned as Lost."""
        reader, writer = self._context.Pipe(duplex=False)
        with tempfile.NamedTemporaryFile() as errors:
            inputs = (writer, errors.name, self._limits, self._function, arguments)
            process = self._context.Process(target=_answer, args=inputs, daemon=True)
            process.start()
            writer.close()
            try:
                found: Result | Lost = reader.recv()
            except EOFError:
                process.join()
                found = Lost(self._how(process.exitcode or 0))
            reader.close()
            process.join()
            said = errors.read().decode(errors="replace").strip()
        if isinstance(found, Lost) and said:
            lines = said.splitlines()
            telling = next((line for line in lines if re.search(r"error:|ERROR|Assertion", line)), lines[0])
            return Lost(f"{found.reason}: {telling[:_SAID]}")
        return found

    def _how(self, code: int) -> str:
        if code == -signal.SIGALRM:
            return f"took more than {self._limits[0]} s"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def map(
        self, work: Sequence[tuple[Any, ...]], workers: int, tick: Callable[[], None] = lambda: None
    ) -> list[Result | Lost]:
        """All calls, `workers` at a time; `tick` is called after each."""

        def one(arguments: tuple[Any, ...]) -> Result | Lost:
            found = self.call(*arguments)
            tick()
            return found

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, work))


def _answer(
    writer: Connection,
    errors: str,
    limits: tuple[int, int],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    seconds, memory = limits
    os.dup2(os.open(errors, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    try:
        found = function(*arguments)
    except Exception as error:
        found = Lost(f"{type(error).__name__}: {error}")
    writer.send(found)
