"""A driver without a GPU, for benches of random kernels: it does what the case expects, or what is broken."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bench.gpu_random.kernels import LANES, LOOP_STEPS, RandomCase


class FakeGpu:
    """Memory, and kernels that do what `expected` says but for what is broken: a driver without a GPU."""

    def __init__(self, case: RandomCase) -> None:
        self.case = case
        self.memory: dict[int, bytearray] = {}
        self.broken: Any = lambda out, counters: None

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: 0

    def cuMemAlloc_v2(self, pointer: Any, size: Any) -> int:
        pointer._obj.value = 0x1000 * (len(self.memory) + 1)
        self.memory[pointer._obj.value] = bytearray(size.value)
        return 0

    def cuMemcpyHtoD_v2(self, address: Any, content: bytes, size: Any) -> int:
        self.memory[address.value][: size.value] = content
        return 0

    def cuMemcpyDtoH_v2(self, buffer: Any, address: Any, size: Any) -> int:
        buffer[: size.value] = bytes(self.memory[address.value][: size.value])
        return 0

    def cuMemsetD8_v2(self, address: Any, value: Any, size: Any) -> int:
        self.memory[address.value][: size.value] = bytes([value.value]) * size.value
        return 0

    def cuLaunchKernel(self, function: Any, ctas: int, *rest: Any) -> int:
        inputs, expected = self.case.inputs(), self.case.expected()
        threads = expected.shape[0] * expected.shape[1]
        *memory, steps = rest[-2][: 2 * len(inputs) + 3]
        assert ctypes.cast(steps, ctypes.POINTER(ctypes.c_int32)).contents.value == LOOP_STEPS
        assert rest[:5] == (1, 1, LANES * self.case.all_warps, 1, 1)
        assert (ctas, len(rest[-2])) == (len(expected) * self.case.ctas, len(memory) + 3)
        buffers = [self.memory[ctypes.cast(p, ctypes.POINTER(ctypes.c_uint64)).contents.value] for p in memory]
        for given, buffer, counters in zip(inputs, buffers[::2], buffers[1::2], strict=False):
            assert bytes(buffer) == given.tobytes()
            counters[:] = np.full(threads, given.shape[2], np.uint32).tobytes()
        out, counted = expected.copy(), np.full(threads, expected.shape[2], np.uint32)
        self.broken(out, counted)
        drained = buffers[2 * len(inputs) :]
        drained[0][:], drained[1][:] = out.tobytes(), counted.tobytes()
        return 0
