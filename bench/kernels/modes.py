"""The ways a kernel is compiled: stock Triton, the plugin, halves and variants of it.

Only `decided` follows decisions of `triton-linear tune`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import triton_linear
from triton_linear import hook
from triton_linear.decisions import NONE
from triton_linear.report import Report
from triton_linear.setting import Options
from triton_linear.variants import VARIANTS, variant

from ..harness import contests, turns

STOCK = turns.STOCK
OURS = "ours"
LAYOUTS = "layouts"
"""The plugin, which leaves registers to ptxas."""
LOWER = "lower"
ASSIGN = "assign"
AGAIN = "again"
"""Stock once more, which shows the noise."""
BOUND = "bound"
"""Stock Triton with the plugin's bounds on registers alone: a mode of committed figures, which the plugin no
longer has."""
UNPINNED = "unpinned"
"""The plugin, with configurations that Inductor chooses anew."""
EXACT = "exact"
"""The plugin, which gives stock Triton's bits."""
CONTEST = "contest"
"""The faster of stock Triton's kernel and of the plugin's with the same bits, as launches in turns find it."""
BASELINE = "legacy"
"""Conversions as Triton lowered them before it had linear layouts: a mode of committed figures, which the
plugin no longer has."""

MODES: Mapping[str, Mapping[str, Any]] = {
    OURS: {},
    UNPINNED: {},
    LAYOUTS: {"occupancy": False},
    LOWER: {"assign": False, "occupancy": False},
    ASSIGN: {"lower": False, "occupancy": False},
    EXACT: {"exact": True},
}
"""The options of the plugin in each mode that has it."""

PASSES = (
    "split-reductions",
    "widen-accesses",
    "defer-reductions",
)
WITHOUT: Mapping[str, str] = {f"without-{name}": f"linear-{name}" for name in PASSES}
"""The pass that is left out in a mode that is the plugin without it."""

VARIED: Mapping[str, str] = {f"variant-{name}": name for name in VARIANTS if name not in (STOCK, OURS)}
"""The variant of `triton-linear tune` that a mode is."""
DECIDED = "decided"
"""The plugin, which follows the decisions that it finds."""

WAYS = (STOCK, OURS)
"""What the paper's tables compare."""


class Unavailable(Exception):
    """This version of the plugin does not have the option that a mode is made of."""


def available(mode: str) -> bool:
    """Whether this version of the plugin has what `mode` needs."""
    known = {field.name for field in dataclasses.fields(Options)}
    return mode in (STOCK, AGAIN, DECIDED, CONTEST, *WITHOUT, *VARIED) or MODES[mode].keys() <= known


def context(mode: str, strict: bool = False) -> AbstractContextManager[list[Report]]:
    """In the block kernels compile as `mode` says, or raise if that is `strict`; it gets the list of reports.

    Raises Unavailable.
    """
    if mode in (STOCK, AGAIN):
        return nullcontext([])
    if mode == CONTEST:
        return contests.context()
    if mode in WITHOUT:
        return hook.pinned(Options(strict=strict, decisions=NONE, without=WITHOUT[mode]))
    if mode in VARIED:
        return hook.pinned(variant(VARIED[mode]).of(Options(strict=strict, decisions=NONE, measured=True)))
    if mode == DECIDED:
        return hook.pinned(Options(strict=strict))
    options = MODES[mode]
    if not available(mode):
        names = ", ".join(options)
        raise Unavailable(f"{mode}: triton-linear {triton_linear.__version__} has no option {names}")
    return triton_linear.enabled(strict=strict, decisions=NONE, **options)
