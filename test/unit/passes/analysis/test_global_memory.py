"""Accesses of global memory: the instructions that are predicted are those that Triton emits."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from global_accesses import GlobalKernel, access_of, emitted, global_kernel, predicted, unit_layout
from hypothesis import event, given, settings
from hypothesis import strategies as st
from machine_code import shown

from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.lowering.target.memory import H200
from triton_linear.passes.analysis.addressing import Affine
from triton_linear.passes.analysis.global_memory import (
    GlobalAccess,
    basis_of,
    blocked_text,
    coalesced,
    encoding_text,
    fastest_dimension,
    is_unplaced,
    layout_of_bits,
    meeting,
)
from triton_linear.passes.analysis.widths import VECTOR
from triton_linear.passes.assignment.candidates import layout_of
from triton_linear.tools.support import compile as compiler

RANDOM = st.randoms(use_true_random=False)


@settings(max_examples=20, deadline=None)
@given(RANDOM.map(global_kernel))
def test_triton_emits_what_is_predicted(kernel: GlobalKernel) -> None:
    instructions, width = predicted(access_of(kernel.text), kernel.layout)
    event(f"{width} bytes")
    assert emitted(kernel.text, kernel.is_store) == (instructions, {width})


ROWS_OF_FOUR = layout_of_bits(
    (64, 32),
    [(1, 0), (1, 1), (0, 0)],
    [(1, 2), (1, 3), (1, 4), (0, 1), (0, 2)],
    [(0, 3), (0, 4), (0, 5)],
    (5, 3),
)


@pytest.mark.parametrize(("down", "width"), [(4096, 16), ("n", 16), ("odd", 4), (33, 4), (34, 8)], ids=str)
def test_vectors_are_as_wide_as_every_row_is_aligned(down: int | str, width: int) -> None:
    kernel = GlobalKernel(ROWS_OF_FOUR, "f32", False, down, 1, 16, "none")
    assert predicted(access_of(kernel.text), kernel.layout) == (32 // width, width)
    assert emitted(kernel.text, is_store=False) == (32 // width, {width})


@pytest.mark.parametrize(("bits", "sharing"), [((1, 2), 4), ((2, 4), 2), ((4, 5), 1)])
def test_warps_share_the_sectors_that_several_load(bits: tuple[int, int], sharing: int) -> None:
    """A thread loads two words, 32 bytes apart, and so does its neighbour beside it. What another warp has
    loaded of the same sectors is in the cache."""
    access = GlobalAccess(Affine((tuple(4 << bit for bit in range(6)),), 1 << 20), None, 4, is_store=False)
    layout = layout_of_bits((64,), [(0, 3)], [(0, 0)], [(0, bit) for bit in bits], (5, 2))
    first = 2 / sharing * H200.sector * H200.part(8, is_store=False)
    assert access.clocks(layout, H200)[0] == pytest.approx(first + (2 - 2 / sharing) * H200.cached_sector)


def machine_loads(text: str) -> int:
    """Loads of global memory that are left in the machine code."""
    code = compiler.lower(compiler.to_triton(text), "cuda:90", "cubin").stages["cubin"]
    assert isinstance(code, bytes)
    return len(re.findall(r"\bLDG\.", shown(code)))


@pytest.mark.parametrize(("down", "side", "count"), [(4096, 1, 2), (0, 1, 1), (4096, 0, 2), (0, 0, 1)])
def test_what_is_at_one_place_is_loaded_once(down: int, side: int, count: int) -> None:
    kernel = GlobalKernel(ROWS_OF_FOUR, "f32", False, down, side, 16, "none")
    assert predicted(access_of(kernel.text), kernel.layout)[0] == count
    assert machine_loads(kernel.text) == count


# Layouts for accesses


@st.composite
def accesses(draw: st.DrawFn, shape: tuple[int, ...]) -> GlobalAccess:
    """Any access whose dimensions have strides, known or not."""
    size = draw(st.sampled_from([1, 2, 4, 8]))
    strides = [draw(st.sampled_from([0, 1, 2, 64, 1024, None])) for _ in shape]
    deltas = tuple(
        tuple(None if stride is None else stride * size << bit for bit in range(length.bit_length() - 1))
        for stride, length in zip(strides, shape, strict=True)
    )
    mask = None
    if draw(st.booleans()):
        mask = tuple(tuple(draw(st.booleans()) for _ in bits) for bits in deltas)
    return GlobalAccess(
        Affine(deltas, draw(st.sampled_from([16, 4, 1])), None, 16), mask, size, draw(st.booleans())
    )


SHAPES = st.sampled_from([(1024,), (64, 32), (16, 16), (2, 128), (8, 4, 64), (1, 8), (4, 2)])


def check_sizes(layout: LinearLayout, shape: tuple[int, ...], lanes: int, warps: int) -> None:
    assert layout.is_surjective()
    assert layout.out_dims == tuple(zip(dim_names(len(shape)), shape, strict=True))
    assert layout.in_dim_size(LANE) == 1 << lanes
    assert layout.in_dim_size(WARP) == 1 << warps
    bases = [basis for _, vectors in layout.bases for basis in vectors if any(basis)]
    assert len(set(bases)) == len(bases)
    assert all(any(basis) for basis in dict(layout.bases)[REGISTER])


@settings(max_examples=80, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([5, 6]), st.integers(0, 3))
def test_coalesced_layouts_hold_every_element_at_the_least_cost(
    data: st.DataObject, shape: tuple[int, ...], lanes: int, warps: int
) -> None:
    access = data.draw(accesses(shape))
    layout = coalesced(access, shape, lanes, warps)
    check_sizes(layout, shape, lanes, warps)
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    bits = data.draw(st.permutations(bits))
    held = len(bits) - min(len(bits), lanes + warps)
    other = layout_of_bits(shape, bits[:held], bits[held:][:lanes], bits[held:][lanes:], (lanes, warps))
    # The order of what overlaps or is not known is arbitrary.
    sizes = [access.element_bytes << shift for shift in range(0, 40, 10)]
    deltas = tuple(
        tuple(sizes[place] << bit for bit in range(len(along)))
        for place, along in zip(
            data.draw(st.permutations(range(len(shape)))), access.pointer.deltas, strict=True
        )
    )
    dense = replace(access, pointer=replace(access.pointer, deltas=deltas), mask=None)
    best = coalesced(dense, shape, lanes, warps)
    assert dense.clocks(best, H200)[0] <= dense.clocks(other, H200)[0] * 1.000001


@settings(max_examples=80, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([5, 6]), st.integers(0, 3))
def test_layouts_that_meet_have_the_same_warps(
    data: st.DataObject, shape: tuple[int, ...], lanes: int, warps: int
) -> None:
    first, second = data.draw(accesses(shape)), data.draw(accesses(shape))
    met = meeting(first, second, shape, lanes, warps)
    bits = sum(size.bit_length() - 1 for size in shape)
    assert (met is None) == (bits < lanes + warps)
    if met is not None:
        for layout in met:
            check_sizes(layout, shape, lanes, warps)
        assert dict(met[0].bases)[WARP] == dict(met[1].bases)[WARP]


def test_a_transposition_meets_in_warps_that_hold_whole_sectors() -> None:
    rows = Affine((tuple(2048 << bit for bit in range(6)), tuple(2 << bit for bit in range(6))), 16)
    columns = Affine((rows.deltas[1], rows.deltas[0]), 16)
    met = meeting(GlobalAccess(rows, None, 2, False), GlobalAccess(columns, None, 2, True), (64, 64), 5, 2)
    assert met is not None
    assert dict(met[0].bases)[WARP] == ((32, 0), (0, 32)) or dict(met[0].bases)[WARP] == ((0, 32), (32, 0))
    for layout, along in zip(met, (1, 0), strict=True):
        assert all(basis[along] for basis in dict(layout.bases)[REGISTER][:3])


# Encodings


@settings(max_examples=80, deadline=None)
@given(RANDOM.map(unit_layout))
def test_the_text_of_a_layout_denotes_it(layout: LinearLayout) -> None:
    shape = tuple(size for _, size in layout.out_dims)
    text = encoding_text(layout)
    event(text[:11])
    assert layout_of(text, shape) == layout.remove_zero_bases(REGISTER)


@st.composite
def blocked(draw: st.DrawFn) -> tuple[str, tuple[int, int]]:
    def powers(total: int) -> list[int]:
        bits = draw(st.integers(0, total))
        return draw(st.permutations([1 << bits, 1 << (total - bits)]))

    sizes = [draw(st.sampled_from([1, 2, 4, 8])) for _ in range(2)]
    order = draw(st.permutations([0, 1]))
    text = (
        f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {powers(5)}, "
        f"warpsPerCTA = {powers(draw(st.integers(0, 3)))}, order = {order}}}>"
    )
    return text, draw(st.sampled_from([(64, 32), (16, 16), (8, 128), (256, 4), (1, 64)]))


@settings(max_examples=80, deadline=None)
@given(blocked())
def test_blocked_layouts_are_found_again(case: tuple[str, tuple[int, int]]) -> None:
    text, shape = case
    layout = layout_of(text, shape)
    found = blocked_text(layout)
    if found is not None:
        assert layout_of(found, shape) == layout
    if all(a <= b for a, b in zip(tile_of(text), shape, strict=True)):
        assert found is not None


def tile_of(text: str) -> list[int]:
    """How many elements of a blocked layout lie along each dimension before it begins again."""
    sizes = [[int(size) for size in found.split(", ")] for found in re.findall(r"= \[(.*?)\]", text)[:3]]
    return [math.prod(along) for along in zip(*sizes, strict=True)]


def test_a_swizzled_layout_is_no_blocked_one() -> None:
    layout = layout_of_bits((4, 64), [(0, 1), (0, 0)], [(1, b) for b in range(5)], [(1, 5)], (5, 1))
    assert blocked_text(layout) is None
    assert encoding_text(layout).startswith("#ttg.linear")


def test_a_vector_is_at_most_so_wide() -> None:
    layout = layout_of_bits((256,), [(0, 0), (0, 1), (0, 2)], [(0, b) for b in range(3, 8)], [], (5, 0))
    access = GlobalAccess(Affine((tuple(4 << b for b in range(8)),), 1 << 20), None, 4, False)
    assert access.element_bytes << access.vector_bits(dict(layout.bases)[REGISTER]) == VECTOR
    assert basis_of((0, 2), 1) == dict(layout.bases)[REGISTER][2]


# Pointers that do not tell along which dimension they go through memory


ROW_BY_ROW = layout_of_bits(
    (64, 32), [(0, b) for b in range(2, 6)], [(1, b) for b in range(5)], [(0, 0), (0, 1)], (5, 2)
)
IN_TILES = layout_of_bits(
    (64, 32),
    [(1, 0), (1, 3), (1, 4), (0, 3)],
    [(1, 1), (1, 2), (0, 0), (0, 1), (0, 2)],
    [(0, 4), (0, 5)],
    (5, 2),
)
COLUMN_BY_COLUMN = layout_of_bits(
    (64, 32), [(0, 5), *((1, b) for b in range(2, 5))], [(0, b) for b in range(5)], [(1, 0), (1, 1)], (5, 2)
)


@pytest.mark.parametrize("is_store", [False, True])
def test_strides_that_nobody_knows_are_those_for_which_triton_chose(is_store: bool) -> None:
    """Both strides are numbers that the kernel is given: lanes that go along a row of 64 bytes are no worse
    than others, however often the model cannot tell them apart, and nothing is better than what was there."""
    unknown = Affine(((None,) * 6, (None,) * 5), 16)
    costs = H200
    assert is_unplaced(unknown)
    access = GlobalAccess(unknown, None, 2, is_store, ROW_BY_ROW, 1)
    given, tiles, columns = (access.clocks(each, costs)[0] for each in (ROW_BY_ROW, IN_TILES, COLUMN_BY_COLUMN))
    assert given < tiles
    assert given < columns
    assert access.vector_bits(dict(IN_TILES.bases)[REGISTER]) == 0  # nothing is promised
    blind = GlobalAccess(unknown, None, 2, is_store)
    assert blind.clocks(ROW_BY_ROW, costs)[0] == blind.clocks(COLUMN_BY_COLUMN, costs)[0]
    other = GlobalAccess(unknown, None, 2, is_store, COLUMN_BY_COLUMN, 0)
    assert other.clocks(ROW_BY_ROW, costs)[0] >= other.clocks(COLUMN_BY_COLUMN, costs)[0]


def test_a_thread_that_takes_every_row_has_its_neighbours_in_another_dimension() -> None:
    """A row for each instruction of all warps: the registers of a thread go down a column of its tiles."""
    encoding = (
        "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [1, 0]}>"
    )
    assert fastest_dimension(encoding, layout_of(encoding, (16, 128))) == 1
    of_a_thread = encoding.replace("[1, 1]", "[1, 16]", 1).replace("[1, 32]", "[32, 1]")
    assert fastest_dimension(of_a_thread, layout_of(of_a_thread, (128, 64))) == 1


def test_one_known_stride_tells() -> None:
    rows = Affine(((None,) * 6, tuple(2 << b for b in range(5))), 16)
    assert not is_unplaced(rows)
    assert not is_unplaced(Affine(((256, 512), (2, 4)), 16))
    assert is_unplaced(Affine(((256, 512), (None, None)), 16))
