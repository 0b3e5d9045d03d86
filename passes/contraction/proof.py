"""The proof that a module with permuted axes computes the same results as before.

It reads the rewritten module and the claims of the rewriting: which values are in the new order, and along
which axis. It shows that

1. each operation is consistent: of the axes that it ties, either all are in the new order or none is (an axis
   along which a value is constant counts as both); and each axis in the new order is tied, or its order has no
   effect;
2. no value in the new order has hints about neighbouring elements;
3. the operations that change the order do so as claimed: values computed from a range are evaluated, and
   changes of shape are followed on the bits of coordinates;
4. without these operations the module equals the original (`analysis.equivalence`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.flow import reached
from triton_linear.passes.contraction.order import Order, images, inverse
from triton_linear.passes.contraction.ties import Invariance, Ties, extents, ties
from triton_linear.passes.framework.proofs import NotEquivalent
from triton_linear.passes.framework.shape_changes import Moved, follow, places
from triton_linear.passes.operations.names import AND, CONSTANT, OR, RANGE, SHIFT_LEFT, SHIFT_RIGHT, YIELD

_ARITHMETIC = {
    AND: operator.and_,
    OR: operator.or_,
    SHIFT_LEFT: operator.lshift,
    SHIFT_RIGHT: operator.rshift,
}


def check(
    ops: Sequence[Operation], order: Order, claims: Mapping[Value, int], erased: Mapping[Value, Value]
) -> dict[Value, Value]:
    """Show points 1 to 3; raises NotEquivalent if one fails.

    Returns the values that change the order, each with the value in the other order that it is computed from.
    """
    producers = producers_of(ops)
    same = Invariance(producers)
    steps = {step: source for result, source in erased.items() for step in _between(result, source, producers)}
    for op in ops:
        if any(result in steps for result in op.results):
            continue
        _check_ties(op, claims, same)
    for value in claims:
        if value in producers and any(hint in producers[value].attributes for hint in HINTS):
            raise NotEquivalent(f"'{producers[value].name}' promises what holds in one order alone")
    for result, source in erased.items():
        _check_change(result, source, order, claims, producers)
    return steps


def _between(result: Value, source: Value, producers: Mapping[Value, Operation]) -> set[Value]:
    """The values that `result` is computed from, up to and without `source`."""
    return reached([result], lambda value: () if value == source else producers[value].operands) - {source}


def _check_ties(op: Operation, claims: Mapping[Value, int], same: Invariance) -> None:
    """Show point 1 for an operation."""
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    values = [*op.operands, *op.results, *arguments]
    claimed = [(value, claims[value]) for value in values if value in claims]
    # The operands of a yield are tied to the results of its loop or branch.
    ties_it = op.parent.operation if op.name == YIELD else op
    tied = ties(ties_it) if claimed else Ties()
    for place in claimed:
        together = tied.of(place)
        if together is None:
            raise NotEquivalent(f"'{op.name}' has its elements in another order")
        for value, axis in together:
            if claims.get(value) != axis and not same(value, axis):
                raise NotEquivalent(f"'{op.name}' meets elements in two orders")


def _check_change(
    result: Value,
    source: Value,
    order: Order,
    claims: Mapping[Value, int],
    producers: Mapping[Value, Operation],
) -> None:
    """Show that element i of `result` is element p(i) of `source`, where p is `order` if `result` is in the new
    order, and its inverse if `source` is."""
    shape = extents(source.type)
    axis = claims.get(result, claims.get(source))
    if axis is None or extents(result.type) != shape or {shape[axis]} != {1 << len(order)}:
        raise NotEquivalent("an order is changed of values that have none")
    if source in claims and result in claims:
        raise NotEquivalent("an order is changed twice")
    goes = order if result in claims else inverse(order)
    begins = producers.get(source)  # None for a value that a loop carries
    if begins is not None and begins.name == RANGE and producers[result].name in _ARITHMETIC:
        numbers = range(begins.attributes["start"].value, begins.attributes["end"].value)
        same = _evaluate(result, source, numbers, producers) == [numbers[i] for i in images(goes)]
    else:
        bit_of = {place: bit for bit, place in enumerate(places(shape))}
        expected = [bit_of[at, goes[bit] if at == axis else bit] for at, bit in places(shape)]
        same = follow(result, source, producers)[0] == Moved(shape, tuple(expected))
    if not same:
        raise NotEquivalent(f"'{producers[result].name}' does not give the order that is claimed")


def _evaluate(
    value: Value, source: Value, numbers: Sequence[int], producers: Mapping[Value, Operation]
) -> list[int]:
    """The elements of a value computed from constants and `source`, whose elements are `numbers`."""
    if value == source:
        return list(numbers)
    op = producers[value]
    if op.name == CONSTANT:
        return [op.attributes["value"].get_splat_value().value] * len(numbers)
    if op.name not in _ARITHMETIC:
        raise NotEquivalent(f"'{op.name}' is not known to change an order")
    taken = [_evaluate(operand, source, numbers, producers) for operand in op.operands]
    return list(map(_ARITHMETIC[op.name], *taken))
