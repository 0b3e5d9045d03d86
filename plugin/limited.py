"""Telling a user what the passes do not do with the Triton at hand (`dialect.limits`), once in a process."""

from __future__ import annotations

import warnings

from triton_linear.dialect.limits import Limit, limits
from triton_linear.dialect.triton_versions import found, installed_release
from triton_linear.report import LimitWarning

_told: set[Limit] = set()


def warn(target: str | None = None) -> None:
    """One warning of all limits that were not told of yet: those of every GPU, or those of `target`.

    Called without a target where the plugin is turned on, with one for each kernel that is compiled, so that
    nobody is told who compiles for no such GPU.
    """
    new = [limit for limit in limits(installed_release()) if limit.told and limit not in _told]
    new = [limit for limit in new if (limit.concerns(target) if target else not limit.gpus)]
    if not new:
        return
    _told.update(new)
    said = "; ".join(f"{limit.what}: {limit.why}" for limit in new)
    where = f" on {target}" if target else ""
    text = f"with Triton {found()}{where} {said} ('triton-linear version' lists what is on)"
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=3)
