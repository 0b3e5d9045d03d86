"""The proof that a module whose axes were put in another order computes what it did.

It takes the rewritten module, and the claim of the rewriting: which values are in the new order, and along
which axis. What is shown is

1. that each operation is consistent: of axes that it ties, either all are in the new order (or the value is the
   same everywhere along them) or none is; and an axis in the new order is tied, or its order does not matter;
2. that nothing is promised any more of elements next to each other of what is in the new order;
3. that the operations that change the order do so as claimed: what is computed from a range is run, and changes
   of shape are made on a tensor of coordinates;
4. that without those it is the module that it was (`assignment.equivalence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from triton_linear.dialect.mlir_adapter import Operation, Value, producers_of
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.contraction.order import Order, images
from triton_linear.passes.contraction.ties import Invariance, Ties, extents, rank, ties
from triton_linear.passes.framework.proofs import NotProved
from triton_linear.passes.framework.verifiers import CONVERT

Elements = NDArray[np.int64]

_ARITHMETIC = {
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.shli": np.left_shift,
    "arith.shrui": np.right_shift,
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
    new = np.array(images(order))
    goes = new if result in claims else np.argsort(new)
    maker = producers.get(source)  # what a loop carries has none
    if maker is not None and maker.name == "tt.make_range":
        begins = maker.attributes["start"].value
        found = _run(result, source, np.arange(begins, begins + shape[0]), producers)
        expected = np.arange(begins, begins + shape[0])[goes]
    else:
        number = np.arange(int(np.prod(shape))).reshape(shape)
        found = _run(result, source, number, producers)
        expected = np.take(number, goes, axis)
    if not np.array_equal(found, expected):
        raise NotProved(f"'{producers[result].name}' does not give the order that is claimed")


def _run(value: Value, source: Value, elements: Elements, producers: Mapping[Value, Operation]) -> Elements:
    """The elements of a value that is made of `source` and constants."""
    if value == source:
        return elements
    op = producers[value]
    if op.name == "arith.constant":
        return np.full_like(elements, op.attributes["value"].get_splat_value().value)
    taken = [_run(operand, source, elements, producers) for operand in op.operands]
    if op.name == "tt.reshape":
        reshaped: Elements = taken[0].reshape(extents(value.type))
        return reshaped
    if op.name == "tt.trans":
        transposed: Elements = taken[0].transpose(tuple(op.attributes["order"]))
        return transposed
    if op.name == CONVERT and rank(value) == taken[0].ndim:
        return taken[0]
    if op.name not in _ARITHMETIC:
        raise NotProved(f"'{op.name}' is not known to change an order")
    result: Elements = _ARITHMETIC[op.name](*taken)
    return result
