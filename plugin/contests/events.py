"""Time launches with events of the GPU's driver, called through `ctypes`.

CUDA and HIP have the same six functions (CUDA Driver API, Event Management and Stream Management; HIP Runtime
API, the same chapters). A pair of events costs a launch about a microsecond on the host; `torch.cuda.Event`
takes a stream object, which a launch does not have, and takes longer.

A thread that captures a graph, in any stream, must not ask events for their times: the capture would end with
an error, and so would that of another thread. Within `relaxed` it may (cuThreadExchangeStreamCaptureMode)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final, Protocol

from triton_linear.dialect.records import dataclass

_OK: Final = 0
_NOT_READY: Final = 600
"""CUDA_ERROR_NOT_READY, hipErrorNotReady."""
_RELAXED: Final = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed."""
_NAMES: Final = {
    "cuda": (
        "cuEventCreate",
        "cuEventRecord",
        "cuEventElapsedTime",
        "cuEventDestroy_v2",
        "cuStreamIsCapturing",
        "cuThreadExchangeStreamCaptureMode",
    ),
    "hip": (
        "hipEventCreateWithFlags",
        "hipEventRecord",
        "hipEventElapsedTime",
        "hipEventDestroy",
        "hipStreamIsCapturing",
        "hipThreadExchangeStreamCaptureMode",
    ),
}


class Interval(Protocol):
    """The time between two moments of a stream."""

    def begin(self, stream: int) -> None: ...
    def end(self, stream: int) -> None: ...

    def milliseconds(self) -> float | None:
        """The time; None if the GPU is not done yet. Raises OSError if there is none."""


class Clock(Protocol):
    """What measures launches on one GPU."""

    def is_capturing(self, stream: int) -> bool:
        """True if what the stream is given becomes part of a graph."""

    def interval(self) -> Interval:
        """A new interval in the current context. Raises OSError if the driver makes none."""


def clock_of(backend: str, library: Callable[[], str]) -> Clock | None:
    """The clock of a backend ("cuda" or "hip"); None if its driver lacks a function. library: the driver's
    path."""
    try:
        driver = ctypes.CDLL(library())
        return _DriverClock(_Driver(*(getattr(driver, name) for name in _NAMES[backend])))
    except (AttributeError, KeyError, OSError):
        return None


def driver_clock(backend: str) -> Clock | None:
    """The clock of the driver that Triton uses for a backend; None if there is none."""
    return clock_of(backend, _LIBRARIES.get(backend, str))


def _hip() -> str:
    from triton.backends.amd.driver import (  # type: ignore[import-untyped, unused-ignore]
        _get_path_to_hip_runtime_dylib,
    )

    return str(_get_path_to_hip_runtime_dylib())


_LIBRARIES: Final[dict[str, Callable[[], str]]] = {"cuda": lambda: "libcuda.so.1", "hip": _hip}


@dataclass(frozen=True, slots=True)
class _Driver:
    """The functions of the driver; each returns a status, 0 for success."""

    create: Callable[..., int]
    record: Callable[..., int]
    elapsed: Callable[..., int]
    destroy: Callable[..., int]
    capturing: Callable[..., int]
    exchange_mode: Callable[..., int]


def _check(status: int) -> None:
    if status != _OK:
        raise OSError(f"the driver answers {status}")


class _DriverClock:
    def __init__(self, driver: _Driver) -> None:
        self._driver = driver

    def is_capturing(self, stream: int) -> bool:
        found = ctypes.c_int()
        status = self._driver.capturing(ctypes.c_void_p(stream), ctypes.byref(found))
        return status != _OK or found.value != 0

    def interval(self) -> _EventPair:
        return _EventPair(self._driver)


class _EventPair:
    """Two events of the context that is current when it is made."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver
        self._begin, self._end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (self._begin, self._end):
            _check(driver.create(ctypes.byref(event), 0))

    def begin(self, stream: int) -> None:
        _check(self._driver.record(self._begin, ctypes.c_void_p(stream)))

    def end(self, stream: int) -> None:
        _check(self._driver.record(self._end, ctypes.c_void_p(stream)))

    def milliseconds(self) -> float | None:
        found, mode = ctypes.c_float(), ctypes.c_int(_RELAXED)
        exchange = self._driver.exchange_mode
        _check(exchange(ctypes.byref(mode)))
        try:
            status = self._driver.elapsed(ctypes.byref(found), self._begin, self._end)
        finally:
            exchange(ctypes.byref(mode))
        if status == _NOT_READY:
            return None
        _check(status)
        return found.value

    def __del__(self) -> None:
        for event in (self._begin, self._end):
            if event:
                self._driver.destroy(event)
