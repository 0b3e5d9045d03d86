"""What is chosen for kernels on which it was measured that another choice is slower."""

from __future__ import annotations

import pytest
from assign_support import path_of, upstream
from triton.backends.compiler import GPUTarget

from bench import operands
from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.operations.names import CONVERT
from triton_linear.tools.support.backend import ttgir_of


def assigned(root: Module) -> list[Operation]:
    """The operations of a module after the pass, which live as long as it does."""
    assert run_passes(root, [AssignLayouts("cuda:90")], verify=True).succeeded
    return operations(root.operation)


def types_of(ops: list[Operation], name: str) -> list[str]:
    """The types of the first operands of all operations of a name: for loads and copies, of the pointers."""
    return [str(op.operands[0].type) for op in ops if op.name == name]


def test_a_load_that_is_waited_for_keeps_whole_lines() -> None:
    """With lines in halves, and a cheaper conversion, the fp8 product took 44 instead of 41 microseconds."""
    stock, root = (upstream(path_of("matmul_fp8_b_transposed")) for _ in range(2))
    ops = assigned(root)
    stores = [op for op in ops if op.name == "ttg.local_alloc" and len(op.operands)]
    assert types_of(ops, "tt.load") == types_of(operations(stock.operation), "tt.load")
    assert [op.operands[0].owner.name for op in stores] == [CONVERT]


@pytest.mark.parametrize("name", ["matmul_gelu", "chained_dot"])
def test_epilogues_are_assigned_whatever_the_copies_of_the_loop_take(name: str) -> None:
    stock, root = (upstream(path_of(name)) for _ in range(2))
    ops = assigned(root)
    copy = "ttg.async_copy_global_to_local"
    assert ll.ASSIGNED in root.operation.attributes
    assert types_of(ops, copy) == types_of(operations(stock.operation), copy) != []


def test_an_epilogue_converts_nothing_that_it_did_not() -> None:
    """With the bias loaded once and converted, a product in tiles of 64x64 took 8 % longer than stock's."""
    stock, root = (upstream(path_of("matmul_gelu")) for _ in range(2))
    before = {str(op.results[0].type.shape) for op in operations(stock.operation) if op.name == CONVERT}
    assert {str(op.results[0].type.shape) for op in assigned(root) if op.name == CONVERT} <= before


def test_what_shared_memory_gave_makes_no_second_trip() -> None:
    """The int8 product took 7 % longer than stock's with its operand converted once more in the loop."""
    kernels = {name: kernel for name, _, kernel in operands.cases()}
    kernel = kernels["int8 x bf16, across, along, 64x128"]
    text = str(ttgir_of(kernel.source(), GPUTarget("cuda", 90, 32), dict(kernel.options)))
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "operands")
    loads = [op for op in assigned(root) if op.name == "ttg.local_load"]
    assert loads
    assert not [use for op in loads for use in op.results[0].uses if use.owner.name == CONVERT]
