"""What the proof of a reduction that was taken apart lets through, and what it sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from reductions_support import KINDS, ROWS, asked, module, named, parsed

from triton_linear.dialect.encodings import layout_of, linear_encoding_text
from triton_linear.dialect.mlir_adapter import DenseElementsAttr, InsertionPoint, IntegerAttr, Module, Operation
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.reductions import proof, ways
from triton_linear.passes.reductions.rewrite import ReductionWriter
from triton_linear.passes.reductions.split import Split, split


def written(text: str, commutes: bool = True) -> tuple[Module, Operation, list[Any]]:
    """A reduction beside what would stand for it."""
    root = parsed(text)
    (op,) = named(root, "tt.reduce")
    layout = layout_of(str(op.operands[0].type.encoding), tuple(op.operands[0].type.shape))
    found = split(layout, op.attributes["axis"].value, installed_release())
    assert isinstance(found, Split)
    names = [str(operand.type.element_type) for operand in op.operands]
    question = replace(asked(layout, found.axis, *names), commutes=commutes)
    way = list(ways._ways(found, question))[-1]
    results = ReductionWriter(op).write(found, way)
    proof.check(op, results)
    return root, op, results


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


def _another_axis(root: Module, op: Operation, results: list[Any]) -> list[Any]:
    last = results[0].owner.operation
    last.attributes["axis"] = IntegerAttr.get(last.attributes["axis"].type, 0)
    return results


def _another_order(root: Module, op: Operation, results: list[Any]) -> list[Any]:
    (trans,) = named(root, "tt.trans")
    first, second, *rest = list(trans.attributes["order"])
    text = f"array<i32: {', '.join(map(str, (second, first, *rest)))}>"
    trans.attributes["order"] = trans.attributes["order"].__class__.parse(text, root.context)
    return results


def _another_region(root: Module, op: Operation, results: list[Any]) -> list[Any]:
    """In the same module: types and attributes of another are others, whatever they say."""
    combines, elements = body(results)
    made = Operation.create(
        "arith.ori",
        results=[combines.results[0].type],
        operands=elements,
        loc=combines.location,
        ip=InsertionPoint(combines),
    )
    combines.results[0].replace_all_uses_with(made.results[0])
    combines.erase()
    return results


def _another_element(root: Module, op: Operation, results: list[Any]) -> list[Any]:
    """Lanes agree by looking up element 0 of one."""
    index = named(root, "tt.gather")[0].operands[1]
    one = DenseElementsAttr.get_splat(index.type, IntegerAttr.get(index.type.element_type, 1))
    index.owner.operation.attributes["value"] = one
    return results


def _another_step(root: Module, op: Operation, results: list[Any]) -> list[Any]:
    last = results[0].owner.operation
    taken = last.operands[0]
    added = Operation.create(
        "arith.addi", results=[taken.type], operands=[taken, taken], loc=op.location, ip=InsertionPoint(last)
    )
    last.operands[0] = added.results[0]
    return results


def _other_operands(root: Module, op: Operation, results: list[Any]) -> list[Any]:
    join, *_ = named(root, "tt.join")
    first, second = list(join.operands)
    join.operands[0], join.operands[1] = second, first
    return results


SUM, LOOKED_UP = ("sum", ROWS, (16, 256), 1), ("welford", KINDS["mma"], (32, 32), 0)
MISTAKES: list[tuple[Any, Any, str]] = [
    (("welford", *SUM[1:]), lambda _, __, got: [got[1], got[0], got[2]], "result 0 of a reduction would be"),
    (SUM, lambda _, __, got: [got[0].owner.operation.operands[0]], "result 0"),
    (SUM, _another_axis, "result 0"),
    (SUM, _another_order, "result 0"),
    (("xor", *SUM[1:]), _another_region, "by another region"),
    (LOOKED_UP, _another_element, "is no step of a reduction"),
    (SUM, _another_step, r"'arith\.addi' is no step of a reduction"),
    (("argmax", KINDS["blocked"], (32, 128), 1), _other_operands, "would combine other operands"),
    (("welford", KINDS["mma"], (32, 128), 0), _other_operands, "would combine other operands"),
]


@pytest.mark.parametrize(("reduction", "mistake", "said"), MISTAKES)
def test_the_proof_sees_a_mistake(reduction: Any, mistake: Any, said: str) -> None:
    root, op, results = written(module(*reduction), commutes=reduction is not LOOKED_UP)
    wrong = mistake(root, op, results)
    with pytest.raises(NotEquivalent, match=said):
        proof.check(op, wrong)


def test_encodings_of_the_way_can_be_written() -> None:
    for kind in KINDS.values():
        for axis in (0, 1):
            found = split(layout_of(kind, (32, 128)), axis, installed_release())
            if isinstance(found, Split):
                assert linear_encoding_text(found.whole).startswith("#ttg.linear<{register = ")
