"""What the proof of a reduction that was taken apart lets through, and what it sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from reductions_support import (
    KINDS,
    ROWS,
    asked,
    module,
    named,
    parsed,
)

from triton_linear.dialect.encodings import layout_of, linear_encoding_text
from triton_linear.dialect.mlir_adapter import DenseElementsAttr, InsertionPoint, IntegerAttr, Module, Operation
from triton_linear.passes.analysis.equivalence import NotEquivalent
from triton_linear.passes.reductions import proof, ways
from triton_linear.passes.reductions.rewrite import ReductionWriter
from triton_linear.passes.reductions.split import Split, split


def written(text: str, commutes: bool = True) -> tuple[Module, Operation, list[Any]]:
    """A reduction beside what would stand for it."""
    root = parsed(text)
    (op,) = named(root, "tt.reduce")
    layout = layout_of(str(op.operands[0].type.encoding), tuple(op.operands[0].type.shape))
    found = split(layout, op.attributes["axis"].value)
    assert isinstance(found, Split)
    names = [str(operand.type.element_type) for operand in op.operands]
    question = replace(asked(layout, found.axis, *names), commutes=commutes)
    way = list(ways._ways(found, question))[-1]
    results = ReductionWriter(op).write(found, way)
    proof.check(op, results)
    return root, op, results


def chain(root: Module, op: Operation) -> list[Operation]:
    return [
        inner
        for inner in named(root, "tt.reduce", "tt.trans", "tt.reshape", "tt.split", "tt.join")
        if inner != op
    ]


def test_the_proof_sees_results_that_are_swapped() -> None:
    root, op, results = written(module("welford", ROWS, (16, 256), 1))
    with pytest.raises(NotEquivalent, match="result 0 of a reduction would be another"):
        proof.check(op, [results[1], results[0], results[2]])
    assert root


def test_the_proof_sees_an_axis_that_is_not_reduced() -> None:
    root, op, results = written(module("sum", ROWS, (16, 256), 1))
    last = results[0].owner.operation
    with pytest.raises(NotEquivalent, match="result 0"):
        proof.check(op, [last.operands[0]])
    assert root


def test_the_proof_sees_another_axis() -> None:
    root, op, results = written(module("sum", ROWS, (16, 256), 1))
    last = results[0].owner.operation
    last.attributes["axis"] = IntegerAttr.get(last.attributes["axis"].type, 0)
    with pytest.raises(NotEquivalent, match="result 0"):
        proof.check(op, results)
    assert root


def test_the_proof_sees_another_order_of_dimensions() -> None:
    root, op, results = written(module("sum", ROWS, (16, 256), 1))
    (trans,) = [inner for inner in chain(root, op) if inner.name == "tt.trans"]
    order = list(trans.attributes["order"])
    swapped = [order[1], order[0], *order[2:]]
    text = f"array<i32: {', '.join(map(str, swapped))}>"
    trans.attributes["order"] = trans.attributes["order"].__class__.parse(text, root.context)
    with pytest.raises(NotEquivalent, match="result 0"):
        proof.check(op, results)


def body(results: list[Any]) -> tuple[Operation, list[Any]]:
    """What the last reduction combines two elements by, and the elements."""
    (block,) = results[0].owner.operation.regions[0].blocks
    return next(iter(block.operations)).operation, list(block.arguments)


@pytest.mark.parametrize("places", [(0, 1), (1, 1), (1, 0)], ids=["the same", "one twice", "the other first"])
def test_the_proof_sees_other_operands_in_a_region(places: tuple[int, int]) -> None:
    root, op, results = written(module("sum", ROWS, (16, 256), 1))
    combines, elements = body(results)
    for index, place in enumerate(places):
        combines.operands[index] = elements[place]
    if places != (0, 1):
        with pytest.raises(NotEquivalent, match="by another region"):
            proof.check(op, results)
    else:
        proof.check(op, results)
    assert root


def test_the_proof_sees_another_region() -> None:
    """In the same module: types and attributes of another are others, whatever they say."""
    root, op, results = written(module("xor", ROWS, (16, 256), 1))
    combines, elements = body(results)
    type_ = combines.results[0].type
    made = Operation.create(
        "arith.ori", results=[type_], operands=elements, loc=combines.location, ip=InsertionPoint(combines)
    )
    combines.results[0].replace_all_uses_with(made.results[0])
    combines.erase()
    with pytest.raises(NotEquivalent, match="by another region"):
        proof.check(op, results)
    assert root


def test_the_proof_sees_a_gather_that_takes_what_is_not_there() -> None:
    """Lanes agree by looking up element 0 of one."""
    root, op, results = written(module("welford", KINDS["mma"], (32, 32), 0), commutes=False)
    gather, *_ = named(root, "tt.gather")
    index = gather.operands[1]
    one = DenseElementsAttr.get_splat(index.type, IntegerAttr.get(index.type.element_type, 1))
    index.owner.operation.attributes["value"] = one
    with pytest.raises(NotEquivalent, match="is no step of a reduction"):
        proof.check(op, results)


def test_the_proof_sees_a_step_that_is_none() -> None:
    root, op, results = written(module("sum", ROWS, (16, 256), 1))
    last = results[0].owner.operation
    taken = last.operands[0]
    added = Operation.create(
        "arith.addi", results=[taken.type], operands=[taken, taken], loc=op.location, ip=InsertionPoint(last)
    )
    last.operands[0] = added.results[0]
    with pytest.raises(NotEquivalent, match=r"'arith\.addi' is no step of a reduction"):
        proof.check(op, results)
    assert root


@pytest.mark.parametrize("operation", ["argmax", "welford"])
@pytest.mark.parametrize(("kind", "axis"), [("blocked", 1), ("mma", 0)])
def test_the_proof_sees_operands_that_are_swapped(kind: str, axis: int, operation: str) -> None:
    root, op, results = written(module(operation, KINDS[kind], (32, 128), axis))
    join = next(inner for inner in chain(root, op) if inner.name == "tt.join")
    first, second = list(join.operands)
    join.operands[0], join.operands[1] = second, first
    with pytest.raises(NotEquivalent, match="would combine other operands"):
        proof.check(op, results)


def test_encodings_of_the_way_can_be_written() -> None:
    for kind in KINDS.values():
        for axis in (0, 1):
            found = split(layout_of(kind, (32, 128)), axis)
            if isinstance(found, Split):
                assert linear_encoding_text(found.whole).startswith("#ttg.linear<{register = ")
