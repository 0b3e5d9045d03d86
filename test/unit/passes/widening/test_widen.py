"""Accesses become as wide as they can be, and nothing else does; a rewriting that is wrong is refused."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace

import pytest
import width_kernels
from coordinates import threads
from module_equivalence import ran, stays_the_same, upstream
from width_kernels import Kernel

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Attribute, InsertionPoint, Module, Operation, Type, operations
from triton_linear.dialect.triton_versions import COPIES_NOT_HELD, installed_release
from triton_linear.lowering.target.targets import TARGETS, with_policy
from triton_linear.passes.analysis.widths import Basis
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.widening import claims, proof
from triton_linear.passes.widening.widen import WidenAccesses
from triton_linear.tools.support import compile as compiler

# Whole kernels

COPIES = [
    Kernel(width_kernels.copy, element=element, K=K, mask=mask)
    for element, K, mask in itertools.product(("fp8e4nv", "fp16", "fp32"), (1, 2, 8, 16), (False, True))
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
    outcome = run_passes(root, PASSES)
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
        ({"kernel": width_kernels.taken_apart, "element": "fp16"}, 2, 16),  # Triton sees nothing of `&`
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
SOME = [kernel for number, kernel in enumerate(KERNELS) if number % 5 in (0, 2)]
"""Kinds, GPUs, masks and numbers of warps are two and three, so that all are among these."""
WIDER = {(name, gpu) for name in ("copy", "columns", "pairs", "sums") for gpu in ("cuda:90", "hip:gfx942")}
WIDER |= {("volatile", "cuda:90")}
"""Kernels of which some become wider; of what is volatile only the store."""


def _assign_at_any_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, gpu in list(TARGETS.items()):
        monkeypatch.setitem(TARGETS, name, with_policy(gpu, margin=0.0))


@pytest.mark.parametrize("kernel", SOME, ids=str)
def test_a_kernel_stores_what_it_did_and_promises_what_is_so(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    _assign_at_any_saving(monkeypatch)
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
    _assign_at_any_saving(monkeypatch)
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
    outcome = run_passes(upstream(module("[[0, 1], [1, 0], [2, 0]]")), [WidenAccesses()])
    assert not outcome.succeeded
    assert any("NotEquivalent" in str(diagnostic) for diagnostic in outcome.diagnostics)


def test_elements_that_are_not_next_to_each_other_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two bytes, four bytes apart: vectors have two elements, and no promise goes further."""
    text = module("[[1, 0], [0, 1], [2, 0]]").replace("dense<2> : tensor<512x1", "dense<4> : tensor<512x1")
    assert run_passes(root := upstream(text), [WidenAccesses()]).succeeded
    assert ll.WIDENED in root.operation.attributes
    monkeypatch.setattr(claims, "of_addresses", lambda *a: _more(real_addresses(*a), "contiguity"))
    outcome = run_passes(upstream(text), [WidenAccesses()])
    assert any("moves by 4, not by 2" in str(diagnostic) for diagnostic in outcome.diagnostics)


def widened(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Module, list[proof.Widened]]:
    """A module whose accesses were made wider, and what the proof was given."""
    given: list[proof.Widened] = []
    check = proof.check
    monkeypatch.setattr(proof, "check", lambda ops, accesses: given.extend(accesses) or check(ops, accesses))
    root = upstream(text)
    assert run_passes(root, [WidenAccesses()]).succeeded
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
    with pytest.raises(proof.NotEquivalent, match="another row"):
        proof.check(operations(root.operation), [load, store])


def test_what_an_access_gives_has_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    root, (load, store) = widened(module("[[0, 1], [1, 0], [2, 0]]"), monkeypatch)
    wrong = replace(load, result=_row_of(root, store, 1).results[0])
    with pytest.raises(proof.NotEquivalent):
        proof.check(operations(root.operation), [replace(wrong, type=store.before[0].type), store])


def test_a_reshape_that_may_move_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    root, (load, store) = widened(module("[[0, 1], [1, 0], [2, 0]]"), monkeypatch)
    _row_of(root, load, 0).attributes["allow_reorder"] = Attribute.parse("unit", root.context)
    with pytest.raises(proof.NotEquivalent, match="may move elements"):
        proof.check(operations(root.operation), [load, store])
