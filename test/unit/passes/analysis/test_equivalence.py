"""Modules that compute something else are told from those whose layouts differ, as the pass makes them."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from assign_support import MODULES, upstream

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    Block,
    DenseElementsAttr,
    IntegerAttr,
    Module,
    Operation,
    Type,
    Value,
    operations,
)
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.candidates import Candidates
from triton_linear.passes.assignment.rewrite import Rewriter
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.operations.names import CONVERT

CONTEXT = bridge.upstream_context()
IDS = [path.stem for path in MODULES]
MOST = 3
"""Places of a module at which each mutation is tried."""


def named(root: Module, *names: str) -> list[Operation]:
    return [op for op in operations(root.operation) if op.name in names]


def swap(op: Operation, first: int, second: int) -> None:
    a, b = op.operands[first], op.operands[second]
    op.operands[first], op.operands[second] = b, a


def following(op: Operation) -> Operation:
    inside = [view.operation for view in op.block.operations]
    return inside[inside.index(op) + 1]


def reaches(value: Value, user: Operation) -> bool:
    """Whether a value is there where an operation runs."""
    made = value.owner
    block = made if isinstance(made, Block) else made.operation.block
    while user.block != block:
        if user.block.owner.operation.name == "tt.func":
            return False
        user = user.block.owner.operation
    return made == block or made.operation.is_before_in_block(user)


# Each of these is a generator: it changes the module, waits, and changes it back.
Mutation = Callable[[Module], Iterator[str]]


def swapped(*names: str) -> Mutation:
    """Neighbouring operands change places."""

    def mutation(root: Module) -> Iterator[str]:
        for op in named(root, *names):
            for index in range(1, len(op.operands)):
                a, b = op.operands[index - 1], op.operands[index]
                if a != b and a.type == b.type:
                    swap(op, index - 1, index)
                    yield str(op)
                    swap(op, index - 1, index)

    return mutation


def counted(change: Callable[[int], int], **names: str) -> Mutation:
    """A number that an operation has as an attribute is another; `names`: of the attributes."""

    def mutation(root: Module) -> Iterator[str]:
        for op in named(root, *names):
            name = names[op.name]
            if name in op.attributes:
                before = op.attributes[name]
                op.attributes[name] = IntegerAttr.get(before.type, change(before.value))
                yield str(op)
                op.attributes[name] = before

    return mutation


def new_attributes(root: Module) -> Iterator[str]:
    for op in named(root, "tt.store", "arith.addf", "scf.for", "tt.reduce"):
        op.attributes["more"] = Attribute.parse("unit", root.context)
        yield str(op)
        del op.attributes["more"]


def other_constants(root: Module) -> Iterator[str]:
    for op in named(root, "arith.constant"):
        before = op.attributes["value"]
        if isinstance(before, DenseElementsAttr):
            splat = str(before.get_splat_value()).partition(" : ")
            is_flag = splat[0] in ("true", "false")
            other = {"true": "false", "false": "true", "1": "2"}.get(
                splat[0], "1.5" if "f" in splat[2] else "1"
            )
            text = other if is_flag else f"{other} : {splat[2]}"
            number = Attribute.parse(text, root.context)
            op.attributes["value"] = DenseElementsAttr.get_splat(before.type, number)
        elif isinstance(before, IntegerAttr) and str(before.type) != "i1":
            op.attributes["value"] = IntegerAttr.get(before.type, before.value + 1)
        else:
            continue
        yield str(op)
        op.attributes["value"] = before


def reordered_stores(root: Module) -> Iterator[str]:
    """A store goes before what has an effect in front of it."""
    stores = named(root, "tt.store")
    for first, second in itertools.pairwise(stores):
        if first.block == second.block:
            place = following(first)
            first.move_after(second)
            yield str(first)
            first.move_before(place)


def swapped_places(root: Module) -> Iterator[str]:
    """A load or store is of the place of the one before."""
    accesses = named(root, "tt.load", "tt.store")
    for first, second in itertools.pairwise(accesses):
        a, b = first.operands[0], second.operands[0]
        if a != b and a.type == b.type and reaches(a, second):
            second.operands[0] = a
            yield str(second)
            second.operands[0] = b


def other_arguments(root: Module) -> Iterator[str]:
    """A use of what one loop carries takes another thing that it carries, or that another loop does."""
    carried = [argument for loop in named(root, "scf.for") for argument in loop.regions[0].blocks[0].arguments]
    for argument in carried:
        for other in carried:
            if argument != other and argument.type == other.type:
                for use in list(argument.uses)[:1]:
                    user, index = use.owner.operation, use.operand_number
                    if reaches(other, user):
                        user.operands[index] = other
                        yield f"{argument} in {user}"
                        user.operands[index] = argument


def other_operands(root: Module) -> Iterator[str]:
    """An operand is replaced by another value of its type that is made earlier in the block."""
    for op in operations(root.operation):
        for index, operand in enumerate(op.operands if op.name != CONVERT else ()):
            if not isinstance(operand.owner, Block):
                made = operand.owner.operation
                before = [other for other in made.operands if other.type == operand.type]
                if before and made.name != CONVERT:
                    op.operands[index] = before[0]
                    yield str(op)
                    op.operands[index] = operand


def other_reductions(root: Module) -> Iterator[str]:
    """A reduction that returns what it was given first."""
    for op in named(root, "tt.reduce"):
        block = op.regions[0].blocks[0]
        end = block.operations[len(block.operations) - 1].operation
        before = end.operands[0]
        end.operands[0] = block.arguments[0]
        yield str(op)
        end.operands[0] = before


def other_types(root: Module) -> Iterator[str]:
    """A narrowing cast narrows to another type of the same width."""
    for op in named(root, "arith.truncf"):
        before = op.results[0].type
        op.results[0].set_type(Type.parse(str(before).replace("xf16", "xbf16"), root.context))
        if op.results[0].type != before:
            yield str(op)
        op.results[0].set_type(before)


def moved_out_of_loops(root: Module) -> Iterator[str]:
    for op in named(root, "scf.for"):
        for store in named(root, "tt.store"):
            if store.parent.operation == op:
                place = following(store)
                store.move_after(op)
                yield str(store)
                store.move_before(place)


READS = {"arith.cmpi": "predicate", "tt.make_range": "start", "tt.get_program_id": "axis", "tt.load": "cache"}
ALONG = {"tt.reduce": "axis", "tt.expand_dims": "axis"}
MUTATIONS: dict[str, Mutation] = {
    "swapped operands": swapped(
        *("arith.subi", "arith.subf", "arith.divf", "arith.divsi", "arith.remsi", "arith.cmpi")
    ),
    "swapped yields": swapped("scf.yield"),
    "other bounds": swapped("scf.for"),
    "other attributes": counted(lambda number: (number + 1) % 3, **READS),
    "other axes": counted(lambda axis: 1 - axis, **ALONG),
    "new attributes": new_attributes,
    "other constants": other_constants,
    "reordered stores": reordered_stores,
    "swapped places": swapped_places,
    "other arguments": other_arguments,
    "other operands": other_operands,
    "other reductions": other_reductions,
    "other types": other_types,
    "moved out of loops": moved_out_of_loops,
}


def noticed(numbering: Numbering, before: object, root: Module) -> bool:
    """Whether a module computes something else, or uses a value where it is not."""
    try:
        return numbering.of(root.operation) != before
    except NotEquivalent:
        return True


unchanged = functools.cache(upstream)
"""Modules that whoever changes them leaves as they were."""


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_what_computes_something_else_is_noticed(mutation: Mutation) -> None:
    tried = 0
    for path in MODULES[::2]:
        root = unchanged(path)
        numbering = Numbering()
        before = numbering.of(root.operation)
        for number, what in enumerate(mutation(root)):
            if number < MOST:
                assert noticed(numbering, before, root), f"{path.stem}: {what}"
                tried += 1
        assert numbering.of(root.operation) == before, path.stem
    assert tried


@pytest.mark.parametrize("name", ["tt.store", "tt.load"])
def test_what_has_an_effect_cannot_go(name: str) -> None:
    for path in MODULES[::3]:
        root = upstream(path)
        numbering = Numbering()
        before = numbering.of(root.operation)
        for op in named(root, name):
            for result in op.results:
                for use in list(result.uses):
                    use.owner.operands[use.operand_number] = op.operands[0]
            op.erase()
            assert numbering.of(root.operation) != before, path.stem
            break


def rewritten(root: Module, choose: Callable[[int], int]) -> tuple[Module, int]:
    """The module with any of the layouts that its groups may take, and how many groups got another."""
    ops = operations(root.operation)
    warps = root.operation.attributes["ttg.num-warps"].value
    gpu = target(root.operation.attributes["ttg.target"].value)
    graph = build(ops, gpu)
    found = Candidates(graph, warps.bit_length() - 1, Situation.on(gpu)).find()
    chosen = {group: choices[choose(len(choices))].encoding for group, choices in found.items()}
    Rewriter(graph, ops, chosen).run()
    return root, sum(encoding != group.encoding for group, encoding in chosen.items())


@pytest.mark.parametrize("path", MODULES[1::3], ids=IDS[1::3])
def test_any_assignment_computes_the_same(path: Path) -> None:
    """And Triton finds nothing wrong with the module."""
    for seed in range(2):
        root = upstream(path)
        numbering = Numbering()
        before = numbering.of(root.operation)
        changed = rewritten(root, random.Random(seed).randrange)[1]
        assert numbering.of(root.operation) == before
        bridge.to_triton(root, bridge.triton_context())
        if not changed:
            break


def test_assignments_differ() -> None:
    """Or the test above would be idle."""
    changed = [rewritten(upstream(path), random.Random(0).randrange)[1] for path in MODULES]
    assert sum(map(bool, changed)) > len(MODULES) * 0.9


@pytest.mark.parametrize("path", MODULES[2::3], ids=IDS[2::3])
def test_choosing_what_is_there_changes_no_layout(path: Path) -> None:
    root = upstream(path)
    types = sorted(str(result.type) for op in operations(root.operation) for result in op.results)
    rewritten(root, lambda count: 0)
    left = sorted(str(result.type) for op in operations(root.operation) for result in op.results)
    assert set(left) <= set(types)
    bridge.to_triton(root, bridge.triton_context())


OFFSETS = """
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#c = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
                   "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func public @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
  %r = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32, #b>
  %moved = ttg.convert_layout %r : tensor<512xi32, #b> -> tensor<512xi32, #c>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #c>
  %at = tt.addptr %ps, %moved : tensor<512x!tt.ptr<f32>, #c>, tensor<512xi32, #c>
  %x = tt.load %at : tensor<512x!tt.ptr<f32>, #c>
  tt.store %at, %x : tensor<512x!tt.ptr<f32>, #c>
  tt.return
}
}
"""


def test_what_is_made_of_something_converted_is_made_again() -> None:
    """Its encoding is right already, but the conversion behind it is one that assignments count as gone."""
    root = bridge.text_to_upstream(OFFSETS, bridge.upstream_context(), "f.ttgir")
    numbering = Numbering()
    before = numbering.of(root.operation)
    rewritten(root, lambda count: 0)
    assert named(root, CONVERT) == []
    assert numbering.of(root.operation) == before
    bridge.to_triton(root, bridge.triton_context())


def test_what_is_used_before_it_is_there_and_functions_as_types_are_noticed() -> None:
    made, numbering = '%l = "tt.x"() : () -> ((i32) -> i32)', Numbering()
    used_before = f'%d = "arith.negf"(%l) : ((i32) -> i32) -> i32 {made}'
    texts = (made, used_before, made.replace("-> i32", "-> i64"))
    roots = [Module.parse(f'"builtin.module"() ({{ {text} }}) : () -> ()', CONTEXT) for text in texts]
    before = numbering.of(roots[0].operation)
    assert [noticed(numbering, before, root) for root in roots] == [False, True, True]


def test_no_python_classes_of_operations_are_loaded() -> None:
    """The bindings load those of a whole dialect, and numpy, for an operation that they show as one of them."""
    text = '"builtin.module"() ({ %0 = "tt.x"() : () -> i1 "llvm.intr.assume"(%0) : (i1) -> () }) : () -> ()'
    (block,) = Module.parse(text, CONTEXT).body.region.blocks
    assert [type(op).__name__ for op in block.operations] == ["OpView"] * 2
