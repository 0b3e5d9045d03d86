"""With `exact`, results have the bits that stock Triton's have: no float is added in another order, or rounded
elsewhere. Without it they differ, so that each of these tests can fail."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from assign_support import MODULES, path_of
from exact_support import DEFAULT, EXACT, after, held_types, is_no_op, passed, same_bits, target_of, that_round
from module_equivalence import upstream
from order_machine import stored
from reductions_support import BODIES, REGIONS, ROWS, Array, inputs, module, named, parsed, patterns

from bench.whole_kernels import lower_kernel, registers_of, sink
from triton_linear.dialect import bridge, ll
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.attempts import prepare
from triton_linear.passes.operations.names import CONVERT, REDUCE
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.reductions.held import held_values
from triton_linear.passes.reductions.region import is_order_free
from triton_linear.passes.reductions.split_reductions import SplitReductions
from triton_linear.tools.support import compile as compiler

# Laws: every real module


@pytest.mark.parametrize("path", MODULES[1::3], ids=[path.stem for path in MODULES[1::3]])
def test_a_real_module_keeps_what_decides_about_bits(path: Path) -> None:
    text = path.read_text()
    stock = upstream(text)
    root = passed(text, EXACT)
    assert that_round(root) == that_round(stock)
    assert same_bits(stored(stock), root)
    held = held_values(operations(root.operation), target_of(root).startswith("cuda"))
    conversions = [each for each in named(root, CONVERT) if each.results[0] in held]
    assert all(ll.STOCK in each.attributes or is_no_op(each) for each in conversions)
    assert held_types(after(upstream(text), AssignLayouts(exact=True))) == held_types(stock)
    bridge.to_triton(root, bridge.triton_context())


@pytest.mark.parametrize("name", ["rms_norm_backward", "sgd_momentum", "embedding_bag"])
def test_without_it_a_module_would_store_other_bits(name: str) -> None:
    """Sums of rows in another layout, sums of products that were apart."""
    text = path_of(name).read_text()
    before = stored(upstream(text))
    assert same_bits(before, passed(text, EXACT))
    assert not same_bits(before, passed(text, PipelineOptions(reductions=False)))


# What stays as good


@pytest.mark.parametrize(
    "name", ["add_transposed", "int4_matmul", "matmul_f32_b_transposed", "matmul_fp8_b_transposed"]
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
        roots = [after(upstream(path.read_text()), AssignLayouts(exact=exact)) for path in MODULES[1::2]]
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
    return module(operation, LINES, SHAPE, 1, after=ALONG % LANES, before=LANES)


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


PRODUCTS = (
    HEADER
    + """
  tt.func public @kernel(%x: tensor<32x128xf32, LANES>, %y: tensor<32x128xf32, LINES>) {
    %moved = ttg.convert_layout %x : tensor<32x128xf32, LANES> -> tensor<32x128xf32, LINES>
    %product = arith.mulf %moved, %y : tensor<32x128xf32, LINES>
    %other = arith.mulf %y, %y : tensor<32x128xf32, LINES>
    %sum = arith.SUM : tensor<32x128xf32, LINES>
    SINK
    tt.return
  }
}
""".replace("LANES", LANES).replace("LINES", LINES)
)


@pytest.mark.parametrize(
    ("added", "left"),
    [
        ("addf %product, %other", True),
        ("subf %other, %product", True),
        ("addf %product, %y", False),
        ("mulf %product, %other", False),
    ],
)
def test_of_two_products_that_are_added_no_factor_is_moved_in_another_way(added: str, left: bool) -> None:
    """LLVM fuses the one whose factors come first, and a conversion of ours loads them in its own order."""
    text = PRODUCTS.replace("SUM", added).replace("SINK", sink("%sum", f"tensor<32x128xf32, {LINES}>", "sum"))
    (conversion,) = named(passed(text, EXACT), CONVERT) or [None]
    assert (conversion is not None and ll.STOCK in conversion.attributes) == left


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
    # What is promised of partial results need not hold in another order.
    "arith.addi overflow<nsw>": ("i32", False, False),
    "arith.maxnumf fastmath<nnan>": ("f32", False, False),
}


@pytest.mark.parametrize("name", REGIONS_OF_ONE)
def test_a_reduction_by_one_operation(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    element, nvidia, amd = REGIONS_OF_ONE[name]
    monkeypatch.setitem(REGIONS, "one", (element,))
    operation, _, promised = name.partition(" ")
    monkeypatch.setitem(BODIES, "one", f"%c = {operation} %a0, %b0 {promised} : {element}")
    monkeypatch.setattr("reductions_support.sink", lambda *_: "")
    root = parsed(module("one", ROWS, (16, 64), 1))
    (op,) = named(root, REDUCE)
    assert (is_order_free(op, True), is_order_free(op, False)) == (nvidia, amd)


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
