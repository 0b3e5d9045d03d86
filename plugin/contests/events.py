"""Time launches with events of the GPU's driver, called through `ctypes`.

CUDA and HIP have the same six functions (CUDA Driver API, Event Management and Stream Management; HIP Runtime
API, the same chapters). `torch.cuda.Event` takes a stream object, which a launch does not have, and takes
longer.

While a thread captures a graph in the usual mode, no thread may load code, make an event or ask for its time:
the capture would end with an error. Within `relaxed` they may (cuThreadExchangeStreamCaptureMode).
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Protocol

from triton_linear.contests.pause import Pause, Pauses
from triton_linear.dialect.records import dataclass

_OK: Final = 0
_NOT_READY: Final = 600
"""CUDA_ERROR_NOT_READY, hipErrorNotReady."""
_RELAXED: Final = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed."""


class Interval(Protocol):
    """The time between two moments of a stream. brief: an idle GPU waits for the launch of what comes."""

    def begin(self, stream: int, brief: bool = True) -> None: ...
    def end(self, stream: int) -> None: ...

    def milliseconds(self) -> float | None:
        """The time; None if the GPU is not done yet. Raises OSError if there is none. Requires: this thread is
        within `Clock.relaxed`."""


class Clock(Protocol):
    """What measures launches on one GPU."""

    def is_capturing(self, stream: int) -> bool:
        """True if what the stream is given becomes part of a graph."""

    def relaxed(self) -> AbstractContextManager[None]:
        """Within the block this thread may do what ends captures of other streams otherwise."""

    def interval(self) -> Interval:
        """A new interval in the current context. Raises OSError if the driver makes none."""


@dataclass(frozen=True, slots=True)
class _Api:
    """The names of a driver's functions, and the flags of an event.

    Those of the first row wait for nothing, and are called with the lock of Python's interpreter held.
    """

    elapsed: str
    capturing: str
    exchange_mode: str
    create: str
    record: str
    destroy: str
    flags: int
    pauses: bool


_APIS: Final = {
    "cuda": _Api(
        *("cuEventElapsedTime", "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"),
        *("cuEventCreate", "cuEventRecord", "cuEventDestroy_v2"),
        0,
        True,
    ),
    "hip": _Api(
        *("hipEventElapsedTime", "hipStreamIsCapturing", "hipThreadExchangeStreamCaptureMode"),
        *("hipEventCreateWithFlags", "hipEventRecord", "hipEventDestroy"),
        0x20000000,  # hipEventDisableSystemFence: a fence would take part of the time
        False,
    ),
}
_HANDLE, _POINTER = ctypes.c_void_p, ctypes.c_void_p


@functools.cache
def driver_clock(backend: str) -> Clock | None:
    """The clock of the driver that Triton uses for a backend; None if there is none."""
    return clock_of(backend, _LIBRARIES.get(backend, str))


def clock_of(backend: str, library: Callable[[], str]) -> Clock | None:
    """The clock of a backend ("cuda" or "hip"); None if its driver lacks a function. library: the driver's
    path."""
    try:
        return _DriverClock(_Driver(_APIS[backend], library()))
    except Exception:  # no such library, no such function, or Triton does not find it
        return None


def _hip() -> str:
    from triton.backends.amd.driver import (  # type: ignore[import-untyped, unused-ignore]
        _get_path_to_hip_runtime_dylib,
    )

    return str(_get_path_to_hip_runtime_dylib())


_LIBRARIES: Final[dict[str, Callable[[], str]]] = {"cuda": lambda: "libcuda.so.1", "hip": _hip}


class _Driver:
    """The functions of a driver; each returns a status, 0 for success."""

    def __init__(self, api: _Api, library: str) -> None:
        quick, other = ctypes.PyDLL(library), ctypes.CDLL(library)
        self.elapsed = getattr(quick, api.elapsed)
        self.elapsed.argtypes = [_POINTER, _HANDLE, _HANDLE]
        self.capturing = getattr(quick, api.capturing)
        self.capturing.argtypes = [_HANDLE, _POINTER]
        self.exchange_mode = getattr(quick, api.exchange_mode)
        self.exchange_mode.argtypes = [_POINTER]
        self.create = getattr(other, api.create)
        self.create.argtypes = [_POINTER, ctypes.c_uint]
        self.record = getattr(other, api.record)
        self.record.argtypes = [_HANDLE, _HANDLE]
        self.destroy = getattr(other, api.destroy)
        self.destroy.argtypes = [_HANDLE]
        self.flags = api.flags
        self._pauses = Pauses(quick, other) if api.pauses else None

    def pause(self) -> Pause | None:
        """What keeps the GPU of the current context waiting; None if nothing does. Requires: `relaxed`."""
        try:
            return self._pauses.of_context() if self._pauses is not None else None
        except (AttributeError, OSError):
            return None  # an interval is then as long as the host makes it

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """As for `Clock`."""
        mode = ctypes.c_int(_RELAXED)
        _check(self.exchange_mode(ctypes.addressof(mode)))
        try:
            yield
        finally:
            self.exchange_mode(ctypes.addressof(mode))


def _check(status: int) -> None:
    if status != _OK:
        raise OSError(f"the driver answers {status}")


class _DriverClock:
    """The clock of a driver."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver

    def is_capturing(self, stream: int) -> bool:
        found = ctypes.c_int()
        return self._driver.capturing(stream, ctypes.addressof(found)) != _OK or found.value != 0

    def relaxed(self) -> AbstractContextManager[None]:
        return self._driver.relaxed()

    def interval(self) -> _EventPair:
        return _EventPair(self._driver)


class _EventPair:
    """Two events of the context that is current when it is made."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver
        self._process = os.getpid()
        self._found = ctypes.c_float()
        self._time = ctypes.addressof(self._found)
        self._events = [0, 0]
        with driver.relaxed():
            self._pause = driver.pause()
            for number in (0, 1):
                made = _HANDLE()
                _check(driver.create(ctypes.addressof(made), driver.flags))
                self._events[number] = made.value or 0

    def begin(self, stream: int, brief: bool = True) -> None:
        if brief and self._pause is not None:
            self._pause(stream)
        if status := self._driver.record(self._events[0], stream):
            _check(status)

    def end(self, stream: int) -> None:
        if status := self._driver.record(self._events[1], stream):
            _check(status)

    def milliseconds(self) -> float | None:
        status = self._driver.elapsed(self._time, *self._events)
        if status == _NOT_READY:
            return None
        _check(status)
        return self._found.value

    def __del__(self) -> None:
        if self._process != os.getpid():
            return  # a forked child must not call the driver
        with suppress(OSError), self._driver.relaxed():
            for event in self._events:
                if event:
                    self._driver.destroy(event)
