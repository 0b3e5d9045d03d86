"""Kernels that convert what arithmetic leaves one to a register."""

from __future__ import annotations

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module

ROWS = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = (
    "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
)
REGION = (
    "ttg.warp_specialize()\ndefault {\n ttg.warp_yield\n}\npartition0() num_warps(4) {\n ttg.warp_return\n}"
    " : () -> ()\n"
)


def module(
    element: str = "i1",
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
