"""Which sources, and which emitted code, results are of: those of others are not valid."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CODE_VERSION: Final = "5"
"""Raised when the code of some kernel changes; a test sees that (`test_code_version`). What was measured of
another version does not hold. Comments, and changes that leave all code as it is, do not raise it."""
_SOURCES = ("triton_linear", "triton_linear.dialect", "triton_linear.passes", "triton_linear.lowering")


@functools.cache
def source_digest() -> str:
    """A digest of every source file that takes part in a compile. It imports none of them."""
    digest = hashlib.sha256()
    for package in _SOURCES:
        for folder in _folders(package):
            for path in _files(str(folder)):
                content = _content(Path(path))
                name = f"{package}{path.removeprefix(str(folder))}"
                digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """The files in a folder, in a fixed order, without bytecode. `pathlib` would take twice as long."""
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if not name.endswith(".pyc"):
                yield f"{where}/{name}"


def _content(path: Path) -> bytes:
    """The content of a file: empty if it is gone, random if it cannot be read, so that no digest matches."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError:
        return os.urandom(16)


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
