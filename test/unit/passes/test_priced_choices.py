"""Choices that measurements decided: each fails where the rule behind it is taken away."""

from __future__ import annotations

import re

import pytest
from assign_support import path_of
from plan_cases import blocked

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.lowering.emit.bodies import emit, signature_of
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import SharedPlan
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.planners.swizzle import Side, optimal_swizzle
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import TARGETS, target, with_policy
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.assignment.costs import AssignmentCosts
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.reductions.split_reductions import SplitReductions

GPU = "cuda:90"
KERNEL = """\
#rows = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#down = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>
#fma = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #fma}>
#b = #ttg.dot_op<{opIdx = 1, parent = #fma}>
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
} {
  tt.func @kernel(
    %from: !tt.ptr<i8> {tt.divisibility = 16 : i32}, %to: !tt.ptr<i8> {tt.divisibility = 16 : i32}
  ) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %turns = arith.constant $TURNS : i32
    %r = tt.make_range {end = 64 : i32, start = 0 : i32}
      : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>>
    %c = tt.make_range {end = 128 : i32, start = 0 : i32}
      : tensor<128xi32, #ttg.slice<{dim = 0, parent = #rows}>>
    %r1 = tt.expand_dims %r {axis = 1 : i32}
      : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<64x1xi32, #rows>
    %c1 = tt.expand_dims %c {axis = 0 : i32}
      : tensor<128xi32, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x128xi32, #rows>
    %r3 = tt.broadcast %r1 : tensor<64x1xi32, #rows> -> tensor<64x128xi32, #rows>
    %c3 = tt.broadcast %c1 : tensor<1x128xi32, #rows> -> tensor<64x128xi32, #rows>
    %pitch = arith.constant dense<4096> : tensor<64x128xi32, #rows>
    %r4 = arith.muli %r3, %pitch : tensor<64x128xi32, #rows>
    %c4 = arith.muli %c3, %pitch : tensor<64x128xi32, #rows>
    %side = arith.addi %r4, %c3 : tensor<64x128xi32, #rows>
    %turned = arith.addi %r3, %c4 : tensor<64x128xi32, #rows>
    %f = tt.splat %from : !tt.ptr<i8> -> tensor<64x128x!tt.ptr<i8>, #rows>
    %t = tt.splat %to : !tt.ptr<i8> -> tensor<64x128x!tt.ptr<i8>, #rows>
    %p = tt.addptr %f, %side : tensor<64x128x!tt.ptr<i8>, #rows>, tensor<64x128xi32, #rows>
    %q = tt.addptr %t, %side : tensor<64x128x!tt.ptr<i8>, #rows>, tensor<64x128xi32, #rows>
    scf.for %i = %zero to %turns step %one : i32 {
      %x = tt.load %p : tensor<64x128x!tt.ptr<i8>, #rows>
      tt.store %q, %x : tensor<64x128x!tt.ptr<i8>, #rows>
    }
$BODY    tt.return
  }
}
"""
"""A loop that is best as it is, which dilutes what there is to save in `$BODY`."""
TURNED = """\
    %m = ttg.local_alloc : () -> !ttg.memdesc<64x128xi8, #down, #ttg.shared_memory, mutable>
    %g = tt.addptr %f, %turned : tensor<64x128x!tt.ptr<i8>, #rows>, tensor<64x128xi32, #rows>
    %y = tt.load %g : tensor<64x128x!tt.ptr<i8>, #rows>
    tt.store %q, %y : tensor<64x128x!tt.ptr<i8>, #rows>
"""
"""Columns become rows. New conversions are looked for because something is in shared memory."""
DOT = """\
    %u = arith.constant dense<1.0> : tensor<16x16xf32, #a>
    %v = arith.constant dense<1.0> : tensor<16x16xf32, #b>
    %w = arith.constant dense<1.0> : tensor<16x16xf32, #fma>
    %d = tt.dot %u, %v, %w : tensor<16x16xf32, #a> * tensor<16x16xf32, #b> -> tensor<16x16xf32, #fma>
"""
STORED = """\
    %y = tt.load %p : tensor<64x128x!tt.ptr<i8>, #rows>
    %m = ttg.local_alloc %y : (tensor<64x128xi8, #rows>) -> !ttg.memdesc<64x128xi8, #down, #ttg.shared_memory>
"""
"""Rows are stored byte by byte to memory whose columns are together."""


def module(body: str, turns: int) -> Module:
    text = KERNEL.replace("$BODY", body).replace("$TURNS", str(turns))
    return bridge.text_to_upstream(text, bridge.upstream_context(), "priced.ttgir")


def assigned(body: str, turns: int) -> Module:
    root = module(body, turns)
    assert run_passes(root, [AssignLayouts(GPU)], verify=True).succeeded
    return root


def saved(root: Module) -> float | None:
    """The part of the modelled clocks that an assignment saved, None where there was none."""
    if ll.ASSIGNED not in root.operation.attributes:
        return None
    before, after = (number.value for number in root.operation.attributes[ll.ASSIGNED])
    return 1 - float(after) / float(before)


def named(root: Module, name: str) -> list[Operation]:
    return [op for op in operations(root.operation) if op.name == name]


def remarks(name: str) -> list[str]:
    root = bridge.text_to_upstream(path_of(name).read_text(), bridge.upstream_context())
    outcome = run_passes(root, [SplitReductions(GPU)])
    assert outcome.succeeded
    return [found.message for found in outcome.diagnostics]


def test_banks_come_in_the_order_of_the_threads_bits() -> None:
    """Warps alone hold different elements; by themselves banks come as the algebra leaves them."""
    warps = (8, 4, 2)
    loads = Side((1,), tuple(reversed(warps)), 5)
    found = optimal_swizzle((), warps, Side((), (), 5), loads, 0, (*warps, 1))
    assert (found.low, found.bank) == ((1,), warps)


def test_instructions_of_a_conversion_are_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matmul stores its result in Triton's layout, to which shared memory leads in few instructions. Another
    one is near by shuffles, in more: fewer clocks if these cost nothing before they run."""

    def layouts() -> bool:
        root = bridge.text_to_upstream(path_of("matmul_mixed").read_text(), bridge.upstream_context())
        assert run_passes(root, [AssignLayouts(GPU)]).succeeded
        return ll.ASSIGNED in root.operation.attributes

    gpu = target(GPU)
    assert not layouts()
    monkeypatch.setitem(TARGETS, gpu.name, with_policy(gpu, fetch_clocks=0.0))
    assert layouts()


def test_every_instruction_of_a_conversion_is_fetched() -> None:
    """Stores, loads and permutes of a plan through shared memory; shuffles and selects of one inside warps."""
    costs = AssignmentCosts(Situation.on(target(GPU)), 4)
    rows = layout_of(blocked([1, 8], [4, 8], [4, 1], [1, 0]), (64, 64))
    for columns, kind in (
        (blocked([8, 1], [8, 4], [1, 4], [0, 1]), "cta-shared"),
        (blocked([1, 4], [4, 8], [4, 1], [1, 0]), "shuffle"),
    ):
        given = layout_of(columns, (64, 64)), rows, element_type("f32")
        found = select(*given, costs.situation)
        cost, accesses = found.cost, 0
        assert found.plan is not None and found.plan.kind == kind
        if isinstance(found.plan, SharedPlan):
            text = emit(found.plan, signature_of(found.plan, given[2]), costs.target)
            accesses = len(re.findall(r"llvm\.(?:load|store) |\b(?:ld|st)\.shared|(?:ld|st)matrix", text))
            assert accesses
        assert costs._fetching(*given) == cost.shuffles + cost.alu + cost.beside + accesses > 0
