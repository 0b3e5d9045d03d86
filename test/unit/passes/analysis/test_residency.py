"""How many warps a multiprocessor is taken to hold while a kernel with warp-specialised regions converts."""

from __future__ import annotations

import pytest

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.residency import Residency
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.framework.base import PassRun
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.plans import Plans

MEMORY = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>, #ttg.shared_memory"


def layouts(warps: int, columns: int, renamed: bool = False) -> tuple[str, ...]:
    """Of 32 rows for each warp: a row in each lane, and two rows in the registers of a lane.

    renamed: the row in other registers instead.
    """
    row, column = ([[1 << n, 0] for n in range(5)], [[0, 1 << n] for n in range(columns.bit_length() - 1)])
    warp = [[32 << n, 0] for n in range(warps.bit_length() - 1)]
    if renamed:
        return tuple(
            f"#ttg.linear<{{register = {order}, lane = {row}, warp = {warp}, block = []}}>"
            for order in (column, column[::-1])
        )
    return (
        f"#ttg.linear<{{register = {column}, lane = {row}, warp = {warp}, block = []}}>",
        f"#ttg.linear<{{register = {[row[0], *column[1:]]}, lane = {[column[0], *row[1:]]}, warp = {warp}, "
        "block = []}>",
    )


def converting(name: str, warps: int, columns: int, pointer: str, renamed: bool = False) -> str:
    """A tensor that is made, converted between these layouts, and stored."""
    source, destination = layouts(warps, columns, renamed)
    shape = f"{32 * warps}x{columns}"
    return (
        f"%{name}x = tt.splat %{name}f : f32 -> tensor<{shape}xf32, {source}>\n"
        f"%{name}y = ttg.convert_layout %{name}x : tensor<{shape}xf32, {source}> -> "
        f"tensor<{shape}xf32, {destination}>\n"
        f"%{name}p = tt.splat {pointer} : !tt.ptr<f32> -> tensor<{shape}x!tt.ptr<f32>, {destination}>\n"
        f"tt.store %{name}p, %{name}y : tensor<{shape}x!tt.ptr<f32>, {destination}>\n"
    )


def kernel(
    partition: int = 1, columns: int = 4, buffer: int = 0, requested: bool = False, renamed: bool = False
) -> Module:
    """Four warps that convert, beside a partition that does. buffer: bytes of shared memory that it has."""
    memory = f"%m = ttg.local_alloc : () -> !ttg.memdesc<1x{buffer}xi8, {MEMORY}, mutable>\n" if buffer else ""
    asks = "requestedRegisters = array<i32: 24>" if requested else ""
    text = (
        'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {\n'
        "tt.func public @kernel(%p: !tt.ptr<f32>, %af: f32) {\n"
        f"{memory}ttg.warp_specialize(%p, %af) attributes {{{asks}}}\n"
        f"default {{\n{converting('a', 4, columns, '%p', renamed)}ttg.warp_yield\n}}\n"
        f"partition0(%q: !tt.ptr<f32>, %bf: f32) num_warps({partition}) {{\n"
        f"{converting('b', partition, columns, '%q', renamed)}ttg.warp_return\n}}"
        " : (!tt.ptr<f32>, f32) -> ()\ntt.return\n}\n}\n"
    )
    return bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")


def resident_warps(module: Module, gpu: str = "cuda:90") -> list[int]:
    """By which number of warps each of the two conversions is priced."""
    ops = operations(module.operation)
    residency = Residency.of(Situation.on(target(gpu)), ops, 4, LayoutTable())
    conversions = [op for op in ops if op.name == "ttg.convert_layout"]
    return [residency.at(op).resident_warps for op in conversions]


@pytest.mark.parametrize(
    ("module", "warps"),
    [
        pytest.param({}, [4 * 4, 4 * 1], id="64 registers of 256 threads: four CTAs"),
        pytest.param({"partition": 8}, [2 * 4, 2 * 8], id="of 384 threads: two"),
        pytest.param({"columns": 64}, [2 * 4, 2 * 1], id="128 registers of both tensors: two"),
        pytest.param(
            {"columns": 32, "renamed": True}, [4 * 4, 4 * 1], id="one tensor if registers are renamed"
        ),
        pytest.param({"columns": 128}, [4, 1], id="more than there are: one"),
        pytest.param({"buffer": 64 << 10}, [3 * 4, 3 * 1], id="64 KiB of shared memory: three"),
        pytest.param({"requested": True}, [4, 1], id="registers are handed out: one"),
    ],
)
def test_warps_of_the_region_in_as_many_ctas_as_fit(module: dict[str, int], warps: list[int]) -> None:
    assert resident_warps(kernel(**module)) == warps


@pytest.mark.parametrize(("columns", "likely"), [(64, 8), (128, 0)])
def test_kernels_with_a_large_tensor_are_priced_for_one_cta(columns: int, likely: int) -> None:
    """Of 128 columns of f32 a thread holds 128 registers. The first pass of a run decides for all of them."""
    run = PassRun(None, Plans())
    module = kernel(columns=columns)
    for _ in range(2):
        priced = SelectLowering("cuda:90").situation(module.operation, run)
        assert priced is not None
        assert priced.resident_warps == likely
        module = kernel(columns=4)
    unmeasured = SelectLowering("hip:gfx942").situation(
        kernel(columns=columns).operation, PassRun(None, Plans())
    )
    assert unmeasured is not None
    assert unmeasured.resident_warps == 8


@pytest.mark.parametrize(
    ("element", "made", "likely"), [("f32", "splat", 0), ("i32", "splat", 8), ("i32", "load", 0)]
)
def test_offsets_are_not_large_tensors(element: str, made: str, likely: int) -> None:
    """A thread computes offsets where it uses them, and never holds all of them; it holds what it loads."""
    start = f"!tt.ptr<{element}>" if made == "load" else element
    loaded = f"%loaded = tt.load %all : tensor<128x128x{start}, #rows>" if made == "load" else ""
    text = f"""
#rows = #ttg.blocked<{{sizePerThread = [1, 128], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1],
  order = [1, 0]}}>
module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @kernel(%start: {start}) {{
    %all = tt.splat %start : {start} -> tensor<128x128x{start}, #rows>
    {loaded}
    tt.return
  }}
}}
"""
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "kernel.ttgir")
    priced = SelectLowering("cuda:90").situation(module.operation, PassRun(None, Plans()))
    assert priced is not None
    assert priced.resident_warps == likely
