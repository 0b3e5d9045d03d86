"""Kernels that hold shared memory while they convert."""

from __future__ import annotations

from triton_linear.lowering.target.targets import target


def filled_kernel(gpu: str, own: int, rows: int, columns: int, loop: bool) -> str:
    """A kernel that holds `own` bytes of shared memory while it converts a tensor across warps.

    `loop`: before that there and back in a loop.
    """
    lanes = target(gpu).lanes
    high = lanes // 8
    lines = [
        f"#row = #ttg.blocked<{{sizePerThread = [1, 4], threadsPerWarp = [{high}, 8], warpsPerCTA = [4, 1], "
        "order = [1, 0]}>",
        f"#col = #ttg.blocked<{{sizePerThread = [4, 1], threadsPerWarp = [8, {high}], warpsPerCTA = [1, 4], "
        "order = [0, 1]}>",
        "#mem = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>",
        "#smem = #ttg.shared_memory",
        'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
        f'ttg.target = "{gpu}", "ttg.threads-per-warp" = {lanes} : i32}} {{',
        "tt.func public @full(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {",
        "%c0 = arith.constant 0 : i32",
        "%c1 = arith.constant 1 : i32",
    ]
    row, column = (f"tensor<{rows}x{columns}xf32, #{side}>" for side in ("row", "col"))
    pointers = [kind.replace("xf32,", "x!tt.ptr<f32>,") for kind in (row, column)]
    sizes = [1 << bit for bit in range(own.bit_length()) if own >> bit & 1]
    buffers = [f"!ttg.memdesc<{size}xi8, #mem, #smem, mutable>" for size in sizes]
    lines += [f"%m{i} = ttg.local_alloc : () -> {kind}" for i, kind in enumerate(buffers)]
    lines += [f"%ps = tt.splat %p : !tt.ptr<f32> -> {pointers[0]}", f"%x = tt.load %ps : {pointers[0]}"]
    lines += [f"%pe = tt.splat %p : !tt.ptr<f32> -> {pointers[1]}"]
    if loop:
        lines += [
            f"%l = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> ({row}) : i32 {{",
            f"%there = ttg.convert_layout %t : {row} -> {column}",
            f"%twice = arith.addf %there, %there : {column}",
            f"%back = ttg.convert_layout %twice : {column} -> {row}",
            f"scf.yield %back : {row}",
            "}",
        ]
    last = "%l" if loop else "%x"
    lines += [f"%y = ttg.convert_layout {last} : {row} -> {column}", f"tt.store %pe, %y : {pointers[1]}"]
    lines += [f"ttg.local_dealloc %m{i} : {kind}" for i, kind in enumerate(buffers)]
    return "\n".join([*lines, "tt.return", "}", "}"])
