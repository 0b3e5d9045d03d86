"""Warn, once in a process, of a backend that compiles without the plugin."""

from __future__ import annotations

import functools
import os
import warnings

from triton_linear.report import LimitWarning


def warn() -> None:
    """Warn if Triton compiles by CUDA Tile IR: it has that backend, and the variable chooses it."""
    from triton.backends import backends  # type: ignore[import-untyped, unused-ignore]

    if os.environ.get("ENABLE_TILE") == "1" and "tileir" in backends:
        _warn_of_tiles()


@functools.cache
def _warn_of_tiles() -> None:
    text = (
        "ENABLE_TILE=1 has CUDA Tile IR compile kernels, whose tensors have no layouts: they stay as they are"
    )
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=4)
