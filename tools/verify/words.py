"""Describe places, types and verdicts in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from triton_linear.dialect.locations import user_position

if TYPE_CHECKING:
    from triton_linear.lowering.interpreter.verify import Verdict


def short_place(location: str) -> str:
    """The user's place in a location, as `file:line:column`; the location itself if it has none."""
    file, line, column = user_position(location)
    return f"{file}:{line}:{column}" if line else location


def short_encoding(type_: str) -> str:
    """The kind of a tensor type's encoding, with the kinds of its parents.

    >>> short_encoding("tensor<4xf32, #ttg.slice<{dim = 1, parent = #ttg.blocked<{order = [0]}>}>>")
    'slice(blocked)'
    """
    kinds = re.findall(r"#\w+\.(\w+)<", type_)
    return "(".join(kinds) + ")" * (len(kinds) - 1) if kinds else "no encoding"


def short_type(type_: str) -> str:
    """A tensor type with its encoding shortened.

    >>> short_type("tensor<4x2xf32, #ttg.blocked<{order = [0, 1]}>>")
    '4x2xf32 blocked'
    """
    return f"{type_.removeprefix('tensor<').partition(', #')[0]} {short_encoding(type_)}"


def count(number: int, what: str, several: str = "") -> str:
    """A number with its noun, in the plural (by default with an s) unless the number is 1."""
    return f"{number} {what}" if number == 1 else f"{number} {several or what + 's'}"


def figures(verdict: Verdict) -> str:
    """The counted costs of the code."""
    counts = verdict.counts
    parts = [
        count(counts.wavefronts, "wavefront") + f" ({counts.minimum_wavefronts} at least)",
        count(counts.shuffles, "shuffle"),
        f"{counts.alu_operations} alu",
        count(counts.cta_barriers, "barrier"),
    ]
    if counts.warp_barriers:
        parts.append(count(counts.warp_barriers, "warp barrier"))
    if counts.cluster_barriers:
        parts += [count(counts.cluster_barriers, "cluster barrier"), "in all CTAs"]
    return ", ".join(parts)


def findings(verdict: Verdict) -> str:
    """The numbers of wrong registers and of races."""
    return f"{verdict.wrong} wrong of {verdict.checked}, {count(len(verdict.races), 'race')}"
