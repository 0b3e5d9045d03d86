"""How a table compiles a kernel: with stock Triton, the plugin, conversions as before linear layouts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import triton_linear
from triton_linear.lowering.strategies import LEGACY as BEFORE
from triton_linear.report import Report

STOCK = "stock"
OURS = "ours"
LEGACY = "legacy"
WAYS = (STOCK, OURS, LEGACY)

_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    OURS: {},
    LEGACY: {"assign": False, "occupancy": False, "lowering": BEFORE},
}


def context(way: str) -> AbstractContextManager[list[Report]]:
    """In the block kernels compile that way, or raise; it gets the list of reports."""
    if way == STOCK:
        return nullcontext([])
    return triton_linear.enabled(strict=True, **_OPTIONS[way])
