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

    def get_device_name(self) -> str:
        return "Some GPU"

    def synchronize(self) -> None:
        if self.broken:
            raise RuntimeError(self.broken)


class Same:
    """Copies of arguments that are the arguments, and results that are as expected."""

    def __init__(self, arguments: Any, types: Any = None) -> None:
        self.arguments = arguments

    def restore(self) -> None:
        """Nothing has changed."""

    def difference(self, expected: Any, before: Any) -> str:
        return ""

    def same(self, expected: Any) -> bool:
        return True


class Said:
    """A clock by which a launch takes what it says."""

    def __init__(self, flush: bool) -> None:
        pass

    def time(self, launch: Any, before: Any, row: int) -> float:
        return float(launch())


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCuda:
    """A child's surroundings."""
    torch = types.ModuleType("torch")
    torch.cuda = FakeCuda()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(child, "Copies", Same)
    monkeypatch.setattr(child, "GpuClock", Said)
    return torch.cuda  # type: ignore[no-any-return]
