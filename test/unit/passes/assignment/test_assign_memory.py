"""Accesses of global memory: the instructions that are predicted are those that Triton emits."""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from triton import knobs

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.target.memory import H200
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.addressing import Affine
from triton_linear.passes.analysis.global_memory import (
    GlobalAccess,
    basis_of,
    blocked_text,
    coalesced,
    encoding_text,
    layout_of_bits,
    meeting,
)
from triton_linear.passes.analysis.widths import VECTOR
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.candidates import layout_of
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.widening.widen import WidenAccesses
from triton_linear.tools.support import compile as compiler

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
    %r = tt.make_range {end = $ROWS : i32, start = 0 : i32}
      : tensor<$ROWSxi32, #ttg.slice<{dim = 1, parent = #l}>>
    %c = tt.make_range {end = $COLUMNS : i32, start = 0 : i32}
      : tensor<$COLUMNSxi32, #ttg.slice<{dim = 0, parent = #l}>>
    %r1 = tt.expand_dims %r {axis = 1 : i32}
      : tensor<$ROWSxi32, #ttg.slice<{dim = 1, parent = #l}>> -> tensor<$ROWSx1xi32, #l>
    %c1 = tt.expand_dims %c {axis = 0 : i32}
      : tensor<$COLUMNSxi32, #ttg.slice<{dim = 0, parent = #l}>> -> tensor<1x$COLUMNSxi32, #l>
    %n1 = tt.splat %$STRIDE : i32 -> tensor<$ROWSx1xi32, #l>
    %r2 = arith.muli %r1, %$BY : tensor<$ROWSx1xi32, #l>
    %c2 = arith.muli %c1, %side : tensor<1x$COLUMNSxi32, #l>
    %r3 = tt.broadcast %r2 : tensor<$ROWSx1xi32, #l> -> tensor<$SHAPExi32, #l>
    %c3 = tt.broadcast %c2 : tensor<1x$COLUMNSxi32, #l> -> tensor<$SHAPExi32, #l>
    %o = arith.addi %r3, %c3 : tensor<$SHAPExi32, #l>
    %b = tt.splat %from : !tt.ptr<$ELEMENT> -> tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>
    %p = tt.addptr %b, %o : tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>, tensor<$SHAPExi32, #l>
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
# What is loaded has to be used, or there is no load: it is stored again elsewhere.
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
class Kernel:
    """An access of a tile. `down` and `side` are strides of rows and columns; a name is that argument."""

    layout: LinearLayout
    element: str
    is_store: bool
    down: int | str
    side: int
    aligned: int
    mask: str

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = (size for _, size in self.layout.out_dims)
        return rows, columns

    @property
    def text(self) -> str:
        rows, columns = self.shape
        names = {
            "LAYOUT": encodings.linear_encoding_text(self.layout),
            "WARPS": str(self.layout.in_dim_size(WARP)),
            "ELEMENT": self.element,
            "VALUE": "1.0" if self.element.startswith("f") else "1",
            "ALIGNED": str(self.aligned),
            "ROWS": str(rows),
            "COLUMNS": str(columns),
            "SHAPE": f"{rows}x{columns}",
            "STRIDE": self.down if isinstance(self.down, str) else "n",
            "BY": "n1" if isinstance(self.down, str) else "down",
            "DOWN": str(self.down) if isinstance(self.down, int) else "1",
            "SIDE": str(self.side),
            "BOUND": self.mask.partition(" ")[2] or "cn",
            "MASK": {"none": "", "rows": ", %m1", "columns": ", %m3", "both": ", %both"}[
                self.mask.partition(" ")[0]
            ],
        }
        text = KERNEL.replace("$ACCESS", STORE if self.is_store else LOAD)
        return re.sub(r"\$([A-Z]+)", lambda found: names[found[1]], text)


def access_of(text: str) -> GlobalAccess:
    """The first access of a kernel, as the pass sees it."""
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "access.ttgir")
    graph = build(operations(root.operation), target("cuda:90"))
    return next(access for group in graph.groups for access, _ in group.accesses)


def predicted(access: GlobalAccess, layout: LinearLayout) -> tuple[int, int]:
    """Instructions of a thread, and bytes that each moves."""
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    if not access.is_store:
        registers = [basis for basis in registers if access._differs(basis)]
    others = [basis for name, bases in layout.bases for basis in bases if name != REGISTER]
    vector = access.vector(registers, others)
    return 1 << len(vector.left), access.element_bytes << len(vector.bits)


def emitted(text: str, is_store: bool) -> tuple[int, set[int]]:
    """The same in PTX, once accesses are as wide as they can be."""
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "access.ttgir")
    outcome = run_passes(root, [WidenAccesses()])
    assert outcome.succeeded, outcome.diagnostics
    module = compiler.to_triton(bridge.triton_text(root))
    ptx = compiler.lower(module, "cuda:90", "ptx").text("ptx")
    name = "st" if is_store else "ld"
    found = re.findall(rf"\b{name}\.global(?:\.v(\d))?\.b(\d+)", ptx)
    return len(found), {int(vector or 1) * int(bits) // 8 for vector, bits in found}


@st.composite
def unit_layouts(draw: st.DrawFn) -> LinearLayout:
    """Each bit of a tile is one register's, lane's or warp's; lanes and warps that are left over hold copies.

    Registers often begin with neighbours along one dimension, as those of real layouts do.
    """
    shape = draw(st.sampled_from([(64, 32), (16, 64), (8, 256), (128, 16), (32, 4)]))
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    axis = draw(st.integers(0, 1))
    first = [bit for bit in bits if bit[0] == axis][: draw(st.integers(0, 5))]
    rest = draw(st.permutations([bit for bit in bits if bit not in first]))
    warps = draw(st.integers(0, 3))
    least = max(len(first), len(bits) - 5 - warps)
    registers = draw(st.integers(least, max(least, min(len(bits), 6))))
    rest = [*first, *rest]
    held, lanes, others = rest[:registers], rest[registers : registers + 5], rest[registers + 5 :]
    return layout_of_bits(shape, held, lanes, others, (5, warps))


MASKS = ["none", "rows", "columns cn", "columns codd", "columns four", "both codd", "both cn"]


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    return Kernel(
        draw(unit_layouts()),
        draw(st.sampled_from(["i8", "f16", "f32", "f64"])),
        draw(st.booleans()),
        draw(st.sampled_from([4096, "n", "odd", 1, 24, 33])),
        draw(st.sampled_from([1, 1, 1, 64, 2])),
        draw(st.sampled_from([16, 16, 4, 8])),
        draw(st.sampled_from([*MASKS])),
    )


@settings(max_examples=120, deadline=None)
@given(kernels())
def test_triton_emits_what_is_predicted(kernel: Kernel) -> None:
    instructions, width = predicted(access_of(kernel.text), kernel.layout)
    event(f"{width} bytes")
    assert emitted(kernel.text, kernel.is_store) == (instructions, {width})


ROWS_OF_FOUR = layout_of_bits(
    (64, 32),
    [(1, 0), (1, 1), (0, 0)],
    [(1, 2), (1, 3), (1, 4), (0, 1), (0, 2)],
    [(0, 3), (0, 4), (0, 5)],
    (5, 3),
)


@pytest.mark.parametrize(("down", "width"), [(4096, 16), ("n", 16), ("odd", 4), (33, 4), (34, 8)], ids=str)
def test_vectors_are_as_wide_as_every_row_is_aligned(down: int | str, width: int) -> None:
    kernel = Kernel(ROWS_OF_FOUR, "f32", False, down, 1, 16, "none")
    assert predicted(access_of(kernel.text), kernel.layout) == (32 // width, width)
    assert emitted(kernel.text, is_store=False) == (32 // width, {width})


def machine_loads(text: str) -> int:
    """Loads of global memory that are left in the machine code."""
    code = compiler.lower(compiler.to_triton(text), "cuda:90", "cubin").stages["cubin"]
    assert isinstance(code, bytes)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        command = [knobs.nvidia.nvdisasm.path, file.name]
        disassembled = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return len(re.findall(r"\bLDG\.", disassembled))


@pytest.mark.parametrize(("down", "side", "count"), [(4096, 1, 2), (0, 1, 1), (4096, 0, 2), (0, 0, 1)])
def test_what_is_at_one_place_is_loaded_once(down: int, side: int, count: int) -> None:
    kernel = Kernel(ROWS_OF_FOUR, "f32", False, down, side, 16, "none")
    assert predicted(access_of(kernel.text), kernel.layout)[0] == count
    assert machine_loads(kernel.text) == count


# Layouts for accesses


@st.composite
def accesses(draw: st.DrawFn, shape: tuple[int, ...]) -> GlobalAccess:
    """Any access whose dimensions have strides, known or not."""
    size = draw(st.sampled_from([1, 2, 4, 8]))
    strides = [draw(st.sampled_from([0, 1, 2, 64, 1024, None])) for _ in shape]
    deltas = tuple(
        tuple(None if stride is None else stride * size << bit for bit in range(length.bit_length() - 1))
        for stride, length in zip(strides, shape, strict=True)
    )
    mask = None
    if draw(st.booleans()):
        mask = tuple(tuple(draw(st.booleans()) for _ in bits) for bits in deltas)
    return GlobalAccess(
        Affine(deltas, draw(st.sampled_from([16, 4, 1])), None, 16), mask, size, draw(st.booleans())
    )


SHAPES = st.sampled_from([(1024,), (64, 32), (16, 16), (2, 128), (8, 4, 64), (1, 8), (4, 2)])


def check_sizes(layout: LinearLayout, shape: tuple[int, ...], lanes: int, warps: int) -> None:
    assert layout.is_surjective()
    assert layout.out_dims == tuple(zip(dim_names(len(shape)), shape, strict=True))
    assert layout.in_dim_size(LANE) == 1 << lanes
    assert layout.in_dim_size(WARP) == 1 << warps
    bases = [basis for _, vectors in layout.bases for basis in vectors if any(basis)]
    assert len(set(bases)) == len(bases)
    assert all(any(basis) for basis in dict(layout.bases)[REGISTER])


@settings(max_examples=200, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([5, 6]), st.integers(0, 3))
def test_coalesced_layouts_hold_every_element_at_the_least_cost(
    data: st.DataObject, shape: tuple[int, ...], lanes: int, warps: int
) -> None:
    access = data.draw(accesses(shape))
    layout = coalesced(access, shape, lanes, warps)
    check_sizes(layout, shape, lanes, warps)
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    bits = data.draw(st.permutations(bits))
    held = len(bits) - min(len(bits), lanes + warps)
    other = layout_of_bits(shape, bits[:held], bits[held:][:lanes], bits[held:][lanes:], (lanes, warps))
    # The order of what overlaps or is not known is arbitrary.
    sizes = [access.element_bytes << shift for shift in range(0, 40, 10)]
    deltas = tuple(
        tuple(sizes[place] << bit for bit in range(len(along)))
        for place, along in zip(
            data.draw(st.permutations(range(len(shape)))), access.pointer.deltas, strict=True
        )
    )
    dense = replace(access, pointer=replace(access.pointer, deltas=deltas), mask=None)
    best = coalesced(dense, shape, lanes, warps)
    assert dense.clocks(best, H200)[0] <= dense.clocks(other, H200)[0] * 1.000001


@settings(max_examples=200, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([5, 6]), st.integers(0, 3))
def test_layouts_that_meet_have_the_same_warps(
    data: st.DataObject, shape: tuple[int, ...], lanes: int, warps: int
) -> None:
    first, second = data.draw(accesses(shape)), data.draw(accesses(shape))
    met = meeting(first, second, shape, lanes, warps)
    bits = sum(size.bit_length() - 1 for size in shape)
    assert (met is None) == (bits < lanes + warps)
    if met is not None:
        for layout in met:
            check_sizes(layout, shape, lanes, warps)
        assert dict(met[0].bases)[WARP] == dict(met[1].bases)[WARP]


def test_a_transposition_meets_in_warps_that_hold_whole_sectors() -> None:
    rows = Affine((tuple(2048 << bit for bit in range(6)), tuple(2 << bit for bit in range(6))), 16)
    columns = Affine((rows.deltas[1], rows.deltas[0]), 16)
    met = meeting(GlobalAccess(rows, None, 2, False), GlobalAccess(columns, None, 2, True), (64, 64), 5, 2)
    assert met is not None
    assert dict(met[0].bases)[WARP] == ((32, 0), (0, 32)) or dict(met[0].bases)[WARP] == ((0, 32), (32, 0))
    for layout, along in zip(met, (1, 0), strict=True):
        assert all(basis[along] for basis in dict(layout.bases)[REGISTER][:3])


# Encodings


@settings(max_examples=300, deadline=None)
@given(unit_layouts())
def test_the_text_of_a_layout_denotes_it(layout: LinearLayout) -> None:
    shape = tuple(size for _, size in layout.out_dims)
    text = encoding_text(layout)
    event(text[:11])
    assert layout_of(text, shape) == layout.remove_zero_bases(REGISTER)


@st.composite
def blocked(draw: st.DrawFn) -> tuple[str, tuple[int, int]]:
    def powers(total: int) -> list[int]:
        bits = draw(st.integers(0, total))
        return draw(st.permutations([1 << bits, 1 << (total - bits)]))

    sizes = [draw(st.sampled_from([1, 2, 4, 8])) for _ in range(2)]
    order = draw(st.permutations([0, 1]))
    text = (
        f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {powers(5)}, "
        f"warpsPerCTA = {powers(draw(st.integers(0, 3)))}, order = {order}}}>"
    )
    return text, draw(st.sampled_from([(64, 32), (16, 16), (8, 128), (256, 4), (1, 64)]))


@settings(max_examples=300, deadline=None)
@given(blocked())
def test_blocked_layouts_are_found_again(case: tuple[str, tuple[int, int]]) -> None:
    text, shape = case
    layout = layout_of(text, shape)
    found = blocked_text(layout)
    if found is not None:
        assert layout_of(found, shape) == layout
    if all(a <= b for a, b in zip(tile_of(text), shape, strict=True)):
        assert found is not None


def tile_of(text: str) -> list[int]:
    """How many elements of a blocked layout lie along each dimension before it begins again."""
    sizes = [[int(size) for size in found.split(", ")] for found in re.findall(r"= \[(.*?)\]", text)[:3]]
    return [math.prod(along) for along in zip(*sizes, strict=True)]


def test_a_swizzled_layout_is_no_blocked_one() -> None:
    layout = layout_of_bits((4, 64), [(0, 1), (0, 0)], [(1, b) for b in range(5)], [(1, 5)], (5, 1))
    assert blocked_text(layout) is None
    assert encoding_text(layout).startswith("#ttg.linear")


def test_a_vector_is_at_most_so_wide() -> None:
    layout = layout_of_bits((256,), [(0, 0), (0, 1), (0, 2)], [(0, b) for b in range(3, 8)], [], (5, 0))
    access = GlobalAccess(Affine((tuple(4 << b for b in range(8)),), 1 << 20), None, 4, False)
    assert access.element_bytes << access.vector_bits(dict(layout.bases)[REGISTER]) == VECTOR
    assert basis_of((0, 2), 1) == dict(layout.bases)[REGISTER][2]
