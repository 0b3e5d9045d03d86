"""Colours of threads and banks: no two threads of a picture have the same, and neighbours differ at sight."""

from __future__ import annotations

import colorsys

NOBODY = "#dedede"
_APART = 13
"""Steps around the circle of hues from a lane to the next. Of 32 and 64 hues, lanes whose numbers differ by a
power of two, as neighbours in a tile do, are then at least 0.18 of the circle apart."""
_LIGHTEST, _DARKEST = 0.98, 0.70
"""Black letters are read on all that is between."""


def thread_colour(warp: int, lane: int, lanes: int) -> str:
    """The colour of a thread as `#rrggbb`: the hue is the lane's, warps are darker or paler.

    Ensures: those of 32 warps of up to 64 lanes are all different.
    """
    level = int(f"{warp % 32:05b}"[::-1], 2) / 32  # reversed bits: warps 0 and 1 are far apart
    value = _LIGHTEST - (_LIGHTEST - _DARKEST) * level
    return _hex(lane * _APART % lanes / lanes, 0.34 + 0.12 * level, value)


def bank_colour(bank: int, banks: int) -> str:
    """The colour of a bank, in the order of the rainbow, every other one paler."""
    return _hex(bank % banks / banks, 0.3 + 0.14 * (bank % 2), 0.97 - 0.06 * (bank // 2 % 2))


def _hex(hue: float, saturation: float, value: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hsv_to_rgb(hue, saturation, value))
