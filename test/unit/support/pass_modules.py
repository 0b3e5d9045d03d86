"""Modules that the tests of passes run them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Operation, operations
from triton_linear.lowering.target.targets import target

DATA = Path(__file__).parents[2] / "data" / "ttgir"
MODULES = sorted(DATA.glob("*.ttgir"))
CUDA = target("cuda:90")


def upstream(path: Path) -> Any:
    return bridge.to_upstream(bridge.parse_triton(path, bridge.triton_context()), bridge.upstream_context())


def module(body: str, attributes: str = 'ttg.target = "cuda:90"') -> Any:
    """A module that defines two layouts of 64 elements, #a and #b, and `f` with this body."""
    blocked = "#ttg.blocked<{sizePerThread = [%d], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>"
    text = (
        f"#a = {blocked % 2}\n#b = {blocked % 1}\n"
        'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, '
        f'"ttg.threads-per-warp" = 32 : i32, {attributes}}} {{\n'
        f"tt.func @f(%x: tensor<64xf32, #a>) {{\n{body}\n tt.return\n}}\n}}\n"
    )
    return bridge.text_to_upstream(text, bridge.upstream_context(), "f.ttgir")


CONVERSION = """%0 = ttg.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #b>
    tt.print "" {hex = false, isSigned = array<i32: 0>} : %0 : tensor<64xf32, #b>"""


def named(root: Any, name: str) -> list[Operation]:
    return [op for op in operations(root.operation) if op.name == name]
