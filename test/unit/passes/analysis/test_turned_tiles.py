"""Tiles that are loaded from shared memory, transposed, and stored to shared memory again, as between two
descriptors: both memories are laid out as TMA has them, so the registers between have to suit both."""

from __future__ import annotations

from math import prod

import pytest

from bench.whole_kernels import lower_kernel, sink
from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.interpreter.verify import element_patterns, held_elements
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.shared_memory import LocalAccess, layouts
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.screen import screened

SHAPES = [("f16", (64, 64)), ("bf16", (32, 128)), ("f32", (32, 32)), ("f8E5M2", (128, 128)), ("f16", (16, 16))]


def nvmma(element: str, row: int) -> str:
    size = element_type(element).memory_bytes
    swizzle = min(128, row * size)
    fields = f"swizzlingByteWidth = {swizzle}, transposed = false, elementBitWidth = {8 * size}"
    return f"#ttg.nvmma_shared<{{{fields}}}>"


def turned(element: str, shape: tuple[int, int], gpu: str) -> tuple[str, str, str]:
    """A kernel that puts a tile into memory, loads it, transposes it into other memory, and loads that; the
    layouts of its argument and result."""
    vector = min(16 // element_type(element).memory_bytes, shape[1] // 2, shape[0] // 2)
    rows, columns = shape
    lanes = min(32, columns // vector), min(32, rows // vector)
    plain, other = (
        f"#ttg.blocked<{{sizePerThread = [1, {vector}], threadsPerWarp = [{32 // n}, {n}], "
        "warpsPerCTA = [4, 1], order = [1, 0]}>"
        for n in lanes
    )
    swapped = (
        f"#ttg.blocked<{{sizePerThread = [{vector}, 1], threadsPerWarp = [{lanes[0]}, {32 // lanes[0]}], "
        "warpsPerCTA = [1, 4], order = [0, 1]}>"
    )
    before, behind = f"{rows}x{columns}x{element}, ", f"{columns}x{rows}x{element}, "
    first = f"!ttg.memdesc<{before}{nvmma(element, columns)}, #ttg.shared_memory>"
    second = f"!ttg.memdesc<{behind}{nvmma(element, rows)}, #ttg.shared_memory>"
    text = (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{gpu}", '
        '"ttg.threads-per-warp" = 32 : i32} {\n'
        f"tt.func public @kernel(%x: tensor<{before}{plain}>) {{\n"
        f"%m = ttg.local_alloc %x : (tensor<{before}{plain}>) -> {first}\n"
        f"%a = ttg.local_load %m : {first} -> tensor<{before}{plain}>\n"
        f"%b = tt.trans %a {{order = array<i32: 1, 0>}} : "
        f"tensor<{before}{plain}> -> tensor<{behind}{swapped}>\n"
        f"%n = ttg.local_alloc %b : (tensor<{behind}{swapped}>) -> {second}\n"
        f"%y = ttg.local_load %n : {second} -> tensor<{behind}{other}>\n"
        f"{sink('%y', f'tensor<{behind}{other}>', 'result')}\ntt.return\n}}\n}}\n"
    )
    return text, plain, other


@pytest.mark.parametrize("gpu", ["cuda:90", "cuda:100"])
@pytest.mark.parametrize(("element", "shape"), SHAPES)
def test_no_access_has_conflicts(gpu: str, element: str, shape: tuple[int, int]) -> None:
    text, given, taken = turned(element, shape, gpu)
    bits = element_type(element).bits
    kernel = lower_kernel(text, "turned.ttgir", gpu)
    elements = element_patterns(prod(shape), bits)
    held = held_elements(encodings.held_layout_of(given, shape, bits), 32, 4, 0)
    outcome = kernel.run([list(elements[:, held].swapaxes(0, 1))], trials=len(elements))
    values, _ = outcome.sinks["result"]
    expected = held_elements(encodings.held_layout_of(taken, shape[::-1], bits), 32, 4, 0)
    rows, columns = expected // shape[1], expected % shape[1]  # elements are numbered down the columns
    assert ((values & (2**bits - 1)) == elements[:, columns * shape[0] + rows].swapaxes(0, 1)).all()
    assert not outcome.races
    assert outcome.counts.wavefronts == outcome.counts.minimum_wavefronts


@pytest.mark.parametrize(("name", "is_store"), [("cuda:90", True), ("cuda:80", False)])
def test_layouts_that_suit_matrix_instructions_are_among_those_offered(name: str, is_store: bool) -> None:
    gpu = target(name)
    lanes = gpu.lanes.bit_length() - 1
    memory = encodings.layout_of(nvmma("f16", 64), (64, 64), 16)
    local = LocalAccess.of(memory, (64, 64), 2, is_store)
    assert local is not None
    offered = layouts(local, None, (64, 64), lanes, 2, gpu)

    def suits(layout: LinearLayout) -> bool:
        offsets = [[local.offset(basis) for basis in layout.bases[place][1]] for place in range(2)]
        return local.kind(len(offsets[1]), gpu).by_matrices(*offsets) is not None

    assert any(map(suits, offered))
    assert len({local.clocks(layout, gpu) for layout in offered}) == 1


def test_turned_tiles_without_conversions_are_looked_at() -> None:
    names = {"ttg.local_load": 1, "ttg.local_alloc": 2, "tt.trans": 1}
    left = screened(PipelineOptions(), names, lambda: False)
    assert left is not None and left.layouts
    assert screened(PipelineOptions(), names | {"tt.trans": 0}, lambda: False) is None
