"""Orders of tiles in memory: by their definition, on every element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.packing import Packing


@st.composite
def some_packings(draw: st.DrawFn) -> Packing:
    rows, columns = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    bits = [(0, n) for n in range(rows)] + [(1, n) for n in range(columns)]
    return Packing(1 << rows, 1 << columns, tuple(draw(st.permutations(bits))))


@given(some_packings(), st.integers(1, 3), st.integers(1, 3))
def test_each_element_is_where_its_bits_say_and_the_kernels_way_back_finds_it(
    packing: Packing, down: int, across: int
) -> None:
    rows, columns = packing.tile
    matrix = np.arange(down * rows * across * columns).reshape(down * rows, across * columns)
    packed = packing.pack(matrix)
    assert packed.shape == (down, across, rows * columns)
    last = matrix[-rows:, -columns:]
    for place in range(rows * columns):
        at = [0, 0]
        for bit, (axis, n) in enumerate(packing.bits):
            at[axis] |= (place >> bit & 1) << n
        assert packed[-1, -1, place] == last[at[0], at[1]]
    assert (packing.unpack(packed) == matrix).all()
    undone = packed[-1, -1].reshape(packing.shape).transpose(packing.order).reshape(rows, columns)
    assert (undone == last).all()


def test_vectors_of_a_thread_come_first_then_lanes_then_warps_then_the_other_registers() -> None:
    bases = {
        "register": [(1, 0), (0, 0), (0, 1)],
        "lane": [(0, 2), (2, 0)],
        "warp": [(0, 0), (4, 0)],
        "block": [],
    }
    layout = LinearLayout.from_bases(bases, {"dim0": 8, "dim1": 4})
    assert Packing.of(layout, 2).bits == ((0, 0), (1, 1), (0, 1), (0, 2), (1, 0))
    assert Packing.of(layout, 16).bits == ((0, 0), (1, 0), (1, 1), (0, 1), (0, 2))
    assert Packing(2, 4, ((1, 0), (1, 1), (0, 0))).is_trivial
    assert not Packing.of(layout, 2).is_trivial


@given(some_packings(), st.integers(1, 3), st.integers(1, 3))
def test_bytes_of_two_elements_are_packed_by_element(packing: Packing, down: int, across: int) -> None:
    rows, columns = packing.tile
    if columns == 1:
        packing, columns = Packing(rows, 2, (*packing.bits, (1, 0))), 2
    shape = (down * rows, across * columns)
    elements = np.arange(shape[0] * shape[1]).reshape(shape).astype(np.uint8) * 7 % 16
    matrix = (elements[:, ::2] | elements[:, 1::2] << 4).view(np.int8)
    packed = packing.pack_nibbles(matrix)
    assert packed.dtype == np.int8
    assert packed.shape == (down, across, rows * columns // 2)
    flat = packed.view(np.uint8)
    assert (np.stack((flat & 15, flat >> 4), -1).reshape(down, across, -1) == packing.pack(elements)).all()


def test_elements_that_will_share_a_register_come_as_far_apart_as_in_it() -> None:
    bases = {"register": [(0, 1), (1, 0), (0, 2), (2, 0)], "lane": [(4, 0)]}
    layout = LinearLayout.from_bases(bases, {"dim0": 8, "dim1": 4})
    # Two of 16 bits share a register: the first bit comes behind the two that make 4 bits 16.
    assert Packing.of(layout, 32, 4, 16).bits == ((0, 0), (1, 1), (1, 0), (0, 1), (0, 2))
    # Four of 8 bits do.
    assert Packing.of(layout, 32, 4, 8).bits == ((1, 1), (1, 0), (0, 0), (0, 1), (0, 2))
    assert Packing.of(layout, 32, 16, 16) == Packing.of(layout, 32)


def test_what_is_no_permutation_of_bits_or_no_tile_is_refused() -> None:
    sums = LinearLayout.from_bases({"register": [(0, 1), (1, 1)]}, {"dim0": 2, "dim1": 2})
    with pytest.raises(ValueError, match=r"the basis vector \(1, 1\) has several bits"):
        Packing.of(sums, 2)
    half = LinearLayout.from_bases({"register": [(0, 1)]}, {"dim0": 2, "dim1": 2}, require_surjective=False)
    with pytest.raises(ValueError, match="are not the bits of 2x2"):
        Packing.of(half, 2)
    with pytest.raises(ValueError, match="pack: 3x4 is not made of tiles of 2x2"):
        Packing(2, 2, ((0, 0), (1, 0))).pack(np.zeros((3, 4)))
