"""Accesses to shared memory: the predicted instructions, and those that Triton emits."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass

from access_tiles import COORDINATES, POINTERS, Tile

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.global_memory import layout_of_bits
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.graph import Group
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import to_triton

GPU = target("cuda:90")
WARPS = 2
KERNEL = """\
#l = $LAYOUT
#s = $SHARED
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
} {
  tt.func @access(%from: !tt.ptr<$ELEMENT> {tt.divisibility = 16 : i32}, %to: !tt.ptr<$ELEMENT>) {
$COORDINATES
    %down = arith.constant dense<$DOWN> : tensor<$ROWSx1xi32, #l>
    %side = arith.constant dense<$SIDE> : tensor<1x$COLUMNSxi32, #l>
    %r2 = arith.muli %r1, %down : tensor<$ROWSx1xi32, #l>
$POINTERS
    %m = ttg.local_alloc : () -> !ttg.memdesc<$SHAPEx$ELEMENT, #s, #ttg.shared_memory, mutable>
$ACCESS
    tt.return
  }
}
"""
MEMORY = "!ttg.memdesc<$SHAPEx$ELEMENT, #s, #ttg.shared_memory, mutable>"
CONSTANT = MEMORY.replace(", mutable", "")
TENSOR = "tensor<$SHAPEx$ELEMENT, #l>"
PLACES = "tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>"
ACCESSES = {
    # A store that nothing reads would be removed, so the tensor is loaded again.
    "store": f"""\
    %x = tt.load %p : {PLACES}
    ttg.local_store %x, %m : {TENSOR} -> {MEMORY}
    %y = ttg.local_load %m : {MEMORY} -> {TENSOR}
    tt.store %p, %y : {PLACES}""",
    "alloc": f"""\
    %x = tt.load %p : {PLACES}
    %n = ttg.local_alloc %x : ({TENSOR}) -> {CONSTANT}
    %y = ttg.local_load %n : {CONSTANT} -> {TENSOR}
    tt.store %p, %y : {PLACES}""",
    "load": f"    %x = ttg.local_load %m : {MEMORY} -> {TENSOR}\n    tt.store %p, %x : {PLACES}",
    "copy": f"    %t = ttg.async_copy_global_to_local %p, %m : {PLACES} -> {MEMORY}",
}
SHARED = [
    *(
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, transposed = {turn}, elementBitWidth = $BITS}}>"
        for width, turn in itertools.product((128, 64, 32), ("false", "true"))
    ),
    "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
    "#ttg.swizzled_shared<{vec = 4, perPhase = 2, maxPhase = 4, order = [0, 1]}>",
    "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>",
]
BITS = {"i8": 8, "f16": 16, "f32": 32}


@dataclass(frozen=True)
class LocalKernel(Tile):
    """An access to a tile; `down` and `side` are the strides of its rows and columns in global memory."""

    layout: LinearLayout
    shared: str
    element: str
    access: str
    down: int = 4096
    side: int = 1

    @property
    def text(self) -> str:
        """The kernel's TTGIR."""
        kernel = KERNEL.replace("$COORDINATES", COORDINATES).replace("$POINTERS", POINTERS)
        return self.filled(
            kernel.replace("$ACCESS", ACCESSES[self.access]),
            SHARED=self.shared.replace("$BITS", str(BITS[self.element])),
            DOWN=str(self.down),
            SIDE=str(self.side),
        )

    @property
    def group(self) -> Group:
        """The group of values with the access, as layout assignment builds it."""
        root = bridge.text_to_upstream(self.text, bridge.upstream_context(), "access.ttgir")
        return next(group for group in build(operations(root.operation), GPU).groups if group.locals)

    @property
    def local(self) -> LocalAccess:
        """The access, as layout assignment analyses it."""
        return self.group.locals[0][0]

    @property
    def ptx(self) -> str:
        """The PTX that Triton emits for the kernel."""
        return lower(to_triton(self.text), "cuda:90", "ptx").text("ptx")


def shared_memory(rng: random.Random, shape: tuple[int, int], element: str) -> str:
    """A random encoding of shared memory that fits a tile of this shape."""
    fitting = []
    for shared in SHARED:
        try:
            layout = encodings.layout_of(shared.replace("$BITS", str(BITS[element])), shape)
        except ValueError:
            continue
        # If rows are shorter than the swizzle, the layout has another shape.
        if tuple(size for _, size in layout.out_dims) == shape:
            fitting.append(shared)
    return rng.choice(fitting)


def tile(rng: random.Random) -> tuple[LinearLayout, str, str]:
    """A random layout whose bases have one bit each, a random encoding of shared memory, and an
    element type.
    """
    shape = rng.choice([(64, 64), (32, 64), (64, 128), (128, 32)])
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    along = rng.randint(0, 1)
    first = [bit for bit in bits if bit[0] == along][: rng.randint(0, 4)]
    others = [bit for bit in bits if bit not in first]
    rng.shuffle(others)
    order = [*first, *others]
    register_bits = len(bits) - 5 - WARPS
    # As in the layouts of matrices, lanes may follow the first one or two register bits.
    first_lane = rng.choice([register_bits, register_bits, 1, 2])
    threads = order[first_lane : first_lane + 5 + WARPS]
    registers = [bit for bit in order if bit not in threads]
    layout = layout_of_bits(shape, registers, threads[:5], threads[5:], (5, WARPS))
    element = rng.choice(sorted(BITS))
    return layout, shared_memory(rng, shape, element), element


WIDTHS = {
    "st": r"\bst\.shared(?:::cta)?(?:\.v(\d))?\.b(\d+)",
    "ld": r"\bld\.shared(?:::cta)?(?:\.v(\d))?\.b(\d+)",
}


def instruction_difference(kernel: LocalKernel) -> str | None:
    """How Triton's instructions differ from the predicted ones in number, width or kind; None
    if they do not.
    """
    local, ptx = kernel.local, kernel.ptx
    kind = "ld" if kernel.access == "load" else "st"
    matrices = re.findall(kind + r"matrix\S*\.x(\d)", ptx)
    registers = [local.offset(basis) for basis in dict(kernel.layout.bases)[REGISTER]]
    lanes = [local.offset(basis) for basis in dict(kernel.layout.bases)[LANE]]
    thread_bytes = kernel.layout.in_dim_size(REGISTER) * local.element_bytes
    matrix_wavefronts = local.kind(len(lanes), GPU).by_matrices(registers, lanes)
    if matrices:
        moved = sum(map(int, matrices)) * 4
        if matrix_wavefronts is None:
            return f"{kind}matrix is not foreseen"
        return None if moved == thread_bytes else f"{kind}matrix of {moved} bytes, {thread_bytes} are foreseen"
    width = local.bytes_at_once(kernel.layout)
    widths = [int(vector or 1) * int(bits) // 8 for vector, bits in re.findall(WIDTHS[kind], ptx)]
    if sum(widths) != thread_bytes:
        return f"instructions of {widths} bytes, {thread_bytes} in all are foreseen"
    may_be_merged = any(offset % 16 for offset in registers if offset > 8)  # LLVM merges neighbouring accesses
    if min(widths) < width or (set(widths) != {width} and not may_be_merged):
        return f"instructions of {sorted(set(widths))} bytes, {width} are foreseen"
    # If matrix instructions fit but Triton does not use them, they must not be cheaper.
    if matrix_wavefronts is not None and local.wavefronts(kernel.layout, GPU) < matrix_wavefronts:
        return f"no {kind}matrix, which is foreseen"
    return None
