"""Accesses of shared memory: the instructions that are predicted are those that Triton emits.

And the wavefronts are those that their addresses take.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import pytest
from assign_support import path_of
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.global_memory import GlobalAccess, layout_of_bits
from triton_linear.passes.analysis.shared_memory import LocalAccess, layouts
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.graph import Group
from triton_linear.tools.support import compile as compiler

GPU = target("cuda:90")
WARPS = 2
KERNEL = """\
#l = $LAYOUT
#s = $SHARED
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
} {
  tt.func @access(%from: !tt.ptr<$ELEMENT> {tt.divisibility = 16 : i32}, %to: !tt.ptr<$ELEMENT>) {
    %r = tt.make_range {end = $ROWS : i32, start = 0 : i32}
      : tensor<$ROWSxi32, #ttg.slice<{dim = 1, parent = #l}>>
    %c = tt.make_range {end = $COLUMNS : i32, start = 0 : i32}
      : tensor<$COLUMNSxi32, #ttg.slice<{dim = 0, parent = #l}>>
    %r1 = tt.expand_dims %r {axis = 1 : i32}
      : tensor<$ROWSxi32, #ttg.slice<{dim = 1, parent = #l}>> -> tensor<$ROWSx1xi32, #l>
    %c1 = tt.expand_dims %c {axis = 0 : i32}
      : tensor<$COLUMNSxi32, #ttg.slice<{dim = 0, parent = #l}>> -> tensor<1x$COLUMNSxi32, #l>
    %down = arith.constant dense<$DOWN> : tensor<$ROWSx1xi32, #l>
    %side = arith.constant dense<$SIDE> : tensor<1x$COLUMNSxi32, #l>
    %r2 = arith.muli %r1, %down : tensor<$ROWSx1xi32, #l>
    %c2 = arith.muli %c1, %side : tensor<1x$COLUMNSxi32, #l>
    %r3 = tt.broadcast %r2 : tensor<$ROWSx1xi32, #l> -> tensor<$SHAPExi32, #l>
    %c3 = tt.broadcast %c2 : tensor<1x$COLUMNSxi32, #l> -> tensor<$SHAPExi32, #l>
    %o = arith.addi %r3, %c3 : tensor<$SHAPExi32, #l>
    %b = tt.splat %from : !tt.ptr<$ELEMENT> -> tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>
    %p = tt.addptr %b, %o : tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>, tensor<$SHAPExi32, #l>
    %m = ttg.local_alloc : () -> !ttg.memdesc<$SHAPEx$ELEMENT, #s, #ttg.shared_memory, mutable>
$ACCESS
    tt.return
  }
}
"""
MEMORY = "!ttg.memdesc<$SHAPEx$ELEMENT, #s, #ttg.shared_memory, mutable>"
CONSTANT = MEMORY.replace(", mutable", "")
TENSOR = "tensor<$SHAPEx$ELEMENT, #l>"
POINTERS = "tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>"
ACCESSES = {
    # What nobody reads is not stored either.
    "store": f"""\
    %x = tt.load %p : {POINTERS}
    ttg.local_store %x, %m : {TENSOR} -> {MEMORY}
    %y = ttg.local_load %m : {MEMORY} -> {TENSOR}
    tt.store %p, %y : {POINTERS}""",
    "alloc": f"""\
    %x = tt.load %p : {POINTERS}
    %n = ttg.local_alloc %x : ({TENSOR}) -> {CONSTANT}
    %y = ttg.local_load %n : {CONSTANT} -> {TENSOR}
    tt.store %p, %y : {POINTERS}""",
    "load": f"    %x = ttg.local_load %m : {MEMORY} -> {TENSOR}\n    tt.store %p, %x : {POINTERS}",
    "copy": f"    %t = ttg.async_copy_global_to_local %p, %m : {POINTERS} -> {MEMORY}",
}
SHARED = [
    *(
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, transposed = {turned}, elementBitWidth = $BITS}}>"
        for width, turned in itertools.product((128, 64, 32), ("false", "true"))
    ),
    "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
    "#ttg.swizzled_shared<{vec = 4, perPhase = 2, maxPhase = 4, order = [0, 1]}>",
    "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>",
]
BITS = {"i8": 8, "f16": 16, "f32": 32}


@dataclass(frozen=True)
class Kernel:
    """One access of a tile; `down` and `side` are the strides of its rows and columns in global memory."""

    layout: LinearLayout
    shared: str
    element: str
    access: str
    down: int = 4096
    side: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = (size for _, size in self.layout.out_dims)
        return rows, columns

    @property
    def text(self) -> str:
        rows, columns = self.shape
        names = {
            "LAYOUT": encodings.linear_encoding_text(self.layout),
            "SHARED": self.shared.replace("$BITS", str(BITS[self.element])),
            "ELEMENT": self.element,
            "ROWS": str(rows),
            "COLUMNS": str(columns),
            "SHAPE": f"{rows}x{columns}",
            "DOWN": str(self.down),
            "SIDE": str(self.side),
        }
        text = KERNEL.replace("$ACCESS", ACCESSES[self.access])
        return re.sub(r"\$([A-Z]+)", lambda found: names[found[1]], text)

    @property
    def group(self) -> Group:
        """The group with the access, as the pass sees it."""
        root = bridge.text_to_upstream(self.text, bridge.upstream_context(), "access.ttgir")
        return next(group for group in build(operations(root.operation), GPU).groups if group.locals)

    @property
    def local(self) -> LocalAccess:
        return self.group.locals[0][0]

    @property
    def ptx(self) -> str:
        return compiler.lower(compiler.to_triton(self.text), "cuda:90", "ptx").text("ptx")


@st.composite
def shared_memory(draw: st.DrawFn, shape: tuple[int, int], element: str) -> str:
    """An encoding that such a tile may have."""
    shared = draw(st.sampled_from(SHARED))
    try:
        layout = encodings.layout_of(shared.replace("$BITS", str(BITS[element])), shape)
    except ValueError:
        assume(False)
    # Rows shorter than the swizzle are filled up with others.
    assume(tuple(size for _, size in layout.out_dims) == shape)
    return shared


@st.composite
def tiles(draw: st.DrawFn) -> tuple[LinearLayout, str, str]:
    """A layout whose bits are one register's, lane's or warp's each, a layout of shared memory, and a type."""
    shape = draw(st.sampled_from([(64, 64), (32, 64), (64, 128), (128, 32)]))
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    along = draw(st.integers(0, 1))
    first = [bit for bit in bits if bit[0] == along][: draw(st.integers(0, 4))]
    order = [*first, *draw(st.permutations([bit for bit in bits if bit not in first]))]
    held = len(bits) - 5 - WARPS
    # After the first few registers may come lanes, as in the layouts of matrices.
    turn = draw(st.sampled_from([held, held, 1, 2]))
    rest = order[turn : turn + 5 + WARPS]
    registers = [bit for bit in order if bit not in rest]
    layout = layout_of_bits(shape, registers, rest[:5], rest[5:], (5, WARPS))
    element = draw(st.sampled_from(sorted(BITS)))
    return layout, draw(shared_memory(shape, element)), element


PADDED = "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>"
PARTITIONED = (
    "#ttg.partitioned_shared<{numPartitions = 2, numGroups = 2, partitionDim = 0, "
    f"partitionLayout = {SHARED[-1]}}}>"
)


@pytest.mark.parametrize("access", sorted(ACCESSES))
@pytest.mark.parametrize("shared", [PADDED, SHARED[-1]], ids=["padded", "plain"])
def test_layouts_stay_where_memory_is_padded(shared: str, access: str) -> None:
    """Padding keeps apart what would ask for one bank, and no layout tells of it."""
    columns, rows = ([(axis, bit) for bit in range(6)] for axis in (1, 0))
    order = [*columns, *rows]
    layout = layout_of_bits((64, 64), [*order[:3], *order[10:]], order[3:8], order[8:10], (5, WARPS))
    root = bridge.text_to_upstream(
        Kernel(layout, shared, "f16", access).text, bridge.upstream_context(), "access.ttgir"
    )
    groups = build(operations(root.operation), GPU).groups
    assert any(group.locals for group in groups) == (shared != PADDED)
    assert any(group.pinned for group in groups) == (shared == PADDED)


def test_memory_in_partitions_has_no_offsets() -> None:
    shape = (64, 64)
    assert LocalAccess.of(encodings.layout_of(PARTITIONED, shape), shape, 2, is_store=True) is None
    assert LocalAccess.of(encodings.layout_of(SHARED[-1], shape), shape, 2, is_store=True) is not None


WIDTHS = {
    "st": r"\bst\.shared(?:::cta)?(?:\.v(\d))?\.b(\d+)",
    "ld": r"\bld\.shared(?:::cta)?(?:\.v(\d))?\.b(\d+)",
}


@settings(max_examples=150, deadline=None)
@given(tiles(), st.sampled_from(["store", "alloc", "load"]))
def test_triton_emits_what_is_predicted(tile: tuple[LinearLayout, str, str], access: str) -> None:
    """As many instructions, as wide; or those for matrices where these are foreseen."""
    kernel = Kernel(*tile, access)
    local, ptx = kernel.local, kernel.ptx
    kind = "ld" if access == "load" else "st"
    matrices = re.findall(kind + r"matrix\S*\.x(\d)", ptx)
    registers = [local.offset(basis) for basis in dict(kernel.layout.bases)[REGISTER]]
    lanes = [local.offset(basis) for basis in dict(kernel.layout.bases)[LANE]]
    held = kernel.layout.in_dim_size(REGISTER) * local.element_bytes
    foreseen = local._matrix_wavefronts(registers, lanes, GPU)
    event("matrices" if matrices else "plain")
    if matrices:
        assert foreseen is not None
        assert sum(map(int, matrices)) * 4 == held
        return
    width = local.bytes_at_once(kernel.layout)
    found = re.findall(WIDTHS[kind], ptx)
    widths = [int(vector or 1) * int(bits) // 8 for vector, bits in found]
    assert sum(widths) == held
    if any(offset % 16 for offset in registers if offset > 8):
        assert min(widths) >= width  # LLVM joins some.
    else:
        assert set(widths) == {width}
    # Where the matrix instructions fit but are not taken, they would not have been cheaper.
    assert foreseen is None or local.wavefronts(kernel.layout, GPU) >= foreseen


@settings(max_examples=300, deadline=None)
@given(tiles())
def test_wavefronts_are_those_of_the_addresses(tile: tuple[LinearLayout, str, str]) -> None:
    """A bank serves one word at a time, all lanes that ask for it."""
    kernel = Kernel(*tile, "store")
    local, layout = kernel.local, kernel.layout
    size = local.bytes_at_once(layout)
    registers = [offset for offset in map(local.offset, dict(layout.bases)[REGISTER]) if offset >= size]
    lanes = [local.offset(basis) for basis in dict(layout.bases)[LANE]]
    total = 0
    for start in sums(registers):
        addresses = [start ^ lane for lane in sums(lanes)]
        together = GPU.service("store", size).count
        for phase in range(0, len(addresses), together):
            words = {a // 4 + w for a in addresses[phase : phase + together] for w in range(max(1, size // 4))}
            banks = [word % 32 for word in words]
            total += max(banks.count(bank) for bank in set(banks))
    event(f"{total} wavefronts")
    found = local.wavefronts(layout, GPU)
    matrices = local._matrix_wavefronts(
        [local.offset(basis) for basis in dict(layout.bases)[REGISTER]], lanes, GPU
    )
    assert found == (total if matrices is None else min(total, matrices))


def sums(columns: list[int]) -> list[int]:
    found = [0]
    for column in columns:
        found += [value ^ column for value in found]
    return found


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([(64, 64), (32, 64), (64, 128)]), st.sampled_from([(4096, 1), (1, 4096)]))
def test_copies_take_neighbours_in_both_memories(
    data: st.DataObject, shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    """Every layout that a copy may be given: its instructions are as wide as predicted, and take the pointer of
    the first of as many elements that lie side by side on either side."""
    element = data.draw(st.sampled_from(sorted(BITS)))
    shared = data.draw(shared_memory(shape, element))
    rest = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    held = len(rest) - 7
    first = layout_of_bits(shape, rest[:held], rest[held : held + 5], rest[held + 5 :], (5, WARPS))
    group = Kernel(first, shared, element, "copy", *strides).group
    local, access = group.locals[0][0], group.accesses[0][0]
    made = list(layouts(local, access, shape, 5, WARPS, GPU))
    event(f"{len(made)} layouts")
    if element != "f32" and not _share_neighbours(local, access):
        assert not made  # Triton has no copies of less than a word.
    for layout in made:
        width = local.bytes_at_once(layout)
        ptx = Kernel(layout, shared, element, "copy", *strides).ptx
        pattern = r"cp\.async\.c.\.shared\.global \[.*?\], \[.*?\], (\w+)"
        found = [int(size, 16) for size in re.findall(pattern, ptx)]
        assert found
        assert set(found) == {width}
        assert len(found) == layout.in_dim_size(REGISTER) * local.element_bytes // width
        count = (width // local.element_bytes).bit_length() - 1
        for bit, basis in enumerate(dict(layout.bases)[REGISTER][:count]):
            assert local.offset(basis) == access.basis_delta(basis) == local.element_bytes << bit


def _share_neighbours(local: LocalAccess, access: GlobalAccess) -> bool:
    bits = [(axis, bit) for axis, columns in enumerate(local.columns) for bit in range(len(columns))]
    size = local.element_bytes
    return any(local.column(bit) == access.delta(bit) == size for bit in bits)


@pytest.mark.parametrize("element", sorted(BITS))
def test_a_tile_that_lies_the_other_way_is_stored_in_few_wavefronts(element: str) -> None:
    """What Triton loads along rows and stores along columns, with all lanes in the same banks."""
    vector = {"i8": 4, "f16": 3, "f32": 2}[element]
    shape = (128 // (BITS[element] // 8), 128)
    columns, rows = ([(axis, bit) for bit in range(shape[axis].bit_length() - 1)] for axis in (1, 0))
    order = [*columns[vector:], *rows]
    layout = layout_of_bits(shape, [*columns[:vector], *order[7:]], order[:5], order[5:7], (5, WARPS))
    shared = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = $BITS}>"
    local = Kernel(layout, shared, element, "alloc").local
    fewest = local.fewest(shape, WARPS, GPU)
    assert local.wavefronts(layout, GPU) >= 4 * fewest
    best = min(local.wavefronts(other, GPU) for other in layouts(local, None, shape, 5, WARPS, GPU))
    assert best == fewest


def test_copies_whose_vectors_are_promised_alone_keep_their_layout() -> None:
    """Triton takes the promise at its word; pointers of which nothing is known tell nothing of it."""
    text = path_of("ampere").read_text()
    assert "{contiguity = 16 : i32}" in text

    def kept(changed: str) -> set[bool]:
        root = bridge.text_to_upstream(changed, bridge.upstream_context(), "ampere")
        groups = build(operations(root.operation), GPU).groups
        return {g.pinned for g in groups if {"copy", "ttg.async_copy_global_to_local"} & set(g.anchors)}

    assert kept(text) == {False}
    assert True in kept(text.replace("tt.divisibility = 16", "tt.divisibility = 1"))
