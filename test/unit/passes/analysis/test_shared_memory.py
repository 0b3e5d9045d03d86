"""Accesses of shared memory: the instructions that are predicted are those that Triton emits.

And the wavefronts are those that their addresses take.
"""

from __future__ import annotations

import re

import pytest
from assign_support import path_of
from hypothesis import event, given, settings
from hypothesis import strategies as st
from local_accesses import (
    ACCESSES,
    BITS,
    GPU,
    SHARED,
    WARPS,
    LocalKernel,
    instruction_difference,
    shared_memory,
    tile,
)

from triton_linear.dialect import bridge, encodings, f2
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.passes.analysis.global_memory import GlobalAccess, layout_of_bits
from triton_linear.passes.analysis.shared_memory import LocalAccess, choose_lanes, layouts
from triton_linear.passes.assignment.build import build

PADDED = "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>"
PARTITIONED = (
    "#ttg.partitioned_shared<{numPartitions = 2, numGroups = 2, partitionDim = 0, "
    f"partitionLayout = {SHARED[-1]}}}>"
)


@pytest.mark.parametrize("access", sorted(ACCESSES))
@pytest.mark.parametrize("shared", [PADDED, SHARED[-1]], ids=["padded", "plain"])
def test_layouts_stay_where_memory_is_padded(shared: str, access: str) -> None:
    """Padding keeps apart what would ask for one bank, and no layout tells of it."""
    columns, rows = ([(axis, bit) for bit in range(6)] for axis in (1, 0))
    order = [*columns, *rows]
    layout = layout_of_bits((64, 64), [*order[:3], *order[10:]], order[3:8], order[8:10], (5, WARPS))
    root = bridge.text_to_upstream(
        LocalKernel(layout, shared, "f16", access).text, bridge.upstream_context(), "access.ttgir"
    )
    groups = build(operations(root.operation), GPU).groups
    assert any(group.locals for group in groups) == (shared != PADDED)
    assert any(group.pinned for group in groups) == (shared == PADDED)


def test_memory_in_partitions_has_no_offsets() -> None:
    shape = (64, 64)
    assert LocalAccess.of(encodings.layout_of(PARTITIONED, shape), shape, 2, is_store=True) is None
    assert LocalAccess.of(encodings.layout_of(SHARED[-1], shape), shape, 2, is_store=True) is not None


RANDOM = st.randoms(use_true_random=False)


@settings(max_examples=25, deadline=None)
@given(RANDOM.map(tile), st.sampled_from(["store", "alloc", "load"]))
def test_triton_emits_what_is_predicted(drawn: tuple[LinearLayout, str, str], access: str) -> None:
    """As many instructions, as wide; or those for matrices where these are foreseen."""
    assert instruction_difference(LocalKernel(*drawn, access)) is None


@settings(max_examples=15, deadline=None)
@given(st.data(), st.sampled_from([(64, 64), (32, 64), (64, 128)]), st.sampled_from([(4096, 1), (1, 4096)]))
def test_copies_take_neighbours_in_both_memories(
    data: st.DataObject, shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    """Every layout that a copy may be given: its instructions are as wide as predicted, and take the pointer of
    the first of as many elements that lie side by side on either side."""
    element = data.draw(st.sampled_from(sorted(BITS)))
    shared = shared_memory(data.draw(RANDOM), shape, element)
    rest = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    held = len(rest) - 7
    first = layout_of_bits(shape, rest[:held], rest[held : held + 5], rest[held + 5 :], (5, WARPS))
    group = LocalKernel(first, shared, element, "copy", *strides).group
    local, access = group.locals[0][0], group.accesses[0][0]
    made = list(layouts(local, access, shape, 5, WARPS, GPU))
    event(f"{len(made)} layouts")
    if element != "f32" and not _share_neighbours(local, access):
        assert not made  # Triton has no copies of less than a word.
    for layout in made:
        width = local.bytes_at_once(layout)
        ptx = LocalKernel(layout, shared, element, "copy", *strides).ptx
        pattern = r"cp\.async\.c.\.shared\.global \[.*?\], \[.*?\], (\w+)"
        found = [int(size, 16) for size in re.findall(pattern, ptx)]
        assert found
        assert set(found) == {width}
        assert len(found) == layout.in_dim_size(REGISTER) * local.element_bytes // width
        count = (width // local.element_bytes).bit_length() - 1
        for bit, basis in enumerate(dict(layout.bases)[REGISTER][:count]):
            assert local.offset(basis) == access.basis_delta(basis) == local.element_bytes << bit


def _share_neighbours(local: LocalAccess, access: GlobalAccess) -> bool:
    bits = [(axis, bit) for axis, columns in enumerate(local.columns) for bit in range(len(columns))]
    size = local.element_bytes
    return any(local.column(bit) == access.delta(bit) == size for bit in bits)


@pytest.mark.parametrize("element", sorted(BITS))
def test_a_tile_that_lies_the_other_way_is_stored_in_few_wavefronts(element: str) -> None:
    """What Triton loads along rows and stores along columns, with all lanes in the same banks."""
    vector = {"i8": 4, "f16": 3, "f32": 2}[element]
    shape = (128 // (BITS[element] // 8), 128)
    columns, rows = ([(axis, bit) for bit in range(shape[axis].bit_length() - 1)] for axis in (1, 0))
    order = [*columns[vector:], *rows]
    layout = layout_of_bits(shape, [*columns[:vector], *order[7:]], order[:5], order[5:7], (5, WARPS))
    shared = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = $BITS}>"
    local = LocalKernel(layout, shared, element, "alloc").local
    fewest = local.fewest(shape, WARPS, GPU)
    assert local.wavefronts(layout, GPU) >= 4 * fewest
    best = min(local.wavefronts(other, GPU) for other in layouts(local, None, shape, 5, WARPS, GPU))
    assert best == fewest


def test_copies_whose_vectors_are_promised_alone_keep_their_layout() -> None:
    """Triton takes the promise at its word; pointers of which nothing is known tell nothing of it."""
    text = path_of("ampere").read_text()
    assert "{contiguity = 16 : i32}" in text

    def kept(changed: str) -> set[bool]:
        root = bridge.text_to_upstream(changed, bridge.upstream_context(), "ampere")
        groups = build(operations(root.operation), GPU).groups
        return {g.pinned for g in groups if {"copy", "ttg.async_copy_global_to_local"} & set(g.anchor_names)}

    assert kept(text) == {False}
    assert True in kept(text.replace("tt.divisibility = 16", "tt.divisibility = 1"))


@given(st.lists(st.integers(0, 127), min_size=1, max_size=10), st.integers(1, 6), st.data())
def test_a_bit_of_other_banks_is_taken_along_or_not(
    columns: list[int], lanes: int, data: st.DataObject
) -> None:
    """Of all numbers of bits along global memory, those that differ are tried."""
    bits = [(0, number) for number in range(len(columns))]
    banks = dict(zip(bits, columns, strict=True))
    along = data.draw(st.integers(0, min(lanes, len(bits)) - 1))
    if f2.rank(columns[: along + 1]) > f2.rank(columns[:along]):
        fewer, more = (choose_lanes(banks, bits[:n], bits[n:], lanes) for n in (along, along + 1))
        assert fewer == more
