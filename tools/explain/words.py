"""Describe layouts in words."""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout


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
    """The axis and the length of the longest run of neighbours in a thread's first registers; length 1 if
    none.
    """
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
