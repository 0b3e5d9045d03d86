"""What a child that measures kernels needs of a GPU, without one."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from triton_linear.tools.measuring import child


class FakeCuda(types.ModuleType):
    """As much of `torch.cuda` as the child asks for; `broken` is what the GPU says from then on."""

    def __init__(self) -> None:
        super().__init__("torch.cuda")
        self.capturing = False
        self.broken = ""

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_device(self) -> int:
        return 0

    def synchronize(self) -> None:
        if self.broken:
            raise RuntimeError(self.broken)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCuda:
    """A child's surroundings: copies are the arguments, and a launch takes as long as it says."""
    torch = types.ModuleType("torch")
    torch.cuda = FakeCuda()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))

    class Same:
        def __init__(self, arguments: Any, types: Any) -> None:
            self.arguments = arguments

        def restore(self) -> None:
            pass

    class Said:
        def __init__(self, flush: bool) -> None:
            pass

        def time(self, launch: Any, before: Any, row: int) -> float:
            return float(launch())

    monkeypatch.setattr(child, "Copies", Same)
    monkeypatch.setattr(child, "GpuClock", Said)
    return torch.cuda  # type: ignore[no-any-return]
