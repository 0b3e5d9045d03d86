"""Run calls that may crash, hang or exhaust memory, each in a child process."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
_MOST_CHARACTERS = 300
"""The number of characters quoted from the output of a failed call."""


@dataclass(frozen=True)
class Lost:
    """The result of a call that failed, with the reason, and what it noted last."""

    reason: str
    doing: str = ""


_NOTE = "doing: "


def note(what: str) -> None:
    """Record what a call does next, for the case that it is lost."""
    print(f"{_NOTE}{' '.join(what.split())}", file=sys.stderr, flush=True)


class Isolation(Generic[Result]):
    """Runs each call of `function` in a process that is forked from one that has imported `modules`.

    A call ends after `seconds`, or when it allocates more than `memory` bytes.
    """

    def __init__(
        self, function: Callable[..., Result], modules: Sequence[str], seconds: int, memory: int
    ) -> None:
        self._function = function
        self._limits = (seconds, memory)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(modules))

    def call(self, *arguments: Any) -> Result | Lost:
        """Make one call. If it raises an exception or ends its process, return a `Lost`."""
        reader, writer = self._context.Pipe(duplex=False)
        with tempfile.NamedTemporaryFile() as errors:
            inputs = (writer, errors.name, self._limits, self._function, arguments)
            process = self._context.Process(target=_answer, args=inputs, daemon=True)
            process.start()
            writer.close()
            try:
                result: Result | Lost = reader.recv()
            except EOFError:
                process.join()
                result = Lost(self._reason(process.exitcode or 0))
            reader.close()
            process.join()
            output = errors.read().decode(errors="replace").strip().splitlines()
        if not isinstance(result, Lost):
            return result
        noted = [line.removeprefix(_NOTE) for line in output if line.startswith(_NOTE)]
        lines = [line for line in output if not line.startswith(_NOTE)]
        quoted = next(
            (line for line in lines if re.search(r"error:|ERROR|Assertion", line)), "".join(lines[:1])
        )
        reason = f"{result.reason}: {quoted[:_MOST_CHARACTERS]}" if quoted else result.reason
        return Lost(reason, noted[-1] if noted else "")

    def _reason(self, code: int) -> str:
        if code == -signal.SIGALRM:
            return f"took more than {self._limits[0]} s"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def map(
        self, work: Sequence[tuple[Any, ...]], workers: int, tick: Callable[[], None] = lambda: None
    ) -> list[Result | Lost]:
        """Make all calls, `workers` at a time; `tick` is called after each."""

        def call(arguments: tuple[Any, ...]) -> Result | Lost:
            result = self.call(*arguments)
            tick()
            return result

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(call, work))


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
        result = function(*arguments)
    except Exception as error:
        result = Lost(f"{type(error).__name__}: {error}")
    writer.send(result)
