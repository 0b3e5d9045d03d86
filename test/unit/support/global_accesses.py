"""Accesses to global memory: the predicted instructions, and those that Triton emits."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from access_tiles import COORDINATES, POINTERS, Tile

from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import REGISTER, WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.global_memory import GlobalAccess, layout_of_bits
from triton_linear.passes.assignment.build import build
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.widening.widen import WidenAccesses
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import to_triton

KERNEL = """\
#l = $LAYOUT
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = $WARPS : i32, "ttg.threads-per-warp" = 32 : i32,
  ttg.target = "cuda:90"
} {
  tt.func public @access(
    %from: !tt.ptr<$ELEMENT> {tt.divisibility = $ALIGNED : i32},
    %to: !tt.ptr<$ELEMENT> {tt.divisibility = 16 : i32},
    %n: i32 {tt.divisibility = 16 : i32}, %odd: i32
  ) attributes {noinline = false} {
    %down = arith.constant dense<$DOWN> : tensor<$ROWSx1xi32, #l>
    %side = arith.constant dense<$SIDE> : tensor<1x$COLUMNSxi32, #l>
    %four = arith.constant dense<4> : tensor<1x$COLUMNSxi32, #l>
$COORDINATES
    %n1 = tt.splat %$STRIDE : i32 -> tensor<$ROWSx1xi32, #l>
    %r2 = arith.muli %r1, %$BY : tensor<$ROWSx1xi32, #l>
$POINTERS
    %rn = tt.splat %n : i32 -> tensor<$ROWSx1xi32, #l>
    %cn = tt.splat %n : i32 -> tensor<1x$COLUMNSxi32, #l>
    %codd = tt.splat %odd : i32 -> tensor<1x$COLUMNSxi32, #l>
    %m0 = arith.cmpi slt, %r1, %rn : tensor<$ROWSx1xi32, #l>
    %m1 = tt.broadcast %m0 : tensor<$ROWSx1xi1, #l> -> tensor<$SHAPExi1, #l>
    %m2 = arith.cmpi slt, %c1, %$BOUND : tensor<1x$COLUMNSxi32, #l>
    %m3 = tt.broadcast %m2 : tensor<1x$COLUMNSxi1, #l> -> tensor<$SHAPExi1, #l>
    %both = arith.andi %m1, %m3 : tensor<$SHAPExi1, #l>
$ACCESS
    tt.return
  }
}
"""
STORE = """\
    %x = arith.constant dense<$VALUE> : tensor<$SHAPEx$ELEMENT, #l>
    tt.store %p, %x$MASK : tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>"""
# A load whose result is not used would be removed, so the result is stored elsewhere.
LOAD = """\
    %x = tt.load %p$MASK : tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>
    %d = tt.splat %to : !tt.ptr<$ELEMENT> -> tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>
    %wide = arith.constant dense<1024> : tensor<$ROWSx1xi32, #l>
    %q0 = arith.muli %r1, %wide : tensor<$ROWSx1xi32, #l>
    %q1 = tt.broadcast %q0 : tensor<$ROWSx1xi32, #l> -> tensor<$SHAPExi32, #l>
    %q2 = tt.broadcast %c1 : tensor<1x$COLUMNSxi32, #l> -> tensor<$SHAPExi32, #l>
    %q3 = arith.addi %q1, %q2 : tensor<$SHAPExi32, #l>
    %q = tt.addptr %d, %q3 : tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>, tensor<$SHAPExi32, #l>
    tt.store %q, %x : tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>"""


@dataclass(frozen=True)
class GlobalKernel(Tile):
    """An access to a tile. `down` and `side` are the strides of rows and columns; a string
    names an argument.
    """

    layout: LinearLayout
    element: str
    is_store: bool
    down: int | str
    side: int
    aligned: int
    mask: str

    @property
    def text(self) -> str:
        """The kernel's TTGIR."""
        kernel = KERNEL.replace("$COORDINATES", COORDINATES).replace("$POINTERS", POINTERS)
        masks = {"none": "", "rows": ", %m1", "columns": ", %m3", "both": ", %both"}
        return self.filled(
            kernel.replace("$ACCESS", STORE if self.is_store else LOAD),
            WARPS=str(self.layout.in_dim_size(WARP)),
            VALUE="1.0" if self.element.startswith("f") else "1",
            ALIGNED=str(self.aligned),
            STRIDE=self.down if isinstance(self.down, str) else "n",
            BY="n1" if isinstance(self.down, str) else "down",
            DOWN=str(self.down) if isinstance(self.down, int) else "1",
            SIDE=str(self.side),
            BOUND=self.mask.partition(" ")[2] or "cn",
            MASK=masks[self.mask.partition(" ")[0]],
        )


def access_of(text: str) -> GlobalAccess:
    """The first access of a kernel, as layout assignment analyses it."""
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "access.ttgir")
    graph = build(operations(root.operation), target("cuda:90"))
    return next(access for group in graph.groups for access, _ in group.accesses)


def predicted(access: GlobalAccess, layout: LinearLayout) -> tuple[int, int]:
    """The predicted number of instructions of a thread, and the bytes that each moves."""
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    if not access.is_store:
        registers = [basis for basis in registers if access._differs(basis)]
    others = [basis for name, bases in layout.bases for basis in bases if name != REGISTER]
    vector = access.vector(registers, others)
    return 1 << len(vector.left), access.element_bytes << len(vector.bits)


def emitted(text: str, is_store: bool) -> tuple[int, set[int]]:
    """The number of instructions in the PTX after `WidenAccesses`, and the set of their widths in bytes."""
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "access.ttgir")
    outcome = run_passes(root, [WidenAccesses()])
    if not outcome.succeeded:
        raise RuntimeError(outcome.errors)
    module = to_triton(bridge.triton_text(root))
    ptx = lower(module, "cuda:90", "ptx").text("ptx")
    name = "st" if is_store else "ld"
    accesses = re.findall(rf"\b{name}\.global(?:\.v(\d))?\.b(\d+)", ptx)
    return len(accesses), {int(vector or 1) * int(bits) // 8 for vector, bits in accesses}


def unit_layout(rng: random.Random) -> LinearLayout:
    """A random layout in which each bit of a tile is a register, lane or warp bit; spare lanes and warps hold
    copies.

    As in real layouts, registers often begin with neighbours along one dimension.
    """
    shape = rng.choice([(64, 32), (16, 64), (8, 256), (128, 16), (32, 4)])
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    axis = rng.randint(0, 1)
    first = [bit for bit in bits if bit[0] == axis][: rng.randint(0, 5)]
    rest = [bit for bit in bits if bit not in first]
    rng.shuffle(rest)
    warps = rng.randint(0, 3)
    least = max(len(first), len(bits) - 5 - warps)
    registers = rng.randint(least, max(least, min(len(bits), 6)))
    rest = [*first, *rest]
    in_registers, in_lanes, in_warps = rest[:registers], rest[registers : registers + 5], rest[registers + 5 :]
    return layout_of_bits(shape, in_registers, in_lanes, in_warps, (5, warps))


MASKS = ("none", "rows", "columns cn", "columns codd", "columns four", "both codd", "both cn")


def global_kernel(rng: random.Random) -> GlobalKernel:
    """A random kernel."""
    strides: tuple[int | str, ...] = (4096, "n", "odd", 1, 24, 33)
    return GlobalKernel(
        unit_layout(rng),
        rng.choice(["i8", "f16", "f32", "f64"]),
        rng.random() < 0.5,
        rng.choice(strides),
        rng.choice([1, 1, 1, 64, 2]),
        rng.choice([16, 16, 4, 8]),
        rng.choice(MASKS),
    )
