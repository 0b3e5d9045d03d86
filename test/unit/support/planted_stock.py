"""Faults planted in stock Triton, in the processes that `verify --lowering=stock` starts for conversions.

Each stands for what such a process runs, `stock._check_in_child`, and breaks what Triton makes of its
conversion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from triton_linear.tools.support.backend import Lowered
from triton_linear.tools.verify import stock
from triton_linear.tools.verify.stock import Finding

alone = stock._check_in_child


def other_lanes(*conversion: Any) -> Finding:
    """The first shuffle takes what it takes from lane n from the lane whose number differs by n."""
    return _changed(conversion, lambda text: re.sub(r"(nvvm\.shfl\.sync +)idx", r"\1bfly", text, count=1))


def little_memory(*conversion: Any) -> Finding:
    """Half of the shared memory is asked for."""
    return _changed(
        conversion,
        lambda text: re.sub(r"ttg\.shared = (\d+)", lambda n: f"ttg.shared = {int(n[1]) // 2}", text, count=1),
    )


def no_barrier(*conversion: Any) -> Finding:
    """The first barrier of the CTA is missing."""
    return _changed(conversion, lambda text: re.sub(r"\n *nvvm\.barrier.*", "", text, count=1))


def crash(*conversion: Any) -> Finding:
    """Triton ends the process."""
    return _instead(conversion, os.abort)


def endless(*conversion: Any) -> Finding:
    """Triton does not come back."""

    def forever() -> NoReturn:
        while True:
            pass

    return _instead(conversion, forever)


def _changed(conversion: tuple[Any, ...], change: Callable[[str], str]) -> Finding:
    lower = stock.lower

    def broken(*arguments: Any) -> Lowered:
        lowered = lower(*arguments)
        text = lowered.text("llvm")
        changed = change(text)
        assert changed != text, "there is no place for the fault"
        return replace(lowered, stages={"llvm": changed})

    stock.lower = broken  # what this process does ends with the conversion
    return alone(*conversion)


def _instead(conversion: tuple[Any, ...], ending: Callable[[], NoReturn]) -> Finding:
    stock.lower = lambda *_: ending()
    return alone(*conversion)
