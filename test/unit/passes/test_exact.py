"""With `exact`, results have the bits that stock Triton's have: no float is added in another order, or rounded
elsewhere. Without it they differ, so that each of these tests can fail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assign_support import MODULES, path_of
from module_equivalence import upstream
from order_machine import stored
from reductions_support import BODIES, REGIONS, RETURNED, ROWS, Array, inputs, module, named, parsed, patterns

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.conversions.fold import FoldConversions
from triton_linear.passes.conversions.gather import LowerGathers
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.framework.verifiers import CONVERT, DOTS
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline
from triton_linear.passes.reductions.held import HELD, held_values
from triton_linear.passes.reductions.region import REDUCE, SCAN, is_order_free
from triton_linear.passes.reductions.split_reductions import SplitReductions
from triton_linear.passes.staging.local import LowerLocal
from triton_linear.pipeline import prepare
from triton_linear.tools.support import compile as compiler
from triton_linear.tools.support.functions import lower_kernel, registers_of, sink

EXACT, DEFAULT = PipelineOptions(exact=True), PipelineOptions()
CALLS = ("linear-outline-conversions", "linear-lower-gathers")
"""Passes that put calls into a module, which the machine does not follow."""


def target_of(root: Module) -> str:
    return str(root.operation.attributes["ttg.target"].value)


def passed(text: str, options: PipelineOptions) -> Module:
    """A module after the pipeline, as far as the machine knows what that makes."""
    root = upstream(text)
    return after(root, *(each for each in pipeline(options, target_of(root)) if each.name not in CALLS))


def after(root: Module, *steps: Any) -> Module:
    outcome = run_passes(root, steps, verify=True)
    assert outcome.succeeded, outcome.diagnostics
    return root


def that_round(root: Module) -> list[tuple[str, list[str]]]:
    """Reductions and scans whose order shows, and dots, as the module has them, with the types of operands."""
    nvidia = target_of(root).startswith("cuda")
    return [
        (op.name, [str(operand.type) for operand in op.operands])
        for op in operations(root.operation)
        if op.name in DOTS or op.name == SCAN or (op.name == REDUCE and not is_order_free(op, nvidia))
    ]


def is_no_op(conversion: Operation) -> bool:
    return bool(ll.plan_from_attribute(conversion.attributes[ll.PLAN]).kind == "noop")


def held_types(root: Module) -> list[str]:
    """The types of held values, in no order."""
    held = held_values(operations(root.operation), target_of(root).startswith("cuda"))
    return sorted(str(value.type) for value in held)


def same_bits(before: Sequence[Any], root: Module) -> bool:
    return all(mine.same(its) for mine, its in zip(before, stored(root), strict=True))


# Laws: every real module


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_a_real_module_keeps_what_decides_about_bits(path: Path) -> None:
    text = path.read_text()
    stock = upstream(text)
    root = passed(text, EXACT)
    assert that_round(root) == that_round(stock)
    assert not any(mark in root.operation.attributes for mark in (ll.PERMUTED, ll.NARROWED))
    assert same_bits(stored(stock), root)
    held = held_values(operations(root.operation), target_of(root).startswith("cuda"))
    conversions = [each for each in named(root, CONVERT) if each.results[0] in held]
    assert all(ll.STOCK in each.attributes or is_no_op(each) for each in conversions)
    assert held_types(after(upstream(text), AssignLayouts(exact=True))) == held_types(stock)
    bridge.to_triton(root, bridge.triton_context())


@pytest.mark.parametrize("name", ["rms_norm_backward", "sgd_momentum", "attention_fp8", "embedding_bag"])
def test_without_it_a_module_would_store_other_bits(name: str) -> None:
    """Sums of rows in another layout, sums of products that were apart, a permuted contraction."""
    text = path_of(name).read_text()
    before = stored(upstream(text))
    assert same_bits(before, passed(text, EXACT))
    assert not same_bits(before, passed(text, PipelineOptions(reductions=False)))


# What stays as good


@pytest.mark.parametrize(
    "name",
    [
        "add_transposed",
        "cumulative_columns",
        "int4_matmul",
        "matmul_f32_b_transposed",
        "matmul_fp8_b_transposed",
    ],
)
def test_where_no_float_shows_it_the_code_is_the_same(name: str) -> None:
    found = []
    for options in (EXACT, DEFAULT):
        root = upstream(path_of(name).read_text())
        prepared = prepare(root, options, target(target_of(root)))
        assert prepared.differs
        found.append((next(prepared.attempts()).text, prepared.rewritten.stubs))
    assert found[0] == found[1]
    assert found[0][1]


def test_much_of_what_layouts_save_is_saved() -> None:
    """The clocks that the assignment saves of the real modules: those of matmuls are saved whole."""
    saved = []
    for exact in (True, False):
        roots = [after(upstream(path.read_text()), AssignLayouts(exact=exact)) for path in MODULES]
        changed = [root.operation.attributes for root in roots if ll.ASSIGNED in root.operation.attributes]
        clocks = [[entry.value for entry in attributes[ll.ASSIGNED]] for attributes in changed]
        saved.append(sum(1 - after / before for before, after in clocks))
    assert 0.6 * saved[1] < saved[0] < saved[1]


# Kernels, by their bits

LANES = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
LINES = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>"
ALONG = "#ttg.slice<{dim = 1, parent = %s}>"
SHAPE = (32, 128)
HEADER = """module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
    "ttg.threads-per-warp" = 32 : i32} {"""


def reducing(operation: str) -> str:
    """A kernel that reduces its arguments in another layout than they come in, and the results go in."""
    elements, returned = REGIONS[operation], RETURNED.get(operation, "%c")
    count, lines, sinks = len(elements), [], []
    results = [f"%r#{i}" for i in range(count)] if count > 1 else ["%r"]
    size = "x".join(map(str, SHAPE))
    for i, element in enumerate(elements):
        given, wanted = (f"tensor<{size}x{element}, {encoding}>" for encoding in (LANES, LINES))
        lines.append(f"%y{i} = ttg.convert_layout %x{i} : {given} -> {wanted}")
        own, other = (f"tensor<{SHAPE[0]}x{element}, {ALONG % encoding}>" for encoding in (LINES, LANES))
        sinks.append(f"%o{i} = ttg.convert_layout {results[i]} : {own} -> {other}")
        sinks.append(sink(f"%o{i}", other, f"result{i}"))
    arguments = ", ".join(f"%x{i}: tensor<{size}x{e}, {LANES}>" for i, e in enumerate(elements))
    block = ", ".join(f"%{side}{i}: {e}" for side in "ab" for i, e in enumerate(elements))
    taken = ", ".join(f"tensor<{size}x{e}, {LINES}>" for e in elements)
    made = ", ".join(f"tensor<{SHAPE[0]}x{e}, {ALONG % LINES}>" for e in elements)
    newline = "\n    "
    return f"""{HEADER}
  tt.func public @kernel({arguments}) {{
    {newline.join(lines)}
    %r{f":{count}" if count > 1 else ""} = "tt.reduce"({", ".join(f"%y{i}" for i in range(count))})
        <{{axis = 1 : i32}}> ({{
    ^bb0({block}):
      {BODIES[operation]}
      tt.reduce.return {returned} : {", ".join(elements)}
    }}) : ({taken}) -> ({made})
    {newline.join(sinks)}
    tt.return
  }}
}}
"""


def of_all_magnitudes(operation: str) -> list[Array]:
    """Floats of which every other order has another sum."""
    random = np.random.default_rng(7)
    if operation not in ("fsum", "welford"):
        return inputs(operation, SHAPE, 1, 7)
    return [
        (random.standard_normal(SHAPE) * 2.0 ** random.integers(-20, 20, SHAPE)).astype(np.float32)
        for _ in REGIONS[operation]
    ]


def bits_of(text: str, options: PipelineOptions | None, arrays: list[Array]) -> list[Array]:
    """What every thread hands to the sinks; without `options`, of the kernel that stock Triton makes.

    Where copies have different bits, stock Triton has several lanes store them to one place: the last counts.
    """
    kernel = lower_kernel(text, "kernel.ttgir", None, options)
    layout = layout_of(LANES, SHAPE)
    outcome = kernel.run([registers_of(patterns(array), layout, kernel) for array in arrays])
    return [outcome.sinks[f"result{number}"][0] for number in range(len(arrays))]


@pytest.mark.parametrize("operation", ["fsum", "welford", "argmax", "sum", "max"])
def test_every_thread_has_the_bits_of_stock_triton(operation: str) -> None:
    text, arrays = reducing(operation), of_all_magnitudes(operation)
    stock = bits_of(text, None, arrays)
    for one, two in zip(bits_of(text, EXACT, arrays), stock, strict=True):
        assert np.array_equal(one, two)
    differ = any(
        not np.array_equal(one, two) for one, two in zip(bits_of(text, DEFAULT, arrays), stock, strict=True)
    )
    assert differ == (operation in ("fsum", "welford"))


def test_what_is_fused_into_one_operation_is_what_stock_triton_fuses() -> None:
    """The kernel adds to a product where it is made, and once more behind a conversion."""
    text = path_of("sgd_momentum").read_text()
    root = compiler.read_module(text, bridge.upstream_context(), "sgd_momentum")
    gpu = compiler.set_target(root, None).name
    stock = compiler.lower(compiler.to_triton(bridge.triton_text(root)), gpu, "ptx").text("ptx")
    counted = [arithmetic(stock)]
    for options in (EXACT, DEFAULT):
        (kernel,) = compiler.compile_text(text, "sgd_momentum", None, "ptx", options).kernels
        counted.append(arithmetic(kernel.lowered.text("ptx")))
    assert counted[0]["mul"] > 0 and counted[0]["fma"] > 0
    assert counted[0] == counted[1] != counted[2]


def arithmetic(ptx: str) -> dict[str, int]:
    return {name: len(re.findall(rf"\b{name}\.[a-z0-9.]*f32\b", ptx)) for name in ("fma", "mul", "add", "sub")}


# Which reductions may combine in any order

REGIONS_OF_ONE = {
    "arith.addi": ("i32", True, True),
    "arith.muli": ("i64", True, True),
    "arith.ori": ("i1", True, True),
    "arith.minui": ("i16", True, True),
    "arith.maxnumf": ("f32", True, False),
    "arith.minimumf": ("bf16", True, False),
    "arith.maximumf": ("f64", False, False),
    "arith.addf": ("f32", False, False),
    "arith.mulf": ("f16", False, False),
    "arith.subi": ("i32", False, False),
}


@pytest.mark.parametrize("name", REGIONS_OF_ONE)
def test_a_reduction_by_one_operation(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    element, nvidia, amd = REGIONS_OF_ONE[name]
    monkeypatch.setitem(REGIONS, "one", (element,))
    monkeypatch.setitem(BODIES, "one", f"%c = {name} %a0, %b0 : {element}")
    monkeypatch.setattr("reductions_support.sink", lambda *_: "")
    root = parsed(module("one", ROWS, (16, 64), 1))
    (op,) = named(root, REDUCE)
    assert (is_order_free(op, True), is_order_free(op, False)) == (nvidia, amd)


@pytest.mark.parametrize(
    ("name", "said"), [("arith.addi", "overflow<nsw>"), ("arith.maxnumf", "fastmath<nnan>")]
)
def test_what_is_promised_of_partial_results_need_not_hold_in_another_order(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    element = "i32" if name.endswith("i") else "f32"
    monkeypatch.setitem(REGIONS, "one", (element,))
    for words in ("", said):
        monkeypatch.setitem(BODIES, "one", f"%c = {name} %a0, %b0 {words} : {element}")
        root = parsed(module("one", ROWS, (16, 64), 1))
        (op,) = named(root, REDUCE)
        assert is_order_free(op, True) == (not words)


@pytest.mark.parametrize("operation", ["argmax", "welford"])
def test_a_reduction_that_chooses_or_rounds(operation: str) -> None:
    root = parsed(module(operation, ROWS, (16, 64), 1))
    (op,) = named(root, REDUCE)
    assert not is_order_free(op, True)


@pytest.mark.parametrize(
    ("operation", "apart"), [("sum", True), ("xor", True), ("fsum", False), ("welford", False)]
)
def test_only_reductions_in_any_order_are_taken_apart(operation: str, apart: bool) -> None:
    text = module(operation, ROWS, (16, 512), 1)
    root = after(parsed(text), SplitReductions("cuda:90", exact=True))
    assert (len(named(root, REDUCE)) > 1) == apart == (ll.SPLIT in root.operation.attributes)
    if operation == "fsum":
        assert len(named(after(parsed(text), SplitReductions("cuda:90")), REDUCE)) > 1


def test_passes_that_change_what_a_dot_adds_first_are_left_out() -> None:
    names = [[each.name for each in pipeline(options, "cuda:90")] for options in (DEFAULT, EXACT)]
    assert set(names[0]) - set(names[1]) == {"linear-narrow-operands", "linear-permute-contraction"}
    assert names[1] == [name for name in names[0] if name in names[1]]


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
        {"arith.mulf"},
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


def test_a_held_conversion_is_neither_folded_nor_ours() -> None:
    lines, _ = HOLDS["a number for all"]
    root = after(holding(lines), FoldConversions(exact=True), SelectLowering(exact=True))
    (conversion,) = named(root, CONVERT)
    assert conversion.attributes[ll.STOCK].value == HELD
    assert not named(after(holding(lines), FoldConversions()), CONVERT)
    lines, _ = HOLDS["a product and a sum, a conversion between"]
    root = after(holding(lines), FoldConversions(), SelectLowering())
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
tt.func @f(%x: tensor<64x128x2xf32, #t>, %m: !ttg.memdesc<64x128xi8, #turned, #smem, mutable>,
           %i: tensor<64x128xi32, #across>) {
  %r = "tt.reduce"(%x) <{axis = 2 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    {REGION}
    tt.reduce.return %c : f32
  }) : (tensor<64x128x2xf32, #t>) -> tensor<64x128xf32, #r>
  %w = ttg.convert_layout %r : tensor<64x128xf32, #r> -> tensor<64x128xf32, #across>
  %g = tt.gather %w[%i] {axis = 1 : i32} : (tensor<64x128xf32, #across>, tensor<64x128xi32, #across>)
      -> tensor<64x128xf32, #across>
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


@pytest.mark.parametrize(
    ("region", "exact", "stay"), [(DOES_NOT, True, True), (DOES_NOT, False, False), (COMMUTES, True, False)]
)
def test_which_copy_is_taken_stays_where_copies_may_differ(region: str, exact: bool, stay: bool) -> None:
    """Conversions, gathers, accesses to shared memory and further reductions of what is made of such copies."""

    def made(*steps: Any) -> Module:
        return after(upstream(UNLIKE.replace("{REGION}", region)), *steps)

    root = made(SelectLowering(exact=exact))
    assert [ll.STOCK in each.attributes for each in named(root, CONVERT)] == [stay, stay]
    assert bool(named(made(LowerGathers(exact=exact)), "tt.gather")) == stay
    root = made(LowerLocal(exact=exact))
    (store,) = named(root, "ttg.local_store")
    assert (ll.STAGED in store.attributes) != stay
    assert (ll.SPLIT in made(SplitReductions(exact=exact)).operation.attributes) != stay
