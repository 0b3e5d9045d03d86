"""Whether what stands for a reduction combines every element of its axis once, by the reduction's own region.

Checked on the operations as they are, not on the plan that they were made from. The coordinates of a tensor
are rows of bits, and each operation on the way moves bits whole: so a value is described by which bit of the
original tensor each bit of its coordinates is (a permutation matrix over F2), and by the bits over which it was
combined. In the end the bits of the axis must all have been combined, once, and the others be where the
reduction has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_linear.dialect.mlir_adapter import Block, Operation, RankedTensorType, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.equivalence import NotEquivalent, attributes_alone

Bit = tuple[int, int]
"""A dimension of the original tensor and a bit of its coordinate, the lowest 0; of a pack (-1, nesting)."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a value holds: of which operands of the reduction, one for each place of a pack; for each dimension
    the bits of its coordinate, the highest first; and over which bits they were combined."""

    operands: tuple[int, ...]
    bits: tuple[tuple[Bit, ...], ...]
    combined: frozenset[Bit] = frozenset()


def check(reduction: Operation, results: Sequence[Value]) -> None:
    """Raise NotEquivalent unless `results` are those of `reduction`, by shape, element and what is combined."""
    known = {value: Known((index,), _natural(value)) for index, value in enumerate(reduction.operands)}
    axis = reduction.attributes["axis"].value
    rest = tuple(bits for place, bits in enumerate(_natural(reduction.operands[0])) if place != axis)
    whole = frozenset(_natural(reduction.operands[0])[axis])
    for index, (old, new) in enumerate(zip(reduction.results, results, strict=True)):
        found = _known(new, reduction, known)
        if found != Known((index,), rest, whole):
            raise NotEquivalent(f"result {index} of a reduction would be another, {found}")
        if _element(new) != _element(old):
            raise NotEquivalent(f"result {index} of a reduction would be of {_element(new)}")


def _natural(value: Value) -> tuple[tuple[Bit, ...], ...]:
    shape = value.type.shape
    return tuple(
        tuple((axis, bit) for bit in reversed(range(size.bit_length() - 1))) for axis, size in enumerate(shape)
    )


def _element(value: Value) -> object:
    return value.type.element_type if isinstance(value.type, RankedTensorType) else value.type


def _known(value: Value, reduction: Operation, known: dict[Value, Known]) -> Known:
    if value not in known:
        op = value.owner
        if isinstance(op, Block):
            raise NotEquivalent("a reduction would take an argument that it did not")
        op = op.operation
        taken = list(op.operands)[:1] if _looks_up_nothing(op) else op.operands
        operands = [_known(operand, reduction, known) for operand in taken]
        for index, result in enumerate(op.results):
            known[result] = _of(op, index, operands, reduction)
    return known[value]


def _of(op: Operation, index: int, operands: list[Known], reduction: Operation) -> Known:
    """What result `index` of an operation holds."""
    if not operands:
        raise NotEquivalent(f"'{op.name}' is no step of a reduction")
    given = operands[0]
    match op.name:
        case "ttg.convert_layout" | "tt.bitcast":
            return given
        case "tt.gather" if _looks_up_nothing(op):
            return given
        case "tt.reshape" if "allow_reorder" not in op.attributes:
            return replace(given, bits=_regrouped(given.bits, op.results[0].type.shape))
        case "tt.trans":
            return replace(given, bits=tuple(given.bits[axis] for axis in op.attributes["order"]))
        case "tt.join" if replace(operands[1], operands=given.operands) == given:
            pack = ((-1, len(given.operands)),)
            return replace(given, operands=given.operands + operands[1].operands, bits=(*given.bits, pack))
        case "tt.split" if given.bits[-1] == ((-1, len(given.operands) // 2),):
            half = len(given.operands) // 2
            return replace(given, operands=given.operands[half * index :][:half], bits=given.bits[:-1])
        case "tt.reduce":
            return _reduced(op, index, operands, reduction)
    raise NotEquivalent(f"'{op.name}' is no step of a reduction")


def _reduced(op: Operation, index: int, operands: list[Known], reduction: Operation) -> Known:
    given = operands[0]
    if [known.operands for known in operands] != [(number,) for number in range(len(reduction.operands))]:
        raise NotEquivalent("a reduction would combine other operands")
    if any(replace(known, operands=given.operands) != given for known in operands):
        raise NotEquivalent("a reduction would combine elements of different places")
    if list(map(_element, op.operands)) != list(map(_element, reduction.operands)):
        raise NotEquivalent("a reduction would combine elements of another type")
    if not _same_region(op, reduction):
        raise NotEquivalent("a reduction would combine elements by another region")
    axis = op.attributes["axis"].value
    bits = (*given.bits[:axis], *given.bits[axis + 1 :])
    return Known((index,), bits, given.combined | set(given.bits[axis]))


def _looks_up_nothing(op: Operation) -> bool:
    """Whether a gather takes element 0 along an axis of one element."""
    if op.name != "tt.gather" or op.operands[0].type.shape[op.attributes["axis"].value] != 1:
        return False
    index = op.operands[1].owner
    if isinstance(index, Block) or index.operation.name != "arith.constant":
        return False
    value = index.operation.attributes["value"]
    return bool(value.is_splat) and value.get_splat_value().value == 0


def _regrouped(bits: Sequence[tuple[Bit, ...]], shape: Sequence[int]) -> tuple[tuple[Bit, ...], ...]:
    row = [bit for group in bits for bit in group]
    groups = []
    for size in shape:
        count = size.bit_length() - 1
        groups.append(tuple(row[:count]))
        row = row[count:]
    if row:
        raise NotEquivalent("a change of shape loses elements")
    return tuple(groups)


def _same_region(op: Operation, other: Operation) -> bool:
    """Whether the regions of two operations do the same, one operation after the other."""
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
