"""Catches the launches of Triton kernels that an operator makes, and settles which configurations it takes.

A kernel that tunes itself takes one configuration, the same for stock Triton and for the plugin: to let each
side choose would measure the choice, and takes minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

RANKS = ("middle", "first", "last")
_RUN = JITFunction.run


@dataclass(frozen=True)
class Launch:
    """A kernel and what it was launched with."""

    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grid: Any

    @property
    def name(self) -> str:
        """Where the kernel is defined, and its name, which may be another than its function was given."""
        function = self.kernel.fn
        given = function.__qualname__
        return f"{function.__module__}.{given if given.endswith(function.__name__) else function.__name__}"

    def compiled(self) -> Any:
        """The kernel, compiled as this thread compiles now, and not launched."""
        return _RUN(self.kernel, *self.args, grid=self.grid, warmup=True, **self.kwargs)

    def run(self) -> Any:
        """Launch it; gives the compiled kernel."""
        return _RUN(self.kernel, *self.args, grid=self.grid, warmup=False, **self.kwargs)


@contextmanager
def caught(take: Callable[[Launch], Any]) -> Iterator[None]:
    """In the block `take` gets every launch, instead of the GPU, and gives what the launch returns."""

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return _RUN(self, *args, grid=grid, warmup=True, **kwargs)
        return take(Launch(self, args, kwargs, grid))

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = _RUN


def preference(configs: list[Any], config: Any, rank: str) -> float:
    """How late a configuration comes; the least is taken.

    `first` and `last` go by the package's own order. `middle` prefers four warps and three stages, what most
    kernels are written for, and of those the one in the middle.
    """
    place = configs.index(config)
    if rank == "first":
        return place
    if rank == "last":
        return -place
    alike = [
        each for each in configs if (each.num_warps, each.num_stages) == (config.num_warps, config.num_stages)
    ]
    return (
        1e6 * abs(config.num_warps - 4)
        + 1e3 * abs(config.num_stages - 3)
        + abs(alike.index(config) - len(alike) // 2)
    )


tuned: set[int] = set()
"""Functions (`id`) of kernels whose autotuner has chosen among several configurations, in `configured`."""


@contextmanager
def configured(rank: str = RANKS[0]) -> Iterator[None]:
    """In the block autotuners take a configuration without measuring, and without asking what one has measured
    before."""
    stock = Autotuner._bench, Autotuner.check_disk_cache

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        tuned.add(id(self.base_fn))
        return [preference(self.configs, config, rank)] * 3

    def check_disk_cache(self: Any, key: Any, configs: Any, benchmark: Callable[[], None]) -> bool:
        benchmark()
        return False

    Autotuner._bench, Autotuner.check_disk_cache = bench, check_disk_cache
    try:
        yield
    finally:
        Autotuner._bench, Autotuner.check_disk_cache = stock


def without_kernel_caches() -> None:
    """Let flag_gems ask Triton for the kernel at each launch: its own cache knows of no plugin."""
    module = sys.modules.get("flag_gems.utils.libentry")
    if module is not None:
        module.LibEntry.run = lambda self, *args, **kwargs: (self.fn.run(*args, **kwargs), {})
