"""Layouts of what is loaded from tensor memory and stored there are chosen among those that are served."""

from __future__ import annotations

import pytest

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT
from triton_linear.lowering.planners.tensor_layouts import layout_for
from triton_linear.lowering.planners.tensor_memory import TensorAccess
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.lowering.target.tensor_memory import SHAPES
from triton_linear.passes.analysis.tensor_memory import TensorSite, site_of, thread_registers
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.candidates import Candidates
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.operations.names import TENSOR_LOAD

pytest.importorskip("triton._C.libtriton")

from bench.fuzz.examine import examine_program
from bench.fuzz.program import Add, Convert, Program, TensorMemory
from bench.fuzz.write import write
from bench.whole_kernels import lower_kernel
from triton_linear.tools.support.compile import read_module

pytestmark = pytest.mark.skipif(
    encodings.installed_release() not in TENSOR_MEMORY_BY_LAYOUT,
    reason="accesses by layout are of Triton 3.8 on",
)

SHAPE = (128, 64)
MEMORY = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>"
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
)


def served(name: str) -> str:
    shape = next(shape for shape in SHAPES if shape.name == name)
    layout = layout_for(encodings.layout_of(MEMORY, SHAPE), 32, 4, shape)
    assert layout is not None
    return encodings.linear_encoding_text(layout)


def program(*steps: Convert | TensorMemory | Add) -> Program:
    return Program("cuda:100", 4, SHAPE, "f32", served("32x32b"), steps)


def test_a_conversion_between_two_accesses_goes() -> None:
    rows, tiles = served("32x32b"), served("16x256b")
    found = program(
        TensorMemory(MEMORY, rows, rows), Add(3), Convert(tiles), Add(5), TensorMemory(MEMORY, tiles, rows)
    )
    stock = lower_kernel(write(found).text, "k.ttgir", "cuda:100", None).text
    kernel = lower_kernel(write(found).text, "k.ttgir", "cuda:100")
    assert "16x256b" in stock and {one.kind for one in kernel.conversions} <= {"noop"}
    assert kernel.text.count("tcgen05.ld.sync.aligned.32x32b.x64.b32") == 2
    assert "16x256b" not in kernel.text
    assert examine_program(found, "k.ttgir").ok


def test_only_what_is_served_is_offered() -> None:
    """A blocked layout in which nothing can be loaded stays behind a conversion."""
    rows = served("32x32b")
    found = program(TensorMemory(MEMORY, rows, rows), Convert(BLOCKED), Add(5), Convert(rows), Add(1))
    module = read_module(write(found).text, bridge.upstream_context(), "k.ttgir")
    gpu = target("cuda:100")
    graph = build(operations(module.operation), gpu)
    candidates = Candidates(graph, 2, Situation.on(gpu)).find()
    groups = [group for group in graph.groups if group.tensors]
    assert [name for group in groups for name in group.anchor_names] == [
        "tensor memory store",
        "tensor memory load",
    ]
    for group in groups:
        ((site, _),) = group.tensors
        shapes = [site.access_in(candidate.layout, LayoutTable()) for candidate in candidates[group]]
        assert {each.shape for each in shapes if isinstance(each, TensorAccess)} == {
            "32x32b",
            "16x64b",
            "16x128b",
            "16x256b",
        }
        assert all(isinstance(each, TensorAccess) for each in shapes)
        assert not site.clocks(encodings.layout_of(BLOCKED, SHAPE))
        clocks = [site.clocks(candidate.layout) for candidate in candidates[group]]
        assert clocks[0] == 64 and set(clocks[1:]) == {128}
    assert examine_program(found, "k.ttgir").ok


def test_no_shape_is_priced_below_the_one_that_triton_chose() -> None:
    """Nobody measured what the shapes take: 16 rows cost twice as much, but 32 are no reason to change."""
    memory = "!ttg.memdesc<128x64xf32, " + MEMORY + ", #ttng.tensor_memory, mutable>"
    shapes = ("32x32b", "16x64b", "16x128b", "16x256b")
    types = " ".join(f"%x{i}: tensor<128x64xf32, {served(name)}>," for i, name in enumerate(shapes))
    text = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
        ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32}} {{
      tt.func public @k({types} %m: {memory}) {{ tt.return }}
    }}"""
    module = read_module(text, bridge.upstream_context(), "k.ttgir")
    (block,) = module.body.operations[0].regions[0].blocks
    *tensors, held = (argument.type for argument in block.arguments)
    clocks = []
    for type_ in tensors:
        site = TensorSite(type_, held, is_store=False, most=256)
        clocks.append([site.clocks(encodings.layout_of(served(name), SHAPE)) for name in shapes])
    assert clocks == [[64, 128, 128, 128], *[[128] * 4] * 3]


def test_the_registers_of_a_thread_are_those_of_the_region() -> None:
    rows = served("32x32b")
    space = f"!ttg.memdesc<128x64xf32, {MEMORY}, #ttng.tensor_memory, mutable>"
    load = f"%y = ttng.tmem_load %m : {space} -> tensor<128x64xf32, {rows}>"
    text = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.maxnreg = 200 : i32,
        ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32}} {{
      tt.func public @k(%m: {space}) {{
        {load}
        ttg.warp_specialize(%m) attributes {{actualRegisters = array<i32: 208, 24, 104>}}
        default {{ {load.replace("%y", "%a")} ttg.warp_yield }}
        partition0(%n: {space}) num_warps(1) {{ ttg.warp_return }}
        partition1(%n: {space}) num_warps(4) {{
          {load.replace("%y", "%b").replace("%m", "%n")}
          ttg.warp_return
        }}
        : ({space}) -> ()
        tt.return
      }}
    }}"""
    module = read_module(text, bridge.upstream_context(), "k.ttgir")
    loads = [op for op in operations(module.operation) if op.name == TENSOR_LOAD]
    assert [thread_registers(op) for op in loads] == [200, 200, 104]
    sites = [site_of(op) for op in loads]
    assert [site.most for site in sites if site is not None] == [200, 200, 104]
    found = sites[2].access(LayoutTable()) if sites[2] is not None else None
    assert isinstance(found, TensorAccess) and (found.repeat, found.instructions) == (32, 2)
