"""Small modules for tests of the tools."""

from __future__ import annotations

HEADER = """\
#near = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#far = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
"""


ATTRIBUTES = '"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32'


KERNEL = """\
  tt.func public @{name}(%x: tensor<64xf32, #near>, %p: tensor<64x!tt.ptr<f32>, #far>) {{
    %y = ttg.convert_layout %x : tensor<64xf32, #near> -> tensor<64xf32, #far>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #far>
    tt.return
  }}
"""


def module_of(*names: str, target: str | None = "cuda:90") -> str:
    stated = f', ttg.target = "{target}"' if target else ""
    kernels = "".join(KERNEL.format(name=name) for name in names)
    return f"{HEADER}module attributes {{{ATTRIBUTES}{stated}}} {{\n{kernels}}}\n"
