"""The names of this machine's GPUs.

NVML (NVIDIA's management library) gives them if the driver is installed. It needs no CUDA context, which a
process that forks later must not have. Without NVML there are no names.
"""

from __future__ import annotations

import ctypes
import functools

_LIBRARY = "libnvidia-ml.so.1"
_NAME_BYTES = 96


@functools.cache
def gpu_names() -> frozenset[str]:
    """The names of the NVIDIA GPUs, such as "NVIDIA H200"; empty if NVML does not give them."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        if library.nvmlInit_v2():
            return frozenset()
    except (OSError, AttributeError):
        return frozenset()
    try:
        return frozenset(_names(library))
    except AttributeError:
        return frozenset()
    finally:
        library.nvmlShutdown()


def _names(library: ctypes.CDLL) -> list[str]:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    found = []
    for index in range(count.value):
        device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_BYTES)
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            continue
        if not library.nvmlDeviceGetName(device, name, _NAME_BYTES):
            found.append(name.value.decode(errors="replace"))
    return found
