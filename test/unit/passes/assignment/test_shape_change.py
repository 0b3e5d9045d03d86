"""Layouts that go through changes of shape: Triton takes every module that is made of them."""

from __future__ import annotations

import itertools

import pytest

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.dialect.triton_versions import SUMS_OF_BITS, installed_release
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.candidates import Candidate, Candidates, has_sums, sliced
from triton_linear.passes.assignment.graph import Group
from triton_linear.passes.assignment.rewrite import Rewriter

# One layout, written in two ways.
LINEAR = (
    "#ttg.linear<{register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], "
    "warp = [[8, 0], [16, 0]], block = []}>"
)
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
)
JOINED = (
    "#ttg.blocked<{sizePerThread = [1, 4, 2], threadsPerWarp = [8, 4, 1], warpsPerCTA = [4, 1, 1], "
    "order = [2, 1, 0]}>"
)
JOIN = """\
#l = $LAYOUT
#j = $JOINED
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
} {
  tt.func public @join(%from: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %to: !tt.ptr<i32>) {
    %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #l}>>
    %r1 = tt.expand_dims %r {axis = 1 : i32}
      : tensor<32xi32, #ttg.slice<{dim = 1, parent = #l}>> -> tensor<32x1xi32, #l>
    %o = tt.broadcast %r1 : tensor<32x1xi32, #l> -> tensor<32x16xi32, #l>
    %b = tt.splat %from : !tt.ptr<i32> -> tensor<32x16x!tt.ptr<i32>, #l>
    %p = tt.addptr %b, %o : tensor<32x16x!tt.ptr<i32>, #l>, tensor<32x16xi32, #l>
    %x = tt.load %p : tensor<32x16x!tt.ptr<i32>, #l>
    %y = tt.load %p : tensor<32x16x!tt.ptr<i32>, #l>
    %j = tt.join %x, $SECOND : tensor<32x16xi32, #l> -> tensor<32x16x2xi32, #j>
    %at = tt.splat %to : !tt.ptr<i32> -> tensor<32x16x2x!tt.ptr<i32>, #j>
    tt.store %at, %j : tensor<32x16x2x!tt.ptr<i32>, #j>
    tt.return
  }
}
"""


def parsed(text: str) -> Module:
    return bridge.text_to_upstream(text, bridge.upstream_context(), "shapes.ttgir")


def choices(root: Module) -> list[list[Candidate]]:
    found = Candidates(
        build(operations(root.operation), target("cuda:90")), 2, Situation.on(target("cuda:90"))
    ).find()
    return list(found.values())


def assigned(text: str, chosen: tuple[int, ...]) -> Module:
    """The module with the candidates of these numbers. Triton verifies it."""
    root = parsed(text)
    numbering = Numbering()
    before = numbering.of(root.operation)
    ops = operations(root.operation)
    graph = build(ops, target("cuda:90"))
    found = Candidates(graph, 2, Situation.on(target("cuda:90"))).find()
    names: dict[Group, str] = {
        group: given[number].encoding for (group, given), number in zip(found.items(), chosen, strict=True)
    }
    Rewriter(graph, ops, names).run()
    assert numbering.of(root.operation) == before
    bridge.to_triton(root, bridge.triton_context())
    return root


@pytest.mark.parametrize("layout", [LINEAR, BLOCKED], ids=["linear", "blocked"])
@pytest.mark.parametrize("second", ["%x", "%y"])
def test_operands_of_a_join_are_of_one_type(layout: str, second: str) -> None:
    """However their layouts are written, and whichever of them are converted."""
    text = JOIN.replace("$LAYOUT", layout).replace("$JOINED", JOINED).replace("$SECOND", second)
    numbers = [range(min(3, len(group))) for group in choices(parsed(text))]
    assert sum(len(some) > 1 for some in numbers) >= 2
    for chosen in itertools.product(*numbers):
        assigned(text, chosen)


# Registers 1 and 2 hold what register 0 does.
HALF = (
    "#ttg.linear<{register = [[0], [0], [32], [64]], lane = [[1], [2], [4], [8], [16]], "
    "warp = [[0], [0]], block = []}>"
)
WHOLE = (
    "#ttg.linear<{register = [[0, 1], [0, 0], [0, 0], [32, 0], [64, 0]], "
    "lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 0], [0, 0]], block = []}>"
)
SPLIT = """\
#h = $HALF
#w = $WHOLE
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
} {
  tt.func public @split(%from: !ttg.memdesc<128x2xi32, #m, #ttg.shared_memory, mutable>) {
    %x = ttg.local_load %from
      : !ttg.memdesc<128x2xi32, #m, #ttg.shared_memory, mutable> -> tensor<128x2xi32, #w>
    %a, %b = tt.split %x : tensor<128x2xi32, #w> -> tensor<128xi32, #h>
    %m = ttg.local_alloc %a : (tensor<128xi32, #h>) -> !ttg.memdesc<128xi32, #v, #ttg.shared_memory>
    %n = ttg.local_alloc %b : (tensor<128xi32, #h>) -> !ttg.memdesc<128xi32, #v, #ttg.shared_memory>
    tt.return
  }
}
"""
SHARED = """\
#m = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#v = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
"""


def test_registers_that_hold_copies_go_through_changes_of_shape() -> None:
    text = SHARED + SPLIT.replace("$HALF", HALF).replace("$WHOLE", WHOLE)
    root = parsed(text)
    graph = build(operations(root.operation), target("cuda:90"))
    edges = [edge for edge in graph.edges if edge.changes_shape]
    assert edges
    for edge in edges:
        sliced(edge.target.encoding, edge.wanted)
    assigned(text, (0,) * len(graph.groups))


SUMS = (
    "#ttg.linear<{register = [[0, 1], [0, 3]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], "
    "warp = [[8, 0], [16, 0]], block = []}>"
)
CONVERTED = f"""\
#l = {BLOCKED}
#s = {SUMS}
module attributes {{
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
}} {{
  tt.func public @converted(%from: tensor<32x16x!tt.ptr<i32>, #l>, %to: tensor<32x16x!tt.ptr<i32>, #s>) {{
    %x = tt.load %from : tensor<32x16x!tt.ptr<i32>, #l>
    %z = arith.addi %x, %x : tensor<32x16xi32, #l>
    %y = ttg.convert_layout %z : tensor<32x16xi32, #l> -> tensor<32x16xi32, #s>
    tt.store %to, %y : tensor<32x16x!tt.ptr<i32>, #s>
    tt.return
  }}
}}
"""


@pytest.mark.skipif(installed_release() not in SUMS_OF_BITS, reason="no encoding has such a layout")
def test_sums_of_bits_are_given_to_nobody_that_had_none() -> None:
    """Triton 3.6 and 3.7 have such encodings, and end the process at some operations that get them."""
    given = choices(parsed(CONVERTED))
    assert any(has_sums(each[0].layout) for each in given)
    for each in given:
        assert has_sums(each[0].layout) or not any(has_sums(one.layout) for one in each)
