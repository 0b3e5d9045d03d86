"""Instructions of tensor memory: the planner against the code that Triton emits, and tiles against Gluon."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.planners.tensor_layouts import layout_for, layouts_for
from triton_linear.lowering.planners.tensor_memory import TensorAccess, access_of
from triton_linear.lowering.target.tensor_memory import COL, ROW, SHAPES

by_layout = pytest.mark.skipif(
    encodings.installed_release() not in TENSOR_MEMORY_BY_LAYOUT,
    reason="before Triton 3.8 fewer shapes serve, and bindings give no layouts",
)


def memory(block_m: int, block_n: int, stride: int = 1) -> str:
    return f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = {block_n}, colStride = {stride}>"


def rows_to_lanes(columns: int) -> LinearLayout:
    """Each thread has a row of 128."""
    return LinearLayout.from_bases(
        {
            "register": [[0, 1 << bit] for bit in range(columns.bit_length() - 1)],
            "lane": [[1 << bit, 0] for bit in range(5)],
            "warp": [[32, 0], [64, 0]],
            "block": [],
        },
        {"dim0": 128, "dim1": columns},
    )


def of(encoding: str, shape: tuple[int, int]) -> LinearLayout:
    return encodings.layout_of(encoding, shape, release=(3, 9))


def mnemonic(access: TensorAccess, is_store: bool) -> str:
    """The instruction in PTX."""
    spread = f".{'unpack' if is_store else 'pack'}::16b" if access.spread else ""
    kind = "st" if is_store else "ld"
    return f"tcgen05.{kind}.sync.aligned.{access.shape}.x{access.repeat}{spread}.b32"


@pytest.mark.parametrize(
    ("columns", "most", "expected"),
    [
        (1, 256, TensorAccess("32x32b", 1, 1, 1)),
        (128, 256, TensorAccess("32x32b", 128, 1, 128)),
        (256, 256, TensorAccess("32x32b", 64, 4, 64)),
        (128, 128, TensorAccess("32x32b", 64, 2, 64)),
        (256, 64, TensorAccess("32x32b", 32, 8, 32)),
    ],
)
def test_the_greatest_repeat_leaves_half_of_the_registers(
    columns: int, most: int, expected: TensorAccess
) -> None:
    found = access_of(rows_to_lanes(columns), of(memory(128, columns), (128, columns)), 32, most, (3, 9))
    assert found == expected


def test_narrow_elements_are_packed_spread_or_padded() -> None:
    registers = rows_to_lanes(64)
    packed = access_of(registers, of(memory(128, 64), (128, 64)), 16, release=(3, 9))
    assert packed == TensorAccess("32x32b", 32, 1, 32, packed=2)
    spread = access_of(registers, of(memory(128, 64, 2), (128, 64)), 16, release=(3, 9))
    assert spread == TensorAccess("32x32b", 32, 1, 32, packed=2, spread=True)
    assert isinstance(spread, TensorAccess)
    assert mnemonic(spread, is_store=False) == "tcgen05.ld.sync.aligned.32x32b.x32.pack::16b.b32"
    assert mnemonic(spread, is_store=True) == "tcgen05.st.sync.aligned.32x32b.x32.unpack::16b.b32"
    padded = access_of(registers, of(memory(128, 64, 4), (128, 64)), 8, release=(3, 9))
    assert padded == TensorAccess("32x32b", 64, 1, 64, padded=True)


def test_a_layout_that_nothing_serves_says_why() -> None:
    bases = {name: [list(basis) for basis in vectors] for name, vectors in rows_to_lanes(32).bases}
    bases["lane"][0], bases["register"][0] = bases["register"][0], bases["lane"][0]
    found = access_of(
        LinearLayout.from_bases(bases, ["dim0", "dim1"]), of(memory(128, 32), (128, 32)), 32, release=(3, 9)
    )
    assert isinstance(found, Rejected)
    assert "lane=1 -> (0, 1); 32x32b has (1, 0)" in found.reason
    bases = {name: [list(basis) for basis in vectors] for name, vectors in rows_to_lanes(32).bases}
    bases["warp"].reverse()
    found = access_of(
        LinearLayout.from_bases(bases, ["dim0", "dim1"]), of(memory(128, 32), (128, 32)), 32, release=(3, 9)
    )
    assert isinstance(found, Rejected) and found.reason == "warp=1 -> (64, 0); row=32 is (32, 0)"
    two = LinearLayout.from_bases(
        {**bases, "warp": [[32, 0]]}, {"dim0": 128, "dim1": 32}, require_surjective=False
    )
    found = access_of(two, of(memory(128, 32), (128, 32)), 32, release=(3, 9))
    assert isinstance(found, Rejected) and "2 warps do not reach all quarters" in found.reason


@pytest.mark.parametrize("block_m", [64, 128])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("warps", [4, 8, 16])
def test_layouts_are_served_by_their_shape(block_m: int, bits: int, warps: int) -> None:
    served = set()
    for stride in {1, 32 // bits}:
        there = of(memory(block_m, 64, stride), (block_m, 128))
        for shape, layout in layouts_for(there, bits, warps):
            found = access_of(layout, there, bits)
            assert isinstance(found, TensorAccess) and found.shape == shape.name
            assert found.repeat <= shape.most
            served.add(shape.name)
    assert served >= {"16x64b", "16x128b", "16x256b", "32x32b"}


def test_tiles_place_each_word_once() -> None:
    for shape in SHAPES:
        places = [
            tuple(shape.tile.apply({REGISTER: r, LANE: n}).values())
            for r in range(shape.registers)
            for n in range(shape.tile.in_dim_size(LANE))
        ]
        assert len(set(places)) == len(places)
        assert {row for row, _ in places} == set(range(shape.rows))
        assert shape.tile.out_dim_names == (ROW, COL)


@by_layout
def test_layouts_are_those_of_gluon() -> None:
    """For one block and four or eight warps; how Triton spreads more it may choose."""
    pytest.importorskip("triton._C.libtriton")
    import triton.language as tl
    from triton._C.libtriton import gluon_ir
    from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

    types = {32: tl.float32, 16: tl.float16, 8: tl.int8}
    seen: Counter[str] = Counter()
    for block_m, columns, bits, warps in [
        (block_m, columns, bits, warps)
        for block_m in (64, 128)
        for columns in (32, 128)
        for bits in (32, 16, 8)
        for warps in (4, 8)
    ]:
        for stride in {1, 32 // bits}:
            for shape in SHAPES[:4]:
                shape_ = [block_m, columns]
                expected = gluon_ir.compute_tmem_reg_layout(
                    types[bits],
                    shape_,
                    shape_,
                    TensorMemoryLayout((block_m, columns), stride),
                    warps,
                    shape.name,
                )
                there = encodings.layout_of(memory(block_m, columns, stride), (block_m, columns))
                halves = block_m == 64 and shape.name == "32x32b" and warps == 4
                own = layout_for(there, bits, warps, SHAPES[-1] if halves else shape)
                if expected is None or own is None:
                    continue
                bases = {name: [list(basis) for basis in vectors] for name, vectors in own.bases}
                assert bases["lane"] == expected.lane_bases
                assert bases["warp"] == expected.warp_bases
                assert bases["register"] == expected.reg_bases
                seen[shape.name] += 1
    assert min(seen[shape.name] for shape in SHAPES[:4]) > 10


@by_layout
def test_the_planner_foresees_what_triton_emits() -> None:
    pytest.importorskip("triton._C.libtriton")
    from bench.fuzz.program import TensorMemory
    from bench.fuzz.tensor_memory import draw_tensor_program
    from bench.fuzz.write import write
    from bench.whole_kernels import lower_kernel

    rng = random.Random(5)
    seen: Counter[str] = Counter()
    for _ in range(15):
        program = draw_tensor_program(rng, "cuda:100")
        bits = {"f32": 32, "i32": 32, "f16": 16, "bf16": 16, "i8": 8}[program.element]
        expected: Counter[str] = Counter()
        for step in program.steps:
            if isinstance(step, TensorMemory):
                there = encodings.layout_of(step.memory, program.shape)
                for encoding, is_store in ((step.source, True), (step.encoding, False)):
                    found = access_of(encodings.layout_of(encoding, program.shape), there, bits)
                    assert isinstance(found, TensorAccess)
                    expected[mnemonic(found, is_store)] += found.instructions
                    seen[found.shape] += 1
        text = lower_kernel(write(program).text, "program.ttgir", "cuda:100", None).text
        emitted = Counter(re.findall(r"tcgen05\.(?:ld|st)\.[\w.:]*b32", text))
        assert emitted == expected
    assert len(seen) == len(SHAPES)
