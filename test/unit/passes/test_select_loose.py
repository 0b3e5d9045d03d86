"""Which conversions of bytes are Triton's because arithmetic has them one to a register."""

from __future__ import annotations

import pytest

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.framework.run import run_passes

ROWS = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = (
    "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
)
REGION = (
    "ttg.warp_specialize()\ndefault {\n ttg.warp_yield\n}\npartition0() num_warps(4) {\n ttg.warp_return\n}"
    " : () -> ()\n"
)
LOOSE = "arithmetic has its bytes one to a register on both sides"


def module(
    element: str = "i8",
    beside: str = REGION,
    source: str = "%b",
    stored: str = "%d",
    layouts: tuple[str, str] = (ROWS, COLUMNS),
    shape: tuple[int, int] = (32, 32),
) -> Module:
    """A loop that carries rows `%a`, adds to them, `%b`, and converts them to columns, `%c`, which it adds to,
    `%d`. `source`: what is converted; `stored`: what is stored, and made for that."""
    size = "x".join(map(str, shape))
    rows, columns = (f"tensor<{size}x{element}, {layout}>" for layout in layouts)
    pointers = f"tensor<{size}x!tt.ptr<{element}>, {layouts[1]}>"
    added = f"%d = arith.addi %c, %c : {columns}\n" if stored == "%d" else ""
    text = (
        'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {\n'
        f"tt.func public @kernel(%x: {rows}, %n: i32, %p: {pointers}) {{\n"
        "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n"
        f"%r = scf.for %i = %zero to %n step %one iter_args(%a = %x) -> ({rows}) : i32 {{\n"
        f"%b = arith.addi %a, %a : {rows}\n"
        f"%c = ttg.convert_layout {source} : {rows} -> {columns}\n"
        f"{added}tt.store %p, {stored} : {pointers}\n"
        f"scf.yield %b : {rows}\n}}\n{beside}tt.return\n}}\n}}\n"
    )
    return bridge.text_to_upstream(text, bridge.upstream_context())


def reason(root: Module, gpu: str = "cuda:90") -> str:
    """Why the conversion is Triton's; empty if it is ours."""
    assert run_passes(root, [SelectLowering(gpu)]).succeeded
    (conversion,) = [op for op in operations(root.operation) if op.name == "ttg.convert_layout"]
    return conversion.attributes[ll.STOCK].value if ll.STOCK in conversion.attributes else ""


@pytest.mark.parametrize("source", ["%b", "%a", "%x"], ids=["made", "carried", "given"])
def test_bytes_of_arithmetic_beside_regions_are_tritons(source: str) -> None:
    """What a loop carries is what arithmetic makes of it in each iteration."""
    found = reason(module(source=source))
    assert (found.startswith(LOOSE) and found.endswith("instructions more")) is (source != "%x"), found


def test_the_policy_may_have_them_ours() -> None:
    assert reason(module(), "cuda:90{leaves_loose_bytes=0}") == ""


WARP = "#ttg.linear<{{register = {}, lane = {}, warp = [[64, 0], [128, 0]], block = []}}>"
"""256 rows of 32 bytes: of each warp four in a lane, or eight, in rows or columns."""
LANES = [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]]
IN_ROWS = WARP.format([[0, 1], [0, 2], [4, 0], [8, 0], [16, 0], [32, 0]], LANES)
IN_COLUMNS = WARP.format(
    [[4, 0], [8, 0], [0, 1], [16, 0], [32, 0], [1, 0]], [[0, 4], [0, 8], [0, 16], [0, 2], [2, 0]]
)


@pytest.mark.parametrize(
    ("policy", "left"), [("", True), ("{loose_shuffles=1000}", False), ("{leaves_loose_bytes=0}", False)]
)
def test_shuffles_of_loose_bytes_are_tritons_where_they_take_a_quarter_more(policy: str, left: bool) -> None:
    root = module(layouts=(IN_ROWS, IN_COLUMNS), shape=(256, 32))
    assert reason(root, f"cuda:90{policy}").startswith(LOOSE) is left


@pytest.mark.parametrize(
    "root",
    [
        pytest.param({"beside": ""}, id="a kernel without regions"),
        pytest.param({"element": "i16"}, id="half-words"),
        pytest.param({"element": "i32"}, id="words"),
        pytest.param({"stored": "%c"}, id="stored as they come"),
    ],
)
def test_others_are_ours(root: dict[str, str]) -> None:
    assert reason(module(**root)) == ""
