"""A driver of Triton's for a GPU that is not there: launches get as far as the compiled kernel."""

from __future__ import annotations

from triton.backends.compiler import GPUTarget


class FakeDriver:
    """As much of a Triton driver as `warmup` asks for."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        """The GPU that is compiled for."""
        return self.target

    def get_current_device(self) -> int:
        """Its number."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The stream of a launch."""
        return 0
