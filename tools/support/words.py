"""Describe places, types, layouts and what the interpreter counted, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
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
    """The type of a tensor or of a buffer with its encoding shortened.

    >>> short_type("tensor<4x2xf32, #ttg.blocked<{order = [0, 1]}>>")
    '4x2xf32 blocked'
    """
    shape = type_.partition(", #")[0].removeprefix("tensor<").removeprefix("!ttg.memdesc<")
    return f"{shape} {short_encoding(type_)}"


def count(number: int, what: str, several: str = "") -> str:
    """A number with its noun, in the plural (by default with an s) unless the number is 1."""
    return f"{number} {what}" if number == 1 else f"{number} {several or what + 's'}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The interpreter's counts for the code of a conversion, in one CTA."""

    wavefronts: int
    minimum_wavefronts: int
    shuffles: int
    alu: int
    barriers: int
    warp_barriers: int
    bytes: int
    wrong: int
    races: int

    @classmethod
    def of(cls, verdict: Verdict) -> Figures:
        """The counts of a verdict."""
        counts = verdict.counts
        return cls(
            counts.wavefronts,
            counts.minimum_wavefronts,
            counts.shuffles,
            counts.alu_operations,
            counts.cta_barriers,
            counts.warp_barriers,
            counts.bytes_stored + counts.bytes_loaded,
            verdict.wrong,
            len(verdict.races),
        )

    def __str__(self) -> str:
        parts = (
            (self.wavefronts, wavefronts_text(self.wavefronts, self.minimum_wavefronts)),
            (self.shuffles, count(self.shuffles, "shuffle")),
            (self.alu, f"{self.alu} alu"),
            (self.barriers, count(self.barriers, "barrier")),
            (self.warp_barriers, count(self.warp_barriers, "warp barrier")),
            (self.bytes, f"{self.bytes} bytes moved"),
            (self.wrong, f"{self.wrong} registers WRONG"),
            (self.races, count(self.races, "RACE")),
        )
        return ", ".join(text for number, text in parts if number) or "no instruction"


def wavefronts_text(wavefronts: int, minimum: int) -> str:
    """The number of wavefronts, and the minimum."""
    return f"{count(wavefronts, 'wavefront')} ({minimum} at least)"


def findings(verdict: Verdict) -> str:
    """What was counted, and the numbers of wrong registers and of races."""
    races = count(len(verdict.races), "race")
    return f"{Figures.of(verdict)}; {verdict.wrong} wrong of {verdict.checked}, {races}"


def _spanned(layout: LinearLayout, dims: Sequence[str]) -> tuple[int, ...]:
    """For each out-dim, 2^(number of bits of `dims` whose first nonzero coordinate is in it)."""
    counts = [0] * layout.num_out_dims
    for dim in dims:
        for vector in dict(layout.bases)[dim]:
            nonzero = [axis for axis, value in enumerate(vector) if value]
            for axis in nonzero[:1]:
                counts[axis] += 1
    return tuple(1 << count for count in counts)


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def vector_of(layout: LinearLayout) -> tuple[int, int]:
    """The axis and the length, at least 1, of the longest run of neighbours in a thread's first registers."""
    vectors = dict(layout.bases)[REGISTER]
    best = (layout.num_out_dims - 1, 1)
    for axis in reversed(range(layout.num_out_dims)):
        length = 1
        for vector in vectors:
            if any(value for other, value in enumerate(vector) if other != axis) or vector[axis] != length:
                break
            length *= 2
        if length > best[1]:
            best = axis, length
    return best


def in_words(layout: LinearLayout, element_bits: int = 0) -> str:
    """The elements of a thread, and the arrangement of lanes, warps and CTAs, in words.

    >>> from triton_linear.dialect.encodings import layout_of
    >>> text = "sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]"
    >>> in_words(layout_of(f"#ttg.blocked<{{{text}}}>", (64, 64)), 16)
    'a thread holds 32 elements, runs of 8 along dim1 (16 bytes); lanes 8x4, warps 4x1'
    """
    bases = dict(layout.bases)
    elements = 1 << sum(any(vector) for vector in bases[REGISTER])
    axis, length = vector_of(layout)
    parts = [f"a thread holds {elements} element{'s' if elements > 1 else ''}"]
    if length > 1:
        size = f" ({length * element_bits // 8} bytes)" if element_bits >= 8 else ""
        parts[0] += f", runs of {length} along {layout.out_dim_names[axis]}{size}"
    places = [f"lanes {_by(_spanned(layout, [LANE]))}", f"warps {_by(_spanned(layout, [WARP]))}"]
    if bases[BLOCK]:
        places.append(f"CTAs {_by(_spanned(layout, [BLOCK]))}")
    parts.append(", ".join(places))
    copies = [
        f"{1 << zeros} {name}s"
        for name in (REGISTER, LANE, WARP)
        if (zeros := sum(not any(vector) for vector in bases[name]))
    ]
    if copies:
        parts.append(f"copies in {' and '.join(copies)}")
    return "; ".join(parts)
