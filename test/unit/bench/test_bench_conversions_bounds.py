"""Physical bounds of conversions, by hand. One dimension; columns are listed for registers, lanes and warps."""

from __future__ import annotations

from bench.conversions.bounds import Bound, bound
from triton_linear.dialect.linear_layout import LinearLayout


def layout(register: list[int], lane: list[int], warp: list[int], size: int) -> LinearLayout:
    bases = {"register": register, "lane": lane, "warp": warp}
    return LinearLayout.from_bases({name: [[v] for v in values] for name, values in bases.items()}, ["dim0"])


ROW = layout([64, 128], [1, 2, 4, 8, 16], [32], 256)


def test_bound_of_nothing() -> None:
    assert bound(ROW, ROW, 32) == Bound()
    assert Bound().limit == "nothing moves"


def test_bound_of_one_exchange() -> None:
    other = layout([1, 128], [64, 2, 4, 8, 16], [32], 256)
    # Half of 2 warps x 32 lanes x 4 registers moves to another lane: 128 elements of 4 bytes.
    found = bound(ROW, other, 32)
    assert found == Bound(exchanged=512)
    assert (found.clocks, found.limit) == (4, "transport")


def test_bound_of_a_lane_permutation() -> None:
    swapped = layout([64, 128], [2, 1, 4, 8, 16], [32], 256)
    # Lanes whose two lowest bits agree keep what they hold: half of 256 elements of 2 bytes.
    assert bound(ROW, swapped, 16) == Bound(exchanged=256)


def test_bound_of_a_warp_exchange() -> None:
    other = layout([32, 128], [1, 2, 4, 8, 16], [64], 256)
    # Each warp gives away and gets half of its 128 elements: 128 of 4 bytes are stored, and loaded.
    found = bound(ROW, other, 32)
    assert found == Bound(stored=512, loaded=512)
    assert found.clocks == 8


def test_bound_of_copies_in_every_warp() -> None:
    everywhere = layout([32, 64, 128], [1, 2, 4, 8, 16], [0], 256)
    # Each of 2 warps lacks the 128 elements of the other; all 256 are stored once.
    assert bound(ROW, everywhere, 8) == Bound(stored=256, loaded=256)


def test_bound_of_bytes_rearranged_in_a_thread() -> None:
    source = layout([1, 2, 4], [8, 16, 32, 64, 128], [256], 512)
    turned = layout([4, 1, 2], [8, 16, 32, 64, 128], [256], 512)
    # Words (0 1 2 3) and (4 5 6 7) become (0 4 1 5) and (2 6 3 7): two permutes in each of 64 threads.
    found = bound(source, turned, 8)
    assert found == Bound(permuted=128)
    assert (found.clocks, found.limit) == (2, "permutes")
    renamed = layout([1, 2, 4], [8, 16, 32, 64, 128], [256], 512)
    assert bound(source, renamed, 8) == Bound()
