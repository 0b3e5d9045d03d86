"""Time launches with events of the GPU's driver, called through `ctypes`.

CUDA and HIP have the same six functions (CUDA Driver API, Event Management and Stream Management; HIP Runtime
API, the same chapters). `torch.cuda.Event` takes a stream object, which a launch does not have, and takes
longer.

While a thread captures a graph in the usual mode, no thread may load code, make an event or ask for its time:
the capture would end with an error. Within `relaxed` they may (cuThreadExchangeStreamCaptureMode).

A GPU that has nothing to do passes an event at once, and then waits for the host to launch the kernel. The time
between two events around the kernel would be the host's. Behind a pause of some microseconds it is the
kernel's: by its end, both the kernel and the event behind it have arrived. A stream that has work needs none.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Protocol, cast

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


NANOSECONDS: Final = 20_000
"""A launch through Triton's launcher takes the host 5 to 12 us."""
_NAME: Final = b"triton_linear_pause"
_PTX: Final = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry triton_linear_pause(.param .u64 nanoseconds)
{
    .reg .pred %again;
    .reg .u64 %wanted, %first, %now, %passed;
    ld.param.u64 %wanted, [nanoseconds];
    mov.u64 %first, %globaltimer;
loop:
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %first;
    setp.lt.u64 %again, %passed, %wanted;
    @%again bra loop;
    ret;
}
"""
"""PTX ISA, special registers. The driver compiles it for whatever GPU there is."""
_POINTER: Final = ctypes.c_void_p


@functools.cache
def driver_clock(backend: str) -> Clock | None:
    """The clock of the driver that Triton uses for a backend; None if there is none."""
    return clock_of(backend, _LIBRARIES.get(backend, str))


def clock_of(backend: str, library: Callable[[], str]) -> Clock | None:
    """The clock of a backend ("cuda" or "hip"); None if its driver lacks a function. library: the driver's
    path."""
    try:
        return _DriverClock(backend, library())
    except Exception:  # no such library, no such function, or Triton does not find it
        return None


def _hip() -> str:
    from triton.backends.amd.driver import (  # type: ignore[import-untyped, unused-ignore]
        _get_path_to_hip_runtime_dylib,
    )

    return str(_get_path_to_hip_runtime_dylib())


_LIBRARIES: Final[dict[str, Callable[[], str]]] = {"cuda": lambda: "libcuda.so.1", "hip": _hip}


_EVENTS: Final = {
    "cuda": ("cu", "EventCreate", "EventDestroy_v2", 0),
    # hipEventDisableSystemFence: a fence would take part of the time
    "hip": ("hip", "EventCreateWithFlags", "EventDestroy", 0x20000000),
}
"""How functions of a driver begin, those that make and destroy an event, and the flags of an event."""


class _DriverClock:
    """The clock of a driver, by functions that return a status, 0 for success."""

    def __init__(self, backend: str, library: str) -> None:
        quick, other = self._quick, self._other = ctypes.PyDLL(library), ctypes.CDLL(library)
        prefix, create, destroy, self.flags = _EVENTS[backend]

        def function(library: ctypes.CDLL, name: str, *types: type) -> Callable[..., int]:
            found = getattr(library, f"{prefix}{name}")
            found.argtypes = types
            return cast(Callable[..., int], found)

        # These wait for nothing, and are called with the lock of Python's interpreter held.
        self.elapsed = function(quick, "EventElapsedTime", _POINTER, _POINTER, _POINTER)
        self._capturing = function(quick, "StreamIsCapturing", _POINTER, _POINTER)
        self._exchange_mode = function(quick, "ThreadExchangeStreamCaptureMode", _POINTER)
        self.create = function(other, create, _POINTER, ctypes.c_uint)
        self.record = function(other, "EventRecord", _POINTER, _POINTER)
        self.destroy = function(other, destroy, _POINTER)
        self._pauses = backend == "cuda"
        self._lock = threading.Lock()
        self._by_context: dict[int, _Pause | None] = {}

    def pause(self) -> _Pause | None:
        """That of the current context; None if the driver takes no such kernel. Requires: `relaxed`."""
        if not self._pauses:
            return None
        context = _POINTER()
        try:
            if self._quick.cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
                return None
            with self._lock:
                if context.value not in self._by_context:
                    self._by_context[context.value] = self._made_pause()
                return self._by_context[context.value]
        except (AttributeError, OSError):
            return None  # an interval is then as long as the host makes it

    def _made_pause(self) -> _Pause | None:
        module, function = _POINTER(), _POINTER()
        failed = self._other.cuModuleLoadData(ctypes.byref(module), _PTX)
        failed = failed or self._other.cuModuleGetFunction(ctypes.byref(function), module, _NAME)
        return None if failed else _Pause(self._quick, self._other, function)

    def is_capturing(self, stream: int) -> bool:
        found = ctypes.c_int()
        return self._capturing(stream, ctypes.addressof(found)) != _OK or found.value != 0

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        mode = ctypes.c_int(_RELAXED)
        _check(self._exchange_mode(ctypes.addressof(mode)))
        try:
            yield
        finally:
            self._exchange_mode(ctypes.addressof(mode))

    def interval(self) -> _EventPair:
        return _EventPair(self)


def _check(status: int) -> None:
    if status != _OK:
        raise OSError(f"the driver answers {status}")


class _Pause:
    """The pause of one context; called with a stream, which waits if it has nothing else to do."""

    def __init__(self, quick: ctypes.PyDLL, other: ctypes.CDLL, function: ctypes.c_void_p) -> None:
        self._query, self._launch = other.cuStreamQuery, other.cuLaunchKernel
        self._exchange = quick.cuThreadExchangeStreamCaptureMode
        self._query.argtypes = [_POINTER]
        self._launch.argtypes = [_POINTER, *[ctypes.c_uint] * 7, _POINTER, _POINTER, _POINTER]
        self._exchange.argtypes = [_POINTER]
        self._function: ctypes.c_void_p | None = function
        self._time = ctypes.c_uint64(NANOSECONDS)
        self._parameters = (_POINTER * 1)(ctypes.addressof(self._time))

    def __call__(self, stream: int) -> None:
        mode = ctypes.c_int(_RELAXED)
        self._exchange(ctypes.addressof(mode))  # asking would end a capture of another thread
        idle = self._query(stream) == 0
        self._exchange(ctypes.addressof(mode))
        if idle and self._function is not None:
            failed = self._launch(self._function, 1, 1, 1, 1, 1, 1, 0, stream, self._parameters, None)
            if failed:
                self._function = None  # its context is gone


class _EventPair:
    """Two events of the context that is current when it is made."""

    def __init__(self, driver: _DriverClock) -> None:
        self._driver = driver
        self._process = os.getpid()
        self._found = ctypes.c_float()
        self._time = ctypes.addressof(self._found)
        self._events = [0, 0]
        with driver.relaxed():
            self._pause = driver.pause()
            for number in (0, 1):
                made = _POINTER()
                _check(driver.create(ctypes.addressof(made), driver.flags))
                self._events[number] = made.value or 0

    def begin(self, stream: int, brief: bool = True) -> None:
        if brief and self._pause is not None:
            self._pause(stream)
        _check(self._driver.record(self._events[0], stream))

    def end(self, stream: int) -> None:
        _check(self._driver.record(self._events[1], stream))

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
