"""A GPU that is not there, on which launches end as a note of the binary that was to run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import triton
import triton.language as tl
from plugin_support import CUDA
from triton.runtime import driver
from triton.runtime.jit import MockTensor

import triton_linear
from triton_linear import hook
from triton_linear.tools.support.script import FakeDriver


class LaunchingDriver(FakeDriver):
    """A driver that loads and launches everything.

    launched: the binaries, in order. loaded: how many there were to load.
    """

    def __init__(self) -> None:
        super().__init__(CUDA)
        self.launched: list[bytes] = []
        self.loaded = 0
        self.utils = self

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """A module, the function (the binary itself), registers, spills and threads."""
        self.loaded += 1
        return object(), kernel, 32, 0, 1024

    def unload_module(self, module: object) -> None:
        """Nothing was loaded."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """What bounds launches."""
        return {"max_shared_mem": 232448}

    def launcher_cls(self, source: object, metadata: object) -> Callable[..., None]:
        """What launches a kernel."""

        def launch(_x: int, _y: int, _z: int, _stream: int, function: bytes, *_: object) -> None:
            self.launched.append(function)

        return launch


@pytest.fixture
def gpu(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchingDriver]:
    """The GPU with an empty cache, and the plugin off before and after."""
    found = LaunchingDriver()
    monkeypatch.setattr(driver, "_active", found)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    yield found
    for kernel in (transposed, doubled):
        kernel.device_caches.clear()
    gc.collect()  # kernels that were loaded tell the driver that they go
    triton_linear.uninstall()
    assert hook._state.patches == () and hook._state.blocks == []


@triton.jit
def transposed(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.load(x + i * N + j).trans())


@triton.jit
def doubled(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) * 2)


def pointers() -> tuple[MockTensor, MockTensor]:
    """Arguments of both kernels."""
    return MockTensor(tl.int8), MockTensor(tl.int8)


class Clock:
    """A function that measures nothing: a launch takes as long as it is told.

    measured: how many configurations it was asked about.
    """

    def __init__(self, gpu: LaunchingDriver, seconds: Callable[[bytes], float]) -> None:
        self._gpu = gpu
        self._seconds = seconds
        self.measured = 0

    def __call__(self, launch: Callable[[], object], quantiles: object) -> list[float]:
        self.measured += 1
        launch()
        launch()
        return [self._seconds(self._gpu.launched[-1])] * 3


def binaries(kernel: Any, **options: Any) -> tuple[bytes, bytes]:
    """The binaries of a kernel by stock Triton and with the plugin."""

    def compiled() -> bytes:
        return bytes(kernel.warmup(*pointers(), grid=(1,), **options).kernel)

    stock = compiled()
    with triton_linear.enabled():
        return stock, compiled()
