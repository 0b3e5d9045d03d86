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
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

_OK: Final = 0
_NOT_READY: Final = 600
"""CUDA_ERROR_NOT_READY, hipErrorNotReady."""
_RELAXED: Final = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed."""


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
_READY: Final = 32
"""Intervals that are made before launches need them: twice what one contest uses where the GPU keeps up."""


@functools.cache
def driver_clock(backend: str) -> Clock | None:
    """The clock of the driver that Triton uses for a backend; None if there is none."""
    return clock_of(backend, _LIBRARIES.get(backend, str))


def clock_of(backend: str, library: Callable[[], str]) -> Clock | None:
    """The clock of a backend ("cuda" or "hip") by its driver's path; None if that lacks a function."""
    try:
        return Clock(backend, library())
    except Exception:  # no such library, no such function, or Triton does not find it
        return None


def _hip() -> str:
    from triton.backends.amd.driver import (  # type: ignore[import-untyped, unused-ignore]
        _get_path_to_hip_runtime_dylib,
    )

    return str(_get_path_to_hip_runtime_dylib())


_LIBRARIES: Final[dict[str, Callable[[], str]]] = {"cuda": lambda: "libcuda.so.1", "hip": _hip}


_FUNCTIONS: Final = {
    "cuda": ("cu", "EventCreate", "EventDestroy_v2", "CtxGetCurrent", 0),
    # hipEventDisableSystemFence: a fence would take part of the time
    "hip": ("hip", "EventCreateWithFlags", "EventDestroy", "GetDevice", 0x20000000),
}
"""How functions of a driver begin, those that make and destroy an event and that tell which context is current,
and the flags of an event."""


class Clock:
    """What measures launches on one GPU, by functions of a driver that return a status, 0 for success."""

    def __init__(self, backend: str, library: str) -> None:
        quick, other = self._quick, self._other = ctypes.PyDLL(library), ctypes.CDLL(library)
        prefix, create, destroy, current, self._flags = _FUNCTIONS[backend]

        def function(library: ctypes.CDLL, name: str, *types: type) -> Callable[..., int]:
            found = getattr(library, f"{prefix}{name}")
            found.argtypes = types
            return cast(Callable[..., int], found)

        # These wait for nothing, and are called with the lock of Python's interpreter held.
        self.elapsed = function(quick, "EventElapsedTime", _POINTER, _POINTER, _POINTER)
        self.capturing = function(quick, "StreamIsCapturing", _POINTER, _POINTER)
        self.exchange_mode = function(quick, "ThreadExchangeStreamCaptureMode", _POINTER)
        self._current = function(quick, current, _POINTER)
        self.record = function(other, "EventRecord", _POINTER, _POINTER)
        self._create = function(other, create, _POINTER, ctypes.c_uint)
        self._destroy = function(other, destroy, _POINTER)
        self._pauses = backend == "cuda"
        self._lock = threading.Lock()
        self._by_context: dict[int, tuple[list[Interval], _Pause | None]] = {}

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """Within the block this thread may do what ends captures of other streams otherwise."""
        mode = ctypes.c_int(_RELAXED)
        _check(self.exchange_mode(ctypes.addressof(mode)))
        try:
            yield
        finally:
            self.exchange_mode(ctypes.addressof(mode))

    def free(self) -> list[Interval]:
        """The intervals of the current context that nobody uses: whoever takes one out puts it back. The first
        call in a context makes some, so that launches do not. Raises OSError if the driver makes none."""
        return self._here()[0]

    def interval(self) -> Interval:
        """A new interval in the current context. Raises OSError if the driver makes none."""
        with self.relaxed():
            return self._made(self._here()[1])

    def _here(self) -> tuple[list[Interval], _Pause | None]:
        """The free intervals and the pause of the current context."""
        context = ctypes.c_uint64()
        _check(self._current(ctypes.addressof(context)))
        with self._lock:
            if context.value not in self._by_context:
                with self.relaxed():
                    pause = self._made_pause() if context.value else None
                    free = [self._made(pause) for _ in range(_READY)]
                self._by_context[context.value] = free, pause
            return self._by_context[context.value]

    def _made_pause(self) -> _Pause | None:
        """None if the driver takes no such kernel: an interval is then as long as the host makes it."""
        if not self._pauses:
            return None
        module, function = _POINTER(), _POINTER()
        try:
            failed = self._other.cuModuleLoadData(ctypes.byref(module), _PTX)
            failed = failed or self._other.cuModuleGetFunction(ctypes.byref(function), module, _NAME)
            return None if failed else _Pause(self._quick, self._other, function)
        except AttributeError:
            return None

    def _made(self, pause: _Pause | None) -> Interval:
        events: list[int] = []
        for _ in range(2):
            event = _POINTER()
            status = self._create(ctypes.addressof(event), self._flags)
            if status != _OK:
                for made in events:
                    self._destroy(made)
                _check(status)
            events.append(event.value or 0)
        return Interval(self, events, pause)


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
        address = ctypes.addressof(mode)
        self._exchange(address)  # asking would end a capture of another thread
        idle = self._query(stream) == 0
        self._exchange(address)
        if idle and self._function is not None:
            failed = self._launch(self._function, 1, 1, 1, 1, 1, 1, 0, stream, self._parameters, None)
            if failed:
                self._function = None  # its context is gone


class Interval:
    """The time between two moments of a stream: two events of one context, which last as long as the process.

    What the driver answers has its place here, since one thread at a time uses an interval."""

    __slots__ = ("_answer", "_answer_at", "_driver", "_first", "_float", "_pause", "_second")

    def __init__(self, driver: Clock, events: list[int], pause: _Pause | None) -> None:
        self._driver = driver
        self._first, self._second = events
        self._pause = pause
        self._answer = ctypes.c_int()
        self._answer_at = ctypes.addressof(self._answer)
        self._float = ctypes.c_float.from_buffer(self._answer)

    def begin(self, stream: int, brief: bool = True) -> bool:
        """Begin; False, and nothing is done, where the stream captures a graph. brief: an idle GPU waits for
        the launch of what comes. Raises OSError if the driver does not do it."""
        driver = self._driver
        if driver.capturing(stream, self._answer_at) or self._answer.value:
            return False
        if brief and self._pause is not None:
            self._pause(stream)
        if status := driver.record(self._first, stream):
            _check(status)
        return True

    def end(self, stream: int) -> None:
        """End. Raises OSError if the driver does not do it."""
        if status := self._driver.record(self._second, stream):
            _check(status)

    def milliseconds(self) -> float | None:
        """The time; None if the GPU is not done yet. Raises OSError if there is none. Requires: this thread is
        within `Clock.relaxed`."""
        status = self._driver.elapsed(self._answer_at, self._first, self._second)
        if status == _NOT_READY:
            return None
        _check(status)
        return self._float.value
