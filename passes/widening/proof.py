"""The proof that a module with widened accesses computes the same results as before.

It reads the rewritten module and, for each access, its operands and result before. It shows that

1. all tensors of an access became rows by the same permutation: place i of each row is the same element of each
   tensor, and of the access's result. Changes of shape are followed on the bits of an element's number;
2. the hints on pointers and masks follow from what is known about the original pointers and masks;
3. without these changes of shape, the module equals the original (`analysis.equivalence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import DenseElementsAttr, Operation, Type, Value, producers_of
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.addressing import Affine
from triton_linear.passes.framework.shape_changes import Moved, follow, places
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.widening.claims import Claim, Widened


def check(
    ops: Sequence[Operation], accesses: Sequence[Widened]
) -> tuple[dict[Value, Value], dict[Value, Type]]:
    """Show points 1 and 2; raises NotEquivalent if one fails.

    Returns each result of a change of shape with its operand, and the original types of the results of
    accesses.
    """
    producers = producers_of(ops)
    erased: dict[Value, Value] = {}
    types: dict[Value, Type] = {}
    for access in accesses:
        row = None
        for index, source in access.before.items():
            elements = _follow_and_erase(access.op.operands[index], source, producers, erased)
            if row not in (None, elements):
                raise NotEquivalent(f"operand {index} of '{access.op.name}' is another row")
            row = elements
        if row is None or len(row.shape) != 1 or len(access.op.operands) < len(access.before):
            raise NotEquivalent(f"'{access.op.name}' takes no row")
        if access.result is not None and access.type is not None:
            made = access.op.results[0]
            back = _follow_and_erase(access.result, made, producers, erased)
            given = Moved.nowhere(access.type.shape)
            if back.shape != given.shape or [row.bits[bit] for bit in back.bits] != list(given.bits):
                raise NotEquivalent(f"what '{access.op.name}' gives is another tensor")
            types[made] = access.type
        _check_claims(access, row, producers)
    return erased, types


def _follow_and_erase(
    value: Value, source: Value, producers: Mapping[Value, Operation], erased: dict[Value, Value]
) -> Moved:
    """The permutation from `source` to `value`; adds the changes of shape between them to `erased`."""
    moved, steps = follow(value, source, producers)
    erased.update((op.results[0], op.operands[0]) for op in steps)
    return moved


def _check_claims(access: Widened, row: Moved, producers: Mapping[Value, Operation]) -> None:
    """Show that the hints on addresses and mask hold for any base address; raises NotEquivalent if not."""
    addresses = producers[access.op.operands[access.address]]
    claimed = _hints_on(addresses)
    place_of = places([1 << len(bits) for bits in access.known.deltas])
    if len(place_of) != len(row.bits):
        raise NotEquivalent("addresses are known of another number of elements")
    coordinates = [place_of[bit] for bit in row.bits]
    for place, (axis, bit, delta) in _moves(access.known, coordinates, claimed.contiguity):
        if delta != access.size * place:
            raise NotEquivalent(f"bit {bit} of dimension {axis} moves by {delta}, not by {access.size * place}")
    divisor = claimed.divisibility
    if access.known.divisor % divisor:
        raise NotEquivalent(f"what addresses have in common is no multiple of {divisor}")
    inside = {(axis, bit) for _, (axis, bit, _) in _moves(access.known, coordinates, claimed.contiguity)}
    for axis, deltas in enumerate(access.known.deltas):
        for bit, delta in enumerate(deltas):
            if (axis, bit) not in inside and (access.known.unit if delta is None else delta) % divisor:
                raise NotEquivalent(f"bit {bit} of dimension {axis} moves by no multiple of {divisor}")
    if claimed.constancy != 1:
        raise NotEquivalent("addresses are promised to be the same")
    if access.mask is None:
        return
    claimed = _hints_on(producers[access.op.operands[access.mask]])
    if access.constant is None or claimed.contiguity != 1 or claimed.divisibility != 1:
        raise NotEquivalent("more is promised of a mask than that it is the same")
    flags = addressing.flags(access.constant)
    for _, (axis, bit, delta) in _moves(flags, coordinates, claimed.constancy):
        if delta != 0:
            raise NotEquivalent(f"the mask may change with bit {bit} of dimension {axis}")


def _hints_on(op: Operation) -> Claim:
    """The hints on an operation whose result is a row; 1 for those that it has not."""
    hints = dict.fromkeys(HINTS, 1)
    for name in HINTS:
        if name in op.attributes:
            attribute = op.attributes[name]
            numbers = [int(n) for n in attribute] if isinstance(attribute, DenseElementsAttr) else []
            if len(numbers) != 1 or numbers[0] < 1 or numbers[0] & (numbers[0] - 1):
                raise NotEquivalent(f"'{name}' is no power of two")
            hints[name] = numbers[0]
    return Claim(*hints.values())


def _moves(
    known: Affine, coordinates: Sequence[tuple[int, int]], run: int
) -> list[tuple[int, tuple[int, int, int | None]]]:
    """For each bit of a place within the first `run` elements of a row: the place's value, and the dimension,
    bit and delta of the coordinate bit that it is."""
    if run > 1 << len(coordinates):
        raise NotEquivalent(f"a run of {run} is promised in a row of {1 << len(coordinates)}")
    inside = coordinates[: run.bit_length() - 1]
    return [(1 << k, (axis, bit, known.deltas[axis][bit])) for k, (axis, bit) in enumerate(inside)]
