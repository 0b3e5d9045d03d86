"""The modules of `test/data`, in files that the installed Triton reads without this package."""

from __future__ import annotations

from pathlib import Path

from triton_linear.dialect import bridge


def readable(path: Path, folder: Path) -> str:
    """The path of a copy in `folder`."""
    copy = folder / path.name
    copy.write_text(bridge.readable(path.read_text()))
    return str(copy)
