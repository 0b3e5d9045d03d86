"""The proof that a module whose axes were put in another order computes what it did.

It takes the rewritten module, and the claim of the rewriting: which values are in the new order, and along
which axis. What is shown is

1. that each operation is consistent: of axes that it ties, either all are in the new order (or the value is the
   same everywhere along them) or none is; and an axis in the new order is tied, or its order does not matter;
2. that nothing is promised any more of elements next to each other of what is in the new order;
3. that the operations that change the order do so as claimed: what is computed from a range is run, and changes
   of shape are followed on the bits of coordinates;
4. that without those it is the module that it was (`assignment.equivalence`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.contraction.order import Order, images, inverse
from triton_linear.passes.contraction.ties import Invariance, Ties, extents, ties
from triton_linear.passes.framework.proofs import NotProved
from triton_linear.passes.framework.shape_changes import Moved, follow, places

_ARITHMETIC = {
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.shli": operator.lshift,
    "arith.shrui": operator.rshift,
}


def check(
    ops: Sequence[Operation], order: Order, claims: Mapping[Value, int], erased: Mapping[Value, Value]
) -> dict[Value, Value]:
    """Show the first three of what is to be shown; raises NotProved where that fails.

    Gives each value on the way from one order to the other, by that from which the way begins.
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
            raise NotProved(f"'{producers[value].name}' promises what holds in one order alone")
    for result, source in erased.items():
        _check_change(result, source, order, claims, producers)
    return steps


def _between(result: Value, source: Value, producers: Mapping[Value, Operation]) -> set[Value]:
    """The values that lead from one to another, without the first."""
    found: set[Value] = set()
    pending = [result]
    while pending:
        value = pending.pop()
        if value == source or value in found:
            continue
        found.add(value)
        pending += producers[value].operands
    return found


def _check_ties(op: Operation, claims: Mapping[Value, int], same: Invariance) -> None:
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    values = [*op.operands, *op.results, *arguments]
    claimed = [(value, claims[value]) for value in values if value in claims]
    # What a block yields is tied to what its loop or branch gives.
    ties_it = op.parent.operation if op.name == "scf.yield" else op
    tied = ties(ties_it) if claimed else Ties()
    for place in claimed:
        together = tied.of(place)
        if together is None:
            raise NotProved(f"'{op.name}' has its elements in another order")
        for value, axis in together:
            if claims.get(value) != axis and not same(value, axis):
                raise NotProved(f"'{op.name}' meets elements in two orders")


def _check_change(
    result: Value,
    source: Value,
    order: Order,
    claims: Mapping[Value, int],
    producers: Mapping[Value, Operation],
) -> None:
    """Element i of `result` has to be element p(i) of `source`, where p is the order of the one after the
    inverse of that of the other."""
    shape = extents(source.type)
    axis = claims.get(result, claims.get(source))
    if axis is None or extents(result.type) != shape or {shape[axis]} != {1 << len(order)}:
        raise NotProved("an order is changed of values that have none")
    if source in claims and result in claims:
        raise NotProved("an order is changed twice")
    goes = order if result in claims else inverse(order)
    begins = producers.get(source)  # what a loop carries has none
    if begins is not None and begins.name == "tt.make_range" and producers[result].name in _ARITHMETIC:
        numbers = range(begins.attributes["start"].value, begins.attributes["end"].value)
        same = _computed(result, source, numbers, producers) == [numbers[i] for i in images(goes)]
    else:
        bit_of = {place: bit for bit, place in enumerate(places(shape))}
        expected = [bit_of[at, goes[bit] if at == axis else bit] for at, bit in places(shape)]
        same = follow(result, source, producers)[0] == Moved(shape, tuple(expected))
    if not same:
        raise NotProved(f"'{producers[result].name}' does not give the order that is claimed")


def _computed(
    value: Value, source: Value, numbers: Sequence[int], producers: Mapping[Value, Operation]
) -> list[int]:
    """The elements of a value that is made of `source`, which has these, and constants."""
    if value == source:
        return list(numbers)
    op = producers[value]
    if op.name == "arith.constant":
        return [op.attributes["value"].get_splat_value().value] * len(numbers)
    if op.name not in _ARITHMETIC:
        raise NotProved(f"'{op.name}' is not known to change an order")
    taken = [_computed(operand, source, numbers, producers) for operand in op.operands]
    return list(map(_ARITHMETIC[op.name], *taken))
