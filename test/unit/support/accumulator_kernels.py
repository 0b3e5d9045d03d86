"""A loop of `wgmma` whose sums are stored in another layout."""

from __future__ import annotations

MMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"


WITHIN_WARPS = (
    "#ttg.linear<{register = [[0, 1], [8, 0], [0, 2], [0, 16], [0, 32]], "
    "lane = [[0, 8], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], block = []}>"
)


SHARED = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>"


MEMORY = f"!ttg.memdesc<64x64xbf16, {SHARED}, #ttg.shared_memory, mutable>"


ACC, MOVED = f"tensor<64x64xf32, {MMA}>", f"tensor<64x64xf32, {WITHIN_WARPS}>"


POINTERS = f"tensor<64x64x!tt.ptr<f32>, {WITHIN_WARPS}>"


HEAD = """
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {"""


def kernel(between: str = "", converted: str = "%next") -> str:
    """A loop that adds a product to zeros, and stores the sums in a layout that shuffles give."""
    rows, columns = (f"#ttg.slice<{{dim = {dim}, parent = {WITHIN_WARPS}}}>" for dim in (1, 0))
    line, numbers = f"tensor<64x1xi32, {WITHIN_WARPS}>", f"tensor<64x64xi32, {WITHIN_WARPS}>"
    return f"""{HEAD}
  tt.func public @kernel(%base: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %n: i32) {{
    %zeros = arith.constant dense<0.0> : {ACC}
    %moved_zeros = arith.constant dense<0.0> : {MOVED}
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %a = ttg.local_alloc : () -> {MEMORY}
    %width = arith.constant dense<64> : {line}
    %0 = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32, {rows}>
    %1 = tt.expand_dims %0 {{axis = 1 : i32}} : tensor<64xi32, {rows}> -> {line}
    %2 = arith.muli %1, %width : {line}
    %3 = tt.broadcast %2 : {line} -> {numbers}
    %4 = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32, {columns}>
    %5 = tt.expand_dims %4 {{axis = 0 : i32}} : tensor<64xi32, {columns}> -> tensor<1x64xi32, {WITHIN_WARPS}>
    %6 = tt.broadcast %5 : tensor<1x64xi32, {WITHIN_WARPS}> -> {numbers}
    %7 = arith.addi %3, %6 : {numbers}
    %8 = tt.splat %base : !tt.ptr<f32> -> {POINTERS}
    %p = tt.addptr %8, %7 : {POINTERS}, {numbers}
    %r:2 = scf.for %i = %zero to %n step %one iter_args(%acc = %zeros, %old = %moved_zeros)
        -> ({ACC}, {MOVED}) : i32 {{
      tt.store %p, %old : {POINTERS}
      %next = ttng.warp_group_dot %a, %a, %acc {{inputPrecision = 0 : i32}} : {MEMORY} * {MEMORY} -> {ACC}
      {between}
      %moved = ttg.convert_layout {converted} : {ACC} -> {MOVED}
      scf.yield %next, %moved : {ACC}, {MOVED}
    }}
    tt.return
  }}
}}
"""
