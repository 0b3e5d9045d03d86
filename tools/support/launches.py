"""Sees the kernels that a process launches.

Every launch of Triton's ends in a call of a launcher, which a `CompiledKernel` makes with the handles of its
code: those of `kernel[grid](...)`, of a compiled kernel by hand, and those of torch.compile's code. So the
launchers' classes are patched, and `CompiledKernel._init_handles`, which tells what kernel a launcher is for.

Launches by which somebody chooses between configurations are not shown. Nor are those by Inductor's own
launcher, which knows nothing of Triton: it is turned off (its switch has had two names). Kernels that Inductor
has had compiled in other processes come without the source; the environment says that there are to be none.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ENVIRONMENT = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0",
    "TORCHINDUCTOR_USE_STATIC_TRITON_LAUNCHER": "0",
}
"""What the environment of a process that is watched must hold."""
_SWITCHES = ("use_static_cuda_launcher", "use_static_triton_launcher")
_CHOOSERS = (
    ("triton.runtime.autotuner", "Autotuner", "_bench"),
    ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", "bench"),
    ("torch._inductor.autotune_process", "BenchmarkRequest", "benchmark"),
)
"""The methods that time one configuration among several."""
_KERNEL = "_triton_linear_kernel"


def digest(ttgir: str) -> str:
    """What tells a kernel's TTGIR, its places in the source included, from that of others.

    >>> digest("module {}")
    'fd224b3138074712'
    """
    return hashlib.sha256(ttgir.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Launch:
    """One launch: Triton's `CompiledKernel`, the grid, and the arguments that its launcher takes."""

    kernel: Any
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]

    @property
    def key(self) -> str:
        """Equal for launches of the same code on the same grid, in another run of the program too."""
        return f"{self.kernel.hash[:20]}-{'x'.join(map(str, self.grid))}"

    @property
    def types(self) -> tuple[Any, ...]:
        """Triton's types of the arguments."""
        return tuple(self.kernel.src.signature.values())


def again(kernel: Any, launch: Launch, arguments: tuple[Any, ...]) -> Callable[[], None]:
    """A function that launches `kernel` like `launch`, on the current stream."""
    from triton.runtime import driver

    run = kernel.run  # loads the code, so it comes first
    function, metadata = kernel.function, kernel.packed_metadata
    stream = driver.active.get_current_stream(driver.active.get_current_device())

    def launch_again() -> None:
        run(*launch.grid, stream, function, metadata, None, None, None, *arguments)

    return launch_again


Visitor = Callable[[Launch], "Callable[[], None] | None"]
"""Called before the first launch of each key; what it returns is called behind it."""


class Watch:
    """Counts launches by key, and shows the first of each key to `visit`; None from `visit` keeps the key new.

    Requires: Triton is imported, and has launched nothing yet.
    """

    def __init__(self, visit: Visitor) -> None:
        self._visit = visit
        self._seen: set[str] = set()
        self._local = threading.local()
        self._choosers: set[tuple[str, str, str]] = set()
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        """Patch Triton; this stays."""
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
        """Launches of this thread within the block are nobody's business."""
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
            # Before the kernel's own: packed metadata, launch metadata, and the hooks of enter and exit.
            launch = Launch(kernel, (x, y, z), arguments[4:])
            key = launch.key
            self.counts[key] += 1
            behind = None
            if key not in self._seen:
                with self.aside():
                    behind = self._visit(launch)
                if behind is not None:
                    self._seen.add(key)
            result = stock(launcher, x, y, z, stream, function, *arguments)
            if behind is not None:
                with self.aside():
                    behind()
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
            # Whoever chooses has been imported by now, and decides how to launch after this.
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
