"""A Triton driver for a GPU that is not installed: kernels are compiled for a launch, but not launched."""

from __future__ import annotations

from triton.backends.compiler import GPUTarget


class FakeDriver:
    """The part of a Triton driver that `warmup` uses."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        """The GPU for which kernels are compiled."""
        return self.target

    def get_current_device(self) -> int:
        """The number of the GPU."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The stream of a launch."""
        return 0
