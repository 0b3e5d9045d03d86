"""GPU time of each kernel of a step, from what the profiler saw of some steps."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Event = tuple[str, int, int]
"""A kernel, copy or fill on the GPU: its name, when it began, and how long it took, in nanoseconds."""


@dataclass(frozen=True)
class Times:
    """Microseconds of a step: of each of Inductor's kernels, and of the others by name."""

    kernels: list[float]
    others: dict[str, float]

    @property
    def triton(self) -> float:
        return sum(self.kernels)

    @property
    def rest(self) -> float:
        return sum(self.others.values())


def per_step(events: Iterable[Event], launched: Sequence[int], names: Sequence[str], steps: int) -> Times:
    """Whose the times are.

    launched: the kernels of one step in the order of their launch, as indices of `names`. Kernels of different
    graphs may have the same name. Then launches of that name are told apart by their order, which is that of
    the events; where there are not as many events as `steps` have launches, the first of them gets all.

    >>> per_step([("a", 0, 3000), ("b", 3, 5000), ("a", 9, 1000)], [0, 1], ["a", "a"], 1)
    Times(kernels=[3.0, 1.0], others={'b': 5.0})
    """
    of_name: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        of_name[event[0]].append(event)
    kernels = [0.0] * len(names)
    for name in dict.fromkeys(names):
        found = sorted(of_name.pop(name, []), key=lambda event: event[1])
        order = [kernel for kernel in launched if names[kernel] == name]
        if len(found) != steps * len(order):
            kernels[names.index(name)] += sum(event[2] for event in found) / steps / 1e3
            continue
        for place, event in enumerate(found):
            kernels[order[place % len(order)]] += event[2] / steps / 1e3
    others = {name: sum(event[2] for event in found) / steps / 1e3 for name, found in of_name.items()}
    return Times(kernels, others)


def on_gpu(results: Any) -> list[Event]:
    """The events of the GPU among those of the profiler, without ranges that were annotated."""
    return [
        (event.name(), event.start_ns(), event.duration_ns())
        for event in results.events()
        if str(event.device_type()).endswith("CUDA")
        and not event.is_user_annotation()
        and not event.name().startswith("##")
    ]


def profiled(step: Callable[[], object], steps: int) -> list[Event]:
    """The events of some steps."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
    return on_gpu(profiler.profiler.kineto_results)
