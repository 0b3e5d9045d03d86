"""A GPU that is not there: operators run on tensors of the CPU, which say that they are on it.

Kernels are not launched but handed over; whoever takes them compiles them. What an operator computes between
its kernels is done by the CPU, on whatever is in memory.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")
ANSWERS = {torch.Tensor.device.__get__: GPU, torch.Tensor.is_cuda.__get__: True, torch.Tensor.get_device: 0}  # type: ignore[attr-defined]
SHARED = {80: 166912, 90: 232448, 100: 232448}
MULTIPROCESSORS = 132


class Driver:
    """As much of Triton's driver as packages ask for."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target
        shared = SHARED.get(target.arch, 101376) if target.backend == "cuda" else 65536
        facts = {
            "multiprocessor_count": MULTIPROCESSORS,
            "max_shared_mem": shared,
            "max_num_regs": 65536,
            "warpSize": target.warp_size,
            "sm_clock_rate": 1980000,
            "mem_clock_rate": 3201000,
            "mem_bus_width": 6144,
        }
        self.utils = types.SimpleNamespace(get_device_properties=lambda device: facts)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return GPU

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Any:
        return lambda call, quantiles: [1.0] * 3


class OnCpu(TorchFunctionMode):
    """Whatever is asked for on the GPU is on the CPU, and says that it is on the GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ANSWERS:
            return ANSWERS[func]
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.record_stream:
            return None
        args = tuple(_here(each) for each in args)
        return func(*args, **{key: _here(each) for key, each in (kwargs or {}).items()})


def _here(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return CPU
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


class _Nothing:
    """A context that does nothing, for any device or stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.idx = self.device = self.cuda_stream = 0

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def wait_stream(self, *args: Any) -> None:
        pass

    synchronize = record_event = wait_event = record = wait = wait_stream


def _properties(target: GPUTarget) -> types.SimpleNamespace:
    major, minor = divmod(target.arch, 10) if target.backend == "cuda" else (9, 4)
    shared = SHARED.get(target.arch, 101376) if target.backend == "cuda" else 65536
    return types.SimpleNamespace(
        name="NVIDIA H200" if target.arch == 90 else "another GPU",
        major=major,
        minor=minor,
        multi_processor_count=MULTIPROCESSORS,
        total_memory=140 << 30,
        warp_size=target.warp_size,
        L2_cache_size=50 << 20,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=shared,
        shared_memory_per_multiprocessor=shared + 1024,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        gcnArchName=str(target.arch),
    )


@contextmanager
def gpu(target: GPUTarget) -> Iterator[None]:
    """In the block PyTorch and Triton say that there is a GPU of this kind."""
    properties = _properties(target)
    before = driver._active
    fakes: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: properties.name,
        "device": _Nothing,
        "device_of": _Nothing,
        "stream": _Nothing,
        "Stream": _Nothing,
        "Event": _Nothing,
        "current_stream": _Nothing,
        "default_stream": _Nothing,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda device=None: (140 << 30, 140 << 30),
        "is_bf16_supported": lambda including_emulation=True: True,
        "default_generators": (torch.default_generator,),
    }
    driver.set_active(Driver(target))
    there: dict[str, Any] = {
        "current_accelerator": lambda check_available=False: GPU,
        "current_device_index": lambda: 0,
        "device_index": _Nothing,
    }
    try:
        with (
            mock.patch.multiple(torch.cuda, create=True, **fakes),
            mock.patch.multiple(torch.accelerator, create=True, **there),
            OnCpu(),
        ):
            yield
    finally:
        driver._active = before
