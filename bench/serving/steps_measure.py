"""Times a step with stock Triton and with the plugin. Runs in the process that has the GPU.

A step is captured as CUDA graphs, once for each way of compiling its kernels, and graphs take turns
(`harness/turns.py`). What a graph leaves in its results is compared with what stock Triton's leaves. A profiler
says how long each kernel of a graph takes.
"""

from __future__ import annotations

import functools
import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..foreign import compiled, launches
from ..foreign.case import tensors
from ..foreign.measure import context, verdict
from ..foreign.suite import Suite
from ..harness import contests
from ..harness.child import told
from ..harness.turns import calls_for, captured, memory_pools, replay, summary
from ..kernels import measure as kernels
from ..kernels import modes

PROFILED = 5
"""Replays that a profiler sees."""
FOREIGN_BYTES = 0x5A
"""What results hold before a graph writes them."""


def run(
    suite: Suite, name: str, rank: str, turns: int, plugin: bool = True, beside: Sequence[str] = ()
) -> dict[str, Any]:
    """The record of a step; without the `plugin` stock Triton is on all sides. Raises Failed."""
    return told(_run, suite, name, rank, turns, plugin, tuple(beside))


def left(graph: Any, results: Sequence[Any]) -> list[Any]:
    """What a replay leaves in memory that held something else."""
    import torch

    for result in results:
        result.untyped_storage().fill_(FOREIGN_BYTES)
    graph.replay()
    torch.cuda.synchronize()
    return [result.clone() for result in results]


def kernels_of(call: Callable[[], Any]) -> list[Any]:
    """Triton's kernels that a step launches."""
    found: list[Any] = []

    def take(launch: launches.Launch) -> Any:
        found.append(launch.run())
        return found[-1]

    with launches.caught(take):
        call()
    return found


def profiled(graph: Any) -> dict[str, float]:
    """Microseconds that each kernel takes in a replay; what is copied or filled counts as kernels do."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(PROFILED):
            graph.replay()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[event.name] += event.time_range.elapsed_us() / PROFILED
    if not spent:
        raise RuntimeError("the profiler saw no kernel")
    return {name: round(each, 3) for name, each in spent.most_common()}


def _run(suite: Suite, name: str, rank: str, turns: int, plugin: bool, beside: Sequence[str]) -> dict[str, Any]:
    import torch

    begun = time.perf_counter()
    case = suite.case(name)
    row: dict[str, Any] = {"key": name, "kernel": name, "beside": {}}
    with launches.configured(rank), torch.no_grad():
        call = case.make(suite.inputs())
        row["launches"] = dict(Counter(kernel.name for kernel in kernels_of(call)))
        pools = memory_pools()
        singles, several, found, calls = {}, {}, {}, 1
        for mode in (modes.STOCK, modes.OURS, *beside):
            try:
                with context(mode, plugin):
                    if mode == modes.CONTEST:
                        ended = contests.settle(functools.partial(kernels_of, call))
                    single, result = captured(call)
                    found[mode] = left(single, tensors(result))
                    if mode == modes.STOCK:
                        found[modes.AGAIN] = left(single, tensors(result))
                        calls = calls_for(min(replay({"": [single]}, 3)[""]))
                    several[mode] = [captured(call, calls, pool)[0] for pool in pools]
                singles[mode] = single, result
            except Exception as problem:
                if mode == modes.STOCK or kernels.lost(problem):
                    raise
                said = compiled.error_of(problem)
                if mode == modes.OURS:
                    row["error"] = said
                else:
                    row["beside"][mode] = {"result": "failed", "why": said}
        for mode in several:
            judged = verdict(found[modes.STOCK], found[modes.AGAIN], found[mode], case.tolerance)
            if mode == modes.OURS:
                row |= judged
            elif mode != modes.STOCK:
                row["beside"][mode] = judged | (ended if mode == modes.CONTEST else {})
        for mode, facts in summary(replay(several, turns), calls).items():
            if mode == modes.STOCK:
                row["microseconds"] = facts["microseconds"]
            else:
                (row if mode == modes.OURS else row["beside"][mode])["ratio"] = facts["ratio"]
        row["profile"] = {}
        for mode in (each for each in (modes.STOCK, modes.OURS) if each in singles):
            try:
                row["profile"][mode] = profiled(singles[mode][0])
            except Exception as problem:
                row["profile_error"] = compiled.error_of(problem)
    record = {"kernels": [row], "seconds": round(time.perf_counter() - begun, 2)}
    del call, singles, several, found, single, result
    gc.collect()
    torch.cuda.empty_cache()
    return record
