"""Colours of threads and banks: the threads of a picture have different colours, neighbours clearly different
ones."""

from __future__ import annotations

import colorsys

NO_OWNER = "#dedede"
_HUE_STEP = 13
"""The number of hues from one lane to the next. With 32 or 64 hues, lanes whose numbers differ by a power of
two, as neighbours in a tile do, are at least 0.18 of the colour circle apart."""
_LIGHTEST, _DARKEST = 0.98, 0.70
"""The range of the colours' values; black text is readable on all of them."""


def thread_colour(warp: int, lane: int, lanes: int) -> str:
    """The colour of a thread as `#rrggbb`: the hue depends on the lane, saturation and value on the warp.

    Ensures: the colours of 32 warps of up to 64 lanes are all different.
    """
    level = int(f"{warp % 32:05b}"[::-1], 2) / 32  # reversed bits: warps 0 and 1 are far apart
    value = _LIGHTEST - (_LIGHTEST - _DARKEST) * level
    return _hex(lane * _HUE_STEP % lanes / lanes, 0.34 + 0.12 * level, value)


def bank_colour(bank: int, banks: int) -> str:
    """The colour of a bank: its hue follows the bank's number, and every second bank is paler."""
    return _hex(bank % banks / banks, 0.3 + 0.14 * (bank % 2), 0.97 - 0.06 * (bank // 2 % 2))


def _hex(hue: float, saturation: float, value: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hsv_to_rgb(hue, saturation, value))
