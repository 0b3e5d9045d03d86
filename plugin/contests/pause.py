"""Keeps an idle GPU waiting for some microseconds, while the host launches what is timed behind that.

A GPU that has nothing to do passes an event at once, and then waits for the host to launch the kernel. The time
between two events around the kernel would be the host's. Behind a pause it is the kernel's: by its end, both
the kernel and the event behind it have arrived. A stream that has work is left alone, as it needs no pause.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Final

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
_RELAXED: Final = 2
_POINTER: Final = ctypes.c_void_p


class Pauses:
    """The pauses of a process's contexts. quick, other: the driver, called with Python's lock held or not."""

    def __init__(self, quick: ctypes.PyDLL, other: ctypes.CDLL) -> None:
        self._quick, self._other = quick, other
        self._lock = threading.Lock()
        self._by_context: dict[int, Pause | None] = {}

    def of_context(self) -> Pause | None:
        """That of the current context; None if the driver takes no such kernel. Requires: captures are relaxed
        in this thread."""
        context = _POINTER()
        if self._quick.cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
            return None
        with self._lock:
            if context.value not in self._by_context:
                self._by_context[context.value] = self._made()
            return self._by_context[context.value]

    def _made(self) -> Pause | None:
        module, function = _POINTER(), _POINTER()
        failed = self._other.cuModuleLoadData(ctypes.byref(module), _PTX)
        failed = failed or self._other.cuModuleGetFunction(ctypes.byref(function), module, _NAME)
        return None if failed else Pause(self._quick, self._other, function)


class Pause:
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
