"""The few calls of CUDA's driver that timing needs: load a cubin, launch it, read memory back."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_ATTRIBUTES = {"clock_khz": 13, "multiprocessors": 16, "major": 75, "minor": 76, "shared_optin": 97}
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

_LARGE_CLUSTERS = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED


class CudaError(RuntimeError):
    """A driver call failed; most failures leave the process's context unusable."""


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _library().cuGetErrorName(status, ctypes.byref(text))
        raise CudaError(f"{name}: {text.value.decode() if text.value else status}")


@dataclass(frozen=True)
class Device:
    """What the GPU says of itself."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_optin: int
    clock_mhz: float

    @property
    def target(self) -> str:
        """Triton's name of it, `cuda:90`."""
        return f"cuda:{self.capability[0] * 10 + self.capability[1]}"


@functools.cache
def device() -> Device:
    """Device 0, made current to this process.

    Raises CudaError or OSError where there is none.
    """
    _call("cuInit", 0)
    handle = ctypes.c_int()
    _call("cuDeviceGet", ctypes.byref(handle), 0)
    context = ctypes.c_void_p()
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    _call("cuCtxSetCurrent", context)
    name = ctypes.create_string_buffer(256)
    _call("cuDeviceGetName", name, 256, handle)
    found = {}
    for attribute, number in _ATTRIBUTES.items():
        value = ctypes.c_int()
        _call("cuDeviceGetAttribute", ctypes.byref(value), number, handle)
        found[attribute] = value.value
    return Device(
        name.value.decode(),
        (found["major"], found["minor"]),
        found["multiprocessors"],
        found["shared_optin"],
        found["clock_khz"] / 1000,
    )


class Memory:
    """Bytes on the GPU, freed with the object."""

    def __init__(self, size: int) -> None:
        device()
        self.size = size
        self.address = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(max(size, 16)))

    def write(self, content: bytes) -> None:
        """Copy `content` there."""
        _call("cuMemcpyHtoD_v2", self.address, content, ctypes.c_size_t(len(content)))

    def fill(self, value: int) -> None:
        """Set every byte."""
        _call("cuMemsetD8_v2", self.address, ctypes.c_ubyte(value), ctypes.c_size_t(self.size))

    def read(self, size: int | None = None) -> bytes:
        """Copy the first `size` bytes (None: all) back, once what runs has ended."""
        size = self.size if size is None else size
        content = ctypes.create_string_buffer(size)
        _call("cuMemcpyDtoH_v2", content, self.address, ctypes.c_size_t(size))
        return content.raw

    def free(self) -> None:
        """Give the bytes back."""
        _call("cuMemFree_v2", self.address)


class Kernel:
    """A function of a cubin, `warps` warps a CTA and `shared` bytes of dynamic shared memory."""

    def __init__(self, cubin: bytes, name: str, warps: int, shared: int, parameters: int) -> None:
        device()
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuModuleLoadData", ctypes.byref(module), cubin)
        _call("cuModuleGetFunction", ctypes.byref(self._function), module, name.encode())
        if shared:
            _call("cuFuncSetAttribute", self._function, _DYNAMIC_SHARED, shared)
        self._module = module
        self._threads, self._shared, self._parameters = warps * 32, shared, parameters

    def resident(self) -> int:
        """CTAs that one multiprocessor holds at a time."""
        count = ctypes.c_int()
        _call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(count),
            self._function,
            self._threads,
            ctypes.c_size_t(self._shared),
        )
        return count.value

    def launch(self, ctas: int, arguments: Sequence[Memory | int]) -> None:
        """Start it; memory is passed by address, numbers as 32 bits, parameters behind those as null."""
        values: list[Any] = [a.address if isinstance(a, Memory) else ctypes.c_int32(a) for a in arguments]
        values += [ctypes.c_uint64(0) for _ in range(self._parameters - len(values))]
        packed = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        _call(
            "cuLaunchKernel", self._function, ctas, 1, 1, self._threads, 1, 1, self._shared, None, packed, None
        )

    def admit_large_clusters(self) -> None:
        """Let clusters have more than the 8 CTAs that any GPU takes."""
        _call("cuFuncSetAttribute", self._function, _LARGE_CLUSTERS, 1)

    def unload(self) -> None:
        """Drop the module."""
        _call("cuModuleUnload", self._module)


def synchronize() -> None:
    """Wait for everything that was launched."""
    _call("cuCtxSynchronize")
