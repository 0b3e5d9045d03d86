"""The modes in which a kernel is compiled for comparisons."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from triton_linear import hook
from triton_linear.decisions import NONE
from triton_linear.report import Report
from triton_linear.setting import Options
from triton_linear.variants import variant

FREE: Final = "free"


def mode(name: str) -> AbstractContextManager[list[Report]]:
    """Compile in mode `name`, that of a variant or `free`, in the block, in this thread; the list receives the
    reports of the compiles. Decisions of `triton-linear tune` are ignored.

    In mode `free` conversions cost nothing: the kernel computes garbage, and is for timing only. If it cannot
    be compiled, an exception is raised, and it does not fall back to stock Triton.
    """
    if name == FREE:
        return hook.pinned(Options(strict=True, free=True, occupancy=False, decisions=NONE, measured=True))
    return hook.pinned(variant(name).of(Options(decisions=NONE, measured=True)))
