"""Observe the kernels that a process launches, launch them again, and time launches side by side.

Every launch of Triton ends in a call of a launcher object, which `CompiledKernel._init_handles` creates:
launches by `kernel[grid](...)`, of a compiled kernel by hand, and by torch.compile's code. So `__call__` of
the launchers' classes is patched, and `_init_handles`, to record which kernel a launcher is for.

Launches that autotuners make to time configurations are not observed. Inductor's own launcher does not use
Triton's; it is turned off (its switch has had two names). Kernels that Inductor compiles in other processes
lack their source; the environment variables below disable these processes.

Clock rates and temperatures of a GPU drift. So alternatives are timed alternately, in rounds of changing
order, and are to be compared within each round.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ENVIRONMENT = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0",
    "TORCHINDUCTOR_USE_STATIC_TRITON_LAUNCHER": "0",
}
"""Variables that must be in the environment of an observed process."""
_SWITCHES = ("use_static_cuda_launcher", "use_static_triton_launcher")
_CHOOSERS = (
    ("triton.runtime.autotuner", "Autotuner", "_bench"),
    ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", "bench"),
    ("torch._inductor.autotune_process", "BenchmarkRequest", "benchmark"),
)
"""The methods that time one configuration among several."""
_KERNEL = "_triton_linear_kernel"


def digest(ttgir: str) -> str:
    """A short digest of a kernel's TTGIR, including its locations.

    >>> digest("module {}")
    'fd224b3138074712'
    """
    return hashlib.sha256(ttgir.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Launch:
    """A launch: Triton's `CompiledKernel`, the grid, and the arguments of its launcher."""

    kernel: Any
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]

    @property
    def key(self) -> str:
        """A key that is equal for launches of the same code on the same grid, also in another run."""
        return f"{self.kernel.hash[:20]}-{'x'.join(map(str, self.grid))}"

    @property
    def types(self) -> tuple[Any, ...]:
        """Triton's types of the arguments."""
        return tuple(self.kernel.src.signature.values())


def again(kernel: Any, launch: Launch, arguments: tuple[Any, ...]) -> Callable[[], None]:
    """What launches `kernel` on the grid of `launch` and the current stream, with these arguments."""
    from triton.runtime import driver

    run = kernel.run  # loads the code, so it comes first
    function, metadata = kernel.function, kernel.packed_metadata
    stream = driver.active.get_current_stream(driver.active.get_current_device())

    def launch_again() -> None:
        run(*launch.grid, stream, function, metadata, None, None, None, *arguments)

    return launch_again


Visitor = Callable[[Launch], "Callable[[], None] | None"]
"""A function that is called before the first launch of each key, and returns one to call after it."""


class Watch:
    """Counts launches by key, and passes the first launch of each key to `visit`.

    If `visit` returns None, the next launch with that key is passed to it too.

    Requires: Triton is imported, and has launched nothing yet.
    """

    def __init__(self, visit: Visitor) -> None:
        self._visit = visit
        self._seen: set[str] = set()
        self._local = threading.local()
        self._choosers: set[tuple[str, str, str]] = set()
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        """Patch Triton, for the rest of the process."""
        from triton.backends import backends
        from triton.compiler import compiler

        for backend in backends.values():
            module = sys.modules[backend.driver.__module__]
            for name in ("CudaLauncher", "HIPLauncher"):
                if launcher := getattr(module, name, None):
                    launcher.__call__ = self._launching(launcher.__call__)
        kernel = compiler.CompiledKernel
        kernel.__init__ = self._making(kernel.__init__)
        kernel._init_handles = self._loading(kernel._init_handles)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not observe launches that this thread makes in the block."""
        before = getattr(self._local, "aside", False)
        self._local.aside = True
        try:
            yield
        finally:
            self._local.aside = before

    def _launching(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def __call__(launcher: Any, x: int, y: int, z: int, stream: int, function: int, *arguments: Any) -> Any:
            kernel = vars(launcher).get(_KERNEL)
            if kernel is None or getattr(self._local, "aside", False):
                return stock(launcher, x, y, z, stream, function, *arguments)
            # The first four are packed metadata, launch metadata, and the enter and exit hooks.
            launch = Launch(kernel, (x, y, z), arguments[4:])
            key = launch.key
            self.counts[key] += 1
            after = None
            if key not in self._seen:
                with self.aside():
                    after = self._visit(launch)
                if after is not None:
                    self._seen.add(key)
            result = stock(launcher, x, y, z, stream, function, *arguments)
            if after is not None:
                with self.aside():
                    after()
            return result

        return __call__

    def _loading(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def _init_handles(kernel: Any) -> Any:
            result = stock(kernel)
            if hasattr(kernel._run, "__dict__"):
                vars(kernel._run)[_KERNEL] = kernel
            return result

        return _init_handles

    def _making(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def __init__(kernel: Any, *arguments: Any, **options: Any) -> None:
            stock(kernel, *arguments, **options)
            # By now Inductor and the autotuners are imported, and have not yet chosen a launcher.
            config = sys.modules.get("torch._inductor.config")
            for switch in _SWITCHES:
                if getattr(config, switch, False):
                    setattr(config, switch, False)
            self._patch_choosers()

        return __init__

    def _patch_choosers(self) -> None:
        for place in _CHOOSERS:
            owner = getattr(sys.modules.get(place[0]), place[1], None)
            if owner is not None and place not in self._choosers and hasattr(owner, place[2]):
                self._choosers.add(place)
                setattr(owner, place[2], self._choosing(getattr(owner, place[2])))

    def _choosing(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def bench(*arguments: Any, **options: Any) -> Any:
            with self.aside():
                return stock(*arguments, **options)

        return bench


Run = Callable[[], object]
"""Launches a kernel."""

_ROUNDS = (6, 100)
"""The least and the largest number of rounds. With fewer than six, not even the interval from the least to the
greatest value holds the median in 95 of 100 cases."""
_WARM_UP = 2
_SHORT_US = 50.0
"""Kernels that take fewer microseconds are launched several times in a row."""
_MOST_IN_A_ROW = 10


class GpuClock:
    """Measures by CUDA events on PyTorch's current stream.

    Before each measurement the GPU is kept busy until all launches are queued, so that the time on the CPU is
    not measured. `flush` first writes a buffer larger than the L2 cache.
    """

    BUSY_CYCLES = 200_000
    BUSY_CYCLES_A_LAUNCH = 40_000

    def __init__(self, flush: bool) -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._start, self._end = (self._cuda.Event(enable_timing=True) for _ in range(2))
        self._buffer: Any = None
        if flush:
            cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
            self._buffer = torch.empty(max(2 * cache, 1 << 26), dtype=torch.uint8, device="cuda")

    def time(self, launch: Run, before: Run, row: int) -> float:
        """The mean time in microseconds of `row` launches, after `before`, which is not timed."""
        before()
        if self._buffer is not None:
            self._buffer.zero_()
        self._cuda._sleep(self.BUSY_CYCLES + row * self.BUSY_CYCLES_A_LAUNCH)
        self._start.record()
        for _ in range(row):
            launch()
        self._end.record()
        self._end.synchronize()
        return float(1e3 * self._start.elapsed_time(self._end) / row)


def side_by_side(
    launches: Mapping[str, Run],
    clock: GpuClock,
    *,
    before: Run,
    seconds: float,
    in_a_row: bool = True,
) -> dict[str, list[float]]:
    """Time `launches` alternately, in 6 to 100 rounds that take about `seconds` in all. Returns microseconds of
    one launch, for each name and round.

    `before` is called before each measurement, for instance to restore data that launches change. Short
    kernels are launched up to ten times in a row, unless `in_a_row` is False because each launch needs
    `before`.
    """
    names = list(launches)
    started = time.perf_counter()
    first = {name: min(clock.time(launches[name], before, 1) for _ in range(_WARM_UP)) for name in names}
    round_seconds = (time.perf_counter() - started) / _WARM_UP
    row = 1
    if in_a_row:
        row = max(1, min(_MOST_IN_A_ROW, round(_SHORT_US / max(1e-3, *first.values()))))
    rounds = max(_ROUNDS[0], min(_ROUNDS[1], round(seconds / max(round_seconds, 1e-6))))
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            times[name].append(clock.time(launches[name], before, row))
    return times
