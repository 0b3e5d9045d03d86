"""Warn, once in a process, of features that are off with the installed Triton (`dialect.limits`), and of a
backend that compiles without the plugin."""

from __future__ import annotations

import functools
import os
import warnings

from triton_linear.dialect.limits import Limit, limits
from triton_linear.dialect.triton_versions import found, installed_release
from triton_linear.report import LimitWarning

_told: set[Limit] = set()


def warn(target: str | None = None) -> None:
    """Give one warning of the limits not yet warned of: those of all GPUs, or those of `target`.

    Called without a target when the plugin is turned on, and with one for each compiled kernel. So users are
    warned only of limits of GPUs that they compile for.
    """
    if target is None and _compiles_tiles():
        _warn_of_tiles()
    new = [limit for limit in limits(installed_release()) if limit.told and limit not in _told]
    new = [limit for limit in new if (limit.concerns(target) if target else not limit.gpus)]
    if not new:
        return
    _told.update(new)
    said = "; ".join(f"{limit.what}: {limit.why}" for limit in new)
    where = f" on {target}" if target else ""
    text = f"with Triton {found()}{where} {said} ('triton-linear status' lists what is on)"
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=3)


def _compiles_tiles() -> bool:
    """True if Triton compiles by CUDA Tile IR: it has that backend, and the variable chooses it."""
    from triton.backends import backends  # type: ignore[import-untyped, unused-ignore]

    return os.environ.get("ENABLE_TILE") == "1" and "tileir" in backends


@functools.cache
def _warn_of_tiles() -> None:
    text = (
        "ENABLE_TILE=1 has CUDA Tile IR compile kernels, whose tensors have no layouts: they stay as they are"
    )
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=4)
