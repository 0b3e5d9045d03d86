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
    `free:N` makes only conversion number N of each kernel free. A kernel compiled with `free` computes
    garbage, and is for timing only; if it cannot be compiled, an exception is raised, without fallback to
    stock Triton.
    """
    kind, _, number = name.partition(":")
    if kind == VARIANT:
        options = variant(number).of(Options(decisions=NONE, keyed=True))
        return hook.pinned(options)
    if kind not in MODES or (number and kind != FREE):
        raise ValueError(f"mode: no mode '{name}'; there are {', '.join(MODES)}, {FREE}:NUMBER")
    if number:
        return hook.pinned(
            Options(strict=True, occupancy=False, decisions=NONE, free=True, free_only=int(number))
        )
    options = MODES[kind]()
    return hook.pinned(None if options is None else replace(options, decisions=NONE))
