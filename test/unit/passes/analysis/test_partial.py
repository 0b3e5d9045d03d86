"""Which conversions beside warp-specialised regions are Triton's."""

from __future__ import annotations

from cluster_marks import ordered

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.planners.select import CROSSING
from triton_linear.passes.analysis.partial import CALLS
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.framework.run import run_passes

A = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]%s}>"
B = "#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]%s}>"
CLUSTER = ", CGALayout = [[0]]"
HALVES = ", CGALayout = [[1]]"


def module(ctas: int, call: str = "", source: str = CLUSTER) -> str:
    """A kernel that exchanges words across warps beside a region that does nothing."""
    a, b = (A % source, B % CLUSTER) if ctas > 1 else (A % "", B % "")
    callee = f"tt.func private @{call}() attributes {{noinline = true}} {{\n tt.return\n}}\n" if call else ""
    return (
        f'module attributes {{"ttg.num-ctas" = {ctas} : i32, "ttg.num-warps" = 4 : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {\n'
        f"{callee}"
        f"tt.func public @kernel(%x: tensor<512xi32, {a}>) {{\n"
        + (f"tt.call @{call}() : () -> ()\n" if call else "")
        + f"%y = ttg.convert_layout %x : tensor<512xi32, {a}> -> tensor<512xi32, {b}>\n"
        "ttg.warp_specialize()\ndefault {\n ttg.warp_yield\n}\npartition0() num_warps(4) {\n ttg.warp_return\n}"
        " : () -> ()\n"
        "tt.return\n}\n}\n"
    )


def reason(text: str) -> str | None:
    """Why the conversion is Triton's; None if it is ours."""
    root = bridge.text_to_upstream(text, bridge.upstream_context())
    assert run_passes(root, [SelectLowering("cuda:90")]).succeeded
    (conversion,) = [op for op in operations(root.operation) if op.name == "ttg.convert_layout"]
    return conversion.attributes[ll.STOCK].value if ll.STOCK in conversion.attributes else None


def test_an_exchange_beside_a_region_is_ours() -> None:
    assert reason(module(1)) is None


@ordered
def test_in_a_cluster_it_is_ours_inside_a_cta() -> None:
    assert reason(module(2)) is None
    assert reason(module(2, source=HALVES)) == CROSSING


def test_beside_calls_it_is_tritons() -> None:
    assert reason(module(1, "helper")) == CALLS
