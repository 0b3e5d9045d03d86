"""The colours of threads and of banks."""

from __future__ import annotations

import colorsys
from collections.abc import Callable

from triton_linear.dialect.linear_layout import LANE
from triton_linear.lowering.target.phases import BANK_BYTES
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.view.memory import Memory, is_drawn
from triton_linear.tools.view.places import LaneRun, is_distributed
from triton_linear.tools.view.subject import Subject

NO_OWNER = "#dedede"
_HUE_STEP = 13
"""The number of hues from one lane to the next. With 32 or 64 hues, lanes whose numbers differ by a power of
two, as neighbours in a tile do, are at least 0.18 of the colour circle apart."""
_LIGHTEST, _DARKEST = 0.98, 0.70
"""The range of the colours' values; black text is readable on all of them."""


def painter(subject: Subject, target: Target) -> Callable[[LaneRun], str]:
    """A function that gives cells of a subject the colour of their thread or, in memory, of their bank."""
    layout = subject.layout
    if is_distributed(layout):
        lanes = layout.in_dim_size(LANE)
        return lambda run: thread_colour(run.owner[1], run.owner[2], lanes) if run.owner else NO_OWNER
    if not is_drawn(subject):
        return lambda run: NO_OWNER if run.number is None else bank_colour(run.number, target.banks)
    banks = (Memory(subject, target).addresses // BANK_BYTES).tolist()
    return lambda run: NO_OWNER if run.number is None else bank_colour(banks[run.number], target.banks)


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
