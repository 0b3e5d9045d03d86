"""How wide accesses can be, against every address; and that they become so, and nothing else does."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import width_kernels
from hypothesis import event, given, settings
from hypothesis import strategies as st
from module_equivalence import ran, stays_the_same, upstream
from test_assign_addressing import VALUATIONS, Expression, comparisons, expressions, runs, scalars, spread
from triton_linear.dialect import bridge, ll
from triton_linear.dialect.encodings import linear_encoding_text
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.mlir_adapter import Attribute, InsertionPoint, Module, Operation, Type, operations
from triton_linear.dialect.triton_versions import COPIES_NOT_HELD, installed_release
from triton_linear.passes import assign, driver
from triton_linear.passes.assign import AssignLayouts
from triton_linear.passes.assignment import addressing
from triton_linear.passes.assignment.addressing import Affine, Mask
from triton_linear.passes.assignment.widths import VECTOR, Basis, Bit, are_rows_short, widest
from triton_linear.passes.layouts import LayoutTable
from triton_linear.passes.widen import WidenAccesses
from triton_linear.passes.widening import claims, flat, proof
from triton_linear.tools import compile as compiler
from width_kernels import Kernel

SHAPES = st.sampled_from([(8,), (32,), (4, 8), (16, 2), (2, 16), (2, 4, 4), (8, 2, 2)])


@st.composite
def mixed_layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> LinearLayout:
    """Every bit of a tensor is a register's, a lane's or a warp's, and some are added to others; there may be
    copies as well."""
    bits = [(axis, bit) for axis, size in enumerate(shape) for bit in range(size.bit_length() - 1)]
    places = draw(st.permutations(bits))
    bases = [tuple(1 << bit if axis == at else 0 for axis in range(len(shape))) for at, bit in places]
    for _ in range(draw(st.integers(0, 3))):
        into, what = draw(st.integers(0, len(bases) - 1)), draw(st.integers(0, len(bases) - 1))
        if into != what:
            bases[into] = tuple(a ^ b for a, b in zip(bases[into], bases[what], strict=True))
    registers = draw(st.integers(0, len(bases)))
    lanes = draw(st.integers(registers, len(bases)))
    zero = [(0,) * len(shape)]
    held = [*bases[:registers], *zero * draw(st.integers(0, 1))]
    return LinearLayout.fitted(
        (
            (REGISTER, tuple(draw(st.permutations(held)))),
            (LANE, (*bases[registers:lanes], *zero * draw(st.integers(0, 1)))),
            (WARP, tuple(bases[lanes:])),
            ("block", ()),
        ),
        tuple(zip(dim_names(len(shape)), shape, strict=True)),
    )


def parts(layout: LinearLayout) -> tuple[list[Basis], list[Basis]]:
    """The bases of registers, without those that hold copies, and all others."""
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    others = [basis for name, bases in layout.bases if name != REGISTER for basis in bases]
    return registers, others


def threads(layout: LinearLayout) -> list[list[Basis]]:
    """The coordinates that each thread holds."""
    registers, others = parts(layout)

    def spanned(start: Basis, bases: list[Basis]) -> list[Basis]:
        found = [start]
        for basis in bases:
            found += [tuple(a ^ b for a, b in zip(one, basis, strict=True)) for one in found]
        return found

    return [spanned(first, registers) for first in spanned((0,) * len(layout.out_dims), others)]


def by_force(layout: LinearLayout, addresses: np.ndarray, flags: np.ndarray, size: int) -> int:
    """The longest vectors, as a power of two of elements, that every thread's elements can be divided into:
    next to each other, aligned, and all masked or none; `addresses` and `flags` under several valuations."""
    longest = 0
    held = threads(layout)
    for log in range(1, (VECTOR // size).bit_length()):
        width = size << log
        for valuation, thread in itertools.product(range(len(addresses)), held):
            places: dict[int, set[bool]] = {}
            for coordinates in thread:
                address = int(addresses[(valuation, *coordinates)])
                places.setdefault(address // width, set()).add(bool(flags[(valuation, *coordinates)]))
            everything = {int(addresses[(valuation, *coordinates)]) for coordinates in thread}
            whole = {start * width + step * size for start in places for step in range(1 << log)}
            if everything != whole or any(len(masks) > 1 for masks in places.values()):
                return longest
        longest = log
    return longest


def check_vectors(
    layout: LinearLayout, addresses: np.ndarray, flags: np.ndarray, size: int, bits: tuple[Bit, ...]
) -> None:
    """Elements that differ in these bits alone are next to each other, aligned, masked together, and of one
    thread."""
    shape = addresses.shape[1:]
    indices = np.indices(shape)
    place = sum((indices[axis] >> bit & 1) << number for number, (axis, bit) in enumerate(bits))
    first = list(indices)
    for axis, bit in bits:
        first[axis] = first[axis] & ~(1 << bit)
    starts = addresses[(slice(None), *first)]
    assert (addresses == starts + place * size).all()
    assert not (starts % (size << len(bits))).any()
    assert (flags == flags[(slice(None), *first)]).all()
    for thread in map(set, threads(layout)):
        for coordinates, (axis, bit) in itertools.product(thread, bits):
            neighbour = tuple(v ^ (1 << bit if at == axis else 0) for at, v in enumerate(coordinates))
            assert neighbour in thread


@settings(max_examples=300, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4, 8]))
def test_vectors_are_next_to_each_other_aligned_and_masked_together(
    data: st.DataObject, shape: tuple[int, ...], size: int
) -> None:
    layout = data.draw(mixed_layouts(shape))
    base, start, _ = scalars(data.draw)
    offset = data.draw(st.one_of(expressions(shape, 1), runs(shape), dense(shape)))
    pointer = addressing.addptr(addressing.splat(base, shape), offset.known, size)
    addresses = spread(start, shape) + offset.numbers * size
    mask, flags = None, np.ones((VALUATIONS, *shape), bool)
    if data.draw(st.booleans()):
        mask, flags, _ = data.draw(comparisons(shape))
    registers, others = parts(layout)
    found = widest(pointer, mask, size, registers, others)
    event(f"{len(found.bits)} bits, in {len({axis for axis, _ in found.bits})} dimensions")
    assert len(found.left) + len(found.bits) == len(registers)
    assert size << len(found.bits) <= VECTOR or not found.bits
    if found.bits:
        check_vectors(layout, addresses, flags, size, found.bits)


@st.composite
def dense(draw: st.DrawFn, shape: tuple[int, ...]) -> Expression:
    """Elements one after another, the dimensions in any order, or with room between."""
    strides, at = {}, draw(st.sampled_from([1, 1, 1, 2]))
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = at
        at *= shape[axis] * draw(st.sampled_from([1, 1, 1, 2, 3, 16]))
    known = Affine(
        tuple(
            tuple(strides[axis] << bit for bit in range(size.bit_length() - 1))
            for axis, size in enumerate(shape)
        ),
        addressing.MAX_DIVISOR,
        0,
    )
    grid = sum(index * strides[axis] for axis, index in enumerate(np.indices(shape)))
    return Expression(known, spread(np.zeros(VALUATIONS, np.int64), shape) + grid, f"dense{strides}")


@settings(max_examples=300, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4, 8]), st.sampled_from([16, 16, 8, 4]))
def test_no_vectors_could_be_longer_where_addresses_are_known(
    data: st.DataObject, shape: tuple[int, ...], size: int, aligned: int
) -> None:
    """With one bit of the coordinates to each basis: sums of bits in lanes hold other vectors, which are not
    those of a row of the tensor."""
    layout = data.draw(mixed_layouts(shape).filter(_is_of_bits))
    offset = data.draw(dense(shape))
    pointer = addressing.scale(offset.known, size)
    pointer = replace(pointer, divisor=aligned, constant=None)
    addresses = offset.numbers * size + aligned
    mask: Mask | None = None
    flags = np.ones((VALUATIONS, *shape), bool)
    registers, others = parts(layout)
    if data.draw(st.booleans()):  # of whole rows
        axis, bit = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(0, 2))
        mask = tuple(
            tuple(at != axis or place < bit for place in range(size_.bit_length() - 1))
            for at, size_ in enumerate(shape)
        )
        along = np.arange(shape[axis]) >> bit
        shaped = (along * 37 % 5 % 2 == 0).reshape([-1 if at == axis else 1 for at in range(len(shape))])
        flags = np.broadcast_to(shaped, (VALUATIONS, *shape))
        different = [(shaped.take(i, axis) != shaped.take(i ^ 1 << place, axis)).any()
                     for place in range(bit, shape[axis].bit_length() - 1) for i in range(1)]  # fmt: skip
        if not all(different):
            mask, flags = None, np.ones((VALUATIONS, *shape), bool)
    found = widest(pointer, mask, size, registers, others)
    event(f"{len(found.bits)} bits, in {len({axis for axis, _ in found.bits})} dimensions")
    assert len(found.bits) == by_force(layout, addresses, flags, size)


def _is_of_bits(layout: LinearLayout) -> bool:
    return all(sum(value.bit_count() for value in basis) <= 1 for _, bases in layout.bases for basis in bases)


def test_short_rows_are_of_less_than_a_vector() -> None:
    assert are_rows_short((512, 2), 1) and are_rows_short((4, 512), 2) and are_rows_short((2, 64, 64), 4)
    assert not are_rows_short((512, 16), 1) and not are_rows_short((512,), 1) and not are_rows_short((1, 8), 1)


# Rows


@settings(max_examples=200, deadline=None)
@given(st.data(), SHAPES)
def test_a_row_begins_with_the_bits_of_a_vector_and_moves_nothing(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    layout = data.draw(mixed_layouts(shape))
    registers, others = parts(layout)
    pointer = addressing.scale(data.draw(dense(shape)).known, 1)
    bits = widest(pointer, None, 1, registers, others).bits
    way = flat.flat(layout, bits)
    event(f"{len(bits)} bits, split {bool(way.split)}, sorted {way.is_sorted}")
    held = [basis for (basis,) in dict(way.sorted.bases)[REGISTER]]
    assert held[: len(bits)] == [1 << place for place in range(len(bits))]
    for name in (LANE, WARP):
        assert dict(way.sorted.bases)[name] == dict(way.row.bases)[name]
        assert not any(basis & (1 << len(bits)) - 1 for (basis,) in dict(way.row.bases)[name])
    # A thread has the same places of the row before its registers are put in order, and after.
    assert set(map(frozenset, threads(way.sorted))) == set(map(frozenset, threads(way.row)))
    # What the coordinates of a place are, by the steps of the way.
    elements = np.arange(math.prod(shape)).reshape(way.split or shape)
    row = (elements.transpose(way.order) if way.order else elements).reshape(-1)
    for place, (axis, bit) in enumerate(bits):
        apart = np.array(np.unravel_index(row[1 << place], shape))
        assert apart.tolist() == [1 << bit if at == axis else 0 for at in range(len(shape))]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([(2, 4, 4), (4, 4, 4), (8, 8), (2, 2, 2, 4)]))
def test_a_row_is_the_tensor_that_it_was_again(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Whichever bits a vector has, in whichever order."""
    bits = data.draw(st.permutations(flat.natural(shape)))
    bases = [tuple(1 << bit if axis == at else 0 for axis in range(len(shape))) for at, bit in bits]
    held = ((REGISTER, tuple(bases[:3])), (LANE, tuple(bases[3:])), (WARP, ()), ("block", ()))
    layout = LinearLayout.fitted(held, tuple(zip(dim_names(len(shape)), shape, strict=True)))
    way = flat.flat(layout, tuple(bits[: data.draw(st.integers(1, 3))]))
    event(f"order {way.order}")
    type_ = f"tensor<{'x'.join(map(str, shape))}xi8, {linear_encoding_text(layout)}>"
    root = upstream(f"module {{ tt.func @f(%x: {type_}) {{ tt.return }} }}")
    last = operations(root.operation)[-1]
    given_ = last.block.arguments[0]
    ip = InsertionPoint(last)
    row = flat.flattened(given_, way, ip, last.location)
    back = flat.unflattened(row.results[0], way, given_.type, ip, last.location)
    assert back.type == given_.type
    made = {given_: np.arange(math.prod(shape)).reshape(shape)}
    for op in operations(root.operation):
        if op.name in ("tt.reshape", "tt.trans", "ttg.convert_layout"):
            value = made[op.operands[0]]
            if op.name == "tt.trans":
                value = value.transpose(list(op.attributes["order"]))
            made[op.results[0]] = value.reshape(tuple(op.results[0].type.shape))
    assert (made[back] == made[given_]).all()


# Whole kernels

COPIES = [
    Kernel(width_kernels.copy, element=element, K=K, mask=mask)
    for element, K, mask in itertools.product(("fp8e4nv", "fp16", "fp32"), (1, 2, 4, 8, 16), (False, True))
]
PASSES = [AssignLayouts(), WidenAccesses()]
BYTES = {"fp8e4nv": 1, "fp16": 2, "fp32": 4, "i8": 1}


def widths(ptx: str) -> dict[str, set[int]]:
    """Bytes that loads and stores of global memory move at once."""
    found: dict[str, set[int]] = {"ld": set(), "st": set()}
    for name, vector, bits in re.findall(
        r"\b(ld|st)\.global(?:\.[a-z_:0-9A-Z]+?)*?(?:\.v(\d))?\.b(\d+)\b", ptx
    ):
        found[name].add(int(vector or 1) * int(bits) // 8)
    return found


def rewritten(text: str) -> Module:
    root = upstream(text)
    outcome = driver.run(root, PASSES)
    assert outcome.succeeded, outcome.diagnostics
    return root


def ptx_of(root: Module) -> str:
    return compiler.lower(compiler.to_triton(bridge.triton_text(root)), "cuda:90", "ptx").text("ptx")


@pytest.mark.parametrize("kernel", COPIES, ids=str)
def test_a_copy_of_short_rows_takes_vectors_across_them(kernel: Kernel) -> None:
    """As wide as what each of 128 threads has of the 512 rows, up to 16 bytes."""
    share = 512 * kernel.K * BYTES[kernel.element] // 128
    assert widths(ptx_of(rewritten(kernel.ttgir()))) == {"ld": {min(16, share)}, "st": {min(16, share)}}


@pytest.mark.parametrize(
    ("changes", "loads", "stores"),
    [
        ({"mask": True, "promised": 1}, 2, 2),  # any row may be the last
        ({"strided": True}, 2, 2),  # rows are 16 elements apart, or a multiple of that
        ({"strided": True, "promised": 1}, 1, 1),
        ({"strided": True, "K": 16}, 16, 16),
        ({"strided": True, "K": 16, "promised": 1}, 1, 1),
        ({"strided": True, "K": 8, "mask": True}, 8, 8),
        ({"kernel": width_kernels.columns}, 8, 8),
        # Triton sees nothing of `&`, nor of a change of shape
        ({"kernel": width_kernels.taken_apart, "element": "fp16"}, 16, 16),
        ({"kernel": width_kernels.taken_apart, "element": "fp16", "mask": True}, 16, 16),
        ({"kernel": width_kernels.taken_apart, "element": "fp16", "strided": True, "promised": 1}, 2, 16),
        ({"kernel": width_kernels.columns, "K": 16, "mask": True}, 16, 16),
        ({"kernel": width_kernels.columns, "K": 4, "mask": True, "promised": 1}, 4, 4),
    ],
    ids=str,
)
def test_vectors_go_as_far_as_masks_and_strides_let_them(changes, loads: int, stores: int) -> None:
    kernel = replace(Kernel(width_kernels.copy, element="fp8e4nv"), **changes)
    assert widths(ptx_of(rewritten(kernel.ttgir()))) == {"ld": {loads}, "st": {stores}}


KERNELS = [
    *(replace(copy, rows=64) for copy in COPIES if copy.K in (2, 8)),
    *(
        Kernel(getattr(width_kernels, name), gpu, element, K, 256, mask, strided, promised, near, options)
        for (name, element, K), gpu, (mask, strided, promised), near, options in [
            *itertools.product(
                [
                    ("copy", "i8", 4),
                    ("columns", "i8", 2),
                    ("pairs", "fp16", 1),
                    ("pairs", "fp32", 2),
                    ("sums", "fp16", 4),
                    ("turned", "fp16", 4),
                    ("taken_apart", "fp16", 2),
                    ("volatile", "fp32", 2),
                ],
                ["cuda:80", "cuda:90", "hip:gfx942"],
                [(False, False, 16), (True, False, 16), (True, True, 1)],
                [False],
                [{"num_warps": 1}],
            ),
            *itertools.product(
                [("copy", "i8", 2), ("columns", "fp16", 4), ("pairs", "fp16", 2)],
                ["hip:gfx942", "hip:gfx950"],
                [(False, False, 16), (True, False, 16), (True, True, 16)],
                [True],
                [{"num_warps": 1}, {"num_warps": 2}],
            ),
        ]
    ),
]
WIDER = {
    (name, gpu)
    for name in ("copy", "columns", "pairs", "taken_apart", "turned")
    for gpu in ("cuda:90", "hip:gfx942")
}
WIDER |= {("sums", "cuda:90"), ("volatile", "cuda:90")}
"""Kernels of which some become wider; of what is volatile only the store."""


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_kernel_stores_what_it_did_and_promises_what_is_so(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assign, "MARGIN_UNMEASURED", 0.0)
    text = kernel.ttgir()
    before = ran(upstream(text))
    assert not before.broken
    root = stays_the_same(text, PASSES, before)
    if kernel.kernel is width_kernels.volatile:
        loads = [op for op in operations(root.operation) if op.name == "tt.load"]
        assert all(len(op.results[0].type.shape) == 2 for op in loads)
    # As Triton left it, registers of a thread are rarely next to each other: both ways have to be right.
    stays_the_same(text, [WidenAccesses()], before)


def test_most_of_these_kernels_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "MARGIN_UNMEASURED", 0.0)
    changed: Counter[tuple[str, str]] = Counter()
    for kernel in KERNELS:
        if kernel.gpu in ("cuda:90", "hip:gfx942") and not kernel.mask:
            root = rewritten(replace(kernel, rows=512).ttgir())
            changed[kernel.kernel.__name__, kernel.gpu] += ll.WIDENED in root.operation.attributes
    assert set(+changed) == WIDER


# Modules as text: what Triton's own layouts seldom are

MODULE = """\
#l = #ttg.linear<{register = $REGISTER, lane = [$LANE], warp = [[128, 0], [256, 0]], block = []}>
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
} {
  tt.func public @access(
    %from: !tt.ptr<i8> {tt.divisibility = 16 : i32}, %to: !tt.ptr<i8> {tt.divisibility = 16 : i32}
  ) attributes {noinline = false} {
    %two = arith.constant dense<2> : tensor<512x1xi32, #l>
    %end = arith.constant dense<500> : tensor<512x1xi32, #l>
    %r = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32, #ttg.slice<{dim = 1, parent = #l}>>
    %c = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32, #ttg.slice<{dim = 0, parent = #l}>>
    %r1 = tt.expand_dims %r {axis = 1 : i32}
      : tensor<512xi32, #ttg.slice<{dim = 1, parent = #l}>> -> tensor<512x1xi32, #l>
    %c1 = tt.expand_dims %c {axis = 0 : i32}
      : tensor<2xi32, #ttg.slice<{dim = 0, parent = #l}>> -> tensor<1x2xi32, #l>
    %r2 = arith.muli %r1, %two : tensor<512x1xi32, #l>
    %r3 = tt.broadcast %r2 : tensor<512x1xi32, #l> -> tensor<512x2xi32, #l>
    %c3 = tt.broadcast %c1 : tensor<1x2xi32, #l> -> tensor<512x2xi32, #l>
    %o = arith.addi %r3, %c3 : tensor<512x2xi32, #l>
    %m0 = arith.cmpi slt, %r1, %end : tensor<512x1xi32, #l>
    %m = tt.broadcast %m0 : tensor<512x1xi1, #l> -> tensor<512x2xi1, #l>
$BODY
    tt.return
  }
}
"""
POINTERS = """\
    %b = tt.splat %from : !tt.ptr<i8> -> tensor<512x2x!tt.ptr<i8>, #l>
    %p = tt.addptr %b, %o : tensor<512x2x!tt.ptr<i8>, #l>, tensor<512x2xi32, #l>
    %d = tt.splat %to : !tt.ptr<i8> -> tensor<512x2x!tt.ptr<i8>, #l>
    %q = tt.addptr %d, %o : tensor<512x2x!tt.ptr<i8>, #l>, tensor<512x2xi32, #l>
    %other = arith.extsi %m : tensor<512x2xi1, #l> to tensor<512x2xi8, #l>
    %x = tt.load %p, %m, %other : tensor<512x2x!tt.ptr<i8>, #l>
    tt.store %q, %x, %m : tensor<512x2x!tt.ptr<i8>, #l>"""
BUFFERS = """\
    %x = amdg.buffer_load %from[%o] : tensor<512x2xi8, #l>
    %y = amdg.buffer_load %from[%o], %m : tensor<512x2xi8, #l>
    %z = arith.addi %x, %y : tensor<512x2xi8, #l>
    amdg.buffer_store %z, %to[%o], %m : tensor<512x2xi8, #l>"""
copies_held = pytest.mark.skipif(
    installed_release() in COPIES_NOT_HELD, reason="written otherwise with this Triton"
)
LANES = "[4, 0], [8, 0], [16, 0], [32, 0], [64, 0]"


def module(registers: str, body: str = POINTERS, lanes: str = LANES) -> str:
    parts = {"REGISTER": registers, "LANE": lanes, "BODY": body}
    return re.sub(r"\$([A-Z]+)", lambda found: parts[found[1]], MODULE)


@pytest.mark.parametrize(
    ("registers", "conversions"),
    [
        ("[[0, 1], [1, 0], [2, 0]]", 0),
        # Of pointers and masks of both, of what is loaded else, and of values on the way back and there.
        ("[[2, 0], [0, 1], [1, 0]]", 7),
        pytest.param("[[0, 0], [0, 1], [1, 0], [2, 0]]", 7, marks=copies_held),
    ],
)
def test_registers_are_put_in_order(registers: str, conversions: int) -> None:
    text = module(registers)
    root = stays_the_same(text, [WidenAccesses()], ran(upstream(text)))
    made = [op for op in operations(root.operation) if op.name == "ttg.convert_layout"]
    assert len(made) == conversions
    table = LayoutTable()
    for op in made:
        layouts = [table.of(value.type) for value in (op.operands[0], op.results[0])]
        assert all(isinstance(layout, LinearLayout) for layout in layouts)
        assert threads_of(layouts[0]) == threads_of(layouts[1])
    # Four rows of two bytes, all of which are before the 500th or none.
    assert widths(ptx_of(root)) == {"ld": {8}, "st": {8}}


def threads_of(layout: LinearLayout) -> list[frozenset[Basis]]:
    return [frozenset(thread) for thread in threads(layout)]


@copies_held
def test_buffers_become_wider_too() -> None:
    text = module("[[0, 1], [1, 0], [2, 0]]", BUFFERS, f"{LANES}, [128, 0]")
    text = text.replace("warp = [[128, 0], [256, 0]]", "warp = [[256, 0], [0, 0]]")
    text = text.replace('threads-per-warp" = 32', 'threads-per-warp" = 64').replace("cuda:90", "hip:gfx942")
    root = stays_the_same(text, [WidenAccesses()], ran(upstream(text)))
    code = compiler.lower(compiler.to_triton(bridge.triton_text(root)), "hip:gfx942", "amdgcn").text("amdgcn")
    found = re.findall(r"\bbuffer_(?:load|store)_\w+", code)
    assert found == ["buffer_load_dwordx2"] * 2 + ["buffer_store_dwordx2"]


# A rewriting that is wrong is refused


real_addresses, real_mask = claims.of_addresses, claims.of_mask


def _more(claim: claims.Claim, name: str, times: int = 2) -> claims.Claim:
    return replace(claim, **{name: times * getattr(claim, name)})


MISTAKES = {
    "contiguity": (claims, "of_addresses", lambda *a: _more(real_addresses(*a), "contiguity", 256)),
    "divisibility": (claims, "of_addresses", lambda *a: _more(real_addresses(*a), "divisibility")),
    "constancy of addresses": (claims, "of_addresses", lambda *a: _more(real_addresses(*a), "constancy")),
    "constancy": (claims, "of_mask", lambda *a: _more(real_mask(*a), "constancy")),
    "contiguity of a mask": (claims, "of_mask", lambda *a: _more(real_mask(*a), "contiguity")),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_promises_that_do_not_follow_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong = MISTAKES[name]
    monkeypatch.setattr(owner, attribute, wrong)
    outcome = driver.run(upstream(module("[[0, 1], [1, 0], [2, 0]]")), [WidenAccesses()])
    assert not outcome.succeeded
    assert any("NotProved" in str(diagnostic) for diagnostic in outcome.diagnostics)


def test_elements_that_are_not_next_to_each_other_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two bytes, four bytes apart: vectors have two elements, and no promise goes further."""
    text = module("[[1, 0], [0, 1], [2, 0]]").replace("dense<2> : tensor<512x1", "dense<4> : tensor<512x1")
    assert driver.run(root := upstream(text), [WidenAccesses()]).succeeded
    assert ll.WIDENED in root.operation.attributes
    monkeypatch.setattr(claims, "of_addresses", lambda *a: _more(real_addresses(*a), "contiguity"))
    outcome = driver.run(upstream(text), [WidenAccesses()])
    assert any("moves by 4, not by 2" in str(diagnostic) for diagnostic in outcome.diagnostics)


def widened(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Module, list[proof.Widened]]:
    """A module whose accesses were made wider, and what the proof was given."""
    given: list[proof.Widened] = []
    check = proof.check
    monkeypatch.setattr(proof, "check", lambda ops, accesses: given.extend(accesses) or check(ops, accesses))
    root = upstream(text)
    assert driver.run(root, [WidenAccesses()]).succeeded
    return root, given


def _row_of(root: Module, access: proof.Widened, index: int) -> Operation:
    producers = {result: op for op in operations(root.operation) for result in op.results}
    return producers[access.op.operands[index]]


def test_rows_of_one_access_have_to_be_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask with its two columns one after the other, instead of its rows."""
    root, (load, store) = widened(module("[[0, 1], [1, 0], [2, 0]]"), monkeypatch)
    proof.check(operations(root.operation), [load, store])
    mask = _row_of(root, store, 2)
    type_ = Type.parse("tensor<2x512xi1>", root.context)
    order = {"order": Attribute.parse("array<i32: 1, 0>", root.context)}
    turned = Operation.create(
        "tt.trans", [type_], [mask.operands[0]], order, loc=mask.location, ip=InsertionPoint(mask)
    )
    mask.operands[0] = turned.results[0]
    with pytest.raises(proof.NotProved, match="another row"):
        proof.check(operations(root.operation), [load, store])


def test_what_an_access_gives_has_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    root, (load, store) = widened(module("[[0, 1], [1, 0], [2, 0]]"), monkeypatch)
    wrong = replace(load, result=_row_of(root, store, 1).results[0])
    with pytest.raises(proof.NotProved):
        proof.check(operations(root.operation), [replace(wrong, type=store.before[0].type), store])


def test_a_reshape_that_may_move_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    root, (load, store) = widened(module("[[0, 1], [1, 0], [2, 0]]"), monkeypatch)
    _row_of(root, load, 0).attributes["allow_reorder"] = Attribute.parse("unit", root.context)
    with pytest.raises(proof.NotProved, match="may move elements"):
        proof.check(operations(root.operation), [load, store])
