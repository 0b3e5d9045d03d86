"""Calls spread over processes, of which any may crash or hang."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

Done = Callable[[int, Any], object]


def scatter(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    jobs: int,
    done: Done,
    *,
    deadline: float = float("inf"),
    patience: float = 120.0,
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
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
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
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=True, cancel_futures=True)
    return [index for index, _ in running.values()], list(reversed(waiting))


def guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the call returns, or {"error": ...} if it raises: not every exception survives the way back."""
    try:
        return function(*arguments)
    except Exception as problem:
        return {
            "error": f"{type(problem).__name__}: {problem}"[:2000],
            "traceback": traceback.format_exc()[-3000:],
        }
