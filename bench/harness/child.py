"""Processes that cases may crash or hang: one that has the GPU (`Child`), or many that compile (`scatter`).

A kernel that faults leaves its process without a GPU, and a compiler may end its own. So what runs a suite asks
other processes, and gives a case that broke one an error for a record. What goes between processes is pickled:
functions by name, cases as dataclasses, and exceptions as `Failed`, which needs no class of theirs.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

PATIENCE = 120.0
"""Seconds after which a case counts as hung."""
FATAL = (
    "CUDA error",
    "CUDA_ERROR",
    "[CUDA]",
    "CUDA driver error",
    "BrokenProcessPool",
    "TimeoutError",
    "OutOfMemory",
)
"""Words of errors after which a process may have no GPU any more."""

Done = Callable[[int, Any], object]
Result = TypeVar("Result")


class Failed(Exception):
    """What went wrong in another process, in words: this one need not know the exception's class."""

    def __init__(self, error: str, traceback: str = "") -> None:
        super().__init__(error, traceback)
        self.error, self.traceback = error, traceback

    @staticmethod
    def of(problem: BaseException) -> Failed:
        """An exception that is being handled, without what nobody reads."""
        if isinstance(problem, Failed):
            return problem
        return Failed(f"{type(problem).__name__}: {problem}"[:2000], traceback.format_exc()[-3000:])

    def __str__(self) -> str:
        return self.error

    def facts(self) -> dict[str, str]:
        """For a record."""
        return {"error": self.error, "traceback": self.traceback}


def told(function: Callable[..., Result], *arguments: Any) -> Result:
    """The call's result. Raises Failed for whatever it raises: not every exception survives the way back."""
    try:
        return function(*arguments)
    except Exception as problem:
        raise Failed.of(problem) from None


def guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """The call's result, or {"error": ..., "traceback": ...} if it raises."""
    try:
        return function(*arguments)
    except Exception as problem:
        return Failed.of(problem).facts()


def nothing() -> None:
    """Asked of a process that is to start."""


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _end(pool: ProcessPoolExecutor) -> None:
    """End a pool whose processes may hang."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=True, cancel_futures=True)


class Child:
    """A process, started when it is needed and replaced when a case has broken or hung it.

    `start`, called there first with the arguments, gives `facts`.
    """

    def __init__(
        self, start: Callable[..., Any] = nothing, *arguments: Any, patience: float | None = None
    ) -> None:
        self._start, self._arguments = start, arguments
        self._pool: ProcessPoolExecutor | None = None
        self.patience = PATIENCE if patience is None else patience
        self.facts: dict[str, Any] = {}
        self.starts = 0

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call there; what it raises is raised here, and ends the process if that may be unusable."""
        try:
            if self._pool is None:
                self._pool = _pool(1)
                self.facts = self._pool.submit(self._start, *self._arguments).result(timeout=self.patience)
                self.starts += 1
            return self._pool.submit(function, *arguments).result(timeout=self.patience)
        except Exception as error:
            if not self.starts or any(word in f"{type(error).__name__}: {error}" for word in FATAL):
                self.close()
            raise

    def begin(self, program: str, advice: str = "") -> dict[str, Any]:
        """Start the process, for its facts. Raises SystemExit where there is no GPU."""
        try:
            self.ask(nothing)
        except (ImportError, RuntimeError, OSError) as error:
            raise SystemExit(f"{program}: no NVIDIA GPU (with PyTorch) here: {error}{advice}") from error
        return self.facts

    def close(self) -> None:
        """End the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            _end(pool)


def scatter(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    jobs: int,
    done: Done,
    *,
    deadline: float = float("inf"),
    patience: float = PATIENCE,
) -> None:
    """Call `function(*arguments[i])` for every i, in `jobs` processes; `done(i, result)` hears of each.

    A call that raises, crashes its process, or is not over after `patience` seconds gives {"error": ...}. A
    crash takes its pool along: calls it interrupted are made again, each in a process of its own. No call
    begins after `deadline`, a time of `time.monotonic()`.
    """
    waiting = list(range(len(arguments)))
    while waiting and time.monotonic() < deadline:
        suspects, waiting = _together(function, waiting, arguments, jobs, done, deadline, patience)
        for index in suspects:
            again, _ = _together(function, [index], arguments, 1, done, float("inf"), patience)
            if again:
                done(index, {"error": f"the process crashed, or took more than {patience:.0f} s"})


def _together(
    function: Callable[..., Any],
    indices: Sequence[int],
    arguments: Sequence[tuple[Any, ...]],
    jobs: int,
    done: Done,
    deadline: float,
    patience: float,
) -> tuple[list[int], list[int]]:
    """Make these calls in one pool. Gives those that ran when one crashed or hung, and those to come."""
    waiting = list(reversed(indices))
    running: dict[Future[Any], tuple[int, float]] = {}
    pool = _pool(jobs)
    try:
        while running or (waiting and time.monotonic() < deadline):
            while waiting and len(running) < jobs and time.monotonic() < deadline:
                future = pool.submit(guarded, function, *arguments[waiting[-1]])
                running[future] = waiting.pop(), time.monotonic()
            over, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in over:
                done(running[future][0], future.result())
                del running[future]
            oldest = min((begun for _, begun in running.values()), default=time.monotonic())
            if time.monotonic() - oldest > patience:
                break
    except BrokenProcessPool:
        pass
    finally:
        _end(pool)
    return [index for index, _ in running.values()], list(reversed(waiting))


@contextmanager
def empty_cache() -> Iterator[str]:
    """In the block this process and its children compile into a cache of their own, empty at first: a kernel
    from a cache has no report of the plugin's, and takes no time to compile."""
    before = os.environ.get("TRITON_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            yield folder
        finally:
            os.environ.pop("TRITON_CACHE_DIR")
            if before is not None:
                os.environ["TRITON_CACHE_DIR"] = before
