"""What tests share of what goes from one CTA of a cluster to another through memory."""

import pytest

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED, installed_release

ordered = pytest.mark.skipif(
    installed_release() not in CLUSTERS_ORDERED, reason="this Triton keeps conversions through memory to itself"
)
"""The test needs conversions in clusters, through memory, that are this package's."""
unordered = pytest.mark.skipif(
    installed_release() in CLUSTERS_ORDERED, reason="this Triton orders our stores too"
)
"""The test is about a Triton whose barriers order only what it stored itself."""


def layout(register: list[int], lane: list[int], warp: list[int], block: list[int]) -> LinearLayout:
    """A layout of one dimension by its columns."""
    sides = zip((REGISTER, LANE, WARP, BLOCK), (register, lane, warp, block), strict=True)
    return LinearLayout.from_bases({name: [[c] for c in columns] for name, columns in sides}, ["dim0"])


def without(text: str, line: str, number: int) -> str:
    """The text without the nth of its equal lines, from 0."""
    parts = text.split(line)
    return line.join(parts[: number + 1]) + line.join(parts[number + 1 :])
