"""A torch of a few lines, that can be imported and is not yet."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import triton_linear
from triton_linear import inductor


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        del sys.modules[name]


@contextmanager
def stand_in(files: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules with these texts, by their paths; the plugin follows none of them yet, and is off in the end."""
    for name, text in files.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(folder / "site")
    _forget()
    monkeypatch.setattr(inductor, "_followed", None)
    yield
    triton_linear.uninstall()
    _forget()
