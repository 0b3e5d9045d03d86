"""The table of operations: what counts for one without a row, and which of kernels have none."""

from __future__ import annotations

import pytest
from assign_support import MODULES
from assign_support import upstream as module_in
from module_equivalence import upstream

from triton_linear.dialect.mlir_adapter import operations
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.analysis.influence import compared_values
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.operations.names import LOAD, STORE
from triton_linear.passes.operations.record import UNKNOWN
from triton_linear.passes.operations.table import named

LISTED = frozenset({"amdg.in_thread_transpose", "gpu.barrier", "tt.assert", "ttng.fence_async_shared"})
"""Operations of the modules here for which what is unknown is right."""


def test_what_is_unknown_lets_the_least_happen() -> None:
    known = named("tt.unheard_of")
    assert known is UNKNOWN
    assert known.roles is None
    assert known.deciding is None
    assert known.writes
    assert known.rounds
    assert known.decides_by_floats
    assert known.fills and named("ttg.unheard_of").fills
    assert (known.multiplies, known.adds) == ("may", "may")
    assert not any(
        (known.elementwise, known.view, known.copies, known.loads_pass, known.commutes, known.leads_on)
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_operation_of_a_kernel_has_a_row(path: object) -> None:
    module = module_in(path)
    names = {op.name for op in operations(module.operation)}
    assert {name for name in names if named(name) is UNKNOWN} <= LISTED


@pytest.mark.parametrize(
    ("name", "deciding"),
    [("tt.load", (0, 1)), ("tt.store", (0, 2)), ("scf.for", (0, 1, 2)), ("tt.gather", (1,)), ("tt.dot", ())],
)
def test_operands_that_decide(name: str, deciding: tuple[int, ...]) -> None:
    assert named(name).deciding == deciding


KERNEL = """
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
tt.func @f(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>, %at: i64) {
  %one = arith.constant dense<1.0> : tensor<128xf32, #a>
  %far = tt.int_to_ptr %at : i64 -> !tt.ptr<f32>
  %p = tt.splat %in : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #a>
  %q = tt.splat %out : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #a>
  %r = tt.splat %far : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #a>
  %x = tt.load %p : tensor<128x!tt.ptr<f32>, #a>
  %y = arith.mulf %x, %one : tensor<128xf32, #a>
  tt.store %q, %y : tensor<128x!tt.ptr<f32>, #a>
  %z = tt.load FROM : tensor<128x!tt.ptr<f32>, #a>
  %c = arith.cmpf ogt, %z, %one : tensor<128xf32, #a>
  %n = arith.extui %c : tensor<128xi1, #a> to tensor<128xi32, #a>
  tt.store %q, %z : tensor<128x!tt.ptr<f32>, #a>
  tt.return
}
}
"""


@pytest.mark.parametrize(
    ("pointer", "first", "follows"),
    [("%q", False, True), ("%r", False, True), ("%p", False, True), ("%q", True, True), ("%p", True, False)],
)
def test_what_is_stored_may_be_loaded_from_anywhere(pointer: str, first: bool, follows: bool) -> None:
    """%in may be the buffer that %out is; what is loaded `first`, only another program may have stored."""
    text = KERNEL.replace("FROM", pointer)
    if first:
        stored, loaded = (
            next(line for line in text.splitlines(True) if each in line) for each in ("%q, %y", "%z = ")
        )
        text = text.replace(stored, "").replace(loaded, loaded + stored)
    module = upstream(text)
    ops = operations(module.operation)
    (product,) = (op.results[0] for op in ops if op.name == "arith.mulf")
    assert (product in compared_values(ops, chosen=False)) == follows


def test_stores_to_tensor_memory_fill_it() -> None:
    assert named("ttng.tmem_store").fills


def test_a_change_besides_where_loads_are_is_seen() -> None:
    module = upstream(KERNEL.replace("FROM", "%p"))
    ops = operations(module.operation)
    loads, stores = ([op for op in ops if op.name == name] for name in (LOAD, STORE))
    with Numbering(loads_move=True, distinct=True).same(module.operation, "earlier loads"):
        loads[1].move_before(stores[0])
    with (
        pytest.raises(NotEquivalent, match="with earlier loads"),
        Numbering(loads_move=True, distinct=True).same(module.operation, "earlier loads"),
    ):
        stores[1].move_before(stores[0])
    with (
        pytest.raises(NotEquivalent, match="with other layouts"),
        Numbering().same(module.operation, "other layouts"),
    ):
        loads[1].move_before(loads[0])


def test_a_load_that_moves_across_a_write_to_what_it_reads_is_seen() -> None:
    module = upstream(KERNEL.replace("FROM", "%q"))
    ops = operations(module.operation)
    loads, stores = ([op for op in ops if op.name == name] for name in (LOAD, STORE))
    with (
        pytest.raises(NotEquivalent, match="with earlier loads"),
        Numbering(loads_move=True).same(module.operation, "earlier loads"),
    ):
        loads[1].move_before(stores[0])
