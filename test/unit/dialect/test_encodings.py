"""Encodings against Triton's own toLinearLayout, bit for bit."""

from __future__ import annotations

import os
from collections import Counter

import pytest
import triton

from triton_linear.dialect import encodings
from triton_linear.tools.doctor.encodings import SHARED, Cases, Oracle, layout_difference

SEED = int(os.environ.get("TRITON_LINEAR_TEST_SEED", "20231107"))
CASES_A_FAMILY = 300


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


def test_every_encoding_against_triton(oracle: Oracle) -> None:
    """At least 3,000 distinct pairs of encoding and shape, at least 150 of every family."""
    seen: Counter[str] = Counter()
    distinct = set()
    for case in Cases(oracle, SEED).each(CASES_A_FAMILY):
        text = oracle.text_of(case)
        if (text, case.shape) in distinct:
            continue
        distinct.add((text, case.shape))
        seen[case.family] += 1
        difference = layout_difference(oracle, case, text)
        assert difference is None, f"{case.family}: {text} {case.shape}\n{difference}"
        assert encodings.is_shared(text) == (case.family in SHARED)
        assert encodings.is_distributed(text) == (case.family not in SHARED)
    assert len(distinct) >= 3000, seen
    assert min(seen.values()) >= 150, seen


def test_shapes_on_both_sides_of_the_tile(oracle: Oracle) -> None:
    """The generator reaches tensors that are smaller than their tile, and larger ones, in all ranks."""
    ranks: Counter[int] = Counter()
    copies = repeats = 0
    for case in Cases(oracle, SEED + 1).each(40):
        ranks[len(case.shape)] += 1
        if case.family != "blocked":
            continue
        layout = oracle.distributed(case.attribute, case.shape)
        copies += any(not any(basis) for _, vectors in layout.bases for basis in vectors)
        repeats += layout.in_dim_bits("register") > 4
    assert set(ranks) >= {1, 2, 3, 4, 5}
    assert copies and repeats


# Block rows and columns, column stride, CTAs along M and N, two CTAs an instruction.
BLOCKS = [
    (64, 32, 1, (1, 1), False),
    (64, 64, 1, (1, 1), False),
    (128, 32, 1, (1, 1), False),
    (128, 128, 1, (1, 1), False),
    (128, 64, 2, (1, 1), False),
    (64, 32, 1, (2, 1), False),
    (128, 64, 1, (2, 1), False),
    (128, 64, 1, (2, 2), False),
    (128, 32, 1, (1, 2), False),
    (64, 64, 1, (2, 1), True),
    (64, 64, 1, (2, 2), True),
    (128, 64, 1, (2, 1), True),
]
# With the blocks of a CTA along M and N: 512 columns at most, and one block of 64 rows if two CTAs share it.
TENSOR_MEMORY = [
    (*block, rows, columns)
    for block in BLOCKS
    for rows, columns in ((1, 1), (2, 1), (1, 2), (2, 4))
    if block[1] * rows * columns <= 512 and (rows == 1 or block[0] == 128 or not block[4])
]


@pytest.mark.skipif(encodings.installed_release() >= (3, 7), reason="CTASplitM belongs to Triton 3.6")
@pytest.mark.parametrize(
    ("block_m", "block_n", "stride", "split", "two_ctas", "rows", "columns"), TENSOR_MEMORY
)
def test_tensor_memory_against_triton(
    block_m: int, block_n: int, stride: int, split: tuple[int, int], two_ctas: bool, rows: int, columns: int
) -> None:
    """The registers of a 32x32b load show the layout: lanes and warps are the rows, registers the columns.

    Where half of the rows hold nothing, Triton loads columns into their lanes instead.
    """
    from triton._C.libtriton import gluon_ir
    from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

    shape = (block_m * split[0] * rows, block_n * split[1] * columns)
    bits = 32 // stride
    element = triton.language.dtype("fp32" if bits == 32 else "fp16")
    cga = [[1 << i, 0] for i in range(split[0] // 2)] + [[0, 1 << i] for i in range(split[1] // 2)]
    loaded = gluon_ir.compute_tmem_reg_layout(
        element, list(shape), TensorMemoryLayout((block_m, block_n), stride, split, two_ctas), 4, "32x32b", cga
    )
    text = f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = {block_n}, colStride = {stride}"
    text += "".join(f", CTASplit{side} = {n}" for side, n in zip("MN", split, strict=True) if n > 1) + (
        ", twoCTAs = true>" if two_ctas else ">"
    )
    assert encodings.parse(text).space == "tensor memory"
    layout = encodings.layout_of(text, shape)
    assert layout.in_dim_names == ("row", "col")
    rows_held = [list(layout.basis("row", i)) for i in range(layout.in_dim_bits("row"))]
    columns_held = [list(layout.basis("col", i)) for i in range(layout.in_dim_bits("col"))]
    columns_held = [basis for basis in columns_held if any(basis)]
    if not any(rows_held[4]):
        last = len(columns_held) - len(cga) - 1
        rows_held[4] = columns_held.pop(last)
    assert loaded.lane_bases + loaded.warp_bases == rows_held
    assert loaded.reg_bases + loaded.block_bases == columns_held


@pytest.mark.skipif(encodings.installed_release() >= (3, 7), reason="CTASplitM belongs to Triton 3.6")
@pytest.mark.parametrize("split", [(1, 1), (2, 1)])
@pytest.mark.parametrize("shape", [(64, 4), (128, 8), (32, 4), (128, 2), (256, 16), (64, 1), (32, 1)])
def test_tensor_memory_scales_against_triton(split: tuple[int, int], shape: tuple[int, int]) -> None:
    """As above; the registers hold some of the columns without elements only."""
    from triton._C.libtriton import gluon_ir
    from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryScalesLayout

    whole = (shape[0] * split[0], shape[1])
    cga = [[1, 0]] if split[0] > 1 else []
    loaded = gluon_ir.compute_tmem_reg_layout(
        triton.language.int8, list(whole), TensorMemoryScalesLayout(split), 4, "32x32b", cga
    )
    parameters = "CTASplitM = 2" if split[0] > 1 else ""
    layout = encodings.layout_of(f"#ttng.tensor_memory_scales_encoding<{parameters}>", whole)
    rows_held = [list(layout.basis("row", i)) for i in range(layout.in_dim_bits("row"))]
    columns_held = [list(layout.basis("col", i)) for i in range(layout.in_dim_bits("col"))]
    assert loaded.lane_bases + loaded.warp_bases == rows_held
    loaded_columns = [*loaded.reg_bases, *loaded.block_bases]
    assert list(filter(any, loaded_columns)) == list(filter(any, columns_held))
