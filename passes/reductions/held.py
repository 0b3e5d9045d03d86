"""The values whose layouts must not change if results are to have the same bits as stock Triton's.

A layout determines where an element is, not its value. But it affects the bits of results in four ways:

- A reduction combines elements in an order that follows from the layout of its operand. `is_order_free` tells
  for which reductions the order has no effect; the operands of all others keep their encodings.
- LLVM and ptxas fuse a multiplication and an addition into one operation, which rounds once, if one thread does
  both with nothing in between. So a product that may be added to something is *held* on its way to the
  addition: a conversion in between must neither appear nor vanish.
- In a sum of two products, one is fused with the addition and the other is rounded first. LLVM's choice depends
  on the order of the surrounding instructions, so all values of a kernel with such a sum are held.
- Lanes that combine by shuffles have their own element first. If the region of a reduction does not commute,
  the copies in several lanes get different bits, and results depend on which copy is used. So the results of
  such reductions are held, and all values computed from them.

Layouts of held values do not change, and Triton lowers the operations that move or store them. With `exact` the
bits of all results count, otherwise only those that decide something: see `KeptBits`.

Unknown operations count as products and as sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from triton_linear.dialect.mlir_adapter import Operation, Type, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.axis import shape_of
from triton_linear.passes.analysis.flow import reached, taken_by, terminator
from triton_linear.passes.analysis.influence import FLOATS, compared_values, element_of, is_float
from triton_linear.passes.framework.base import PassRun
from triton_linear.passes.framework.planning import ctas_of
from triton_linear.passes.operations.names import COMBINING, REDUCE, SCAN
from triton_linear.passes.operations.record import Fused
from triton_linear.passes.operations.table import facts
from triton_linear.passes.reductions.region import commutes, is_order_free, rounds

HELD = "where it is lowered decides about bits of what is added to it, and these are to stay"
"""Why an operation that takes or gives a held value is left to Triton."""
UNORDERED_BITS = "in another order it would give other bits, and these are to stay"
"""Why a reduction whose order shows stays as it is."""

Steps = Mapping[Value, Sequence[Value]]


@dataclass(frozen=True)
class KeptBits:
    """What of a module has to stay as it is, so that bits that count are those of stock Triton.

    nvidia: True if the module is for an NVIDIA GPU. held: the values whose layouts and conversions affect such
    bits. counting: the values whose bits count; None: those of all.
    """

    nvidia: bool
    held: frozenset[Value]
    counting: frozenset[Value] | None

    @classmethod
    def of(cls, module: Operation, pass_: PassRun, *, exact: bool) -> KeptBits:
        """What stays of the module of a run: with `exact` all bits count, otherwise those of values that decide
        something (`analysis.influence.compared_values`)."""
        return pass_.fact((cls, exact), lambda: cls.among(pass_.operations(module), exact=exact))

    @classmethod
    def among(cls, ops: Sequence[Operation], *, exact: bool) -> KeptBits:
        """The same of operations, the module first."""
        nvidia = is_for_nvidia(ops[0])
        if exact:
            return cls(nvidia, held_values(ops, nvidia), None)
        chosen = any(
            not all(map(is_float, op.results)) and not is_order_free(op, nvidia)
            for op in ops
            if op.name == REDUCE
        )
        counting = compared_values(ops, chosen=chosen)
        follows = bool(counting) and ctas_of(ops[0]) == 1
        held = held_values(ops, nvidia, counting) if follows else frozenset()
        return cls(nvidia, held, counting)

    def shows_order(self, op: Operation) -> bool:
        """True if an operation that combines elements gives other bits that count if it combines them in
        another order."""
        if self.counting is not None and self.counting.isdisjoint(op.results):
            return False
        return op.name != REDUCE or not is_order_free(op, self.nvidia)


def held_values(
    ops: Sequence[Operation], nvidia: bool, counting: frozenset[Value] | None = None
) -> frozenset[Value]:
    """The values whose layouts and conversions affect the bits of results.

    Requires: `ops` are one operation and all operations inside it. `nvidia`: True if they are for an NVIDIA
    GPU. `counting`: the results whose bits count; None: all.
    """
    elements: dict[Type, str] = {}
    adding = [op for op in ops if facts(op).adds != "never"]
    if counting is not None:
        adding = [op for op in adding if any(result in counting for result in op.results)]
    adding = [op for op in adding if _may_be_fused(op, facts(op).adds, nvidia, elements)]
    reductions = [op for op in ops if op.name == REDUCE and not commutes(op)]  # nor is it order-free
    if counting is not None:
        # What only chooses gives different copies of NaNs and of zeros of both signs alone.
        reductions = [op for op in reductions if rounds(op) and any(value in counting for value in op.results)]
    if not adding and not reductions:
        return frozenset()
    forward = copies_by_source(ops)
    backward: dict[Value, list[Value]] = {}
    for value, others in forward.items():
        for other in others:
            backward.setdefault(other, []).append(value)
    multiplying = [op for op in ops if _may_be_fused(op, facts(op).multiplies, nvidia, elements)]
    products = _reached((v for op in multiplying for v in op.results), forward)
    if any(_adds_two(op, products) for op in adding):
        return _all_values(ops)
    summands = _reached((v for op in adding for v in op.operands), backward)
    return frozenset((products & summands) | _differing_copies(reductions, ops, forward))


def is_for_nvidia(module: Operation) -> bool:
    """True if a module states an NVIDIA GPU as its target."""
    attributes = module.attributes
    return "ttg.target" in attributes and str(attributes["ttg.target"].value).startswith("cuda:")


def _may_be_fused(op: Operation, fused: Fused, nvidia: bool, elements: dict[Type, str]) -> bool:
    """True if an operation of floats may be fused as the table says that its like are. elements: the element of
    each type that was met, as text."""
    if fused == "never":
        return False
    for value in (*op.results, *op.operands):
        element = elements.get(value.type)
        if element is None:
            element = elements[value.type] = element_of(value)
        if element.startswith(FLOATS) and (fused == "may" or not nvidia or element == "f64"):
            return True
    return False


def _adds_two(op: Operation, products: set[Value]) -> bool:
    """True if two operands of an operation may be products; only one of them is fused with the addition."""
    return sum(operand in products for operand in op.operands) > 1


def _all_values(ops: Sequence[Operation]) -> frozenset[Value]:
    """The results of operations, and the arguments of their blocks."""
    blocks = (block for op in ops for region in op.regions for block in region.blocks)
    return frozenset(itertools.chain(*(op.results for op in ops), *(block.arguments for block in blocks)))


def copies_by_source(ops: Iterable[Operation]) -> dict[Value, list[Value]]:
    """For each value, the values that may be equal to it or consist of its elements: results of changes of
    shape and layout, arguments and results of loops and branches, arguments in regions of reductions."""
    steps: dict[Value, list[Value]] = {}

    def step(sources: Iterable[Value], targets: Iterable[Value]) -> None:
        copies = list(targets)
        for source in sources:
            steps.setdefault(source, []).extend(copies)

    for op in ops:
        if facts(op).copies:
            step(op.operands, op.results)
        elif op.name in COMBINING:
            _into_region(op, step)
        else:
            for number, operand in enumerate(op.operands):
                step([operand], taken_by(op, number))
    return steps


def _into_region(op: Operation, step: Callable[[Iterable[Value], Iterable[Value]], None]) -> None:
    """Add the steps of a reduction or scan: from operands to its region's arguments, and from the values that
    the region returns to its results."""
    (block,) = op.regions[0].blocks
    arguments, results = list(block.arguments), list(op.results)
    half = len(arguments) // 2
    last = terminator(block)
    for index, operand in enumerate(op.operands):
        both = [arguments[index], arguments[half + index]]
        step([operand], both)
        step([last.operands[index]], [*both, results[index]])
        # The first element of a scan, and the only element of a reduction, skip the region.
        if op.name == SCAN or prod(shape_of(operand.type)) == prod(shape_of(results[index].type)):
            step([operand], [results[index]])


def _differing_copies(reductions: Sequence[Operation], ops: Sequence[Operation], forward: Steps) -> set[Value]:
    """The results of reductions whose copies may have different bits, and all values computed from them."""
    found = {value for op in reductions for value in op.results}
    if not found:
        return found
    seen = len(found) - 1
    while seen < len(found):
        seen = len(found)
        for op in ops:
            if any(operand in found for operand in op.operands):
                found.update(op.results)
        found = _reached(found, forward)
    return found


def _reached(values: Iterable[Value], steps: Steps) -> set[Value]:
    """These values and all values that `steps` lead to from them."""
    return reached(values, lambda value: steps.get(value, ()))


def takes_held(op: Operation, held: frozenset[Value]) -> bool:
    """True if an operation takes a held value."""
    return any(operand in held for operand in op.operands)
