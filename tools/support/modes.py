"""The modes in which a kernel is compiled for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from triton_linear import hook
from triton_linear.decisions import NONE
from triton_linear.report import Report
from triton_linear.setting import Options
from triton_linear.variants import variant

STOCK = "stock"
OURS = "ours"
FREE = "free"
VARIANT = "variant"

MODES: Mapping[str, Callable[[], Options | None]] = {
    STOCK: lambda: None,
    OURS: Options,
    FREE: lambda: Options(strict=True, free=True, occupancy=False),
}
"""Stock Triton; the whole plugin; conversions that cost nothing."""


def mode(name: str) -> AbstractContextManager[list[Report]]:
    """Compile in mode `name` in the block, in this thread; the list receives the reports of the compiles.

    Decisions of `triton-linear tune` are ignored. `variant:NAME` is one of the variants that `tune` measures.
    A kernel compiled with `free` computes garbage, and is for timing only; if it cannot be compiled, an
    exception is raised, without fallback to stock Triton.
    """
    kind, _, called = name.partition(":")
    if kind == VARIANT:
        return hook.pinned(variant(called).of(Options(decisions=NONE, measured=True)))
    if name not in MODES:
        raise ValueError(f"mode: no mode '{name}'; there are {', '.join(MODES)}, {VARIANT}:NAME")
    options = MODES[name]()
    return hook.pinned(None if options is None else replace(options, decisions=NONE))
