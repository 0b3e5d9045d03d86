"""Ways of one case, timed in turn: what slows a GPU down for a while then slows all of them.

What is timed are CUDA graphs of some calls. In each turn every graph is replayed once, in an order that
changes; a ratio is that of one turn (`statistics.ratio`). The first turns warm up and do not count.

    graphs = {"stock": [captured(stock)[0]], "ours": [captured(ours)[0]]}
    times = replay(graphs, turns=40)
    summary(times, calls=1)["ours"]["ratio"]        # [low, median, high]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .statistics import interval, ratio

STOCK = "stock"
"""The way that others are compared with."""
GRAPH_MS = 0.4
"""A graph takes about so long: launches of the graph itself must not show."""
MOST_CALLS = 64
FLUSH_BYTES = 256 << 20
"""More than the L2 cache of any GPU holds."""
WARM_UP = 3
POOLS = 3
"""Memory pools that results lie in, in turn: where they lie makes some percent of difference to caches."""

Result = TypeVar("Result")


def in_turns(runs: Mapping[str, Callable[[], Result]], turns: int) -> dict[str, list[Result]]:
    """What each run gives in each turn, all of them once a turn.

    >>> in_turns({"a": lambda: 1, "b": lambda: 2}, turns=2)
    {'a': [1, 1], 'b': [2, 2]}
    """
    found: dict[str, list[Result]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            found[name].append(run())
    return found


def calls_for(milliseconds: float) -> int:
    """How many calls of so long are in a graph.

    >>> calls_for(0.1), calls_for(1.0), calls_for(1e-6)
    (4, 1, 64)
    """
    return max(1, min(MOST_CALLS, math.ceil(GRAPH_MS / max(milliseconds, 1e-3))))


def memory_pools() -> list[Any]:
    """Pools for the graphs of a case: each way has a graph in each."""
    import torch

    return [torch.cuda.graph_pool_handle() for _ in range(POOLS)]


def captured(
    call: Callable[[], Any], calls: int = 1, pool: Any = None, first: Callable[[], Any] | None = None
) -> tuple[Any, Any]:
    """A graph of `calls` calls, and what the last gives, after one call (or `first`) that is not in the graph.

    Graphs of one pool write where those before them do.
    """
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        (first or call)()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph, result = torch.cuda.CUDAGraph(), None
    with torch.cuda.graph(graph, pool=pool):
        for _ in range(calls):
            result = call()
    return graph, result


def replay(
    graphs: Mapping[str, Sequence[Any]],
    turns: int,
    before: Callable[[], object] | None = None,
    warm_up: int = WARM_UP,
) -> dict[str, list[float]]:
    """Milliseconds of each way in each turn, after some turns to warm up; a way's graphs take turns too.

    Ways are first equally often, so there may be a few turns more: the GPU is idle when the first one is
    launched, and the launch itself counts. `before` runs before each graph, untimed.
    """
    import torch

    names = list(graphs)
    turns = -(-turns // len(names)) * len(names)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm_up, turns):
        events = {}
        for step in range(len(names)):
            name = names[(turn + step) % len(names)]
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if before is not None:
                before()
            begin.record()
            graphs[name][turn % len(graphs[name])].replay()
            end.record()
            events[name] = begin, end
        torch.cuda.synchronize()
        if turn >= 0:
            for name, (begin, end) in events.items():
                times[name].append(begin.elapsed_time(end))
    return times


def summary(times: Mapping[str, Sequence[float]], calls: int) -> dict[str, dict[str, Any]]:
    """What is reported of the times, in milliseconds, of graphs of `calls` calls.

    >>> summary({"stock": [2.0] * 9, "ours": [1.0] * 9}, 4)["ours"]
    {'microseconds': 250.0, 'ratio': [2.0, 2.0, 2.0]}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, values in times.items():
        found[name] = {"microseconds": round(1e3 * interval(values)[1] / calls, 3)}
        if name != STOCK and STOCK in times:
            found[name]["ratio"] = ratio(times[STOCK], values)
    return found
