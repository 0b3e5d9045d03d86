"""The proof that the replacement of a reduction combines every element of the axis once, by the same region.

The proof reads the emitted operations, not the plan that they were made from. The coordinates of a tensor are
rows of bits, and each operation of the replacement permutes bits. So a value is described by two things: which
bit of the original tensor each bit of its coordinates is (a permutation matrix over F2), and the bits over
which it was combined. In the end, all bits of the axis must have been combined, each once, and the other bits
must be where the reduction has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.equivalence import attributes_alone
from triton_linear.passes.analysis.flow import constant, maker
from triton_linear.passes.framework.shape_changes import Moved
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import may_reorder


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about a value.

    operands: the operands of the reduction whose elements it holds, one for each place of a pack. moved: the
    original bit of each bit of an element's number; that which a join of packs of n operands makes is ~n.
    combined: the original bits over which the elements were combined.
    """

    operands: tuple[int, ...]
    moved: Moved
    combined: frozenset[int] = frozenset()


def check(reduction: Operation, results: Sequence[Value]) -> None:
    """Raise NotEquivalent unless `results` equal the results of `reduction`: in shape, element type and
    elements combined."""
    whole = Moved.nowhere(reduction.operands[0].type.shape)
    known = {value: Known((index,), whole) for index, value in enumerate(reduction.operands)}
    rest, along = whole.without(reduction.attributes["axis"].value)
    for index, (old, new) in enumerate(zip(reduction.results, results, strict=True)):
        derived = _derive(new, reduction, known)
        if derived != Known((index,), rest, along):
            raise NotEquivalent(f"result {index} of a reduction would be another, {derived}")
        if _element_type(new) != _element_type(old):
            raise NotEquivalent(f"result {index} of a reduction would be of {_element_type(new)}")


def _element_type(value: Value) -> object:
    return value.type.element_type if isinstance(value.type, RankedTensorType) else value.type


def _derive(value: Value, reduction: Operation, known: dict[Value, Known]) -> Known:
    """What a value holds, derived from the operations that lead to it; `known` is extended."""
    if value not in known:
        op = maker(value)
        if op is None:
            raise NotEquivalent("a reduction would take an argument that it did not")
        taken = list(op.operands)[:1] if _takes_element_zero(op) else op.operands
        operands = [_derive(operand, reduction, known) for operand in taken]
        if op.name == names.REDUCE and operands:
            _check_reduced(op, operands, reduction)
        for index, result in enumerate(op.results):
            known[result] = _derive_result(op, index, operands)
    return known[value]


def _derive_result(op: Operation, index: int, operands: list[Known]) -> Known:
    """What result `index` of an operation holds, from what its operands hold."""
    if not operands:
        raise NotEquivalent(f"'{op.name}' is no step of a reduction")
    given = operands[0]
    match op.name:
        case names.CONVERT | names.BITCAST:
            return given
        case names.GATHER if _takes_element_zero(op):
            return given
        case names.RESHAPE if not may_reorder(op):
            return replace(given, moved=given.moved.reshape(op.results[0].type.shape))
        case names.TRANS:
            return replace(given, moved=given.moved.trans(list(op.attributes["order"])))
        case names.JOIN if replace(operands[1], operands=given.operands) == given:
            moved = Moved((*given.moved.shape, 2), (~len(given.operands), *given.moved.bits))
            return replace(given, operands=given.operands + operands[1].operands, moved=moved)
        case names.SPLIT if given.moved.shape[-1:] == (2,) and given.moved.bits[0] == ~(
            len(given.operands) // 2
        ):
            half = len(given.operands) // 2
            moved, _ = given.moved.without(len(given.moved.shape) - 1)
            return replace(given, operands=given.operands[half * index :][:half], moved=moved)
        case names.REDUCE:
            moved, along = given.moved.without(op.attributes["axis"].value)
            return Known((index,), moved, given.combined | along)
    raise NotEquivalent(f"'{op.name}' is no step of a reduction")


def _check_reduced(op: Operation, operands: list[Known], reduction: Operation) -> None:
    """Raise NotEquivalent unless `op` combines as `reduction` does."""
    given = operands[0]
    if [known.operands for known in operands] != [(number,) for number in range(len(reduction.operands))]:
        raise NotEquivalent("a reduction would combine other operands")
    if any(replace(known, operands=given.operands) != given for known in operands):
        raise NotEquivalent("a reduction would combine elements of different places")
    if list(map(_element_type, op.operands)) != list(map(_element_type, reduction.operands)):
        raise NotEquivalent("a reduction would combine elements of another type")
    if not _same_region(op, reduction):
        raise NotEquivalent("a reduction would combine elements by another region")


def _takes_element_zero(op: Operation) -> bool:
    """True if an operation is a gather of element 0 along an axis of one element."""
    if op.name != names.GATHER or op.operands[0].type.shape[op.attributes["axis"].value] != 1:
        return False
    index = constant(op.operands[1])
    return index is not None and bool(index.value == 0)


def _same_region(op: Operation, other: Operation) -> bool:
    """True if the regions of two operations have the same operations in the same order."""
    values: dict[Value, Value] = {}
    blocks = [[block for region in side.regions for block in region.blocks] for side in (op, other)]
    if len(blocks[0]) != len(blocks[1]):
        return False
    for one, two in zip(*blocks, strict=True):
        if [a.type for a in one.arguments] != [a.type for a in two.arguments]:
            return False
        values.update(zip(one.arguments, two.arguments, strict=True))
        inner = [[view.operation for view in block.operations] for block in (one, two)]
        if len(inner[0]) != len(inner[1]):
            return False
        for a, b in zip(*inner, strict=True):
            taken = [values.get(operand, operand) for operand in a.operands]
            same = a.name == b.name and taken == list(b.operands)
            if not same or a.regions or attributes_alone(a) != attributes_alone(b):
                return False
            values.update(zip(a.results, b.results, strict=True))
    return True
