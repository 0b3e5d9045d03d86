"""Physical bounds of conversions, by hand. One dimension; columns are listed for registers, lanes and warps."""

from __future__ import annotations

import pytest

from bench.conversions.bounds import Bound, bound
from triton_linear.dialect.linear_layout import LinearLayout


def layout(register: list[int], lane: list[int], warp: list[int]) -> LinearLayout:
    bases = {"register": register, "lane": lane, "warp": warp}
    return LinearLayout.from_bases({name: [[v] for v in values] for name, values in bases.items()}, ["dim0"])


ROW = layout([64, 128], [1, 2, 4, 8, 16], [32])
BYTES = layout([1, 2, 4], [8, 16, 32, 64, 128], [256])
CASES = {
    "nothing": (ROW, ROW, 32, Bound()),
    # Half of 2 warps x 32 lanes x 4 registers moves to another lane: 128 elements of 4 bytes.
    "one exchange": (ROW, layout([1, 128], [64, 2, 4, 8, 16], [32]), 32, Bound(exchanged=512)),
    # Lanes whose two lowest bits agree keep what they hold: half of 256 elements of 2 bytes.
    "a permutation of lanes": (ROW, layout([64, 128], [2, 1, 4, 8, 16], [32]), 16, Bound(exchanged=256)),
    # Each warp gives away and gets half of its 128 elements: 128 of 4 bytes are stored, and loaded.
    "warps": (ROW, layout([32, 128], [1, 2, 4, 8, 16], [64]), 32, Bound(stored=512, loaded=512)),
    # Each of 2 warps lacks the 128 elements of the other; all 256 are stored once.
    "copies": (ROW, layout([32, 64, 128], [1, 2, 4, 8, 16], [0]), 8, Bound(stored=256, loaded=256)),
    # Words (0 1 2 3) and (4 5 6 7) become (0 4 1 5) and (2 6 3 7): two permutes in each of 64 threads.
    "bytes": (BYTES, layout([4, 1, 2], [8, 16, 32, 64, 128], [256]), 8, Bound(permuted=128)),
    "equal bytes": (BYTES, BYTES, 8, Bound()),
}


@pytest.mark.parametrize("case", CASES)
def test_bound(case: str) -> None:
    source, destination, bits, expected = CASES[case]
    assert bound(source, destination, bits) == expected


def test_what_bounds_take() -> None:
    assert Bound().limit == "nothing moves"
    assert (Bound(exchanged=512).clocks, Bound(exchanged=512).limit) == (4, "transport")
    assert Bound(stored=512, loaded=512).clocks == 8
    assert (Bound(permuted=128).clocks, Bound(permuted=128).limit) == (2, "permutes")
