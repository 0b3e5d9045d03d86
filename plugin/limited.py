"""Warn, once in a process, of features that are off with the installed Triton (`dialect.limits`)."""

from __future__ import annotations

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
    new = [limit for limit in limits(installed_release()) if limit.told and limit not in _told]
    new = [limit for limit in new if (limit.concerns(target) if target else not limit.gpus)]
    if not new:
        return
    _told.update(new)
    said = "; ".join(f"{limit.what}: {limit.why}" for limit in new)
    where = f" on {target}" if target else ""
    text = f"with Triton {found()}{where} {said} ('triton-linear status' lists what is on)"
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=3)
