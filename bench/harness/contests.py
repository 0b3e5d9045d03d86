"""Contests of the plugin (`install(wait=False)`) in benches: what a process would have compiled beside its
program is compiled before, and a call is repeated until launches take no turns any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

from triton.runtime import driver

import triton_linear
from triton_linear import contest, contest_job
from triton_linear.contests.launches import LaunchContest
from triton_linear.decisions import NONE
from triton_linear.dialect import store
from triton_linear.report import Report
from triton_linear.setting import Options, Setting
from triton_linear.unit_arguments import NO_UNITS, UnitArguments
from triton_linear.variants import CONTESTED, STOCK

MOST_CALLS = 640
"""Repetitions of a call after which its contests need not have ended."""
SECONDS = 6.0
_ASKED_EVERY = 16
_OPTIONS: dict[str, Any] = {"decisions": NONE, "strict": True, "wait": False}


def context() -> AbstractContextManager[list[Report]]:
    """In the block kernels enter contests when they are launched."""
    return triton_linear.enabled(**_OPTIONS)


def prepare(stock: Any, units: UnitArguments = NO_UNITS) -> None:
    """Compile what a worker would for a kernel (`CompiledKernel`) of stock Triton's, which needs no GPU. units:
    the arguments of its launch that are 1 (`units_of`). Raises RuntimeError where it could not."""
    # What comes from a cache has lists for tuples.
    facts = {n: tuple(v) if isinstance(v, list) else v for n, v in stock.metadata._asdict().items()}
    codes: set[str] = set()
    for name in CONTESTED:
        asked, key = contest.of_ours(stock, Setting(Options(**_OPTIONS)), units, name)
        if store.read(key) is None:
            job = contest_job.job_of(stock, SimpleNamespace(**facts), key, asked, units, codes)
            failure = job if isinstance(job, str) else contest_job.answer_to(job).failure
            if failure:
                raise RuntimeError(failure)
        if (ours := contest_job.found(stock, key)) is not None:
            codes |= contest_job.digests_of(ours)


def winner_of(stock: Any, kernel: Any, units: UnitArguments) -> str:
    """The variant that a kernel is, in a contest with one of stock Triton's."""
    setting = Setting(Options(**_OPTIONS))
    keys = {contest.of_ours(stock, setting, units, name)[1]: name for name in CONTESTED}
    return keys.get(kernel.hash, STOCK)


def units_of(kernel: Any, args: Sequence[Any], options: Mapping[str, Any]) -> UnitArguments:
    """The arguments that are 1 in a launch of a `JITFunction`."""
    binder = kernel.device_caches[driver.active.get_current_device()][-1]
    return UnitArguments.of(binder(*args, **options)[1])


def open_among(kernels: Sequence[Any]) -> int:
    """How many of the kernels that a call launched last are still in a contest."""
    return sum(isinstance(kernel._run, LaunchContest) for kernel in kernels)


def settle(call: Callable[[], Sequence[Any]]) -> dict[str, Any]:
    """Repeat a call until the kernels that it launches, which it gives, are in no contest. Requires: `context`.

    Gives the number of calls, and how many contests were open at the beginning and at the end.
    """
    import torch

    begun = time.monotonic()
    first = left = open_among(call())
    calls = 1
    while left and calls < MOST_CALLS and time.monotonic() < begun + SECONDS:
        kernels = call()
        calls += 1
        if not calls % _ASKED_EVERY:
            torch.cuda.synchronize()
            left = open_among(kernels)
    torch.cuda.synchronize()
    return {"calls": calls, "contests": first, "open": left}
