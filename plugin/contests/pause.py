"""Keeps an idle GPU waiting for some microseconds, while the host launches what is timed behind that.

A GPU that has nothing to do passes an event at once, and then waits for the host to launch the kernel. The time
between two events around the kernel would be the host's. Behind a pause it is the kernel's: by its end, both
the kernel and the event behind it have arrived. A stream that has work is left alone, as it needs no pause.
"""

from __future__ import annotations

import ctypes
from typing import Final

CLOCKS: Final = 36_000
"""Of the multiprocessor: some 20 us. A launch through Triton's launcher takes the host 5 to 12."""
_NAME: Final = b"triton_linear_pause"
_PTX: Final = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry triton_linear_pause(.param .u32 clocks)
{
    .reg .pred %again;
    .reg .u32 %wanted, %first, %now, %passed;
    ld.param.u32 %wanted, [clocks];
    mov.u32 %first, %clock;
loop:
    mov.u32 %now, %clock;
    sub.u32 %passed, %now, %first;
    setp.lt.u32 %again, %passed, %wanted;
    @%again bra loop;
    ret;
}
"""
"""PTX ISA, special registers. The driver compiles it for whatever GPU there is."""
_RELAXED: Final = 2
_POINTER: Final = ctypes.c_void_p


class Pauses:
    """The pauses of a process's CUDA contexts, each made when it is first asked for.

    quick, other: CUDA's driver, called with and without the lock of Python's interpreter held.
    """

    def __init__(self, quick: ctypes.PyDLL, other: ctypes.CDLL) -> None:
        self._quick, self._other = quick, other
        self._by_context: dict[int, Pause | None] = {}

    def of_context(self) -> Pause | None:
        """That of the current context; None if the driver takes no such kernel. Requires: captures are relaxed
        in this thread."""
        context = _POINTER()
        if self._quick.cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
            return None
        if context.value not in self._by_context:
            module, function = _POINTER(), _POINTER()
            failed = self._other.cuModuleLoadData(ctypes.byref(module), _PTX)
            failed = failed or self._other.cuModuleGetFunction(ctypes.byref(function), module, _NAME)
            self._by_context[context.value] = None if failed else Pause(self._quick, function)
        return self._by_context[context.value]


class Pause:
    """The pause of one context; called with a stream, which waits if it has nothing else to do."""

    def __init__(self, driver: ctypes.PyDLL, function: ctypes.c_void_p) -> None:
        self._query, self._launch = driver.cuStreamQuery, driver.cuLaunchKernel
        self._exchange = driver.cuThreadExchangeStreamCaptureMode
        self._query.argtypes = [_POINTER]
        self._launch.argtypes = [_POINTER, *[ctypes.c_uint] * 7, _POINTER, _POINTER, _POINTER]
        self._exchange.argtypes = [_POINTER]
        self._function = function
        self._clocks = ctypes.c_uint(CLOCKS)
        self._parameters = (_POINTER * 1)(ctypes.addressof(self._clocks))

    def __call__(self, stream: int) -> None:
        mode = ctypes.c_int(_RELAXED)
        self._exchange(ctypes.addressof(mode))  # asking would end a capture of another thread
        idle = self._query(stream) == 0
        self._exchange(ctypes.addressof(mode))
        if idle:
            self._launch(self._function, 1, 1, 1, 1, 1, 1, 0, stream, self._parameters, None)
