"""Measures what loads and stores of global memory cost by layout: width of the vector, length of the runs.

    python -m bench.accesses --output DIR [--dry]

A tile of 64x64 elements of a large matrix is loaded, or stored, by 4 warps in a layout in which one instruction
of a warp covers runs of neighbouring elements, each in another row. The matrix lies in DRAM or fits the
second-level cache. The result, accesses.json, has nanoseconds a tile, from which
lowering/target/memory.py has its clocks.
"""

from __future__ import annotations

import json
import math
import string
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from triton_linear.examples.compare import gpu_name
from triton_linear.examples.spec import gpu_target

from .harness import results
from .harness.options import Parser
from .harness.ttgir import linear
from .harness.turns import captured, replay

SIZE = 64
STRIDE = 4096
ROWS = {"dram": 16384, "l2": 1024}
LAUNCHES = 20
TURNS = 4


@dataclass(frozen=True)
class Pattern:
    """An access: `vector` elements a thread, `run` neighbouring elements a warp; the warps lie side by side
    in a row (`across`) or one below the other."""

    kind: str
    bits: int
    vector: int
    run: int
    across: bool

    @property
    def bases(self) -> dict[str, list[list[int]]]:
        vector, run = int(math.log2(self.vector)), int(math.log2(self.run))
        side = [[0, 1 << bit] for bit in range(6)]
        down = [[1 << bit, 0] for bit in range(6)]
        lanes = [*side[vector:run], *down[: 5 - (run - vector)]]
        rest = [*side[run:], *down[5 - (run - vector) :]]
        warps = rest[:2] if self.across else rest[-2:]
        registers = [*side[:vector], *(basis for basis in rest if basis not in warps)]
        return {"register": registers, "lane": lanes, "warp": warps, "block": []}

    @property
    def figures(self) -> tuple[int, int, int]:
        """Instructions of a warp, lines and sectors that all of them touch."""
        instructions = 32 // self.vector
        rows = 32 * self.vector // self.run
        bytes_ = self.run * self.bits // 8
        return (
            instructions,
            instructions * rows * max(1, bytes_ // 128),
            instructions * rows * max(1, bytes_ // 32),
        )

    def text(self) -> str:
        """The kernel, as TritonGPU IR."""
        names = {
            "LAYOUT": linear(self.bases),
            "POINTERS": f"tensor<{SIZE}x{SIZE}x!tt.ptr<i{self.bits}>, #l>",
            "POINTER": f"!tt.ptr<i{self.bits}>",
            "VALUES": f"tensor<{SIZE}x{SIZE}xi{self.bits}, #l>",
            "OFFSETS": f"tensor<{SIZE}x{SIZE}xi32, #l>",
            "DOWN": f"tensor<{SIZE}xi32, #ttg.slice<{{dim = 1, parent = #l}}>>",
            "SIDE": f"tensor<{SIZE}xi32, #ttg.slice<{{dim = 0, parent = #l}}>>",
            "ROWS": f"tensor<{SIZE}x1xi32, #l>",
            "COLUMNS": f"tensor<1x{SIZE}xi32, #l>",
            "PACKED": str(32 // self.bits),
            "SIZE": str(SIZE),
            "STRIDE": str(STRIDE),
            "TILES": str(STRIDE // SIZE),
        }
        return string.Template(_HEAD + _ACCESSES[self.kind] + _TAIL).substitute(names)


_HEAD = """\
#l = $LAYOUT
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
} {
  tt.func public @access(
    %from: $POINTER {tt.divisibility = 16 : i32}, %to: $POINTER {tt.divisibility = 16 : i32}
  ) attributes {noinline = false} {
    %tiles = arith.constant $TILES : i32
    %size = arith.constant $SIZE : i32
    %stride = arith.constant dense<$STRIDE> : $ROWS
    %pid = tt.get_program_id x : i32
    %i = arith.divsi %pid, %tiles : i32
    %j = arith.remsi %pid, %tiles : i32
    %i0 = arith.muli %i, %size : i32
    %j0 = arith.muli %j, %size : i32
    %r = tt.make_range {end = $SIZE : i32, start = 0 : i32} : $DOWN
    %c = tt.make_range {end = $SIZE : i32, start = 0 : i32} : $SIDE
    %r1 = tt.expand_dims %r {axis = 1 : i32} : $DOWN -> $ROWS
    %c1 = tt.expand_dims %c {axis = 0 : i32} : $SIDE -> $COLUMNS
    %i1 = tt.splat %i0 : i32 -> $ROWS
    %j1 = tt.splat %j0 : i32 -> $COLUMNS
    %r2 = arith.addi %r1, %i1 : $ROWS
    %c2 = arith.addi %c1, %j1 : $COLUMNS
    %r3 = arith.muli %r2, %stride : $ROWS
    %r4 = tt.broadcast %r3 : $ROWS -> $OFFSETS
    %c4 = tt.broadcast %c2 : $COLUMNS -> $OFFSETS
    %o = arith.addi %r4, %c4 : $OFFSETS
    %b = tt.splat %from : $POINTER -> $POINTERS
    %p = tt.addptr %b, %o : $POINTERS, $OFFSETS
"""
_ACCESSES = {
    # What is loaded has to be looked at, or ptxas drops the load.
    "load": """\
    %x = tt.load %p : $POINTERS
    %y = tt.elementwise_inline_asm "{.reg .pred p; setp.eq.u32 p, $$1, 0x12345678; @p trap; mov.b32 $$0, $$1;}"
      {constraints = "=r,r", packed_element = $PACKED : i32, pure = false} %x : $VALUES -> $VALUES
""",
    "store": """\
    %x = arith.constant dense<7> : $VALUES
    tt.store %p, %x : $POINTERS
""",
    "copy": """\
    %x = tt.load %p : $POINTERS
    %d = tt.splat %to : $POINTER -> $POINTERS
    %q = tt.addptr %d, %o : $POINTERS, $OFFSETS
    tt.store %q, %x : $POINTERS
""",
}
_TAIL = """\
    tt.return
  }
}
"""


def patterns() -> Iterator[Pattern]:
    """Vectors of 2 to 16 bytes, runs of 32 bytes to the width of the tile."""
    for kind in ("load", "store", "copy"):
        for bits in (32, 16):
            for vector in (1, 2, 4, 8):
                if vector * bits > 128 or (kind == "load" and vector * bits < 32 and bits < 16):
                    continue
                for run in (1, 2, 4, 8, 16, 32, 64):
                    if vector <= run <= 32 * vector and run * bits >= 128:
                        yield Pattern(kind, bits, vector, run, across=False)
                        if run <= 16:
                            yield Pattern(kind, bits, vector, run, across=True)


def measure(pattern: Pattern, folder: str) -> dict[str, float]:
    """Nanoseconds a tile and SM, by where the matrix lies."""
    import torch

    kernel = compiled(pattern, folder)
    kind = torch.int32 if pattern.bits == 32 else torch.int16
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    found = {}
    for place, rows in ROWS.items():
        matrix = torch.zeros((rows, STRIDE), dtype=kind, device="cuda")
        other = torch.zeros_like(matrix)
        tiles = rows * STRIDE // SIZE**2
        launch = partial(kernel[(tiles, 1, 1)], matrix, other)
        graph, _ = captured(launch, LAUNCHES)
        least = min(replay({place: [graph]}, TURNS, warm_up=0)[place])
        found[place] = least * 1e6 / LAUNCHES * sms / tiles
    return found


def compiled(pattern: Pattern, folder: str, target: Any = None) -> Any:
    """The kernel, for the GPU that is here if no other is named."""
    import triton

    path = Path(folder) / "access.ttgir"
    path.write_text(pattern.text())
    return triton.compile(str(path), target=target, options={"num_warps": 4})


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("accesses", __doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dry", action="store_true", help="compile only")
    options = parser.parse_args(argv)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for pattern in patterns():
            measured: dict[str, float] = {} if options.dry else measure(pattern, folder)
            ptx = compiled(pattern, folder, gpu_target("cuda:90") if options.dry else None).asm["ptx"]
            measured["instructions"] = float(ptx.count("ld.global") + ptx.count("st.global"))
            figures = dict(zip(("instructions", "lines", "sectors"), pattern.figures, strict=True))
            found.append(asdict(pattern) | figures | {"found": measured})
    report = {"device": None if options.dry else gpu_name(), **results.versions(), "patterns": found}
    results.replaced(options.output / "accesses.json", json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
