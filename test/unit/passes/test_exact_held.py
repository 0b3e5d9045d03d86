"""Which values keep their layouts, and their way to another one, so that results have stock Triton's bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from exact_support import after
from module_equivalence import upstream
from reductions_support import named

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.operations.names import CONVERT
from triton_linear.passes.reductions.held import HELD, held_values
from triton_linear.passes.reductions.split_reductions import SplitReductions

# Which values are held

HELD_MODULE = """
#a = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#b = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>
#row = #ttg.slice<{dim = 0, parent = #a}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32,
                   ttg.target = "cuda:90"} {
tt.func @f(%x: tensor<32x32xf32, #a>, %y: tensor<32x32xf32, #b>, %u: tensor<32xf32, #row>, %f: f32, %on: i1,
           %n: index, %at: tensor<32x32x!tt.ptr<f32>, #b>, %i: tensor<32x32xi32, #a>,
           %on_each: tensor<32x32xi1, #a>, %from: tensor<32x32x!tt.ptr<f32>, #a>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  {BODY}
  tt.return
}
}
"""
X, Y, ROW, F16 = (
    "tensor<32x32xf32, #a>",
    "tensor<32x32xf32, #b>",
    "tensor<32xf32, #row>",
    "tensor<32x32xf16, #a>",
)
ACROSS = f"%c = ttg.convert_layout %m : {X} -> {Y}"
ADDED = f"%s = arith.addf %c, %y : {Y}"
STORED = "tt.store %at, %c : tensor<32x32x!tt.ptr<f32>, #b>"
HOLDS = {
    "a product and a sum, a conversion between": (
        (f"%m = arith.mulf %x, %x : {X}", ACROSS, ADDED),
        {"arith.mulf", CONVERT},
    ),
    "a product that nothing is added to": ((f"%m = arith.mulf %x, %x : {X}", ACROSS, STORED), set()),
    "a sum of no product": ((f"%m = arith.subf %x, %x : {X}", ACROSS, ADDED), set()),
    "what changes a sign or chooses": (
        (
            f"%m0 = arith.mulf %x, %x : {X}",
            f"%m1 = arith.negf %m0 : {X}",
            f"%m = arith.select %on, %m1, %x : {X}",
            ACROSS,
            ADDED,
        ),
        {"arith.mulf", "arith.negf", "arith.select", CONVERT},
    ),
    "rounded between": (
        (
            f"%m0 = arith.mulf %x, %x : {X}",
            f"%m1 = arith.truncf %m0 : {X} to {F16}",
            f"%m = arith.extf %m1 : {F16} to {X}",
            ACROSS,
            ADDED,
        ),
        set(),
    ),
    "a row for every row": (
        (
            f"%m0 = arith.mulf %u, %u : {ROW}",
            f"%m1 = tt.expand_dims %m0 {{axis = 0 : i32}} : {ROW} -> tensor<1x32xf32, #a>",
            f"%m = tt.broadcast %m1 : tensor<1x32xf32, #a> -> {X}",
            ACROSS,
            ADDED,
        ),
        {"arith.mulf", "tt.expand_dims", "tt.broadcast", CONVERT},
    ),
    "taken from another place, or in the place of what is not loaded": (
        (
            f"%m0 = arith.mulf %x, %x : {X}",
            f"%m1 = tt.gather %m0[%i] {{axis = 0 : i32}} : ({X}, tensor<32x32xi32, #a>) -> {X}",
            "%m = tt.load %from, %on_each, %m1 : tensor<32x32x!tt.ptr<f32>, #a>",
            ACROSS,
            ADDED,
        ),
        {"arith.mulf", "tt.gather", "tt.load", CONVERT},
    ),
    "out of a branch": (
        (
            f"%m = scf.if %on -> ({X}) {{ %p = arith.mulf %x, %x : {X} scf.yield %p : {X} }}",
            f"else {{ scf.yield %x : {X} }}",
            ACROSS,
            ADDED,
        ),
        {"arith.mulf", "scf.if", CONVERT},
    ),
    "into the next iteration of a loop": (
        (
            f"%l = scf.for %k = %zero to %n step %one iter_args(%m = %x) -> ({X}) {{",
            ACROSS,
            ADDED,
            f"%p = arith.mulf %x, %x : {X}",
            f"scf.yield %p : {X} }}",
        ),
        {"arith.mulf", CONVERT},
    ),
    "a number for all": (
        ("%p = arith.mulf %f, %f : f32", f"%m = tt.splat %p : f32 -> {X}", ACROSS, ADDED),
        {"arith.mulf", "tt.splat", CONVERT},
    ),
    "a sum of squares": (
        (
            f"%m = arith.mulf %x, %x : {X}",
            '%s = "tt.reduce"(%m) <{axis = 0 : i32}> ({ ^bb0(%p: f32, %q: f32): %r = arith.addf %p, %q : f32',
            f"tt.reduce.return %r : f32 }}) : ({X}) -> {ROW}",
        ),
        # Two products in one addition: which one is fused depends on all that is around, so all is held.
        {"arith.constant", "arith.mulf", "tt.reduce", "arith.addf"},
    ),
    "what is not known": (
        (f"%m = math.log %x : {X}", ACROSS, f"%s = math.erf %c : {Y}"),
        {"math.log", CONVERT},
    ),
    "an exponential": ((f"%m = math.exp2 %x : {X}", ACROSS, ADDED), set()),
}


def holding(lines: Sequence[str]) -> Module:
    return upstream(HELD_MODULE.replace("{BODY}", "\n  ".join(lines)))


def makers_of_held(root: Module, nvidia: bool = True) -> set[str]:
    ops = operations(root.operation)
    held = held_values(ops, nvidia)
    return {op.name for op in ops if any(result in held for result in op.results)}


@pytest.mark.parametrize("case", HOLDS)
def test_products_that_may_be_added_to_something_are_held(case: str) -> None:
    lines, expected = HOLDS[case]
    assert makers_of_held(holding(lines)) == expected


def test_on_amd_gpus_and_for_doubles_more_is_held() -> None:
    lines, expected = HOLDS["an exponential"]
    assert not expected
    assert makers_of_held(holding(lines), nvidia=False) == {"math.exp2", CONVERT}
    text = HELD_MODULE.replace("{BODY}", "\n  ".join(lines)).replace("f32", "f64")
    assert makers_of_held(upstream(text)) == {"math.exp2", CONVERT}


RECIPE = """
#a = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32,
                   ttg.target = "cuda:90"} {
tt.func public @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %f: f32) {
  %ra = tt.make_range {end = 2048 : i32, start = 0 : i32} : tensor<2048xi32, #a>
  %rb = tt.make_range {end = 2048 : i32, start = 0 : i32} : tensor<2048xi32, #b>
  %fa = arith.sitofp %ra : tensor<2048xi32, #a> to tensor<2048xf32, #a>
  %sa = tt.splat %f : f32 -> tensor<2048xf32, #a>
  %m = arith.{MADE} %fa, %sa : tensor<2048xf32, #a>
  %c = ttg.convert_layout %m : tensor<2048xf32, #a> -> tensor<2048xf32, #b>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<2048x!tt.ptr<f32>, #b>
  %at = tt.addptr %ps, %rb : tensor<2048x!tt.ptr<f32>, #b>, tensor<2048xi32, #b>
  %x = tt.load %at : tensor<2048x!tt.ptr<f32>, #b>
  %s = arith.addf %c, %x : tensor<2048xf32, #b>
  tt.store %at, %s : tensor<2048x!tt.ptr<f32>, #b>
  tt.return
}
}
"""


@pytest.mark.parametrize(("made", "exact", "left"), [("mulf", True, 1), ("addf", True, 0), ("mulf", False, 0)])
def test_what_can_be_computed_again_is_converted_where_that_keeps_it_apart(
    made: str, exact: bool, left: int
) -> None:
    root = after(upstream(RECIPE.replace("{MADE}", made)), AssignLayouts(exact=exact))
    assert len(named(root, CONVERT)) == left


def test_a_held_conversion_is_not_ours() -> None:
    lines, _ = HOLDS["a number for all"]
    root = after(holding(lines), SelectLowering(exact=True))
    (conversion,) = named(root, CONVERT)
    assert conversion.attributes[ll.STOCK].value == HELD
    lines, _ = HOLDS["a product and a sum, a conversion between"]
    root = after(holding(lines), SelectLowering())
    (conversion,) = named(root, CONVERT)
    assert ll.PLAN in conversion.attributes


# Copies of which lanes may have different bits

UNLIKE = """
#t = #ttg.blocked<{sizePerThread = [1, 8, 1], threadsPerWarp = [4, 4, 2], warpsPerCTA = [4, 1, 1],
                  order = [1, 2, 0]}>
#r = #ttg.slice<{dim = 2, parent = #t}>
#rows = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#across = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [1, 0]}>
#turned = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32,
                   ttg.target = "cuda:90"} {
tt.func @f(%x: tensor<64x128x2xf32, #t>, %m: !ttg.memdesc<64x128xi8, #turned, #smem, mutable>) {
  %r = "tt.reduce"(%x) <{axis = 2 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    {REGION}
    tt.reduce.return %c : f32
  }) : (tensor<64x128x2xf32, #t>) -> tensor<64x128xf32, #r>
  %w = ttg.convert_layout %r : tensor<64x128xf32, #r> -> tensor<64x128xf32, #across>
  %n = arith.fptosi %w : tensor<64x128xf32, #across> to tensor<64x128xi32, #across>
  %t = "tt.reduce"(%n) <{axis = 1 : i32}> ({
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tt.reduce.return %c : i32
  }) : (tensor<64x128xi32, #across>) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #across}>>
  %v = ttg.convert_layout %r : tensor<64x128xf32, #r> -> tensor<64x128xf32, #rows>
  %k = arith.fptosi %v : tensor<64x128xf32, #rows> to tensor<64x128xi8, #rows>
  ttg.local_store %k, %m : tensor<64x128xi8, #rows> -> !ttg.memdesc<64x128xi8, #turned, #smem, mutable>
  tt.return
}
}
"""
COMMUTES = "%c = arith.addf %a, %b : f32"
DOES_NOT = "%d = arith.subf %b, %a : f32\n    %e = arith.mulf %d, %d : f32\n    %c = arith.addf %a, %e : f32"


BITS_ALONE = (
    ("%n = arith.fptosi", "%n = arith.bitcast"),
    (
        "%k = arith.fptosi %v : tensor<64x128xf32, #rows>",
        "%k0 = arith.bitcast %v : tensor<64x128xf32, #rows> to tensor<64x128xi32, #rows>\n"
        "  %k = arith.trunci %k0 : tensor<64x128xi32, #rows>",
    ),
)
"""Bits are taken for those of integers, which decide nothing; converting floats to integers does."""


@pytest.mark.parametrize(
    ("region", "exact", "decides", "stay"),
    [
        (DOES_NOT, True, False, True),
        (DOES_NOT, False, False, False),
        (DOES_NOT, False, True, True),
        (COMMUTES, True, True, False),
    ],
)
def test_which_copy_is_taken_stays_where_copies_may_differ(
    region: str, exact: bool, decides: bool, stay: bool
) -> None:
    """Conversions, accesses to shared memory and further reductions of what is made of such copies."""
    text = UNLIKE.replace("{REGION}", region)
    for old, new in () if decides else BITS_ALONE:
        text = text.replace(old, new)

    def made(*steps: Any) -> Module:
        return after(upstream(text), *steps)

    root = made(SelectLowering(exact=exact))
    assert [ll.STOCK in each.attributes for each in named(root, CONVERT)] == [stay] * 2
    assert (ll.SPLIT in made(SplitReductions(exact=exact)).operation.attributes) != stay
