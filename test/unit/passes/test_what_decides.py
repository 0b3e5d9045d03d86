"""What decides has the bits of stock Triton, also without `exact`: a sum that is compared, becomes an integer
or is exchanged adds in Triton's order. Each kernel here gives other bits if nothing decides."""

from __future__ import annotations

import numpy as np
import pytest
from exact_support import DEFAULT, after
from reductions_support import Array, named, parsed, patterns

from bench.whole_kernels import lower_kernel, registers_of, sink
from triton_linear.dialect import ll
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.interpreter.verify import held_elements
from triton_linear.passes.operations.names import REDUCE
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.reductions.defer import DeferReductions
from triton_linear.passes.reductions.held import KeptBits
from triton_linear.passes.reductions.split_reductions import SplitReductions

GIVEN = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
TAKEN = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>"
SHAPE = (32, 128)
X, Y = (f"tensor<32x128xf32, {encoding}>" for encoding in (GIVEN, TAKEN))
ROWS, SUMS = (f"tensor<32xf32, #ttg.slice<{{dim = 1, parent = {encoding}}}>>" for encoding in (GIVEN, TAKEN))
POINTERS = SUMS.replace("f32", "!tt.ptr<f32>")
WORDS, FLAGS = (SUMS.replace("xf32", f"x{element}") for element in ("i32", "i1"))
ADD = """({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    })"""
CHAIN = f"""%y = ttg.convert_layout %x : {X} -> {Y}
    %r = "tt.reduce"(%y) <{{axis = 1 : i32}}> {ADD} : ({Y}) -> {SUMS}"""
COMPARED = f"%m = arith.cmpf ogt, %r, %half : {SUMS}"


def kernel(body: str, arguments: str = "") -> str:
    """A kernel that sums rows of %x to %r, in another layout than they come in."""
    return f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
    "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel(%x: {X}{arguments}) {{
    %half = arith.constant dense<0.5> : {SUMS}
    %two = arith.constant dense<2.0> : {SUMS}
    {CHAIN}
    {body}
    tt.return
  }}
}}
"""


def back(value: str, name: str = "out") -> str:
    """Hand a row of sums to a sink in the layout of the argument, as a store would."""
    return f"%o_{name} = ttg.convert_layout {value} : {SUMS} -> {ROWS}\n    {sink(f'%o_{name}', ROWS, name)}"


def values(seed: int = 7) -> Array:
    """Floats of which every other order has another sum, some of them around a half."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(SHAPE) * 2.0 ** random.integers(-20, 20, SHAPE)).astype(np.float32)


def run(text: str, options: PipelineOptions | None, *arrays: Array) -> dict[str, Array]:
    """What every thread hands to each sink; without `options`, of the kernel that stock Triton makes."""
    lowered = lower_kernel(text, "kernel.ttgir", None, options)
    layouts = layout_of(GIVEN, SHAPE), layout_of(f"#ttg.slice<{{dim = 1, parent = {GIVEN}}}>", SHAPE[:1])
    given = [
        registers_of(patterns(array[None]), layout, lowered)
        for array, layout in zip(arrays, layouts, strict=False)
    ]
    return {name: sunk[0] for name, sunk in lowered.run(given).sinks.items()}


def sums_of(sunk: Array) -> Array:
    """The sums that the threads have handed to a sink, by row."""
    elements = held_elements(layout_of(f"#ttg.slice<{{dim = 1, parent = {GIVEN}}}>", SHAPE[:1]), 32, 4, 0)
    found = np.zeros(SHAPE[0], np.uint32)
    found[elements] = sunk[:, 0].astype(np.uint32)
    return found.view(np.float32)


SELECTED = f"%v = arith.select %m, %r, %two : {FLAGS}, {SUMS}"
DECISIONS = {
    "a comparison": f"{COMPARED}\n    {SELECTED}\n    {back('%v')}",
    "its bits as an integer": f"""%n = tt.bitcast %r : {SUMS} -> {WORDS}
    %zero = arith.constant dense<0> : {WORDS}
    %m = arith.cmpi sgt, %n, %zero : {WORDS}
    {SELECTED}
    {back("%v")}""",
    "after other arithmetic": f"""%e = math.absf %r : {SUMS}
    %q = arith.divf %e, %two : {SUMS}
    %m = arith.cmpf olt, %q, %half : {SUMS}
    {SELECTED}
    {back("%v")}""",
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_what_decides_has_the_bits_of_stock_triton(decision: str) -> None:
    text, array = kernel(DECISIONS[decision]), values()
    stock, ours = run(text, None, array), run(text, DEFAULT, array)
    assert all(np.array_equal(ours[name], stock[name]) for name in stock)


def test_what_decides_nothing_may_have_other_bits() -> None:
    """Else the tests above could not fail. A maximum that is written as a comparison decides nothing."""
    for extreme in (False, True):
        body = f"%m = arith.cmpf ogt, %r, %half : {SUMS}\n    %v = arith.select %m, %r, %half : {FLAGS}, {SUMS}"
        text, array = kernel(f"{body}\n    {back('%v')}" if extreme else back("%r")), values()
        stock, ours = run(text, None, array), run(text, DEFAULT, array)
        assert not np.array_equal(ours["out"], stock["out"])


def test_two_kernels_that_repeat_a_chain_agree_about_it() -> None:
    """The first compares its sums and stores them; the second, whose layouts are others, computes them again
    and asks which of them are equal, as sampling kernels do."""
    array = values()
    first = run(
        kernel(f"{COMPARED}\n    {SELECTED}\n    {back('%v')}\n    {back('%r', 'sums')}"), DEFAULT, array
    )
    stock = run(kernel(back("%r")), None, array)
    assert np.array_equal(first["sums"], stock["out"])
    sums = sums_of(first["sums"])
    equal = f"""%g = ttg.convert_layout %given : {ROWS} -> {SUMS}
    %m = arith.cmpf oeq, %r, %g : {SUMS}
    %w = arith.extui %m : {FLAGS} to {WORDS}
    {sink("%w", WORDS, "equal")}"""
    second = kernel(equal, f", %given: {ROWS}")
    assert run(second, DEFAULT, array, sums)["equal"].all()
    assert not run(second, DEFAULT, array, np.nextafter(sums, np.float32(np.inf)))["equal"].any()


def kept(text: str) -> KeptBits:
    return KeptBits.among(operations(parsed(text).operation), exact=False)


USED = f"%used = arith.select %m, %half, %two : {FLAGS}, {SUMS}"
LOOP = f"""%zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %t = scf.for %i = %zero to %one step %one iter_args(%p = %two) -> ({SUMS}) : i32 {{
      %s = "tt.reduce"(%y) <{{axis = 1 : i32}}> {ADD} : ({Y}) -> {SUMS}
      %q = arith.addf %p, %s : {SUMS}
      scf.yield %q : {SUMS}
    }}"""
BRANCH = f"""%all = "tt.reduce"(%r) <{{axis = 0 : i32}}> {ADD} : ({SUMS}) -> f32
    %zero = arith.constant 0.0 : f32
    %on = arith.cmpf ogt, %all, %zero : f32
    scf.if %on {{
      %p = tt.splat %at : !tt.ptr<f32> -> {POINTERS}
      tt.store %p, %half : {POINTERS}
    }}"""
WAYS = {
    "out of a loop": (f"{LOOP}\n    %m = arith.cmpf ogt, %t, %half : {SUMS}", 1),
    "into a branch": (BRANCH, 2),
    "out of a branch": (
        f"""%on = arith.constant true
    %b = scf.if %on -> ({SUMS}) {{
      scf.yield %r : {SUMS}
    }} else {{
      scf.yield %half : {SUMS}
    }}
    %m = arith.cmpf ogt, %b, %half : {SUMS}""",
        1,
    ),
    "through shared memory": (
        f"""%l = ttg.local_alloc %r : ({SUMS}) -> !ttg.memdesc<32xf32, #s, #ttg.shared_memory>
    %w = ttg.local_load %l : !ttg.memdesc<32xf32, #s, #ttg.shared_memory> -> {SUMS}
    %m = arith.cmpf ogt, %w, %half : {SUMS}""",
        1,
    ),
    "through shared memory, by an operation without a row": (
        f"""%l = ttg.local_alloc : () -> !ttg.memdesc<32xf32, #s, #ttg.shared_memory, mutable>
    %i = arith.constant dense<0> : {WORDS}
    ttg.local_scatter %l[%i], %r {{axis = 0 : i32}} :
      !ttg.memdesc<32xf32, #s, #ttg.shared_memory, mutable>, {WORDS}, {SUMS}
    %w = ttg.local_load %l : !ttg.memdesc<32xf32, #s, #ttg.shared_memory, mutable> -> {SUMS}
    %m = arith.cmpf ogt, %w, %half : {SUMS}""",
        1,
    ),
    "through global memory": (
        f"""%p = tt.splat %at : !tt.ptr<f32> -> {POINTERS}
    tt.store %p, %r : {POINTERS}
    %w = tt.load %p : {POINTERS}
    %m = arith.cmpf ogt, %w, %half : {SUMS}""",
        1,
    ),
    "to another argument": (
        f"""%p = tt.splat %at : !tt.ptr<f32> -> {POINTERS}
    tt.store %p, %r : {POINTERS}
    %o = tt.splat %other : !tt.ptr<f32> -> {POINTERS}
    %w = tt.load %o : {POINTERS}
    %m = arith.cmpf ogt, %w, %half : {SUMS}""",
        1,
    ),
    "to an integer": (f"%n = arith.fptosi %r : {SUMS} to {WORDS}", 1),
    "into a call": (f"tt.call @other(%r) : ({SUMS}) -> ()", 1),
    "into an atomic exchange": (
        f"""%p = tt.splat %at : !tt.ptr<f32> -> {POINTERS}
    %w = tt.atomic_rmw exch, acq_rel, gpu, %p, %r : ({POINTERS}, {SUMS}) -> {SUMS}""",
        1,
    ),
    "into an atomic sum": (
        f"""%p = tt.splat %at : !tt.ptr<f32> -> {POINTERS}
    %w = tt.atomic_rmw fadd, acq_rel, gpu, %p, %r : ({POINTERS}, {SUMS}) -> {SUMS}""",
        0,
    ),
    "bits as an integer that is compared": (
        f"""%n = tt.bitcast %r : {SUMS} -> {WORDS}
    %m = arith.cmpi sgt, %n, %n : {WORDS}""",
        1,
    ),
    "bits as an integer that is not": (f"%n = tt.bitcast %r : {SUMS} -> {WORDS}", 0),
    "nowhere": ("", 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_followed_to_what_decides(way: str) -> None:
    body, count = WAYS[way]
    if "%m =" in body:
        body += f"\n    {USED}"
    text = kernel(body, ", %at: !tt.ptr<f32>, %other: !tt.ptr<f32>").replace("tt.func", f"{OTHER}tt.func", 1)
    root = parsed(f"#s = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>\n{text}")
    kept = KeptBits.among(operations(root.operation), exact=False)
    assert sum(map(kept.shows_order, named(root, REDUCE))) == count


OTHER = f"tt.func private @other(%x: {SUMS}) {{\n    tt.return\n  }}\n  "


def test_the_index_of_a_largest_element_counts_where_it_decides() -> None:
    """Which of equal elements is chosen depends on the order."""
    chosen = """%n = arith.constant dense<1> : tensor<32x128xi32, ENCODING>
    %v, %i = "tt.reduce"(%y, %n) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %k: i32, %b: f32, %l: i32):
      %g = arith.cmpf ogt, %a, %b : f32
      %c = arith.select %g, %a, %b : f32
      %d = arith.select %g, %k, %l : i32
      tt.reduce.return %c, %d : f32, i32
    }) : (Y, tensor<32x128xi32, ENCODING>) -> (SUMS, WORDS)""".replace("ENCODING", TAKEN)
    chosen = chosen.replace("(Y,", f"({Y},").replace("SUMS", SUMS).replace("WORDS", WORDS)
    for end, count in (("", 0), (f"%m = arith.cmpi eq, %i, %i : {WORDS}\n    {USED}", 1)):
        root = parsed(kernel(f"{chosen}\n    {end}"))
        kept = KeptBits.among(operations(root.operation), exact=False)
        assert sum(map(kept.shows_order, named(root, REDUCE))) == count


# What the passes make of it


def test_a_sum_that_decides_is_neither_taken_apart_nor_moved_behind_its_loop() -> None:
    across = CHAIN.replace("[1, 32], warpsPerCTA = [4, 1]", "[1, 32], warpsPerCTA = [1, 4]")
    text = kernel("BODY").replace(CHAIN, across).replace(TAKEN, TAKEN.replace("[4, 1]", "[1, 4]"))
    loop = LOOP.replace(TAKEN, TAKEN.replace("[4, 1]", "[1, 4]"))
    decision = f"{COMPARED}\n    {USED}".replace(TAKEN, TAKEN.replace("[4, 1]", "[1, 4]"))
    for step, mark, body, end in (
        (SplitReductions("cuda:90"), ll.SPLIT, "", decision),
        (DeferReductions(), ll.DEFERRED, loop, decision.replace("%r", "%t")),
    ):
        for decides in (False, True):
            root = after(parsed(text.replace("BODY", f"{body}\n    {end if decides else ''}")), step)
            assert (mark in root.operation.attributes) != decides
